// The patch grid: which place, at which token, carries the answer. It works on a copy of the weights: attribution at
// once, exact cells piece by piece.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/causes/hook_passes.h"
#include "core/engine/causes/memory_slopes.h"
#include "core/engine/causes/path_passes.h"
#include "core/engine/causes/state_passes.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

class PatchMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement.
  PatchMeasurement(const nlohmann::json& model, Trainer& trainer);

  /// Copies weights and settings, and finds every cell to first order.
  void begin(const ProbeSetup& setup);
  /// One piece of work: some exact cells, those first that promise most. False when there is nothing left.
  bool advance();
  /// How much of the work is done, 0 to 1.
  double share_done() const {
    return 1 - static_cast<double>(pieces_left()) / static_cast<double>(std::max<std::size_t>(1, planned_));
  }
  bool working() const { return working_; }
  /// Step of the weights that are measured or were measured last; -1 before.
  std::int64_t step() const { return copy_.step(); }
  std::shared_ptr<const PatchView> newest() const { return view_; }

 private:
  struct MemoryCell {
    StateCell state;
    std::size_t row = 0;  ///< of the view
  };
  struct PatchedCell {
    PlaceCell at;
    std::size_t row = 0;  ///< of the view
  };
  /// Senders of one receiver, as PathPasses counts them.
  struct PathPiece {
    std::size_t receiver = 0;
    std::vector<std::size_t> senders{};
  };
  void add_place_rows();
  void add_memory_rows();
  void add_row(std::size_t branch, int head, const std::string& place, PatchGroup group, const std::string& hook);
  std::vector<int> heads_of(std::size_t branch, bool has_heads) const;
  bool is_mixer(std::size_t branch) const;
  int layer_of(std::size_t branch) const;
  void attribute();
  double promise(std::size_t row, int token) const;
  void plan();
  void patch_places();
  void patch_memories();
  std::vector<MemoryCell> next_memories(std::size_t runs_each);
  void follow_paths();
  void plan_paths();
  void set_exact(std::size_t row, int token, double share);
  std::size_t cells_in_a_piece() const;
  const std::vector<double>& unpatched(std::size_t branch, std::size_t rows);
  const std::vector<double>& unpatched_memories(std::size_t cells);
  void publish();

  ModelCopy copy_;
  Tape& tape_;
  HookPasses places_;
  StatePasses states_;
  MemorySlopes slopes_;
  PathPasses paths_;
  SequencePair pair_;
  PatchView now_;
  std::vector<PlaceCell> place_rows_;  // what the first rows of the view stand for
  bool by_heads_ = false;
  std::deque<PatchedCell> cells_;        // by what they promise
  std::deque<MemoryCell> memory_cells_;  // the same
  /// Measures of corrupted runs by branch and number of runs; of those token by token by number alone, the clean one's
  /// first.
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> unpatched_;
  std::map<std::size_t, std::vector<double>> unpatched_memories_;
  std::deque<PathPiece> path_pieces_;
  std::size_t pieces_left() const { return cells_.size() + memory_cells_.size() + path_pieces_.size(); }
  std::size_t planned_ = 0;  // pieces
  int turn_ = 0;             // of the three sorts of pieces
  bool working_ = false;
  std::shared_ptr<const PatchView> view_;
};

}  // namespace afterglow
