// Work that repeats itself with the same addresses: run as it is until all that it needs is reserved, then recorded.
#pragma once
#include <memory>

#include "core/backend/device.h"

namespace afterglow {

class RecordedWork {
 public:
  /// The first run reserves, the second may still move what an arena holds, the third is recorded and then repeated.
  static constexpr int runs_until_recorded = 3;

  /// Queues `work`, which is the same each time until `forget`.
  template <class Work>
  void run(Device& device, const Work& work) {
    if (graph_) {
      graph_->run();
    } else if (runs_ + 1 < runs_until_recorded) {
      work();
      ++runs_;
    } else {
      graph_ = device.capture(work);
    }
  }
  /// The work is another one from here on, or finds its memory elsewhere.
  void forget() {
    graph_.reset();
    runs_ = 0;
  }

 private:
  std::unique_ptr<DeviceGraph> graph_;
  int runs_ = 0;  // as it is
};

}  // namespace afterglow
