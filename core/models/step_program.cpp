// Records a step once one has reserved what it needs.
#include "core/models/step_program.h"

#include <utility>

namespace afterglow {

StepProgram::StepProgram(Tape& tape, const ModelState& state, std::function<void()> step)
    : tape_(&tape), state_(&state), step_(std::move(step)) {}

void StepProgram::run() {
  const bool is_repeatable = state_->steps_are_alike() && !tape_->has_host_work();
  if (!is_repeatable) {
    step_();
  } else if (program_) {
    program_->run();
  } else if (!has_reserved_) {
    step_();
    has_reserved_ = true;
  } else {
    program_ = tape_->backend().capture(step_);
  }
}

}  // namespace afterglow
