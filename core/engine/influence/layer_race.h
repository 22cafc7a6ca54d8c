// The memory race: every token mixer on the same input, measured in the same way, with what its memory costs.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/influence/jacobian_measure.h"
#include "core/engine/influence/planted_recall.h"
#include "core/engine/observation/influence_view.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

class PinnedArray;

/// Kinds of layers whose descriptors say so, in the order of the documentation.
std::vector<std::string> kinds_that_race_first();

struct RaceConfig {
  int tokens = 512;    ///< T of the input
  int source = 8;      ///< tau, where the token is planted whose influence is followed
  int directions = 4;  ///< cotangents for each block; the width or more: exact norms
  int per_decade = 8;  ///< lags
  /// Layer kinds that start at initial weights; empty: all that mix tokens.
  std::vector<std::string> kinds = kinds_that_race_first();
  bool operator==(const RaceConfig&) const = default;
};

/// What the race asks of one layer, in tokens that go through it.
struct RaceWork {
  double tail = 0;    ///< in passes; a reverse pass counts as two more
  double steps = 0;   ///< of the recurrent form
  double recall = 0;  ///< in passes
};
RaceWork race_work_of_a_layer(const RaceConfig& config);

class LayerRace {
 public:
  /// The tape must outlive the race; it belongs to it while `advance` runs.
  LayerRace(const RaceConfig& config, std::int64_t width, std::uint64_t seed, Tape& tape, DType dtype);
  ~LayerRace();

  const RaceConfig& config() const { return config_; }
  /// Layers of these kinds (empty: all), at initial weights drawn from the seed. Those that run already go on.
  void enter_initial(const std::vector<std::string>& kinds);
  /// A layer that its model keeps until `forget_trained`; `weights` says what they are: "trained, step 120".
  void enter_trained(Layer& layer, const std::string& label, const std::string& weights);
  void forget_trained();

  /// One piece of work: a pass or some recurrent steps; false when everybody has arrived. Tails and states come first,
  /// layer by layer, then what they recall.
  bool advance();
  /// Every layer whose tail and state are known.
  RaceView view() const;
  /// How much of the work is done, 0 to 1.
  double share_done() const;
  /// Changes with what there is to view.
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
  std::unique_ptr<PinnedArray> tokens_;  // the input where the layers read it
  RecallNoise noise_;
  std::deque<Candidate> contestants_;
  int revision_ = 0;
};

}  // namespace afterglow
