// Runs one analysis after the other on one run.
#include "app/cli/bench/bench_looks.h"

#include <algorithm>
#include <chrono>

namespace afterglow {

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
