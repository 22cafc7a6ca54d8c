// The boundary between the window's thread and the worker's: commands and requests go in, observations come out. Each
// method says whose it is.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "core/engine/observation/analyses.h"
#include "core/engine/observation/observation.h"
#include "core/engine/recipe/command.h"

namespace afterglow {

class Mailbox {
 public:
  /// How long the worker may wait for something to come.
  enum class Wait {
    none,                  ///< it has work
    a_while,               ///< nothing now, but an observation falls due: some milliseconds
    until_something_comes  ///< a command, another request, or the end
  };
  struct Delivery {
    bool is_over = false;  ///< the session ends
    AnalysisSet requested = 0;
    std::deque<Command> commands;
  };

  /// Window: queues a command; never waits.
  void send(Command command);
  /// Window: the analyses that it shows from now on.
  void request(AnalysisSet analyses);
  /// Window: the newest observation, never null. The worker makes another one when this one has been taken.
  std::shared_ptr<const Observation> take();
  /// Window: changes whenever a new observation is there.
  std::uint64_t revision() const { return revision_; }
  /// Window: of how many commands the newest observation shows what they did.
  std::uint64_t taken_commands() const { return taken_commands_; }
  /// Window: how many steps the worker has trained, whether or not they have been observed.
  std::int64_t trained_steps() const { return trained_steps_; }
  /// Window: wakes the worker for the last time.
  void close();

  /// Worker: what has come since the last time.
  Delivery receive(Wait wait);
  /// Worker: puts a new observation into the place of the last one; so many commands were carried out before it.
  void publish(std::shared_ptr<const Observation> fresh, std::uint64_t commands);
  /// Worker: whether the window has taken the last one, so that it can see another.
  bool is_taken() const { return is_taken_; }
  /// Worker: whether something is there for `receive`.
  bool has_mail() const;
  /// Worker: a step has been trained.
  void count_step() { ++trained_steps_; }

 private:
  bool has_come() const;  // under `mutex_`

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
