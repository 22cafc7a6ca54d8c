// One thread serves all windows; the session has its own.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <nlohmann/json.hpp>

#include "core/engine/remote/framed_line.h"
#include "core/engine/remote/remote.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

constexpr int eager_wait = 2, idle_wait = 100;  // milliseconds
constexpr double silence = 10;                  // seconds after which another window may take over
constexpr std::uint32_t most_credit = 4;

struct ServedWindow {
  ServedWindow(Descriptor in, Descriptor out) : line(std::move(in), std::move(out)) {}
  FramedLine line;
  SentParts parts;
  std::uint64_t client = 0;
  std::uint32_t credit = 0;        // observations that it wants
  std::uint64_t revision = ~0ULL;  // of the last one that it got
  double heard_at = line_clock();
  bool ends = false;  // after its last message
};

class SessionServer {
 public:
  explicit SessionServer(const ServerOptions& options) : options_(options) {}

  void add(Descriptor in, Descriptor out) { windows_.emplace_back(std::move(in), std::move(out)); }

  /// Without a socket until the window has gone.
  void run(const Descriptor& socket) {
    while (!options_.is_over() && (socket.valid() || !windows_.empty())) {
      wait(socket, shown_ && shown_->credit > 0 ? eager_wait : idle_wait);
      for (ServedWindow& window : windows_) serve(window);
      std::erase_if(windows_, [this](const ServedWindow& window) {
        const bool is_gone = !window.line.is_open() || (window.ends && window.line.is_idle());
        if (is_gone && shown_ == &window) shown_ = nullptr;
        return is_gone;
      });
    }
    session_.reset();  // keeps its run
    for (ServedWindow& window : windows_) {
      refuse(window, ExitCode::failure, "the session was stopped; its run is kept there");
      window.line.move();
    }
  }

 private:
  void wait(const Descriptor& socket, int milliseconds) {
    std::vector<pollfd> waits;
    for (const ServedWindow& window : windows_) window.line.wait_for(waits);
    if (socket.valid()) waits.push_back({socket.get(), POLLIN, 0});
    ::poll(waits.data(), waits.size(), milliseconds);
    if (!socket.valid() || (waits.back().revents & POLLIN) == 0) return;
    Descriptor in(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC)), out(::dup(in.get()));
    if (out.valid()) add(std::move(in), std::move(out));
  }

  /// A peer that sends what is no message loses its line; the session goes on.
  void serve(ServedWindow& window) {
    try {
      window.line.move();
      while (const std::optional<std::string> message = window.line.receive()) {
        window.heard_at = line_clock();
        std::visit([&](const auto& request) { take(window, request); }, decode_request(*message));
      }
      if (&window == shown_) show(window);
    } catch (const Error& error) {
      refuse(window, error.code(), error.what());
    } catch (const std::exception& error) {
      refuse(window, ExitCode::failure, error.what());
    }
    window.line.move();
  }

  void refuse(ServedWindow& window, ExitCode code, const std::string& sentence) {
    window.line.send(encode(Refusal{static_cast<int>(code), sentence}, window.parts));
    window.ends = true;
    if (&window == shown_) shown_ = nullptr;
  }

  void take(ServedWindow& window, const Hello& hello) {
    if (hello.version != options_.version || hello.schema != wire_schema())
      return refuse(window, ExitCode::failure,
                    "the session is one of " + options_.version + ", the window one of " + hello.version +
                        ", or their sources differ; install the same version on both machines");
    if (shown_ && shown_->client != hello.client && line_clock() - shown_->heard_at < silence)
      return refuse(window, ExitCode::failure,
                    "another window shows this session; close it first, or choose another --session");
    const bool is_new = !session_;
    open(hello);
    if (shown_) refuse(*shown_, ExitCode::failure, "another window shows this session now");
    window.client = hello.client;
    shown_ = &window;
    window.line.send(encode(Welcome{received_, is_new}, window.parts));
  }

  void open(const Hello& hello) {
    if (session_ && !hello.opens) return;
    if (session_) {
      const nlohmann::json recipe = parse_json(hello.recipe, "the window's recipe");
      return give({"load", hello.path.empty() ? nlohmann::json{{"recipe", recipe}}.dump()
                                              : nlohmann::json{{"path", hello.path}}.dump()});
    }
    SessionOptions options = options_.session;
    options.device = hello.device;
    options.threads = hello.threads;
    options.first_command = received_ = hello.sent;
    if (!hello.path.empty()) options.opened = std::make_shared<SavedRun>(open_saved_run(hello.path, newest_state));
    session_ = std::make_unique<Session>(hello.recipe, options);
  }

  void give(Command command) {
    ++received_;
    session_->send(std::move(command));
  }

  /// What waits to be shown is older than the command: the session makes another observation, with its effect.
  void take(ServedWindow& window, const Order& order) {
    if (&window != shown_) return;
    give(order.command);
    window.revision = session_->revision();
    session_->observe();
  }

  void take(ServedWindow& window, const Wish& wish) {
    if (&window != shown_) return;
    window.credit = std::min(window.credit + std::min(wish.observations, most_credit), most_credit);
    session_->request_analyses(wish.analyses);
    if (wish.observations == 0) window.line.send(encode(Pong{wish.sent_at}, window.parts));
  }

  /// The newest observation, once all before has been written.
  void show(ServedWindow& window) {
    if (window.credit == 0 || window.revision == session_->revision() || !window.line.is_idle()) return;
    --window.credit;
    window.revision = session_->revision();
    const std::uint64_t taken = session_->taken_commands();
    window.line.send(encode(Sight{taken, session_->observe()}, window.parts));
  }

  ServerOptions options_;
  std::unique_ptr<Session> session_;
  std::uint64_t received_ = 0;  // commands
  std::list<ServedWindow> windows_;
  ServedWindow* shown_ = nullptr;
};

}  // namespace

void serve_window(const ServerOptions& options, Descriptor in, Descriptor out) {
  SessionServer server(options);
  server.add(std::move(in), std::move(out));
  server.run(Descriptor());
}

void serve_windows(const ServerOptions& options, const std::string& name) {
  SessionServer(options).run(listen_for_windows(name));
}

}  // namespace afterglow
