// Starts several runs of one preset and waits for all; runs one analysis after the other on one run.
#include "app/cli/bench/bench_runs.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include "core/backend/parallel.h"
#include "core/engine/training/saved/saved_run.h"

namespace afterglow {

namespace {
constexpr int warm_ups = 4;  // until the step is recorded as a graph
}

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
  const auto start = std::chrono::steady_clock::now();
  together.arrive_and_wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

AnalysisBench::AnalysisBench(const Recipe& recipe, Backend& backend) : run_({recipe, std::nullopt}, backend) {
  run_.limit_work();
  for (int step = 0; step < 2; ++step) run_.train_step();
}

void AnalysisBench::run(Analysis analysis) {
  using Clock = std::chrono::steady_clock;
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

}  // namespace afterglow
