// The runner of recipes for tables and sweeps: several runs in parallel, in this process and in others that share the
// folder. It trains only runs without a result, and leftovers of killed processes block no other.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <span>

#include "core/engine/sweeps/recipe_run.h"
#include "core/engine/training/saved/save_schedule.h"
#include "core/io/claim.h"

namespace afterglow {

/// Callbacks of a runner; called from any thread, one at a time except the first.
struct RunnerHooks {
  std::function<bool()> must_stop;
  std::function<void(double share, const std::string& run)> progress;
  std::function<void(const std::string& text)> message;
};

/// Creates a new back end at each call, from any thread.
using BackendOpener = std::function<std::unique_ptr<Backend>()>;

class RecipeRunner {
 public:
  /// `saves`: how much training a killed process may cost.
  RecipeRunner(const Inquiry& inquiry, std::vector<PlannedRun> runs, const ResultFolder& folder, SaveInterval saves,
               RunnerHooks hooks);

  /// The number of runs without a result.
  std::size_t missing() const { return missing_.size(); }
  /// Trains all runs without a result: one thread with the back end `first`, and one for each of `others`, which
  /// creates its back end while the first runs train. Waits for runs that other processes have claimed. Each run has
  /// the same bits as alone. Rethrows the error of the first run that failed. When asked to stop, it saves a snapshot
  /// of each run in progress, from which the next start continues, and throws Error(interrupted).
  void train(Backend& first, std::span<const BackendOpener> others, std::size_t devices = 1);

 private:
  struct Job {
    std::size_t index;
    Claim claim;
  };
  void work(Backend& backend);
  void stop_all_where_it_fails(const std::function<void()>& part);
  std::optional<Job> next_job(bool& others_work);
  bool train_run(const PlannedRun& planned, Backend& backend);
  void keep(const PlannedRun& planned, const Snapshot& snapshot);
  bool must_stop() const { return is_over_ || hooks_.must_stop(); }

  const Inquiry* inquiry_;
  std::vector<PlannedRun> runs_;
  const ResultFolder* folder_;
  SaveInterval saves_;
  RunnerHooks hooks_;
  std::set<std::size_t> missing_;  // without a known result
  std::set<std::size_t> taken_;    // those of them that this process trains
  std::int64_t total_steps_ = 0;
  std::atomic<std::int64_t> steps_left_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace afterglow
