// Turns --preset, --recipe, --resume, --set, --seed and --steps into the moment a command starts from.
#pragma once
#include "app/cli/command_line.h"
#include "core/engine/session/session.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

/// What `work` makes of words of the command line. What it calls bad input is wrong usage then.
template <class Work>
auto of_words(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code() == ExitCode::bad_input ? ExitCode::usage : error.code(), error.what());
  }
}

/// Builds model and task of a recipe for nothing but the Error of what does not fit. Where the recipe was sound before
/// words of the command line changed it, that is wrong usage.
void require_sound(const Recipe& changed, Recipe before);

/// `fallback` is the preset when nothing is named.
SavedRun starting_run(const StartOptions& options, const CommonOptions& common, const std::string& fallback);

/// A session on --device with --threads, its device chosen already ("cpu" or "cuda"): a missing GPU is told here, as
/// every command tells it.
/// The back end of --device and --threads. Throws Error(usage) for a --precision that it does not have.
std::unique_ptr<Backend> chosen_backend(const CommonOptions& common);

SessionOptions session_options(const CommonOptions& common);

/// What --data says of a task: where the file lies, and the hash by which it is known again wherever it lies then.
/// Throws Error(usage) for a task that reads no file.
void take_data(nlohmann::json& task, const std::string& file);

/// What becomes of files that are there: they stay unless --force was given.
Existing existing_files(const CommonOptions& common);

/// Throws Error(bad_input) where a file is there already and may not be replaced, as a number in the name would leave
/// an old result where a program looks for the new one; and the Error of `require_writable`.
void require_free_name(const std::filesystem::path& file, const CommonOptions& common);

/// What a person should know of a file that was opened.
void say_notes(const SavedRun& saved, Output& output);

/// Says what was read of a task's series, and returns it as the fields `channels`, `time_columns` (names), `rows_read`
/// and `rows_in_file`; an empty object for a task that reads no series from a file.
nlohmann::json say_series(const Task& task, Output& output);

/// Opens a snapshot or the folder of a model, and says its notes. Throws Error(bad_input) with `need`, such as "eval
/// needs trained weights", for a file without any.
SavedRun open_with_weights(const std::string& path, const std::string& need, const CommonOptions& common,
                           Output& output);

/// Makes a folder for results, if it is not there, and tries a file in it, before any work is done.
void make_folder(const std::filesystem::path& folder);

}  // namespace afterglow
