// What the state still holds: after every token, how well a ridge read-out of one layer's memory tells which value
// stands behind each key of the probe sequence. The sequences that are read have the same keys and other values.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/observation/causes_view.h"
#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

class ReadoutMeasurement {
 public:
  /// `model` is the recipe's; the trainer must outlive the measurement.
  ReadoutMeasurement(const nlohmann::json& model, Trainer& trainer);

  /// Copies weights and settings, and draws the sequences. `layer` is an index into Trainer::parts; where that one has
  /// no memory, the last one that has.
  void begin(const ProbeSetup& setup, int layer);
  /// One token for all sequences. False when there is none left.
  bool advance();
  /// How much of the work is done, 0 to 1.
  double share_done() const;
  bool working() const { return working_; }
  std::int64_t step() const { return copy_.step(); }
  std::shared_ptr<const ReadoutView> newest() const { return view_; }

 private:
  void find_keys(const Example& clean);
  void add_place(std::size_t place, std::string name);
  void draw_sequences(const Example& clean);
  void reserve_states(std::int64_t tokens);
  std::vector<double> memory() const;
  /// Of the sequences; the others are asked.
  int fitted() const { return now_.examples * 3 / 4; }
  void publish();

  ModelCopy copy_;
  Tape& tape_;
  std::size_t branch_ = 0;
  std::unique_ptr<ModelState> state_;
  std::vector<std::vector<std::int32_t>> sequences_;
  std::vector<std::vector<int>> labels_;  ///< of every key, then the same shuffled among the sequences that are fitted
  int next_ = 0;
  ReadoutView now_;
  bool working_ = false;
  std::shared_ptr<const ReadoutView> view_;
};

}  // namespace afterglow
