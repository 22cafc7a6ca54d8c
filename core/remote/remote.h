// A session in another process or on another machine: both ends of its line.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/engine/session/session.h"
#include "core/io/temporary_file.h"
#include "core/remote/wire.h"

namespace afterglow {

struct RemoteOptions {
  std::vector<std::string> words;            ///< the program whose input and output are the line
  std::string host;                          ///< its name for the user
  Hello hello;                               ///< version, start, device and threads
  bool (*is_over)() = [] { return false; };  ///< ends the first attempt to connect
};
/// The window's end, a source of observations with a thread of its own. It connects again when the line is lost, and
/// goes on where the session is. Throws the session's Error, or Error(failure) if none answers.
std::unique_ptr<ObservationSource> connect_to_remote(RemoteOptions options);

struct ServerOptions {
  SessionOptions session;  ///< device and threads are those that the first window wants
  std::string version;     ///< the line of this program, which windows must share
  std::shared_ptr<const Machine> machine{};
  bool (*is_over)();  ///< asked ten times a second
};
/// The session's end: serves the window on this pair of descriptors until its line ends.
void serve_window(const ServerOptions& options, Descriptor in, Descriptor out);
/// Serves one window at a time under this name, and trains on between them. Throws Error(failure) if one has the name.
void serve_windows(const ServerOptions& options, const std::string& name);

/// Names of sessions that wait for windows, or were killed. Each has a socket that only the user can open.
std::set<std::string> session_names();
/// A connection to the session of this name; not valid if none runs. Throws Error(usage) for what is no name.
Descriptor connect_to_session(const std::string& name);
/// The socket on which a session is found, its alone while it runs. Throws Error(failure) if one has the name.
class SessionSocket {
 public:
  explicit SessionSocket(std::string name);
  /// Listens, again where a logout has emptied the user's runtime folder.
  const Descriptor& renewed();

 private:
  std::string name_, path_;
  Descriptor lock_, socket_;
};

}  // namespace afterglow
