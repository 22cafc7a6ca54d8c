// Tokens of the recurrent form, one after the other, at the cost of one launch each where the device can record them.
#pragma once
#include <functional>

#include "core/autograd/tape.h"
#include "core/backend/recorded_work.h"
#include "core/models/model.h"

namespace afterglow {

class StepProgram {
 public:
  /// `step` begins the tape and queues the work of one token, which it finds at the same address each time; where it
  /// waits, the tape says so (`Tape::note_host_work`). `state` is the one that it steps. Tape and state outlive this.
  StepProgram(Tape& tape, const ModelState& state, std::function<void()> step);
  /// Queues the next token. What `step` put on the tape then holds this token's numbers.
  void run();

 private:
  Tape* tape_;
  const ModelState* state_;
  std::function<void()> step_;
  RecordedWork recorded_;
};

}  // namespace afterglow
