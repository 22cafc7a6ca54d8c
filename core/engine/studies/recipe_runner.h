// The one runner of recipes, for tables and sweeps: several runs side by side, in this process and in others that work
// in the same folder. What is finished there is not trained again, and what a killed process leaves stops no
// other.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <span>

#include "core/engine/studies/recipe_run.h"
#include "core/engine/training/saved/save_schedule.h"
#include "core/io/claim.h"

namespace afterglow {

/// What a runner asks and tells; from any thread, one call at a time but for the first.
struct RunnerHooks {
  std::function<bool()> must_stop;
  std::function<void(double share, const std::string& run)> progress;
  std::function<void(const std::string& text)> message;
};

/// Opens a back end of its own at each call, from any thread.
using BackendOpener = std::function<std::unique_ptr<Backend>()>;

class RecipeRunner {
 public:
  /// `saves`: how much of a run a killed process may cost.
  RecipeRunner(const Inquiry& inquiry, std::vector<PlannedRun> runs, const ResultFolder& folder, SaveInterval saves,
               RunnerHooks hooks);

  /// How many runs have no result yet.
  std::size_t missing() const { return missing_.size(); }
  /// Trains what has no result yet: one thread with the back end `first`, and one for each of `others`, whose back end
  /// it opens itself while the first runs go on already. Together they lie on so many devices in turns. Waits for runs
  /// that other processes have claimed. Each run has the bits that it has alone. Throws what the first run that failed
  /// threw. Asked to stop, it keeps a snapshot of each run that is on its way, from which the next start goes on, and
  /// throws Error(interrupted).
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
  std::set<std::size_t> missing_;  // without a result, as far as is known
  std::set<std::size_t> taken_;    // of these the ones that threads of this process train
  std::int64_t total_steps_ = 0;
  std::atomic<std::int64_t> steps_left_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace afterglow
