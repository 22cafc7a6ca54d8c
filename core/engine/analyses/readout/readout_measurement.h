// What the state contains: after every token, how well a ridge read-out of one layer's state finds the value of each
// key of the inspected sequence. It reads sequences with the same keys and other values.
#pragma once
#include <memory>

#include "core/engine/observation/causes_view.h"
#include "core/engine/recipe/inspection_setup.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

class ReadoutMeasurement : public CopyMeasurement<ReadoutView> {
 public:
  using CopyMeasurement::CopyMeasurement;
  /// Copies weights and settings, and draws the sequences. `layer` is an index into Trainer::parts; if that part has no
  /// state, the last one with a state is used.
  void begin(const InspectionSetup& setup, int layer);
  /// One token for all sequences. False if none is left.
  bool advance();

 private:
  void find_keys(const Example& clean);
  void add_place(std::size_t place, std::string name);
  void draw_sequences(const Example& clean);
  void reserve_states(std::int64_t tokens);
  std::vector<double> memory() const;
  /// Number of sequences for the fit; the others test it.
  int fitted() const { return now_.examples * 3 / 4; }

  std::size_t branch_ = 0;
  std::unique_ptr<ModelState> state_;
  std::vector<std::vector<std::int32_t>> sequences_;
  std::vector<std::vector<int>> labels_;  ///< of every key, then the same shuffled among the sequences of the fit
};

}  // namespace afterglow
