// Folders, shards and processors of a study.
#include "app/cli/study_run.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/ranks/started_ranks.h"
#include "core/backend/parallel.h"
#include "core/engine/training/trainer.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/files/page.h"
#include "core/io/temporary_file.h"
#include "core/io/terminal_text.h"
#include "core/io/wording.h"
#include "core/studies/recipe_runner.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;

/// The most memory that one of the runs needs with its back end. Runs may differ in model, task or batch.
std::size_t largest_need(const std::vector<PlannedRun>& runs, Backend& backend) {
  constexpr std::size_t of_a_back_end = std::size_t{192} << 20;  // scratch memory and workspaces of the back end
  std::set<std::string> known;
  std::size_t largest = 0;
  for (const PlannedRun& run : runs) {
    const Recipe& recipe = run.recipe;
    const std::string sizes = recipe.model.dump() + recipe.task.dump() + std::to_string(recipe.training.batch);
    if (known.insert(sizes).second) largest = std::max(largest, training_memory_need(recipe, backend).peak);
  }
  return largest + of_a_back_end;
}

/// Assigns a GPU to each of the runs that train at the same time, in turn. 0 jobs: each GPU gets as many as fit into
/// half of its free memory, up to the number above which the speed no longer grows.
std::vector<int> gpu_of_each_job(int jobs, const std::vector<PlannedRun>& runs, Backend& backend) {
  constexpr std::size_t most = 24;
  const std::vector<int> gpus = own_gpus();
  std::vector<int> all;
  for (int i = 0; i < jobs; ++i) all.push_back(gpus[static_cast<std::size_t>(i) % gpus.size()]);
  if (jobs > 0) return all;
  const std::size_t need = largest_need(runs, backend);
  std::vector<std::size_t> rooms;
  for (const int gpu : gpus) rooms.push_back(std::clamp<std::size_t>(cuda_device_memory(gpu).free / 2 / need, 1, most));
  for (std::size_t round = 0; round < most; ++round) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (round < rooms[i]) all.push_back(gpus[i]);
    }
  }
  return all;
}

std::unique_ptr<Backend> make_gpu_backend(int gpu) {
  std::string why_not;
  if (std::unique_ptr<Backend> backend = make_cuda_backend(gpu, &why_not)) return backend;
  throw Error(ExitCode::no_gpu, "GPU ", gpu, ": ", why_not,
              "; leave it out with CUDA_VISIBLE_DEVICES, or use --device cpu");
}

/// The back ends of the runs that train at the same time: the first is already open. They take the devices in turn.
struct StudyBackends {
  std::unique_ptr<Backend> first;
  std::vector<BackendOpener> others;
  std::size_t devices = 1;
};

/// On the CPU each run has its own processor, unless --jobs or --threads say otherwise.
StudyBackends make_backends(const CommonOptions& common, int jobs, const std::vector<PlannedRun>& runs) {
  const std::size_t most = std::max<std::size_t>(1, runs.size());  // a shard may be empty
  cuda_expect_many_runs();
  StudyBackends made;
  made.first = chosen_backend(common);
  if (made.first->name() == "cuda") {
    std::vector<int> gpus = gpu_of_each_job(jobs, runs, *made.first);
    gpus.resize(std::min(gpus.size(), most));
    made.devices = std::set<int>(gpus.begin(), gpus.end()).size();
    for (std::size_t i = 1; i < gpus.size(); ++i)
      made.others.emplace_back([gpu = gpus[i]] { return make_gpu_backend(gpu); });
    return made;
  }
  if (jobs == 0) jobs = std::max(1, processors() / std::max(1, common.threads));
  jobs = std::min(jobs, static_cast<int>(most));
  const int threads = common.threads == 0 ? std::max(1, processors() / std::max(1, jobs)) : common.threads;
  const BackendOpener open = [threads] { return make_backend("cpu", threads); };
  made.first = open();
  made.others.assign(static_cast<std::size_t>(jobs - 1), open);
  return made;
}

/// Quoted as a word of a shell.
std::string shell_word(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_./:=,+%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return is_plain ? word : shell_quoted(word);
}

/// As wide as the names of its rows need.
SizePreset size_of(const Figure& figure) {
  constexpr std::size_t max_letters = 30;  // in one column
  std::size_t letters = 0;
  for (const AxisTick& tick : figure.x.ticks) letters += tick.label.size();
  return letters > max_letters ? SizePreset::two_columns : SizePreset::one_column;
}

}  // namespace

StudyRun::StudyRun(std::string name, Inquiry inquiry, std::vector<PlannedRun> runs, const StudyOptions& options,
                   const CommonOptions& common, Output& output)
    : name_(std::move(name)),
      inquiry_(std::move(inquiry)),
      runs_(std::move(runs)),
      options_(options),
      common_(common),
      output_(output) {
  std::ranges::copy_if(runs_, std::back_inserter(wanted_), [&](const PlannedRun& run) {
    return (run.name + ".json").find(options.only) != std::string::npos;
  });
  if (wanted_.empty())
    throw UsageError("no run of ", name_, " has ", in_quotes(options.only), " in its name, such as ",
                     runs_.front().name);
  if (options.shard.empty()) return;
  char rest = 0;
  const int read = std::sscanf(options.shard.c_str(), "%zu/%zu%c", &shard_, &shards_, &rest);
  if (read != 2 || shard_ < 1 || shard_ > shards_)
    throw UsageError("--shard ", options.shard, ": expected i/n with i from 1 to n, such as 3/16");
}

