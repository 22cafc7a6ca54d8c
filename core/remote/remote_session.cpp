// The thread of the line sends the window's commands at once, and asks for observations as the window takes them.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "core/io/atomic_file.h"
#include "core/io/child_process.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"
#include "core/io/wording.h"
#include "core/remote/framed_line.h"
#include "core/remote/remote.h"

namespace afterglow {
namespace {

constexpr std::uint32_t most_ahead = 2;  // observations in flight, which also spares a slow line
constexpr double ping_interval = 1;      // seconds; also the next three
constexpr double longest_silence = 10, longest_login = 120, longest_goodbye = 2;
constexpr int shortest_pause = 200, longest_pause = 8000;  // milliseconds between two attempts to connect
constexpr std::size_t most_complaint = 4096, most_paths = 200;
constexpr std::size_t max_bulk_bytes = std::size_t{256} << 20;
constexpr const char* lost_snapshot = "the snapshot did not come: the connection was lost; save again";
constexpr double short_trip = 0.02;  // seconds; of a longer one the line is slow

std::pair<Descriptor, Descriptor> new_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ExitCode::failure, "no more files can be opened; close some");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The program that connects, with its pipes.
class Connection {
 public:
  explicit Connection(const std::vector<std::string>& words) {
    auto [in, to] = new_pipe();
    auto [from, out] = new_pipe();
    auto [complaints, errors] = new_pipe();
    child_ =
        start_program(words, {{in.get(), STDIN_FILENO}, {out.get(), STDOUT_FILENO}, {errors.get(), STDERR_FILENO}});
    if (child_ < 0) throw Error(ExitCode::failure, "there is no program " + in_quotes(words.front()) + "; install it");
    complaints_ = std::move(complaints);
    ::fcntl(complaints_.get(), F_SETFL, O_NONBLOCK);
    line.emplace(std::move(from), std::move(to));
  }
  /// The program ends by itself when its input ends.
  ~Connection() {
    line.reset();
    for (const int signal : {0, SIGTERM, SIGKILL}) {
      ::kill(child_, signal);
      if (ends_well(child_, std::chrono::seconds(1))) return;
    }
  }

  /// Throws Error(failure) with its own words when it has ended; with advice where it may be missing.
  void require_open(bool may_be_missing) {
    char piece[512];
    for (ssize_t size = 0; (size = ::read(complaints_.get(), piece, sizeof piece)) > 0;)
      said_.append(piece, static_cast<std::size_t>(size));
    if (said_.size() > most_complaint) said_.erase(0, said_.size() - most_complaint);
    if (line->is_open()) return;
    std::string_view words = trimmed(said_).empty() ? trimmed(line->preamble()) : trimmed(said_);
    words = words.substr(words.find_last_of('\n') + 1);
    throw Error(
        ExitCode::failure,
        "no session answers" + (words.empty() ? "" : ": " + terminal_text(words)) +
            (may_be_missing ? "; the same version of afterglow must be there, on the PATH of a shell without a terminal"
                            : ""));
  }

  std::optional<FramedLine> line;
  ReceivedParts parts;

 private:
  pid_t child_ = -1;
  Descriptor complaints_;
  std::string said_;
};

class RemoteSession final : public ObservationSource {
 public:
  explicit RemoteSession(RemoteOptions options)
      : options_(std::move(options)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    std::random_device random;
    options_.hello.client = (std::uint64_t{random()} << 32) | random();
    options_.hello.schema = wire_schema();
    state_.host = options_.host;
    connect();
    options_.hello.opens = false;
    thread_ = std::thread([this] { run(); });
  }
  ~RemoteSession() override {
    is_closing_ = true;
    wake();
    thread_.join();
  }

