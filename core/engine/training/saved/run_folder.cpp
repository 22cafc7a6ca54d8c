// Finds states by their names and logs by theirs.
#include "core/engine/training/saved/run_folder.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <set>

#include "core/io/arrays/mapped_tensors.h"
#include "core/io/atomic_file.h"
#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;

constexpr const char* trainer_log = "trainer_state.json";

std::int64_t stamp_of(const fs::path& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) return 0;
  return found.st_size ^ (found.st_mtim.tv_sec << 20) ^ found.st_mtim.tv_nsec ^ 1;
}

/// The number in a name that can be a step, which those of shards ("1-of-2"), sizes ("130m") and versions ("1.5") are
/// not. `has_word`: it follows a word such as "step".
std::optional<std::int64_t> step_in(const std::string& name, bool& has_word) {
  static const std::array<std::regex, 3> forms{
      std::regex("steps?[-_=. ]*0*(\\d{1,15})(?!\\d)", std::regex::icase),
      std::regex("(?:checkpoint|ckpt|iter|iteration|epoch)s?[-_=. ]*0*(\\d{1,15})(?!\\d)", std::regex::icase),
      std::regex("(?:^|[^.\\d])0*(\\d{1,15})(?![a-z\\d]|\\.\\d)(?!.*\\d)", std::regex::icase)};
  std::smatch found;
  for (const std::regex& form : forms) {
    has_word = &form != &forms[2];
    if (name.find("-of-") == std::string::npos && std::regex_search(name, found, form)) return std::stoll(found[1]);
  }
  return std::nullopt;
}

/// The weights in a folder: an index, model.safetensors, or its only file of tensors; empty without any.
fs::path weights_in(const fs::path& folder) {
  std::error_code failed;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(folder / name, failed)) return folder / name;
  }
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".safetensors" && !path.filename().string().starts_with("optim")) found.push_back(path);
  }
  return found.size() == 1 ? found.front() : fs::path();
}

bool is_model_file(const fs::path& file) { return file.filename().string().starts_with("model.safetensors"); }

/// The step that a snapshot holds, -1 for other weights. Throws where a file is not as long as its header says; an
/// index is written after its files.
std::int64_t checked_step(const fs::path& weights) {
  if (weights.extension() == ".json") return -1;
  const MappedTensors file(weights);
  const auto step = file.metadata().find("step");
  const bool is_snapshot = file.metadata().contains("afterglow.recipe") && step != file.metadata().end();
  return is_snapshot ? std::atoll(step->second.c_str()) : -1;
}

}  // namespace

/// What one look at the folder finds.
struct RunFolder::Scan {
  fs::path home;  // the folder that the states are in
  std::map<std::int64_t, StoredState> states;
  std::set<fs::path> others;  // folders with states of other runs
  std::vector<fs::path> logs;
  std::vector<std::string> notes;
  bool has_pickles = false;
};

/// The system's word that files directly in some folders have changed (inotify of Linux).
struct RunFolder::Watch {
  int events = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);  // a file descriptor; -1 where none is left

  ~Watch() {
    if (events >= 0) ::close(events);
  }
  /// From before the folder is read, so that no change is missed; again after it was removed and made again.
  void add(const fs::path& folder) const {
    constexpr std::uint32_t changes = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVE | IN_DELETE | IN_DELETE_SELF;
    if (events >= 0) ::inotify_add_watch(events, folder.c_str(), changes | IN_ONLYDIR);
  }
  bool has_changed() const {
    std::array<char, 4096> ignored{};
    bool has_changed = false;
    while (events >= 0 && ::read(events, ignored.data(), ignored.size()) > 0) has_changed = true;
    return has_changed;
  }
};

bool RunFolder::has_news() {
  if (watch_) return watch_->has_changed();
  watch_ = std::make_shared<const Watch>();
  return true;  // the update adds the folders
}

