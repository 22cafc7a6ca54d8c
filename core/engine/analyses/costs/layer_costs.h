// Echo's table 1, measured: costs of attention, Mamba-2 and SKA over the length of the sequence.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/engine/analyses/costs/cost_view.h"

namespace afterglow {

struct CostPlan {
  std::int64_t width = 128;                                      ///< d; heads as in the transfer study
  std::vector<std::int64_t> tokens = {64, 128, 256, 512, 1024};  ///< ascending
  bool measures_passes = true, measures_steps = true;            ///< lists that are not measured stay empty
};

/// The layers of the transfer study with initial weights, SKA in chunk mode as for language models (Echo 3.2.2), on one
/// CPU thread. Times are processor time of the calling thread: the minimum of five passes, the mean of the last 32
/// tokens. They depend on the machine; bytes do not.
class CostMeasurement {
 public:
  explicit CostMeasurement(CostPlan plan = {});
  ~CostMeasurement();
  /// One pass over a sequence, or a few tokens of one in the recurrent form; false if all is known. Short sequences
  /// come first, so that every layer soon has a result.
  bool advance();
  bool is_complete() const { return next_ == works_.size(); }
  /// The results so far; never null.
  const std::shared_ptr<const CostView>& view() const { return view_; }
  double share_done() const;

 private:
  struct Pass;
  struct Steps;
  /// A layer's passes over one length, or its tokens up to it.
  struct Work {
    std::size_t layer, place;  ///< in the view, in the plan's lengths
    bool is_pass;
  };
  bool pass_again(const Work& work);
  bool read_on(const Work& work);

  CostPlan plan_;
  std::vector<Work> works_;
  std::size_t next_ = 0;
  std::unique_ptr<Pass> pass_;                   // of the present length
  std::vector<std::unique_ptr<Steps>> reading_;  // of each layer
  CostView now_;
  std::shared_ptr<const CostView> view_;
};

/// Measures everything at once; calls `progress` with the finished share.
CostView layer_costs(const CostPlan& plan, const std::function<void(double)>& progress);

}  // namespace afterglow