bool StudyRun::list() const {
  if (!options_.list) return false;
  std::string command = "afterglow";
  for (const std::string& word : options_.words) {
    if (word != "--list") command += " " + shell_word(word);
  }
  for (std::size_t i = 1; i <= wanted_.size(); ++i) output_.line(command, " --shard ", i, "/", wanted_.size());
  return true;
}

std::vector<PlannedRun> StudyRun::shard() const {
  std::vector<PlannedRun> mine;
  for (std::size_t i = shard_ - 1; i < wanted_.size(); i += shards_) mine.push_back(wanted_[i]);
  return mine;
}

/// Results replace files in the folder, so it must be new or belong to the study.
void StudyRun::require_own_folder() const {
  bool is_own = std::ranges::all_of(fs::directory_iterator(folder_->path()),
                                    [](const fs::directory_entry& entry) { return is_temporary(entry.path()); });
  for (const PlannedRun& run : runs_) {
    if (fs::exists(folder_->result_file(run)) && !folder_->read(run))
      throw BadInput(folder_->result_file(run).string(),
                     " contains a run with other settings; choose another --out, or replace it with --force");
    is_own = is_own || folder_->knows(run);
  }
  if (!is_own)
    throw Error(
        ExitCode::bad_input, folder_->path().string(),
        " contains files, but none of these runs; choose another folder with --out, or use this one with --force");
}

void StudyRun::train(const fs::path& folder) {
  make_folder(folder);
  folder_ = std::make_unique<ResultFolder>(folder, inquiry_);
  for (const PlannedRun& run : runs_) folder_->adopt(run);
  const std::vector<PlannedRun> mine = shard();
  if (!common_.force) require_own_folder();
  if (common_.force) std::ranges::for_each(mine, [&](const PlannedRun& run) { folder_->forget(run); });
  const auto [first, others, devices] = make_backends(common_, options_.jobs, mine);
  device_ = first->name();
  std::set<std::string> missing;
  for (const PlannedRun& run : mine) missing.insert(choose_precision(run.recipe, *first));
  missing.erase("");
  for (const std::string& note : missing) output_.note(note);
  const Interruption interruption;
  RecipeRunner runner(
      inquiry_, mine, *folder_, options_.saves,
      {[] { return Interruption::wanted(); },
       [&](double share, const std::string& run) { output_.progress(name_, share, [&] { return run; }); },
       [&](const std::string& text) { output_.message(text); }});
  output_.message(mine.size(), " runs, ", runner.missing(), " to train · ", others.size() + 1, " at the same time · ",
                  devices > 1 ? std::to_string(devices) + " × " : "", first->description());
  runner.train(*first, others, devices);
  output_.end_progress();
}

std::vector<RunResult> StudyRun::results() const {
  std::vector<std::optional<RunResult>> found(runs_.size());
  ThreadPool(0).for_each(static_cast<std::int64_t>(runs_.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    found[at] = folder_->read(runs_[at]);
  });
  std::vector<RunResult> all;
  for (std::optional<RunResult>& result : found) {
    if (result) all.push_back(std::move(*result));
  }
  return all;
}

/// The number of runs with a result there, to which other processes may add at the same time.
std::ptrdiff_t StudyRun::written_results() const {
  return std::ranges::count_if(runs_, [&](const PlannedRun& run) { return fs::exists(folder_->result_file(run)); });
}

nlohmann::json StudyRun::write_files(
    const std::function<std::vector<fs::path>(const std::vector<RunResult>&)>& write) const {
  std::vector<fs::path> files;
  std::size_t written = 0;
  std::ptrdiff_t seen = 0;  // results at the last reading
  for (std::ptrdiff_t there = written_results(); there != seen; there = written_results()) {
    const std::vector<RunResult> all = results();
    files = write(all);
    written = all.size();
    seen = there;
  }
  nlohmann::json names = nlohmann::json::array();
  for (const fs::path& file : files) names.push_back(output_.wrote(file));
  if (written < runs_.size())
    output_.message(runs_.size() - written, " of ", runs_.size(),
                    " runs are still missing; the last shard writes the files with all runs");
  return names;
}

void write_study_figures(const std::vector<Figure>& figures, const fs::path& folder, std::vector<fs::path>& written) {
  std::vector<FigureFormat> formats = {FigureFormat::svg};
  if (has_page_writer()) formats.insert(formats.end(), {FigureFormat::pdf, FigureFormat::png});
  WriteOptions write_options;
  write_options.overwrite = true;  // the folder belongs to the study; its results say how they were made
  for (const Figure& figure : figures) {
    const auto files = write_figure(figure, folder / (figure.id + ".svg"), formats, size_of(figure), write_options);
    written.insert(written.end(), files.begin(), files.end());
  }
}

}  // namespace afterglow
