// What a user does to see everything, so that a measurement begins where nothing new takes memory or time.
#pragma once
#include "core/engine/session/session.h"

namespace afterglow {

/// Stops after the first evaluation, waits for every analysis of that step, switches a head off and on again if there
/// is one, and goes on.
class Tour {
 public:
  /// Called with every observation; sends the next command. True once the tour is complete, first with an observation
  /// of everything.
  bool advance(Session& session, const Observation& now);

 private:
  enum class Stop { train, analyse, edit, restore, home };
  Stop next_ = Stop::train;
};

}  // namespace afterglow
