// Where the window's observations come from and its commands go to: a session, or something else in tests.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/engine/session/session.h"

namespace afterglow {

class ObservationSource {
 public:
  virtual ~ObservationSource() = default;
  virtual void send(Command command) = 0;
  virtual std::shared_ptr<const Observation> observe() = 0;  ///< never null
  virtual std::uint64_t revision() = 0;                      ///< changes with every new observation
  virtual void ask(AnalysisSet) {}                           ///< what the page shows
  /// Of how many commands an observation that is taken from now on shows what they did.
  virtual std::uint64_t taken_commands() { return 0; }
};

/// A session, which builds its model on its own thread: until that is there, observations are empty and commands wait.
std::unique_ptr<ObservationSource> start_session(const std::string& recipe, const SessionOptions& options);

}  // namespace afterglow
