// A run in a file: a recipe, a snapshot, or the recipe inside an exported figure.
#pragma once
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "core/engine/training/saved/run_folder.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

class Checkpoint;

struct SavedRun {
  Recipe recipe;
  std::optional<Snapshot> snapshot;      ///< weights, if the file has them
  std::string view{};                    ///< how a figure showed it, JSON for the window; may be empty
  std::vector<std::string> notes{};      ///< warnings for the user
  std::shared_ptr<Checkpoint> origin{};  ///< the model that the recipe names, open and hashed; may be null
  std::shared_ptr<RunFolder> folder{};   ///< whose states the run goes through; null: only this one
  /// Whether it has weights: a snapshot's, or those of a folder.
  bool has_weights() const { return snapshot.has_value() || !recipe.checkpoint.is_null(); }
  /// The snapshot's, where there is one.
  Recipe& own_recipe() { return snapshot ? snapshot->recipe : recipe; }
  const Recipe& own_recipe() const { return snapshot ? snapshot->recipe : recipe; }
};

/// The recipe of another library's model, which starts from the folder's weights. Named after the folder, or `name`.
/// Its task is text in the model's tokens, labelled by the folder's tokenizer if there is one; sequences are drawn at
/// random until --data gives others.
Recipe checkpoint_recipe(const Checkpoint& checkpoint, const std::string& name = "");

constexpr std::int64_t no_step = -1;
/// A small model that learns a text file: by the tokens of the tokenizer.json next to it, else character by character
/// with the vocabulary of the text. Throws what make_task throws.
SavedRun read_text(const std::filesystem::path& path);
/// Opens .json (recipe), .safetensors (snapshot), .svg, .pdf, .png or .csv (exported figure), .txt (read_text), the
/// folder of another library's model, or a folder of states over steps, of which `step` names one; without a step the
/// model that the folder itself is, if it is one, else the newest state. Throws Error(bad_input) that names file and
/// lack, Error(usage) for a step that is not there. `folder`: what is at the path, where that is read already.
SavedRun open_saved_run(const std::filesystem::path& path, std::int64_t step = no_step,
                        std::shared_ptr<RunFolder> folder = nullptr);

/// A run that another thread reads, because a disk may be slow.
struct OpeningRun {
  std::string name;  ///< of what is read, for the user; empty: nothing
  std::shared_future<std::shared_ptr<SavedRun>> run{};
};
/// Throws what `open` throws within the first `patience` seconds; later `run` throws it.
OpeningRun open_aside(const std::string& name, std::function<SavedRun()> open, double patience = 0.3);

/// One state of a folder alone; `name` is that of a model which has none.
SavedRun open_state(const StoredState& state, const std::string& name = "");
/// Chooses the precision that the recipe asks for; what to say where the back end does not have it, else an empty text.
std::string choose_precision(const Recipe& recipe, Backend& backend);

/// "auto", "cpu" or "cuda" -> a back end; "auto" takes the GPU if there is one. Throws Error(no_gpu) with the reason.
std::unique_ptr<Backend> make_backend(const std::string& device, int threads);

/// Creates a CUDA back end; the program registers it at start, so that the engine need not include that folder.
using CudaMaker = std::unique_ptr<Backend> (*)(std::string* why_not);
void register_cuda_maker(CudaMaker maker);

}  // namespace afterglow
