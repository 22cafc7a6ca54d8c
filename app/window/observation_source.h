// The source of the window's observations and the receiver of its commands: a session, or a replacement in tests.
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
  virtual void ask(AnalysisSet) {}                           ///< the analyses that the page shows
  /// The number of commands whose effects the next observation shows.
  virtual std::uint64_t taken_commands() { return 0; }
};

}  // namespace afterglow
