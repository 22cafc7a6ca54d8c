// Where the window's observations come from and its commands go to: a session, or something else in tests.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/engine/session.h"

namespace afterglow {

class ObservationSource {
 public:
  virtual ~ObservationSource() = default;
  virtual void send(Command command) = 0;
  virtual std::shared_ptr<const Observation> observe() = 0;  ///< never null
  virtual std::uint64_t revision() = 0;                      ///< changes with every new observation
};

/// A session that is built on its own thread, so that the first frame does not wait for the model. Until it is there
/// observations are empty and commands wait. A session that cannot start is told by a failure event.
std::unique_ptr<ObservationSource> start_session(const std::string& recipe, const SessionOptions& options);

}  // namespace afterglow
