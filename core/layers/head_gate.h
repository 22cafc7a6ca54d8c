// How the memory of one head fades, token by token.
#pragma once
#include <vector>

namespace afterglow {

struct HeadGate {
  int head = 0;
  std::vector<double> log_decay;  ///< [T], <= 0
  int channels = 1;               ///< with a gate for each of so many channels `log_decay` is their mean
};

}  // namespace afterglow
