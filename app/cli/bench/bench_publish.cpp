// Measures a session with and without a reader in turns.
#include "app/cli/bench/bench_publish.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "app/cli/interruption.h"
#include "core/engine/session/soak.h"
#include "core/io/error.h"

namespace afterglow {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds frame{16}, poll_interval{1};
constexpr std::chrono::milliseconds drain_time{100};  // until the last analysis for the former reader has ended
constexpr std::chrono::seconds max_wait{60};          // for one step
constexpr std::int64_t min_steps = 20;                // of one measurement

std::string without_end(Recipe recipe) {
  recipe.training.steps = endless_steps;
  recipe.training.evaluate_every = 0;
  return to_json(recipe).dump();
}

}  // namespace

PublishBench::PublishBench(Recipe recipe, AnalysisSet analyses, const SessionOptions& options)
    : session_(without_end(std::move(recipe)), options) {
  SoakTour tour;
  for (;;) {
    const std::shared_ptr<const Observation> now = session_.observe();
    require_training(*now);
    if (tour.advance(session_, *now)) break;
    std::this_thread::sleep_for(frame);
  }
  session_.request_analyses(analyses);
}

/// Time from the end of one step to the end of a later one.
PublishBench::Stretch PublishBench::stretch(double seconds) {
  const auto next_step = [&](std::int64_t step) {
    const Clock::time_point start = Clock::now();
    while (session_.trained_steps() < step) {
      if (Clock::now() - start > max_wait) throw Error(ExitCode::failure, "the training no longer continues");
      std::this_thread::sleep_for(poll_interval);
    }
    return Clock::now();
  };
  const std::int64_t first = session_.trained_steps() + 1;
  const Clock::time_point start = next_step(first);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const std::int64_t last = std::max(first + min_steps, session_.trained_steps() + 1);
  const Clock::time_point end = next_step(last);
  return {std::chrono::duration<double>(end - start).count(), last - first};
}

PublishBench::Stretch PublishBench::watched(double seconds) {
  const std::jthread reader([&](const std::stop_token& over) {
    while (!over.stop_requested()) {
      session_.observe();
      std::this_thread::sleep_for(frame);
    }
  });
  // Analyses that became due without a reader run first and would count twice.
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return stretch(seconds);
}

PublishBench::Stretch PublishBench::alone(double seconds) {
  Interruption::check("while the cost of publishing was measured");
  require_training(*session_.observe());
  std::this_thread::sleep_for(drain_time);
  return stretch(seconds);
}

}  // namespace afterglow
