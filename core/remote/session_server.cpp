// One thread serves all windows; the session has its own.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <nlohmann/json.hpp>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json_file.h"
#include "core/remote/framed_line.h"
#include "core/remote/remote.h"

namespace afterglow {
namespace {

constexpr int paced_wait = 2, idle_wait = 100;  // milliseconds
constexpr double silence = 10;                  // seconds after which another window may take over
constexpr int most_credit = 4, most_owed = 2;   // observations in flight: that were wished, and more than that
constexpr std::size_t piece_bytes = std::size_t{32} << 10, slow_piece_bytes = std::size_t{8} << 10;
// Of a slow line: bytes of pieces a second, before they are packed, and seconds between observations. Together 1 MB/s.
constexpr double slow_rate = 9e5, slow_interval = 1.0 / 15;

struct ServedWindow {
  FramedLine line;
  SentParts parts{};
  std::uint64_t client = 0;
  int credit = 0;                  // observations that it wants; below 0: it has got more
  std::uint64_t revision = ~0ULL;  // of the last one that it got
  std::uint64_t answered = 0;      // commands whose effects it shows
  double shown_at = 0;
  double heard_at = line_clock();
  bool is_slow = false;  // its line
  bool ends = false;     // after its last message
};

/// As scp understands a folder of another machine.
void enter(std::string folder) {
  if (folder.empty()) return;
  if (folder == "~" || folder.starts_with("~/")) folder.erase(0, 2);
  std::error_code failed;
  std::filesystem::current_path(process_environment()("HOME").value_or("/") / std::filesystem::path(folder), failed);
  if (failed) throw BadInput(folder, ": the session's machine has no such folder; make it there");
}

class SessionServer {
 public:
  explicit SessionServer(const ServerOptions& options) : options_(options) {}

  void add(Descriptor in, Descriptor out) { windows_.push_back({FramedLine(std::move(in), std::move(out))}); }

