// A listener for the progress of loading the weights of a model.
#pragma once
#include <functional>

#include "core/autograd/parameter.h"

namespace afterglow {

/// While it lives, a checkpoint that loads on the thread that made it calls it with every parameter after reading its
/// weights. A thread may have one at a time.
class LoadingWatch {
 public:
  using Told = std::function<void(const Parameter& parameter)>;
  explicit LoadingWatch(Told told);
  ~LoadingWatch();
  LoadingWatch(const LoadingWatch&) = delete;
  LoadingWatch& operator=(const LoadingWatch&) = delete;

  /// Calls the listener of this thread, if it has one.
  static void tell(const Parameter& parameter);

 private:
  Told told_;
};

}  // namespace afterglow
