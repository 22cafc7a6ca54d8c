// Records a step as a CUDA graph where no part of it runs on the host.
#include "core/models/step_program.h"

#include <utility>

namespace afterglow {

StepProgram::StepProgram(Tape& tape, const ModelState& state, std::function<void()> step)
    : tape_(&tape), state_(&state), step_(std::move(step)) {}

void StepProgram::run() {
  if (state_->steps_are_alike() && !tape_->has_host_work()) {
    recorded_.run(tape_->backend(), step_);
  } else {
    recorded_.forget();  // beginning the tape anew may move the memory that a recorded step uses
    step_();
  }
}

}  // namespace afterglow
