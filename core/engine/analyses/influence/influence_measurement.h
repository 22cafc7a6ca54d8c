// Measures how every token mixer of a model, and the whole stack, forget. Works pass by pass on a copy of the weights,
// so that training goes on and a measurement belongs to one step.
#pragma once
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "core/engine/analyses/influence/deep_experiment.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/influence/jacobian_measure.h"
#include "core/engine/analyses/race/layer_race.h"
#include "core/engine/analyses/retrieval/retrieval_experiment.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

struct InfluenceConfig {
  int tokens = 256;  ///< T: the inspected sequence, continued by the next held-out ones if it is shorter
  int source = -1;   ///< tau; -1: the mean of `averaged` sources in the first eighth of the sequence
  int averaged = 3;
  int directions = 4;  ///< cotangents for each block; the width or more: exact norms
  int per_decade = 8;  ///< lags
  RaceConfig race;
  RetrievalConfig retrieval;  ///< of theorem 12's network, which is not part of the model
  static constexpr const char* command = "influence";
  static constexpr ConfigField<InfluenceConfig> fields[] = {
      {"tokens", &InfluenceConfig::tokens, 2, max_influence_tokens},
      {"source", &InfluenceConfig::source, -1, max_influence_tokens},
      {"directions", &InfluenceConfig::directions, 2, 1 << 16},
      {"per_decade", &InfluenceConfig::per_decade, 2, 64}};
  bool operator==(const InfluenceConfig&) const = default;
};

/// {"tokens": 256, "source": -1, "directions": 4, "race": {"tokens": 512, "source": 8, "kinds": ["sessa"]},
/// "retrieval": {"beta": 0.5, "jumps": 2}}; absent fields keep their value. Throws Error(bad_input) that names the
/// field.
InfluenceConfig parse_influence(const nlohmann::json& value, const InfluenceConfig& before);
nlohmann::json to_json(const InfluenceConfig& config);

/// Shows the finished part of the first measurement, and later the last complete one.
class InfluenceMeasurement : public CopyMeasurement<InfluenceView> {
 public:
  using CopyMeasurement::CopyMeasurement;

  InfluenceConfig config;

  /// Copies weights and settings, reads the routing from one forward pass, and leaves the Jacobians to `advance`. The
  /// sequence begins with held-out example `inspected`.
  void begin(std::uint64_t inspected);
  /// One backward pass of at most `tokens_in_a_pass` tokens. False if no work is left.
  bool advance();
  bool working() const { return working_; }

 private:
  Example sequence(std::uint64_t inspected) const;
  std::vector<int> sources() const;
  void read_routing(const Example& sequence);
  void add_fixed_tail(int part, std::span<const std::vector<float>> weights);
  void enter_norm(int part, const std::vector<double>& stream);
  void plan_blocks(const Example& sequence);
  void add_job(InfluenceTail tail, std::vector<double> x, const Example& sequence, std::size_t first, std::size_t last);
  void advance_job();
  bool advance_deep();
  void show_part();

  struct Job {
    InfluenceTail tail;
    std::vector<JacobianPlan::Block> blocks;
    std::unique_ptr<JacobianMeasure> measure;
  };
  std::deque<Job> jobs_;
  DeepExperiment deep_;  // computed once; independent of the model
  bool working_ = false, has_finished_ = false;
};

}  // namespace afterglow