  /// Without a socket until the window has gone.
  void run(SessionSocket* socket = nullptr) {
    const Descriptor none;
    trains_on_ = socket != nullptr;
    while (!options_.is_over() && (socket || !windows_.empty())) {
      wait(socket ? socket->renewed() : none, is_paced() ? paced_wait : idle_wait);
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
  /// Whether the window gets something at a time of its own; all else follows from a message or an observation.
  bool is_paced() const { return shown_ && (shown_->is_slow || !pieces_.empty()); }
  /// Whether a command's effect has not been sent; a slow line is then kept free for it.
  bool owes_answer(const ServedWindow& window) const { return window.answered < received_; }

  void wait(const Descriptor& socket, int milliseconds) {
    std::vector<pollfd> waits;
    for (const ServedWindow& window : windows_) window.line.wait_for(waits);
    waits.push_back({published_.get(), POLLIN, 0});
    if (socket.valid()) waits.push_back({socket.get(), POLLIN, 0});
    ::poll(waits.data(), waits.size(), milliseconds);
    eventfd_t count = 0;
    ::eventfd_read(published_.get(), &count);
    if (!socket.valid() || (waits.back().revents & POLLIN) == 0) return;
    Descriptor in(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC)), out(::dup(in.get()));
    if (out.valid()) add(std::move(in), std::move(out));
  }

  /// A peer that sends what is no message loses its line, and may try again; the session goes on.
  void serve(ServedWindow& window) {
    bool is_message = false;
    try {
      window.line.move();
      while (const std::optional<std::string> message = window.line.receive()) {
        window.heard_at = line_clock();
        const Request request = decode_request(*message);
        is_message = true;
        std::visit([&](const auto& one) { take(window, one); }, request);
        is_message = false;
      }
      if (&window == shown_) {
        show(window);
        take_saved();
        send_piece(window);
      }
    } catch (const Error& error) {
      refuse(window, error.code(), error.what(), is_message);
    } catch (const std::exception& error) {
      refuse(window, ExitCode::failure, error.what(), is_message);
    }
    window.line.move();
  }

  void refuse(ServedWindow& window, ExitCode code, const std::string& sentence, bool is_final = true) {
    window.line.send(encode(Refusal{static_cast<int>(code), sentence, is_final}, window.parts));
    window.ends = true;
    if (&window == shown_) shown_ = nullptr;
  }

  void take(ServedWindow& window, const Hello& hello) {
    if (hello.version != options_.version || hello.schema != wire_schema())
      return refuse(window, ExitCode::failure,
                    "the session is one of " + options_.version + ", the window one of " + hello.version +
                        ", or their sources differ; install the same version on both machines");
    const bool is_followed = shown_ && shown_->line.is_open() && line_clock() - shown_->heard_at < silence;
    if (is_followed && shown_->client != hello.client)
      return refuse(window, ExitCode::failure,
                    "another window shows this session; close it first, or choose another --session");
    open(hello);
    if (shown_) refuse(*shown_, ExitCode::failure, "another window shows this session now");
    window.client = hello.client;
    shown_ = &window;
    window.answered = received_;
    pieces_.clear();
    sent_bytes_ = 0;
    traced_ = nullptr;
    window.line.send(
        encode(Welcome{received_, orders_[hello.client], is_new_, trains_on_, options_.machine}, window.parts));
  }

  void open(const Hello& hello) {
    enter(hello.folder);
    if (session_ && !hello.opens) return;
    if (session_) {
      const nlohmann::json recipe = parse_json(hello.recipe, "the window's recipe");
      return give(
          {"load", hello.path.empty() ? nlohmann::json{{"recipe", recipe}} : nlohmann::json{{"path", hello.path}}});
    }
    SessionOptions options = options_.session;
    options.device = hello.device;
    options.threads = hello.threads;
    options.first_command = received_ = hello.sent;
    options.on_publish = [this] { ::eventfd_write(published_.get(), 1); };
    if (!hello.path.empty())
      options.opened = open_aside(hello.path, [path = hello.path] { return open_saved_run(path, newest_state); });
    session_ = std::make_unique<Session>(hello.recipe, options);
    session_->request_analyses(0);  // until the window wishes some
    is_new_ = true;
  }

  void give(Command command) {
    ++received_;
    session_->send(std::move(command));
  }

  /// A snapshot for the window's machine is first written where others of the session would be.
  void give_save() {
    const std::string name = ".sent_" + std::to_string(::getpid()) + "_" + std::to_string(received_) + ".safetensors";
    saves_.emplace_back(received_ + 1, options_.session.save_folder / name);
    give({"save", {{"path", saves_.back().second.string()}, {"quiet", true}}});
  }

  void take_saved() {
    if (saves_.empty() || session_->taken_commands() < saves_.front().first) return;
    const auto [number, path] = saves_.front();
    saves_.pop_front();
    pieces_.push_back({number, std::filesystem::exists(path) ? read_file(path, max_snapshot_bytes) : "", true});
    std::filesystem::remove(path);
  }

  /// Between observations.
  void send_piece(ServedWindow& window) {
    const double now = line_clock();
    if (pieces_.empty() || !window.line.is_idle() || (window.is_slow && (owes_answer(window) || now < next_piece_at_)))
      return;
    const Piece& rest = pieces_.front();
    const std::size_t size = window.is_slow ? slow_piece_bytes : piece_bytes;  // what follows waits for it
    const Piece piece{rest.save, rest.bytes.substr(sent_bytes_, size), sent_bytes_ + size >= rest.bytes.size()};
    window.line.send(encode(piece, window.parts));
    next_piece_at_ = now + static_cast<double>(piece.bytes.size()) / slow_rate;
    sent_bytes_ = piece.is_last ? 0 : sent_bytes_ + size;
    if (!piece.is_last) return;
    pieces_.pop_front();
    if (piece.save == 0) window.revision = ~0ULL;  // shows it also at rest
  }

  /// Without the trace, which is a thousand times as large as the rest and goes by and by.
  std::shared_ptr<const Observation> without_bulk(const Observation& now) {
    if (pieces_.empty() && now.trace != traced_) {
      traced_ = now.trace;
      SentParts none;
      pieces_.push_back({0, encode(Bulk{now.opened, now.trace, now.token_weights}, none), true});
    }
    const auto slim = std::make_shared<Observation>(now);
    slim->trace = nullptr;
    slim->token_weights = nullptr;
    if (!pieces_.empty() || now.trace != traced_) slim->current &= ~set_of(Analysis::trace);
    return slim;
  }

  void take(ServedWindow& window, const Order& order) {
    if (&window != shown_) return;
    orders_[window.client] = order.number;
    saves_here(order.command) ? give_save() : give(order.command);
    pass_over(window);
  }

  /// What waits to be shown is older than the command: the session makes another observation, with its effect.
  void pass_over(ServedWindow& window) {
    const std::uint64_t revision = session_->revision();
    if (session_->taken_commands() >= received_) return;  // it has come
    window.revision = revision;
    session_->observe();
  }

  void take(ServedWindow& window, const Wish& wish) {
    if (&window != shown_) return;
    is_new_ = false;
    window.is_slow = wish.is_slow;
    window.credit = std::min(window.credit + static_cast<int>(std::min<std::uint32_t>(wish.observations, most_credit)),
                             most_credit);
    session_->request_analyses(wish.analyses);
    if (wish.observations > 0) return;
    Pong pong{wish.sent_at, wish.beginning};
    if (!pong.beginning.empty()) pong.paths = paths_beginning_with(pong.beginning);
    window.line.send(encode(pong, window.parts));
  }

  /// The newest observation, once all before has been written. One that shows a command does not wait for the wish,
  /// which a long line may be carrying still.
  void show(ServedWindow& window) {
    const double now = line_clock();
    const std::uint64_t revision = session_->revision(), taken = session_->taken_commands();
    const bool is_answer = taken > window.answered;
    if (window.revision == revision || !window.line.is_idle()) return;
    if (window.credit <= (is_answer ? -most_owed : 0)) return;
    if (window.is_slow && !is_answer && owes_answer(window)) return pass_over(window);
    if (window.is_slow && !is_answer && now - window.shown_at < slow_interval) return;
    --window.credit;
    window.shown_at = now;
    window.revision = revision;
    window.answered = taken;
    const std::shared_ptr<const Observation> newest = session_->observe();
    window.line.send(encode(Sight{taken, window.is_slow ? without_bulk(*newest) : newest}, window.parts));
  }

  ServerOptions options_;
  Descriptor published_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};  // signalled with each observation
  std::unique_ptr<Session> session_;
  std::uint64_t received_ = 0;                                         // commands
  std::map<std::uint64_t, std::uint64_t> orders_;                      // the last one of each window, by client
  bool is_new_ = false;                                                // no window knows yet that the session has begun
  bool trains_on_ = false;                                             // without a window
  std::deque<std::pair<std::uint64_t, std::filesystem::path>> saves_;  // for the window: with their commands
  std::deque<Piece> pieces_;                                           // whole, the first one sent in part
  std::size_t sent_bytes_ = 0;                                         // of the first
  double next_piece_at_ = 0;
  std::shared_ptr<const Trace> traced_;  // the last one that went or goes by pieces
  std::list<ServedWindow> windows_;
  ServedWindow* shown_ = nullptr;
};

}  // namespace

void serve_window(const ServerOptions& options, Descriptor in, Descriptor out) {
  SessionServer server(options);
  server.add(std::move(in), std::move(out));
  server.run();
}

void serve_windows(const ServerOptions& options, const std::string& name) {
  SessionSocket socket(name);
  SessionServer(options).run(&socket);
}

}  // namespace afterglow
