// Curves over training steps, read from the logs that training programs write.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace afterglow {

/// One number of a training. Steps ascend strictly; what the log calls NaN or infinite is NaN.
struct LoggedCurve {
  std::string name;
  std::vector<double> steps, values;  ///< equally long
};

struct TrainingLog {
  std::vector<LoggedCurve> curves;
  std::vector<std::string> notes;  ///< what was assumed, damaged or left out, one sentence each
  std::int64_t planned_steps = 0;  ///< of the whole training, where the log names them
  /// A value replaces those of this step and later ones, because a training that is resumed repeats its steps.
  void add(const std::string& name, double step, double value);
};

/// Whether a file is a log by its name: a table, JSON lines, the JSON of metrics, an event file of TensorBoard.
bool is_log_name(const std::filesystem::path& path);
bool is_event_file(const std::filesystem::path& path);
/// Adds the numbers of a file: of rows and objects with a step, the "log_history" of a Hugging Face Trainer, scalars of
/// TensorBoard. Records that cannot be read are counted in a note, an unfinished last one is left for later. Throws
/// Error(bad_input) where nothing of the file can be read.
void read_log(const std::filesystem::path& path, TrainingLog& log);
void read_event_file(const std::filesystem::path& path, TrainingLog& log);

}  // namespace afterglow
