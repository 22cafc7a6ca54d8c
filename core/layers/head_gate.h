// The decay of one head's memory, token by token.
#pragma once
#include <vector>

namespace afterglow {

struct HeadGate {
  int head = 0;
  std::vector<double> log_decay;  ///< [T], <= 0
  int channels = 1;               ///< number of channels with their own gate; `log_decay` is their mean
};

}  // namespace afterglow
