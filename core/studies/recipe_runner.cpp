// Which run a thread takes next, and how it ends.
#include "core/studies/recipe_runner.h"

#include <chrono>
#include <thread>

#include "core/io/error.h"

namespace afterglow {
namespace {
constexpr std::chrono::milliseconds poll_interval{200};  // at runs that other processes have claimed
}

RecipeRunner::RecipeRunner(const Inquiry& inquiry, std::vector<PlannedRun> runs, const ResultFolder& folder,
                           SaveInterval saves, RunnerHooks hooks)
    : inquiry_(&inquiry), runs_(std::move(runs)), folder_(&folder), saves_(saves), hooks_(std::move(hooks)) {
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (folder.read(runs_[i])) {
      folder.tidy(runs_[i]);
      continue;
    }
    missing_.insert(i);
    total_steps_ += runs_[i].recipe.training.steps;
  }
  steps_left_ = total_steps_;
}

void RecipeRunner::train(Backend& first, std::span<const BackendOpener> others, std::size_t devices) {
  const std::size_t side_by_side = std::min(others.size() + 1, missing_.size());
  const std::size_t on_a_device = (side_by_side + devices - 1) / devices;
  std::vector<std::unique_ptr<Backend>> opened(others.size());
  const auto open_and_work = [&](std::size_t i) {
    if (must_stop()) return;
    opened[i] = others[i]();
    opened[i]->expect_side_by_side(on_a_device);
    work(*opened[i]);
  };
  first.expect_side_by_side(on_a_device);
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 0; i + 1 < side_by_side; ++i)
      threads.emplace_back([&, i] { stop_all_where_it_fails([&] { open_and_work(i); }); });
  } catch (const std::exception&) {
    // The system has no more threads or memory; the existing threads share the runs.
  }
  stop_all_where_it_fails([&] { work(first); });
  threads.clear();  // joins
  for (const std::unique_ptr<Backend>& backend : opened) {
    if (backend) backend->expect_side_by_side(1);
  }
  first.expect_side_by_side(1);
  if (failure_) std::rethrow_exception(failure_);
  if (!missing_.empty())
    throw Error(ExitCode::interrupted, "interrupted, ", missing_.size(), " of ", runs_.size(),
                " runs are missing; run the same command again, it goes on where it was");
}

void RecipeRunner::stop_all_where_it_fails(const std::function<void()>& part) {
  try {
    part();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    is_over_ = true;
  }
}

void RecipeRunner::work(Backend& backend) {
  while (!must_stop()) {
    bool others_work = false;
    const std::optional<Job> job = next_job(others_work);
    if (job) {
      const bool is_finished = train_run(runs_[job->index], backend);
      const std::lock_guard lock(mutex_);
      taken_.erase(job->index);
      if (is_finished) missing_.erase(job->index);
    } else if (others_work) {
      std::this_thread::sleep_for(poll_interval);
    } else {
      return;
    }
  }
}

/// The first run that no thread or process trains. `others_work`: none is free now, but other processes hold some.
std::optional<RecipeRunner::Job> RecipeRunner::next_job(bool& others_work) {
  const std::lock_guard lock(mutex_);
  for (auto at = missing_.begin(); at != missing_.end();) {
    const std::size_t index = *at;
    const bool is_ours = taken_.contains(index);
    std::optional<Claim> claim = is_ours ? std::nullopt : Claim::take(folder_->claim_file(runs_[index]));
    if (!claim) {
      others_work = others_work || !is_ours;
      ++at;
    } else if (folder_->read(runs_[index])) {  // its holder has finished it
      steps_left_ -= runs_[index].recipe.training.steps;
      at = missing_.erase(at);
    } else {
      taken_.insert(index);
      return Job{index, std::move(*claim)};
    }
  }
  return std::nullopt;
}

/// A snapshot only saves time: if it cannot be written, training goes on.
void RecipeRunner::keep(const PlannedRun& planned, const Snapshot& snapshot) {
  try {
    folder_->keep(planned, snapshot);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    hooks_.message(planned.name + ": no snapshot of step " + std::to_string(snapshot.step) + ": " + error.what());
  }
}

/// False if asked to stop.
bool RecipeRunner::train_run(const PlannedRun& planned, Backend& backend) {
  RecipeRun run(*inquiry_, planned, backend, folder_->begun(planned));
  std::int64_t left = planned.recipe.training.steps - run.step();
  steps_left_ -= run.step();
  SaveSchedule schedule(saves_, run.step());
  while (run.train_step()) {
    const bool stops = must_stop();
    if (stops || schedule.is_due(run.step())) keep(planned, run.snapshot());
    if (stops) return false;
    --left;
    const double done = 1.0 - static_cast<double>(--steps_left_) / static_cast<double>(total_steps_);
    const std::unique_lock lock(mutex_, std::try_to_lock);  // another thread reports; skip this step's report
    if (lock) hooks_.progress(done, planned.name);
  }
  steps_left_ -= left;
  folder_->write(planned, run.result());
  if (run.failure().empty()) return true;
  const std::lock_guard lock(mutex_);
  hooks_.message(planned.name + ": " + run.failure());
  return true;
}

}  // namespace afterglow
