// The boundary between window thread and worker thread: commands and requests go in, observations come out. Each method
// names the thread that calls it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/engine/observation/analyses.h"
#include "core/engine/observation/observation.h"
#include "core/recipe/command.h"

namespace afterglow {

class Mailbox {
 public:
  struct Delivery {
    bool is_over = false;  ///< the session ends
    AnalysisSet requested = 0;
    std::deque<Command> commands;
  };

  explicit Mailbox(std::function<void()> on_publish = {}) : on_publish_(std::move(on_publish)) {}
  /// Window: queues a command; never blocks.
  void send(Command command);
  /// Window: sets the analyses that it shows from now on.
  void request(AnalysisSet analyses);
  /// Window: returns the newest observation, never null. The worker makes the next one only after this call.
  std::shared_ptr<const Observation> take();
  /// Window: changes with every new observation.
  std::uint64_t revision() const { return revision_; }
  /// Window: the number of commands whose effects the newest observation shows.
  std::uint64_t taken_commands() const { return taken_commands_; }
  /// Window: the number of steps that the worker has trained, observed or not.
  std::int64_t trained_steps() const { return trained_steps_; }
  /// Window: wakes the worker for the last time.
  void close();

  /// Worker: takes what has arrived since the last call; if nothing has, waits for it, but no longer than `most`.
  Delivery receive(std::chrono::milliseconds most);
  /// Worker: replaces the last observation; `commands` were carried out before it.
  void publish(std::shared_ptr<const Observation> fresh, std::uint64_t commands);
  /// Worker: whether the window has taken the last observation.
  bool is_taken() const { return is_taken_; }
  /// Worker: whether `receive` would return something.
  bool has_mail() const {
    const std::lock_guard lock(mutex_);
    return has_come();
  }
  /// Worker: counts a trained step.
  void count_step() { ++trained_steps_; }

 private:
  // Requires `mutex_`.
  bool has_come() const { return is_closed_ || !inbox_.empty() || requested_ != delivered_; }

  std::function<void()> on_publish_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Command> inbox_;
  AnalysisSet requested_ = all_analyses, delivered_ = all_analyses;
  bool is_closed_ = false;
  std::mutex slot_mutex_;
  std::shared_ptr<const Observation> slot_ = std::make_shared<const Observation>();
  std::atomic<std::uint64_t> revision_{0}, taken_commands_{0};
  std::atomic<std::int64_t> trained_steps_{0};
  std::atomic<bool> is_taken_{true};
};

}  // namespace afterglow
