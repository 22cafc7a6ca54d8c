// How much each part of a model contributes: accuracy and loss of held-out sequences with one block, head, mode or
// memory token switched off at a time, on a copy of the weights.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "core/engine/observation/causes_view.h"
#include "core/engine/training/saved/model_copy.h"

namespace afterglow {

/// Total over the held-out sequences.
std::int64_t tokens_of_an_ablation(const Trainer& trainer);

class AblationMeasurement : public CopyMeasurement<AblationView> {
 public:
  using CopyMeasurement::CopyMeasurement;
  /// Copies weights and settings, and evaluates the model with everything on. Modes are named by their numbers in
  /// `numbered`; null: by their index, sorted by modulus.
  void begin(std::shared_ptr<const Spectra> numbered = nullptr);
  /// Evaluates it without the next part. False if none is left.
  bool advance();

 private:
  struct Quality {
    double accuracy = 0, loss = 0;
  };
  void plan();
  void plan_modes(std::size_t branch, const AblatedPart& block);
  void fill();
  Quality ask(const AblatedPart* without);
  void switch_off(const AblatedPart& part, const std::string& place, const Tensor& value);

  std::int64_t examples_ = 0, length_ = 0;
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<std::uint8_t> context_;
  std::shared_ptr<const Spectra> numbered_;
  std::vector<AblatedPart> parts_;
  Tensor stream_;  // input of the branch that runs now
};

}  // namespace afterglow
