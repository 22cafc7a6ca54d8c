// The patch grid: which hook point, at which token, carries the answer. Works on a copy of the weights: first-order
// estimates at once, exact cells piece by piece.
#pragma once
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "core/engine/analyses/patch/memory_slopes.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/causes/state_passes.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

/// Path patching: the receiver reads the stream with the sender's clean contribution, everything else stays corrupted,
/// and only the receiver's changed output continues. Ends of a path: 0 is the embedding, i + 1 is branch i, the number
/// of branches + 1 is the head.
class PathPasses {
 public:
  /// `places` has read the pair. All arguments must outlive this object.
  PathPasses(Model& model, Tape& tape, DType dtype, const HookPasses& places)
      : model_(&model), tape_(&tape), dtype_(dtype), places_(&places) {}

  /// False if a layer adds its residual itself, so that contributions cannot be separated.
  bool has_paths() const;
  /// Logits at the queried token, a run for each sender before the receiver, with its clean contribution scaled by
  /// `share`.
  std::vector<std::vector<double>> run(const SequencePair& pair, std::span<const std::size_t> senders,
                                       std::size_t receiver, double share) const;

 private:
  const HookValues& place(const std::string& name) const;
  const HookValues& sent_by(std::size_t sender) const;
  Tensor stream_before(std::size_t branch, std::span<const std::size_t> senders, double share) const;

  Model* model_;
  Tape* tape_;
  DType dtype_;
  const HookPasses* places_;
};

class PatchMeasurement : public CopyMeasurement<PatchView> {
 public:
  PatchMeasurement(const nlohmann::json& model, Trainer& trainer);

  /// Copies weights and settings, and estimates every cell to first order.
  void begin(const InspectionSetup& setup);
  /// Some exact cells, those with the largest estimates first. False if none is left.
  bool advance();

 private:
  struct MemoryCell {
    StateCell state;
    std::size_t row = 0;  ///< of the view
  };
  struct PatchedCell {
    PlaceCell at;
    std::size_t row = 0;  ///< of the view
  };
  /// Senders of one receiver, numbered as in PathPasses.
  struct PathPiece {
    std::size_t receiver = 0;
    std::vector<std::size_t> senders{};
  };
  void add_place_rows();
  void add_memory_rows();
  void add_row(std::size_t branch, int head, const std::string& place, PatchGroup group, const std::string& hook);
  std::vector<int> heads_of(std::size_t branch, bool has_heads) const;
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

  HookPasses places_;
  StatePasses states_;
  MemorySlopes slopes_;
  PathPasses paths_;
  SequencePair pair_;
  std::vector<PlaceCell> place_rows_;  // cells of the view's first rows
  bool by_heads_ = false;
  std::deque<PatchedCell> cells_;        // by estimate
  std::deque<MemoryCell> memory_cells_;  // by estimate
  /// Measures of unpatched corrupted runs by branch and number of runs; for token-by-token runs by number alone, the
  /// clean one's first.
  std::map<std::pair<std::size_t, std::size_t>, std::vector<double>> unpatched_;
  std::map<std::size_t, std::vector<double>> unpatched_memories_;
  std::deque<PathPiece> path_pieces_;
  std::size_t pieces_left() const { return cells_.size() + memory_cells_.size() + path_pieces_.size(); }
  int turn_ = 0;  // alternates between the three kinds of pieces
};

}  // namespace afterglow
