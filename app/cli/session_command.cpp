// `afterglow session`: a session without a window, for windows on other machines.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "app/cli/command_line.h"
#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/cli/version.h"
#include "core/engine/session/kept_runs.h"
#include "core/io/child_process.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/wording.h"
#include "core/remote/remote.h"

namespace afterglow {
namespace {

constexpr int patience = 100;  // tenths of a second, for a session to begin

pid_t process_of(const Descriptor& connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : -1;
}

/// Starts a session that outlives this process and its terminal.
Descriptor started_session(const std::string& name) {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  start_program({"setsid", std::filesystem::read_symlink("/proc/self/exe").string(), "session", "--listen", name},
                {{nothing.get(), STDIN_FILENO}});
  for (int i = 0; i < patience; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (Descriptor connection = connect_to_session(name); connection.valid()) return connection;
  }
  throw Error(ExitCode::failure,
              "the session " + in_quotes(name) + " did not begin; `afterglow session --listen " + name + "` says why");
}

void copy_bytes(int from, int to) {
  char piece[1 << 16];
  for (ssize_t size = 0; (size = ::read(from, piece, sizeof piece)) > 0;) {
    for (ssize_t done = 0, more = 0; done < size; done += more) {
      more = ::write(to, piece + done, static_cast<std::size_t>(size - done));
      if (more <= 0) return;
    }
  }
}

/// Passes bytes between this process' own input and output and the session, until one of them ends.
void relay(const std::string& name) {
  Descriptor connection = connect_to_session(name);
  if (!connection.valid()) connection = started_session(name);
  std::thread([socket = connection.get()] {
    copy_bytes(STDIN_FILENO, socket);
    ::shutdown(socket, SHUT_WR);
  }).detach();
  copy_bytes(connection.get(), STDOUT_FILENO);
  std::_Exit(0);  // the other direction may wait for input
}

json list_sessions(const Output& output) {
  json found = json::array();
  for (const std::string& name : session_names()) {
    const Descriptor connection = connect_to_session(name);
    if (!connection.valid()) continue;
    found.push_back({{"name", name}, {"process", process_of(connection)}});
    output.print("%-20s process %d", name.c_str(), static_cast<int>(process_of(connection)));
  }
  if (found.empty()) output.line("no session runs here");
  return {{"sessions", found}};
}

/// Returns when the session has kept its run and ended.
json stop_session(const std::string& name) {
  const Descriptor connection = connect_to_session(name);
  if (!connection.valid())
    throw BadInput("no session " + in_quotes(name) + " runs; `afterglow session --list` lists them");
  const pid_t process = process_of(connection);
  if (process <= 0)  // which means many processes
    throw Error(ExitCode::failure, "the session " + in_quotes(name) + " runs in another container; stop it there");
  ::kill(process, SIGTERM);
  char piece[256];
  while (::read(connection.get(), piece, sizeof piece) > 0) {
  }
  return {{"stopped", name}};
}

}  // namespace

json session(const SessionWordOptions& options, const CommonOptions&, Output& output) {
  if (options.connects) relay(options.name);
  if (options.lists) return list_sessions(output);
  if (options.stops) return stop_session(options.name);
  const Interruption noticed;
  ServerOptions server{{}, version_line(), this_machine(), Interruption::wanted};
  server.session.at_end = keep_in(kept_runs_folder(false));
  if (options.listens) {
    serve_windows(server, options.name);
    return nullptr;
  }
  // Whatever is printed must not come between the messages.
  Descriptor in(::dup(STDIN_FILENO)), out(::dup(STDOUT_FILENO));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  serve_window(server, std::move(in), std::move(out));
  return nullptr;
}

}  // namespace afterglow
