// A run in a file: a recipe, a snapshot, or the recipe inside an exported figure.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/engine/training/training_run.h"

namespace afterglow {

struct SavedRun {
  Recipe recipe;
  std::optional<Snapshot> snapshot;  ///< weights, if the file has them
  std::string view{};                ///< how a figure showed it, JSON for the window; may be empty
  std::vector<std::string> notes{};  ///< warnings for the user
  /// Whether it has weights: a snapshot's, or those of a folder.
  bool has_weights() const { return snapshot.has_value() || !recipe.checkpoint.is_null(); }
};

/// Opens .json (recipe), .safetensors (snapshot), .svg, .pdf, .png or .csv (exported figure), or the folder of another
/// library's model. Throws Error(bad_input) that names the file and what it lacks.
SavedRun open_saved_run(const std::filesystem::path& path);
std::unique_ptr<TrainingRun> make_run(const SavedRun& saved, Backend& backend,
                                      std::size_t history_limit = History::default_limit);

/// "auto", "cpu" or "cuda" -> a back end; "auto" takes the GPU if there is one. Throws Error(no_gpu) with the reason.
std::unique_ptr<Backend> make_backend(const std::string& device, int threads);

/// Creates a CUDA back end; the program registers it at start, so that the engine need not include that folder.
using CudaMaker = std::unique_ptr<Backend> (*)(std::string* why_not);
void register_cuda_maker(CudaMaker maker);

}  // namespace afterglow
