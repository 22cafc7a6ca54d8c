// A training that the window shows: a thread of its own owns model, trainer and back end, takes commands between steps
// and publishes observations at display rate. The window and `bench` use the same class.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/engine/session/observation_source.h"
#include "core/engine/training/saved/saved_run.h"

namespace afterglow {

struct SessionOptions {
  std::string device = "auto";  ///< auto | cpu | cuda
  int threads = 0;              ///< CPU threads, 0: all cores
  bool start_running = true;
  double publish_hz = 60.0;
  std::function<void()> on_publish{};  ///< called on the session's thread after each new observation
  std::uint64_t first_command = 0;     ///< commands counted before the session began
  /// Creates the back end of this name; tests pass their own.
  std::function<std::unique_ptr<Backend>(const std::string& device, int threads)> make_backend =
      afterglow::make_backend;
  /// Models with at least this many parameters are analysed on a second stream during training if the back end has one;
  /// analyses of smaller models are too short for that.
  std::int64_t side_stream_from = 8'000'000;
  OpeningRun opened{};  ///< the session starts with it, instead of the recipe, waits for it and empties it
  /// Receives the last run if some seconds of training went into it; `make` may throw.
  std::function<void(const std::function<Snapshot()>& make)> at_end{};
  std::filesystem::path save_folder{};  ///< where `save` writes without a path; empty: the working folder
};

/// It builds its model on its own thread: until then observations are empty and commands wait.
class Session final : public ObservationSource {
 public:
  /// `recipe` is JSON text, as a preset or an exported figure carries it. Starts at once.
  Session(const std::string& recipe, const SessionOptions& options);
  ~Session() override;

  void send(Command command) override;
  std::shared_ptr<const Observation> observe() const override;
  std::uint64_t revision() const override;
  std::uint64_t taken_commands() const override;
  void request_analyses(AnalysisSet analyses) override;
  /// The number of steps trained here, observed or not.
  std::int64_t trained_steps() const;

 private:
  struct Thread;
  std::unique_ptr<Thread> thread_;
};

/// Throws the error that stopped the training, with step and exit code; returns if it goes on.
void require_training(const Observation& now);

}  // namespace afterglow
