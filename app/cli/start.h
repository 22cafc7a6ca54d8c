// Turns --preset, --recipe, --resume, --set, --seed and --steps into the run that a command starts from.
#pragma once
#include "app/cli/command_line.h"
#include "core/engine/session/session.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

/// Runs `work` on words of the command line; reports its bad input as wrong usage.
template <class Work>
auto of_words(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code() == ExitCode::bad_input ? ExitCode::usage : error.code(), error.what());
  }
}

/// Builds model and task of a recipe only to find errors. If the recipe was valid before the command line changed it,
/// an error is reported as wrong usage.
void require_sound(const Recipe& changed, Recipe before);

/// `fallback` is the preset when the options name nothing.
SavedRun starting_run(const StartOptions& options, const CommonOptions& common, const std::string& fallback);

/// The back end of --device and --threads. Throws Error(usage) for a --precision that it does not have.
std::unique_ptr<Backend> chosen_backend(const CommonOptions& common);
/// The same for a run; says where it asks for a precision that the back end does not have.
std::unique_ptr<Backend> chosen_backend(const SavedRun& saved, const CommonOptions& common, Output& output);

/// What this machine offers to windows.
std::shared_ptr<const Machine> this_machine();

/// A session on --device with --threads, whose device is already resolved ("cpu" or "cuda"). Reports a missing GPU as
/// every command does.
SessionOptions session_options(const CommonOptions& common);

/// For SessionOptions::at_end: keeps the last run in this folder and says so on stderr.
std::function<void(const std::function<Snapshot()>& make)> keep_in(const std::filesystem::path& folder);

/// Value of --data for a task: the file's path, and the hash that identifies it after it has moved.
/// Throws Error(usage) for a task that reads no file. One of another machine is not read, and has no hash.
void take_data(nlohmann::json& task, const std::string& file, bool is_elsewhere = false);

/// Sets a text file as the data of a task; a task of token numbers encodes it by the model's tokenizer.
void take_text(nlohmann::json& task, const std::string& file);

/// Policy for existing files: they stay unless --force is given.
Existing existing_files(const CommonOptions& common);

/// Throws Error(bad_input) if the file exists and must not be replaced (a number added to its name would leave an old
/// result where a program expects the new one); also throws the Error of `require_writable`.
void require_free_name(const std::filesystem::path& file, const CommonOptions& common);

/// Prints the notes about an opened file.
void say_notes(const SavedRun& saved, Output& output);

/// Prints what was read of a task's series, and returns it as the fields `channels`, `time_columns` (names),
/// `rows_read` and `rows_in_file`; an empty object for a task that reads no series from a file.
nlohmann::json say_series(const Task& task, Output& output);

/// Opens a snapshot, the folder of a model, or a state of a folder (open_saved_run), and prints its notes. Throws
/// Error(bad_input) with `need`, such as "eval needs trained weights", for a file without weights. `only_run`: see
/// `Checkpoint::keep_narrow`.
enum class Use { whatever, only_run };
SavedRun open_with_weights(const std::string& path, std::int64_t step, const std::string& need,
                           const CommonOptions& common, Output& output, Use use = Use::whatever);

/// The type in which a run's device holds the weights of projections.
std::string_view stored_type(const TrainingRun& run);

/// What a comparison names: a preset, a file or folder, or a checkpoint of a folder as "run@500"; without a step the
/// one that open_saved_run chooses for `step`. Prints no notes.
SavedRun open_named(const std::string& word, std::int64_t step = no_step);
/// Its newest state, as `open_aside` reads it.
OpeningRun opening_named(const std::string& word, double patience);

/// Creates a folder for results, if it does not exist, and tests a file in it, before the work begins.
void make_folder(const std::filesystem::path& folder);

}  // namespace afterglow
