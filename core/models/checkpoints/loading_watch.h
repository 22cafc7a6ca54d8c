// Who looks on while the weights of a model are read.
#pragma once
#include <functional>

#include "core/autograd/parameter.h"

namespace afterglow {

/// As long as it lives, the thread that made it is told every parameter whose weights a checkpoint has read. One at a
/// time.
class LoadingWatch {
 public:
  using Told = std::function<void(const Parameter& parameter)>;
  explicit LoadingWatch(Told told);
  ~LoadingWatch();
  LoadingWatch(const LoadingWatch&) = delete;
  LoadingWatch& operator=(const LoadingWatch&) = delete;

  /// Tells it, where there is one.
  static void tell(const Parameter& parameter);

 private:
  Told told_;
};

}  // namespace afterglow
