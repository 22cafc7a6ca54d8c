// Host copies of what a capturing forward pass left on its tape.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow {

class CaptureReader {
 public:
  /// The tape must not begin anew while the reader is in use.
  CaptureReader(const Tape& tape, Backend& backend) : tape_(&tape), backend_(&backend) {}

  /// Block `head` of a probe that is `heads` blocks of equal size, one after the other; empty when it is not.
  std::vector<double> block(const std::string& name, int head, int heads) const;
  /// The last `size` numbers of that block: statistics after the whole sequence.
  std::vector<double> tail(const std::string& name, int head, int heads, std::int64_t size) const;
  /// Columns [first, first + count) of the first `rows` rows of a probe whose rows hold `width` numbers.
  std::vector<double> columns(const std::string& name, int rows, std::int64_t width, std::int64_t first,
                              std::int64_t count) const;

  /// All numbers of a probe, empty without it. Each is fetched once, however many heads read from it.
  const std::vector<double>& values(const std::string& name) const;
  Shape shape(const std::string& name) const;
  std::vector<double> download(const Tensor& tensor) const;

 private:
  const Tape* tape_;
  Backend* backend_;
  mutable std::deque<std::pair<std::string, std::vector<double>>> fetched_;  // references into it stay valid
};

}  // namespace afterglow
