// Where observations come from and commands go to: a session in this process, one behind a line to another process or
// machine, or a replacement in tests. Nothing else passes between window and engine, and no method blocks.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/io/folders.h"
#include "core/recipe/command.h"

namespace afterglow {

/// The line to a session elsewhere.
struct LineState {
  std::string host;                               ///< "ann@gpu1"; empty: the session is in this process
  double round_trip = 0;                          ///< seconds; 0: not measured yet
  double bytes_per_second = 0;                    ///< received
  std::string problem;                            ///< what goes on while the line is lost; empty: it stands
  std::shared_ptr<const struct Machine> machine;  ///< what it offers; null: the session is in this process
  std::string said;  ///< the newest note: what became of a snapshot that was saved here, or of the session
};

class ObservationSource {
 public:
  virtual ~ObservationSource() = default;
  /// Queues a command.
  virtual void send(Command command) = 0;
  /// The newest observation; never null. The next one is made only after this call, so a session that nothing observes
  /// trains at full speed.
  virtual std::shared_ptr<const Observation> observe() const = 0;
  /// Changes with every new observation.
  virtual std::uint64_t revision() const = 0;
  /// The number of commands whose effects the next observation shows.
  virtual std::uint64_t taken_commands() const { return 0; }
  /// Sets the analyses that are kept up to date; until the first call, all. Results of the others stay in the
  /// observations.
  virtual void request_analyses(AnalysisSet) {}
  virtual LineState line() const { return {}; }
  /// `paths_beginning_with` on the session's machine; none until the answer has come.
  virtual std::vector<std::string> paths(const std::string& beginning) { return paths_beginning_with(beginning); }
};

}  // namespace afterglow