  void send(Command command) override {
    const std::lock_guard lock(mutex_);
    queue(std::move(command));
    wake();
  }
  std::shared_ptr<const Observation> observe() const override {
    const std::lock_guard lock(mutex_);
    if (seen_ != revision_) {
      credit_ += static_cast<std::uint32_t>(revision_ - seen_);
      seen_ = revision_;
      wake();
    }
    return newest_;
  }
  std::uint64_t revision() const override { return revision_; }
  std::uint64_t taken_commands() const override { return taken_; }
  void request_analyses(AnalysisSet analyses) override {
    if (analyses_.exchange(analyses) != analyses) wake();
  }
  LineState line() const override {
    const std::lock_guard lock(mutex_);
    LineState now = state_;
    std::set<std::string> names;
    for (const Order& order : orders_) names.insert(order.command.name);
    if (!now.problem.empty() && !names.empty())
      now.problem +=
          (is_refused_ ? " Perhaps not carried out: " : " Not carried out yet: ") + joined(names, ", ") + ".";
    return now;
  }
  std::vector<std::string> paths(const std::string& beginning) override {
    const std::lock_guard lock(mutex_);
    sought_ = beginning.empty() ? "./" : beginning;  // an empty one asks for none
    return found_.beginning == sought_ ? found_.paths : std::vector<std::string>();
  }

 private:
  void wake() const { ::eventfd_write(wake_.get(), 1); }

  void queue(Command command) { orders_.push_back({std::move(command), ++ordered_}); }  // requires `mutex_`