bool RunFolder::update() {
  Scan scan;
  std::error_code failed;
  is_model_ = fs::exists(folder_ / "config.json", failed) && is_model_file(weights_in(folder_));
  look_into(folder_, 0, scan);
  std::swap(states_, scan.states);
  const auto read_before = read_;
  read_logs(std::move(scan.logs));
  scan.notes.insert(scan.notes.end(), log_.notes.begin(), log_.notes.end());
  std::swap(notes_, scan.notes);
  FolderView view{fs::weakly_canonical(folder_, failed).filename().string(), {}, {}, log_.curves};
  for (const auto& [step, state] : states_) view.states.push_back(step);
  if (view.states == view_->states && read_before == read_ && notes_ == scan.notes) return false;
  std::vector<std::int64_t> before;
  std::ranges::set_union(view_->states, view_->deleted, std::back_inserter(before));
  std::ranges::set_difference(before, view.states, std::back_inserter(view.deleted));
  view_ = std::make_shared<const FolderView>(std::move(view));
  return true;
}

void RunFolder::look_into(const fs::path& folder, int depth, Scan& scan) {
  constexpr int deepest = 3;
  std::error_code failed;
  if (watch_) watch_->add(folder);
  std::vector<fs::directory_entry> entries;
  std::vector<fs::path> below;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    entries.push_back(*entry);
  }
  if (failed && depth == 0) refuse_file(folder, failed.message());
  if (failed) scan.notes.push_back(folder.string() + ": it cannot be read (" + failed.message() + ")");
  std::ranges::sort(entries);
  std::map<std::string, int> alike;  // names without their digits: a series, if they have no word such as "step"
  static const std::regex digits("\\d+");
  const auto without_digits = [](const fs::path& path) {
    return std::regex_replace(path.filename().string(), digits, "#");
  };
  for (const fs::directory_entry& entry : entries) ++alike[without_digits(entry.path())];
  for (const fs::directory_entry& entry : entries) {
    const fs::path& path = entry.path();
    const std::string name = path.filename().string(), ending = path.extension().string();
    if (name.starts_with(".") || name.starts_with("tmp") || name.starts_with("figures_")) continue;
    failed.clear();
    const bool is_file = entry.is_regular_file(failed), is_folder = !is_file && entry.is_directory(failed);
    if (failed) scan.notes.push_back(path.string() + ": it cannot be read (" + failed.message() + ")");
    if (is_file && is_log_name(path)) scan.logs.push_back(path);
    bool has_word = false;
    std::optional<std::int64_t> step = step_in(is_file ? path.stem().string() : name, has_word);
    if (!has_word && alike[without_digits(path)] < 2) step.reset();
    if (watch_ && is_folder) watch_->add(path);
    const fs::path weights = is_folder ? weights_in(path) : is_file && ending == ".safetensors" ? path : fs::path();
    if (step && !weights.empty()) take_state(path, weights, *step, scan);
    const bool is_pickle = ending == ".pt" || ending == ".pth" || ending == ".ckpt" || ending == ".bin";
    if (step && is_file && is_pickle && !std::exchange(scan.has_pickles, true))
      scan.notes.push_back(path.string() + ": pickles can run any program and are never opened; save safetensors");
    if (!is_folder || (step && !weights.empty())) continue;
    if (has_word)
      scan.notes.push_back(path.string() +
                           ": there are no weights in safetensors (not written yet, or pickles, which "
                           "can run any program and are never opened)");
    if (depth < deepest && !fs::is_symlink(path, failed)) below.push_back(path);
  }
  for (const fs::path& path : below) look_into(path, depth + 1, scan);
}

