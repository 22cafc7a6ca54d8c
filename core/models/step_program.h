// Runs tokens of the recurrent form one by one, each with a single launch where the device can record the step: as a
// CUDA graph, where no part of it runs on the host.
#pragma once
#include <functional>
#include <utility>

#include "core/autograd/tape.h"
#include "core/backend/recorded_work.h"
#include "core/models/model.h"

namespace afterglow {

class StepProgram {
 public:
  /// `step` begins the tape and queues the work of one token, which it reads from the same address each time; where it
  /// works on the host, it calls `Tape::note_host_work`. `state` is the one that it steps. Tape and state outlive this.
  StepProgram(Tape& tape, const ModelState& state, std::function<void()> step)
      : tape_(&tape), state_(&state), step_(std::move(step)) {}
  /// Queues the next token. The values that `step` put on the tape then hold this token's numbers.
  void run() {
    if (state_->steps_are_alike() && !tape_->has_host_work()) return recorded_.run(tape_->backend(), step_);
    recorded_.forget();  // beginning the tape anew may move the memory that a recorded step uses
    step_();
  }

 private:
  Tape* tape_;
  const ModelState* state_;
  std::function<void()> step_;
  RecordedWork recorded_;
};

}  // namespace afterglow
