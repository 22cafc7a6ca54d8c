// Names, order and limits of the files.
#include "core/engine/session/kept_runs.h"

#include <algorithm>

#include "core/io/arrays/mapped_tensors.h"
#include "core/io/folders.h"
#include "core/io/safetensors.h"

namespace afterglow {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t max_files = 5;
constexpr std::uintmax_t max_bytes = std::uintmax_t{2} << 30;
constexpr const char* ending = ".safetensors";

/// "tiny_seed7_step600_0123456789abcdef" -> "tiny, step 600"; other names stay unchanged.
std::string label_of(const std::string& stem) {
  const std::size_t seed = stem.rfind("_seed"), step = stem.rfind("_step"), checksum = stem.rfind('_');
  if (seed == std::string::npos || step == std::string::npos || seed > step || step >= checksum) return stem;
  return stem.substr(0, seed) + ", step " + stem.substr(step + 5, checksum - step - 5);
}

/// Whether a file holds an earlier moment of the snapshot's run.
bool is_superseded(const fs::path& path, const Snapshot& by) {
  try {
    const MappedTensors file(path);
    const auto& metadata = file.metadata();
    const Recipe recipe = parse_recipe(metadata.at("afterglow.recipe"), path.string());
    return std::stoll(metadata.at("step")) <= by.step && common_step(recipe, by.recipe) >= by.step;
  } catch (const std::exception&) {
    return false;  // not a file of ours
  }
}

}  // namespace

fs::path kept_runs_folder(bool is_portable) { return data_folder(is_portable) / "runs"; }

std::vector<KeptRun> kept_runs(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, KeptRun>> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    std::error_code unknown;
    const fs::file_time_type time = entry->last_write_time(unknown);
    if (!unknown && entry->path().extension() == ending)
      found.push_back({time, {entry->path(), label_of(entry->path().stem().string())}});
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<KeptRun> runs;
  for (auto& [time, run] : found) runs.push_back(std::move(run));
  return runs;
}

KeptRun keep_run(const fs::path& folder, const Snapshot& snapshot) {
  ensure_folder(folder);
  const std::string stem = snapshot_stem(snapshot.recipe, snapshot.step) + "_" + snapshot.checksum;
  const fs::path path = write_safetensors(folder / (stem + ending), snapshot.file, Existing::replace);
  std::uintmax_t bytes = 0;
  std::size_t files = 0;
  for (const KeptRun& run : kept_runs(folder)) {
    std::error_code ignored;
    const std::uintmax_t size = fs::file_size(run.path, ignored);
    const bool has_room = ++files <= max_files && (bytes += size) <= max_bytes;
    if (run.path == path || (has_room && !is_superseded(run.path, snapshot))) continue;
    fs::remove(run.path, ignored);
    --files;
    bytes -= size;
  }
  return {path, label_of(stem)};
}

}  // namespace afterglow