  void wait(int milliseconds) const {
    std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}};
    if (connection_) connection_->line->wait_for(waits);
    ::poll(waits.data(), waits.size(), milliseconds);
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
  }

  /// Starts the program and waits for the session's welcome.
  void connect() {
    connection_.emplace(options_.words);
    options_.hello.sent = sent_;
    connection_->line->send(encode(options_.hello));
    is_welcome_ = false;
    heard_at_ = line_clock();
    while (!is_welcome_) {
      wait(100);
      if (options_.is_over() || is_closing_) throw Error(ExitCode::interrupted, "interrupted");
      take_messages(longest_login);
    }
  }

  void run() {
    for (int pause = 0; !is_closing_;) {
      try {
        if (!connection_) connect();
        talk();
      } catch (const std::exception& error) {
        lose(error.what());
        while (is_refused_ && !is_closing_) wait(longest_pause);  // the session was stopped, or shows another window
        if (std::exchange(has_seen_, false)) pause = shortest_pause;
        for (int waited = 0; waited < pause && !is_closing_; waited += 100) wait(100);
        pause = std::clamp(2 * pause, 500, longest_pause);
      }
    }
  }

  /// A session that is still there goes on; one that was lost begins again where it was, unless it began with a file.
  void lose(const std::string& why) {
    connection_.reset();
    coming_.clear();
    bulk_ = {};
    const std::lock_guard lock(mutex_);
    sent_ -= std::exchange(in_flight_, 0U);
    if (!saves_.empty() && saves_.begin()->first <= sent_) state_.said = lost_snapshot;
    saves_.clear();
    state_.problem =
        is_refused_ ? "This window no longer follows the session: " + why + "."
                    : "The connection to " + options_.host + " is lost: " + why + ". Connecting again; " +
                          (trains_on_ ? "training there goes on meanwhile." : "a new session then repeats the steps.");
    state_.round_trip = state_.bytes_per_second = 0;
    if (newest_->recipe.empty() || newest_->oldest_step > 0 || newest_->folder) return;
    const bool is_repeating = newest_->rebuilds_to >= 0;  // for another window, too
    was_running_ = resumes_ || (!is_repeating && (newest_->running || asked_to_run_));
    if (!is_repeating) speed_limit_ = newest_->speed_limit;
    try {
      nlohmann::json recipe = parse_json(newest_->recipe, "the run's recipe");
      if (is_repeating) recipe["shown_step"] = newest_->rebuilds_to;
      options_.hello.recipe = recipe.dump();
      options_.hello.path.clear();
    } catch (const std::exception&) {  // of a broken session: it begins as before
    }
  }

  /// Until the window closes and its commands are sent; throws when the line is lost.
  void talk() {
    while (true) {
      send_orders();
      send_wishes(line_clock());
      take_messages(is_closing_ ? longest_goodbye : longest_silence);
      if (is_closing_ && connection_->line->is_idle()) return;
      wait(20);
    }
  }

  void send_orders() {
    const std::lock_guard lock(mutex_);
    for (; in_flight_ < orders_.size(); ++in_flight_) {
      Order order = orders_[in_flight_];
      ++sent_;
      if (saves_here(order.command)) {  // whose path is this machine's: the session does not learn it
        saves_[sent_] = order.command.value.value("path", "snapshot.safetensors");
        order.command.value = {{"at", "here"}};
      }
      connection_->line->send(encode(order));
    }
  }

  void send_wishes(double now) {
    FramedLine& line = *connection_->line;
    const std::lock_guard lock(mutex_);
    const Wish wish{std::exchange(credit_, 0), analyses_, now, "",
                    state_.round_trip == 0 || state_.round_trip > short_trip};
    if (wish.observations > 0 || std::exchange(told_, wish.analyses) != wish.analyses) line.send(encode(wish));
    if (now - pinged_at_ < ping_interval && told_sought_ == sought_) return;
    told_sought_ = sought_;
    line.send(encode(Wish{0, wish.analyses, now, sought_, wish.is_slow}));
    state_.bytes_per_second = static_cast<double>(line.bytes_received() - pinged_bytes_) / (now - pinged_at_);
    pinged_bytes_ = line.bytes_received();
    pinged_at_ = now;
  }

  void take_messages(double most_silence) {
    FramedLine& line = *connection_->line;
    line.move();
    for (std::optional<std::string> message; !is_closing_ && (message = line.receive());) {
      heard_at_ = line_clock();
      std::visit([this](const auto& answer) { take(answer); }, decode_answer(*message, connection_->parts));
    }
    connection_->require_open(revision_ == 0);
    if (line_clock() - heard_at_ > most_silence)
      throw Error(ExitCode::failure, "nothing comes from " + options_.host + " any more");
  }

  /// What the session has not received is sent again. What it has is kept until an observation shows its effect.
  void take(const Welcome& welcome) {
    is_welcome_ = true;
    const std::lock_guard lock(mutex_);
    state_.machine = welcome.machine;
    trains_on_ = welcome.trains_on;
    if (welcome.is_new && revision_ > 0)
      state_.said =
          std::string("The session there had ended. A new one ") +
          (newest_->oldest_step > 0 || newest_->folder ? "begins as it did; steps after that are lost."
                                                       : "repeats the " + std::to_string(newest_->step) + " steps.");
    else if (welcome.received < sent_)
      state_.said = "The session there had ended. Another window has begun the one that is shown.";
    resumes_ = was_running_ && (welcome.is_new || resumes_);  // the line may be lost again before it has
    for (; in_flight_ < orders_.size() && orders_[in_flight_].number <= welcome.last_order; ++in_flight_) {
      if (saves_here(orders_[in_flight_].command)) state_.said = lost_snapshot;
    }
    sent_ = welcome.received;
    pinged_bytes_ = 0;
    pinged_at_ = 0;
    credit_ = most_ahead;
    seen_ = revision_;
    if (revision_ == 0) taken_ = welcome.received;
    state_.problem.clear();
  }

  void take(const Sight& sight) {
    const std::lock_guard lock(mutex_);
    for (; in_flight_ > 0 && sent_ - in_flight_ < sight.taken; --in_flight_) orders_.pop_front();
    if (!sight.now) return;
    newest_ = with_bulk(sight.now);
    has_seen_ = true;
    if (resumes_ && newest_->rebuilds_to < 0 && !newest_->recipe.empty()) {
      if (speed_limit_ > 0) queue({"speed", {{"to", speed_limit_}}});
      if (!newest_->running) queue({"run"});
      asked_to_run_ = !newest_->running;
      resumes_ = false;
    }
    if (newest_->running) asked_to_run_ = false;
    taken_ = sight.taken;
    ++revision_;
  }

  std::shared_ptr<const Observation> with_bulk(const std::shared_ptr<const Observation>& now) const {
    if (now->trace || !bulk_.trace || bulk_.opened != now->opened) return now;
    const auto whole = std::make_shared<Observation>(*now);
    whole->trace = bulk_.trace;
    whole->token_weights = bulk_.token_weights;
    return whole;
  }

  void take(const Pong& pong) {
    const double measured = line_clock() - pong.sent_at;
    const std::lock_guard lock(mutex_);
    found_ = pong;
    found_.paths.resize(std::min(found_.paths.size(), most_paths));
    state_.round_trip = state_.round_trip > 0 ? 0.7 * state_.round_trip + 0.3 * measured : measured;
  }

  void take(const Piece& piece) {
    if (piece.save != 0 && !saves_.contains(piece.save)) return;  // wanted by a line before
    std::string& bytes = coming_[piece.save];
    bytes += piece.bytes;
    if (bytes.size() > (piece.save != 0 ? max_snapshot_bytes : max_bulk_bytes))
      throw BadInput("the session sends more than was asked for");
    if (!piece.is_last) return;
    const std::string whole = std::exchange(bytes, {});
    coming_.erase(piece.save);
    if (const auto save = saves_.extract(piece.save)) return keep_save(save.mapped(), whole);
    ReceivedParts none;
    if (piece.save == 0) bulk_ = std::get<Bulk>(decode_answer(whole, none));
  }
  void take(const Bulk&) { throw BadInput("the session sends its largest parts at once"); }

  void keep_save(const std::filesystem::path& path, const std::string& bytes) {
    std::string said = "the snapshot was not made; the session's notes say why";
    try {
      if (!bytes.empty()) said = "snapshot written: " + write_file_atomically(path, bytes, Existing::keep).string();
    } catch (const Error& error) {
      said = error.what();
    }
    const std::lock_guard lock(mutex_);
    state_.said = said;
  }

  void take(const Refusal& refusal) {
    const std::lock_guard lock(mutex_);
    is_refused_ = refusal.is_final;
    const int code = std::clamp(refusal.code, 1, static_cast<int>(ExitCode::check_failed));
    throw Error(static_cast<ExitCode>(code), terminal_text(refusal.sentence));
  }

  RemoteOptions options_;
  Descriptor wake_;
  std::atomic<bool> is_closing_{false};
  std::atomic<std::uint64_t> revision_{0}, taken_{0};
  std::atomic<AnalysisSet> analyses_{0};  // all would keep a slow line from the first picture

  mutable std::mutex mutex_;   // of what both threads use, up to the next comment
  std::deque<Order> orders_;   // until an observation shows their effects
  std::size_t in_flight_ = 0;  // the first of them: sent on this line, or received on one before
  std::uint64_t ordered_ = 0;  // number of the newest one
  bool is_refused_ = false;    // the session was stopped, or shows another window
  std::shared_ptr<const Observation> newest_ = std::make_shared<const Observation>();
  mutable std::uint64_t seen_ = 0;    // revision that the window has taken
  mutable std::uint32_t credit_ = 0;  // observations that the session may send
  LineState state_;
  std::string sought_, told_sought_;  // beginning of paths of the far machine: wanted, and asked for
  Pong found_;

  // Of the thread alone.
  std::optional<Connection> connection_;
  std::map<std::uint64_t, std::filesystem::path> saves_;  // of this machine, by the numbers of their commands
  std::map<std::uint64_t, std::string> coming_;           // the first pieces of them, and of a Bulk
  Bulk bulk_;
  std::uint64_t sent_ = 0, pinged_bytes_ = 0;
  AnalysisSet told_ = 0;  // the analyses that the session knows of
  double pinged_at_ = 0, heard_at_ = 0;
  double speed_limit_ = 0;                      // of the session before, which no recipe has
  bool is_welcome_ = false, has_seen_ = false;  // an observation of this line
  bool was_running_ = false, resumes_ = false;  // the session before; this one, when it has repeated that one's steps
  bool asked_to_run_ = false;                   // and has not been seen running since
  bool trains_on_ = false;                      // the session outlives the line
  std::thread thread_;
};

}  // namespace

std::unique_ptr<ObservationSource> connect_to_remote(RemoteOptions options) {
  return std::make_unique<RemoteSession>(std::move(options));
}

}  // namespace afterglow