void RunFolder::take_state(const fs::path& path, const fs::path& weights, std::int64_t step, Scan& scan) {
  if (!is_utf8(path.string()))
    return scan.notes.push_back(terminal_text(path.string()) + ": its name is not UTF-8; rename it");
  const Stamp stamp = stamp_of(weights);
  auto& [known, own_step] = checked_[weights];
  try {
    if (known != stamp) own_step = checked_step(weights);
  } catch (const std::exception& error) {
    known = 0;
    return scan.notes.push_back(path.string() + ": it is damaged or not written to its end: " + error.what());
  }
  if (known != stamp && own_step < 0 && folder_of_config(weights).empty())
    return scan.notes.push_back(path.string() +
                                ": config.json, which says what model it is, is missing or not written yet");
  known = stamp;  // a slow disk is asked once
  const StoredState state{own_step >= 0 ? own_step : step, is_model_file(weights) ? path : weights, own_step >= 0};
  if (scan.states.empty()) scan.home = path.parent_path();
  std::error_code failed;
  if (state.step > max_steps) {
    scan.notes.push_back(path.string() + ": its number is too large for a step");
  } else if (scan.home != path.parent_path()) {
    if (scan.others.insert(path.parent_path()).second)
      scan.notes.push_back(path.parent_path().string() + ": it is left out, because it is of another run than " +
                           scan.home.string() + "; it can be opened by itself");
  } else if (const auto [place, is_new] = scan.states.try_emplace(state.step, state);
             !is_new && !fs::equivalent(place->second.path, state.path, failed)) {
    scan.notes.push_back("step " + std::to_string(state.step) + " is there twice: " + place->second.path.string() +
                         " is read, " + state.path.string() + " is not");
  }
}

void RunFolder::read_logs(std::vector<fs::path> files) {
  // Event files have the time of their beginning in their names, and continue each other.
  std::ranges::stable_sort(files, {}, [](const fs::path& file) { return is_event_file(file) ? file.filename() : ""; });
  // The log in the last checkpoint, which is read first, holds those of all before it.
  for (const auto& [step, state] : states_) files.insert(files.begin(), state.path / trainer_log);
  decltype(read_) stamps;
  for (const fs::path& file : files) stamps[file] = stamp_of(file);
  if (stamps == read_) return;
  read_ = std::move(stamps);
  log_ = {};
  bool has_trainer = false;
  for (const fs::path& file : files) {
    const bool is_trainer = file.filename() == trainer_log;
    if (read_[file] == 0 || (is_trainer && has_trainer)) continue;
    try {
      read_log(file, log_);
      has_trainer = has_trainer || (is_trainer && !log_.curves.empty());
    } catch (const Error& error) {
      log_.notes.emplace_back(error.what());
    }
  }
}

fs::path RunFolder::notes_file() const {
  std::error_code failed;
  const std::string place = fs::weakly_canonical(folder_, failed).string();
  return data_folder(false) / "notes" /
         (file_name_of(view_->name, 60) + "_" + hex16(checksum(std::as_bytes(std::span(place)))) + ".json");
}

std::int64_t RunFolder::planned_steps() const {
  std::int64_t last = std::max(log_.planned_steps, states_.empty() ? 0 : states_.rbegin()->first);
  for (const LoggedCurve& curve : log_.curves) last = std::max(last, static_cast<std::int64_t>(curve.steps.back()));
  return last;
}

const StoredState& RunFolder::near(std::int64_t step, std::int64_t by) const {
  std::string why;
  for (const std::string& note : notes_) why += "; " + note;
  if (states_.empty())
    throw BadInput(folder_.string(), ": there is no checkpoint that can be opened, only ", log_.curves.size(),
                   " curves of logs", why);
  auto place = states_.upper_bound(step);
  if (place != states_.begin()) --place;
  for (; by < 0 && place != states_.begin(); ++by) --place;
  for (; by > 0 && std::next(place) != states_.end(); --by) ++place;
  return place->second;
}

const StoredState& RunFolder::at(std::int64_t step) const {
  const StoredState& nearest = near(step);
  if (step == newest_state || nearest.step == step) return nearest;
  const auto known = names_of(states_, [](const auto& one) { return std::to_string(one.first); });
  throw UsageError(folder_.string(), ": there is no checkpoint of step ", step, ", only those of steps ",
                   joined(known, ", "));
}

}  // namespace afterglow
