// The memory race: every token mixer on the same input, measured the same way, with the costs of its memory.
#pragma once
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/influence/jacobian_measure.h"
#include "core/engine/analyses/race/planted_recall.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/io/field_table.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

class PinnedArray;

/// Kinds of layers whose descriptors request it, in the order of the documentation.
std::vector<std::string> kinds_that_race_first();

constexpr int max_influence_tokens = 16384;  ///< of a measured sequence

struct RaceConfig {
  int tokens = 512;    ///< T of the input
  int source = 8;      ///< tau, the planted token whose influence is measured
  int directions = 4;  ///< cotangents for each block; the width or more: exact norms
  int per_decade = 8;  ///< lags
  /// Layer kinds that run with initial weights; empty: all that mix tokens.
  std::vector<std::string> kinds = kinds_that_race_first();
  static constexpr const char* command = "influence.race";
  static constexpr ConfigField<RaceConfig> fields[] = {{"tokens", &RaceConfig::tokens, 2, max_influence_tokens},
                                                       {"source", &RaceConfig::source, 0, max_influence_tokens},
                                                       {"directions", &RaceConfig::directions, 2, 1 << 16}};
  bool operator==(const RaceConfig&) const = default;
};

/// The work of one layer, in tokens that pass through it.
struct RaceWork {
  double tail = 0;    ///< forward passes; a backward pass counts as two more
  double steps = 0;   ///< of the recurrent form
  double recall = 0;  ///< forward passes
};
RaceWork race_work_of_a_layer(const RaceConfig& config);

class LayerRace {
 public:
  /// The tape must outlive the race, which uses it during `advance`.
  LayerRace(const RaceConfig& config, std::int64_t width, std::uint64_t seed, Tape& tape, DType dtype);
  ~LayerRace();

  const RaceConfig& config() const { return config_; }
  /// Adds layers of these kinds (empty: all) with initial weights drawn from the seed; running ones continue.
  void enter_initial(const std::vector<std::string>& kinds);
  /// Adds a layer that its model keeps alive until `forget_trained`; `weights` describes them: "trained, step 120".
  void enter_trained(Layer& layer, const std::string& label, const std::string& weights);
  void forget_trained();

  /// A pass or some recurrent steps; false if all layers have finished. Tails and states come first, layer by layer,
  /// then recall.
  bool advance();
  /// Every layer whose tail and state are known.
  RaceView view() const;
  /// Finished share of the work, 0 to 1.
  double share_done() const;
  /// Changes whenever `view` does.
  int revision() const { return revision_; }

 private:
  struct Candidate;
  void enter(const LayerKind& kind);
  JacobianPlan plan(const Layer& layer) const;
  // One piece of each measurement.
  void advance(Candidate& candidate);
  void advance_tail(Candidate& candidate, const SequenceMap& map);
  void advance_steps(Candidate& candidate);
  void advance_recall(Candidate& candidate, const SequenceMap& map);

  RaceConfig config_;
  std::int64_t width_;
  std::uint64_t seed_;
  DType dtype_;
  std::vector<double> input_;  // [T*d]
  Tape& tape_;
  std::unique_ptr<PinnedArray> tokens_;  // the input in device memory
  RecallNoise noise_;
  std::deque<Candidate> contestants_;
  int revision_ = 0;
};

/// Shows the finished part of the first race and of one with other layers, else the last complete race.
class RaceMeasurement : public CopyMeasurement<RaceView> {
 public:
  using CopyMeasurement::CopyMeasurement;

  /// Copies weights and settings; `advance` does the work. With `is_part` every layer is shown once it has finished.
  void begin(const RaceConfig& config, bool is_part = false);
  /// One piece of work; false if none is left.
  bool advance();
  /// Finished share of the work, 0 to 1.
  double share_done() const { return working_ ? race_->share_done() : 1; }
  bool working() const { return working_; }

 private:
  void enter_trained();
  void show(bool is_complete);

  std::unique_ptr<LayerRace> race_;
  bool shows_parts_ = true;  // its layers differ from those of the last race
  int shown_ = 0;            // revision
  bool working_ = false;
};

}  // namespace afterglow
