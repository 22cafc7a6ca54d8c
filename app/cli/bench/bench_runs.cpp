// Starts several runs of one preset and waits for all; runs one analysis after the other on one run; measures a session
// with and without a reader in turns.
#include "app/cli/bench/bench_runs.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include "app/cli/interruption.h"
#include "core/backend/parallel.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int warm_ups = 4;  // until the step is recorded as a graph

/// Of PublishBench.
constexpr std::chrono::milliseconds frame{16}, poll_interval{1};
constexpr std::chrono::milliseconds drain_time{100};  // until the last analysis for the former reader has ended
constexpr std::chrono::seconds max_wait{60};          // for one step
constexpr std::int64_t min_steps = 20;                // of one measurement

std::string without_end(Recipe recipe) {
  recipe.training.steps = 100'000'000;  // until it is stopped
  recipe.training.evaluate_every = 0;
  return to_json(recipe).dump();
}

}  // namespace

RunsBench::RunsBench(const Recipe& recipe, int runs, const std::string& device, int threads)
    : threads_(threads > 0 ? threads : std::min(runs, processors())) {
  for (int i = 0; i < runs; ++i) {
    Run run{make_backend(device, 1), nullptr};
    Recipe own = recipe;
    own.seed += static_cast<std::uint64_t>(i);
    own.training.evaluate_every = 0;
    run.trainer = std::make_unique<Trainer>(own, *run.backend);
    run.backend->expect_side_by_side(static_cast<std::size_t>(runs));
    for (int step = 0; step < warm_ups; ++step) run.trainer->step();
    runs_.push_back(std::move(run));
  }
}

RunsBench::~RunsBench() { runs_.front().backend->expect_side_by_side(1); }

double RunsBench::seconds(int steps) {
  std::barrier together(threads_ + 1);
  std::vector<std::jthread> threads;
  for (int t = 0; t < threads_; ++t) {
    threads.emplace_back([&, t] {
      together.arrive_and_wait();
      for (int step = 0; step < steps; ++step) {
        for (std::size_t i = t; i < runs_.size(); i += threads_) runs_[i].trainer->begin_step();
        for (std::size_t i = t; i < runs_.size(); i += threads_) runs_[i].trainer->prepare_batch();
        for (std::size_t i = t; i < runs_.size(); i += threads_) runs_[i].trainer->end_step();
      }
      together.arrive_and_wait();
    });
  }
  together.arrive_and_wait();
  const Clock::time_point start = Clock::now();
  together.arrive_and_wait();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

AnalysisBench::AnalysisBench(const Recipe& recipe, Backend& backend) : run_({recipe, std::nullopt}, backend) {
  run_.limit_work();
  for (int step = 0; step < 2; ++step) run_.train_step();
}

void AnalysisBench::run(Analysis analysis) {
  pieces_ = {};
  run_.forget_results();
  Clock::time_point from = Clock::now();
  run_.bring_up_to_date(set_of(analysis), [&] {
    const Clock::time_point now = Clock::now();
    pieces_.longest = std::max(pieces_.longest, std::chrono::duration<double>(now - from).count());
    ++pieces_.count;
    from = now;
  });
}

PublishBench::PublishBench(Recipe recipe, AnalysisSet analyses, const SessionOptions& options)
    : session_(without_end(std::move(recipe)), options) {
  observe_until([](const Observation& now) { return now.step >= min_steps; });
  session_.send({"pause"});
  observe_until([](const Observation& now) { return !now.running && (now.current & all_analyses) == all_analyses; });
  session_.send({"run"});
  session_.request_analyses(analyses);
}

void PublishBench::observe_until(bool (*is_enough)(const Observation&)) {
  for (;;) {
    const std::shared_ptr<const Observation> now = session_.observe();
    require_training(*now);
    if (is_enough(*now)) return;
    std::this_thread::sleep_for(frame);
  }
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
