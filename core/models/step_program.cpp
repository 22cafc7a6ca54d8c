// Records a step once nothing that it reserves is new any more, so that the recorded step finds its numbers where the
// one before it had them.
#include "core/models/step_program.h"

#include <utility>

namespace afterglow {

namespace {
constexpr int steps_until_all_is_reserved = 2;
}

StepProgram::StepProgram(Tape& tape, const ModelState& state, std::function<void()> step)
    : tape_(&tape), state_(&state), step_(std::move(step)) {}

void StepProgram::run() {
  const bool is_repeatable = state_->steps_are_alike() && !tape_->has_host_work();
  if (!is_repeatable) {
    program_.reset();  // what begins the tape anew may move what a recorded step works on
    plain_steps_ = 0;
    step_();
  } else if (program_) {
    program_->run();
  } else if (plain_steps_ < steps_until_all_is_reserved) {
    step_();
    ++plain_steps_;
  } else {
    program_ = tape_->backend().capture(step_);
  }
}

}  // namespace afterglow
