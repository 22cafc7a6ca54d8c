// Host copies of the captures of a forward pass.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow {

class CaptureReader {
 public:
  /// The caller must not begin the tape anew while it uses the reader.
  CaptureReader(const Tape& tape, Backend& backend) : tape_(&tape), backend_(&backend) {}

  /// Block `head` of a capture of `heads` blocks of equal size; empty for another size.
  std::vector<double> block(const std::string& name, int head, int heads) const;
  /// The last `size` numbers of that block: statistics after the whole sequence.
  std::vector<double> tail(const std::string& name, int head, int heads, std::int64_t size) const;
  /// Columns [first, first + count) of the first `rows` rows of a capture whose rows hold `width` numbers.
  std::vector<double> columns(const std::string& name, int rows, std::int64_t width, std::int64_t first,
                              std::int64_t count) const;

  /// All numbers of a capture, empty without it. Each capture is downloaded once and cached for all heads.
  const std::vector<double>& values(const std::string& name) const;
  Shape shape(const std::string& name) const;
  std::vector<double> download(const Tensor& tensor) const;
  Backend& backend() const { return *backend_; }

 private:
  const Tape* tape_;
  Backend* backend_;
  mutable std::deque<std::pair<std::string, std::vector<double>>> fetched_;  // references into it stay valid
};

}  // namespace afterglow
