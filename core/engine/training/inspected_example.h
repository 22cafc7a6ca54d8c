// The inspected sequence, and the layers that interventions can change.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/engine/training/trainer.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {

/// For sequences of another task than the run's.
constexpr int max_inspected_tokens = 512;

/// The sequence that a setup describes, of the trainer's task or of the setup's. Throws Error(bad_input) for tokens
/// outside the vocabulary or a wrong length.
Example inspected_example(const InspectionSetup& setup, const Trainer& trainer);

/// Its tokens and context [1,T] on a tape, until that begins anew.
struct UploadedExample {
  Tensor tokens, context;
};
UploadedExample uploaded(Tape& tape, const Example& example);
/// Host values on a tape, until that begins anew.
Tensor uploaded(Tape& tape, const Shape& shape, DType dtype, const void* values);
/// [rows, T, width] with x [T * width] in each row, and [rows, T] with the mask of T tokens in each, likewise.
Tensor repeated(Tape& tape, std::int64_t rows, std::int64_t width, DType dtype, std::span<const double> x);
Tensor repeated(Tape& tape, std::int64_t rows, std::span<const std::uint8_t> context);
/// The tokens as panels show them.
std::vector<TokenView> token_views(const Example& example, const Task& task);

/// "niah, 8 bindings, 128 tokens"; empty if the sequence is of the run's own task.
std::string name_of_task(const InspectionSetup& setup);

/// The layers with a Koopman operator, and the Koopman MLPs.
std::vector<InterventionTarget> intervention_targets(const Trainer& trainer);

}  // namespace afterglow
