// Tokens of the recurrent form, one after the other, at the cost of one launch each where the device can record them.
#pragma once
#include <functional>
#include <memory>

#include "core/autograd/tape.h"
#include "core/models/model.h"

namespace afterglow {

class StepProgram {
 public:
  /// `step` begins the tape, queues the work of one token and waits for nothing; it finds its token at the same address
  /// each time. `state` is the one that it steps. Tape and state outlive this.
  StepProgram(Tape& tape, const ModelState& state, std::function<void()> step);
  /// Queues the next token. What `step` put on the tape then holds this token's numbers.
  void run();

 private:
  Tape* tape_;
  const ModelState* state_;
  std::function<void()> step_;
  std::unique_ptr<Program> program_;
  int plain_steps_ = 0;  // that were like those to come
};

}  // namespace afterglow
