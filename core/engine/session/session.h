// A training that the window watches: a thread of its own owns model, trainer and back end, takes commands between
// steps and publishes observations at display rate. The window and `soak` use the same session.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/engine/observation/analyses.h"
#include "core/engine/observation/observation.h"
#include "core/engine/recipe/command.h"
#include "core/engine/training/saved/saved_run.h"

namespace afterglow {

struct SessionOptions {
  std::string device = "auto";  ///< auto | cpu | cuda
  int threads = 0;              ///< CPU threads, 0: all cores
  bool start_running = true;
  double publish_hz = 60.0;
  /// Makes the back end of a name (`make_backend`); tests give their own.
  std::function<std::unique_ptr<Backend>(const std::string& device, int threads)> make_backend =
      afterglow::make_backend;
  /// From so many weights on, and where the back end can, looks are made beside the training, which goes on meanwhile;
  /// those at smaller models are over before that would pay.
  std::int64_t side_stream_from = 8'000'000;
  std::filesystem::path open_file{};  ///< opened at the start in the place of the recipe; empty: none
  /// Takes the run with which a session ends, where some seconds of training went into it; `make` may throw.
  std::function<void(const std::function<Snapshot()>& make)> at_end{};
  std::filesystem::path save_folder{};  ///< where `save` writes without a path; empty: the working folder
};

class Session {
 public:
  /// `recipe` is JSON text (a preset's content, or what an exported figure carries). Starts at once.
  Session(const std::string& recipe, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Queues a command for the worker; never waits.
  void send(Command command);
  /// The newest observation; never null. The worker makes another one when this one has been taken, so that a session
  /// whose observations are not taken trains as fast as one without a window.
  std::shared_ptr<const Observation> observe() const;
  /// Changes whenever a new observation is there.
  std::uint64_t revision() const;
  /// Of how many commands an observation that is taken from now on shows what they did.
  std::uint64_t taken_commands() const;
  /// How many steps have been trained here, observed or not.
  std::int64_t trained_steps() const;
  /// The analyses that the worker keeps up to date from now on; until the first call, all. The results of the others
  /// stay in the observations as they were found last.
  void request_analyses(AnalysisSet analyses);

 private:
  struct Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace afterglow
