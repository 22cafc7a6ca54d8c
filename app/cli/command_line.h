// The command line: reads arguments, runs one command, answers with an exit code.
#pragma once
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/output.h"
#include "core/engine/training/saved/save_schedule.h"

namespace afterglow {

/// Options that every command takes.
struct CommonOptions {
  std::string device = "auto";
  int threads = 0;
  std::string precision;  ///< fp32, tf32, bf16; empty: the recipe's
  bool force = false;     ///< overwrite files
};

/// A text for a model's tokenizer, --text or --text-file.
struct TextOptions {
  std::optional<std::string> text;
  std::string file;

  /// Nothing where neither was given. Throws Error(bad_input) for a file that cannot be read or holds over 1 GiB.
  std::optional<std::string> read() const;
};

/// The start of a run: exactly one of preset, recipe file and snapshot, changed by `assignments`, seed and steps.
struct StartOptions {
  std::string preset, recipe, snapshot;
  std::vector<std::string> assignments;  ///< "learning_rate=1e-3"
  std::string data;                      ///< a file for the task, as task.path
  bool is_elsewhere = false;             ///< `data` is a file of the session's machine, which nothing here can read
  std::string text_file;                 ///< the same as text for the model's tokenizer
  std::int64_t seed = -1, steps = -1;
  std::int64_t step = -1;  ///< of a checkpoint in a folder of them; -1: as open_saved_run chooses
};

struct TrainOptions {
  StartOptions start;
  std::int64_t until = -1;  ///< stop after this step; the schedule stays the recipe's
  std::filesystem::path out = "out";
  SaveInterval saves;
  std::string stop_when;         ///< a condition at which training stops; empty: none
  std::string figures = "page";  ///< page, all or none
  bool titles = true, follow = false;
};
struct EvalOptions {
  std::string snapshot, task, csv, text_file;
  std::vector<int> bindings, lengths;
  std::int64_t examples = 256, step = -1;
  bool is_recurrent = false, has_perplexity = false;
  std::int64_t decoded = -1;  ///< tokens that are read one by one after a prompt; -1: no prompt
  bool keeps_scale = false;
};
struct PlotOptions {
  std::string kind, svg, pdf, png, csv, size = "column";
  std::string influence;            ///< value of `influence`: length, source, cotangents, race
  std::string pair;                 ///< file with the clean and the corrupted sequence
  std::vector<std::string> asked;   ///< commands that run before the plot, as in a script
  std::string problem, arithmetic;  ///< of the solver plots: value of `solver_problem`; bf16, tf32, fp32, fp64
  StartOptions start;
  TextOptions text;                    ///< the sequence that is plotted
  std::vector<std::string> snapshots;  ///< the first is plotted; a forecast shows the others over it
  std::string against;                 ///< what is drawn over it with outlines (open_named); empty: nothing
  std::int64_t until = -1;             ///< step to plot; -1: the step that the recipe shows, or its end
  std::string layer;                   ///< its number or name; empty: the first layer that the plot can show
  int head = -1, token = -1, power = -1, number = -1;
  double part = -1;  ///< share of a slow analysis; -1: what the recipe says, or all of it
  bool all_heads = false, titles = true;
};
struct InfoOptions {
  std::string file;
  bool optimiser = false;  ///< list the optimiser's tensors, too
  bool models = false;     ///< only the families of models of other libraries
};
struct BenchOptions {
  std::string name;
  std::string model;  ///< of `bench generate`: a preset, or the folder of a model
  int repeats = 15;
  double seconds = 0.5;           ///< of `bench long`: longest time of a pass, in seconds
  std::filesystem::path against;  ///< an earlier result of --json
  std::filesystem::path svg;      ///< of `bench long`: file for its figures
};
struct LayerOptions {
  std::string file, out;
  bool float64 = false;
};
struct ForwardOptions {
  std::string model, tokens, out;
  std::int64_t step = -1;
  TextOptions text;
};
struct GenerateOptions {
  std::string model, prompt, tokens;
  std::int64_t step = -1;
  TextOptions text;
  std::int64_t count = 256;
  double temperature = 1, top_p = 1;
  int top = 0;
  bool prefills = false, keeps_scale = false;
  std::uint64_t seed = 0;
};
struct ExportOptions {
  std::string model, format;
  std::int64_t step = -1;
  std::filesystem::path out;
};
struct ReportOptions {
  std::string run;                 ///< a file, a folder of checkpoints, or a preset
  std::vector<std::string> plots;  ///< empty: what says most, at most six figures
  std::int64_t states = 21;        ///< recorded steps, at most
  std::filesystem::path out;
};
struct TokenizeOptions {
  std::string model, json_lines;
  TextOptions text;
  bool has_special = true;  ///< with the tokens of the file's template
};
/// Options of the commands that train many runs in one folder.
struct StudyOptions {
  std::filesystem::path out;
  int seeds = 0;      ///< runs of each recipe; 0: the study's own number
  int jobs = 0;       ///< runs at the same time; 0: one for each processor, one on a GPU
  std::string only;   ///< trains only runs with this in their file name
  std::string shard;  ///< "3/16": every sixteenth run, from the third on
  SaveInterval saves;
  bool list = false;               ///< print a command for each run instead of training
  std::vector<std::string> words;  ///< the whole command line, for `list`
};
struct TableOptions : StudyOptions {
  std::string name;
  std::vector<std::string> assignments;
  std::string data;  ///< a file for the tasks, as task.path
};
struct SweepOptions : StudyOptions {
  StartOptions start;
  std::vector<std::string> axes;                            ///< "learning_rate=log:1e-4:1e-2:24"
  std::vector<std::string> figures{"accuracy"};             ///< numbers to plot
  double enough = std::numeric_limits<double>::infinity();  ///< held-out accuracy at which a run ends early
};

struct SessionWordOptions {
  std::string name = "main";
  bool listens = false, connects = false, lists = false, stops = false;
};

// Each command returns the object that --json prints, and prints text for people through `output`.
nlohmann::json train(const TrainOptions& options, const CommonOptions& common, Output& output);
nlohmann::json evaluate(const EvalOptions& options, const CommonOptions& common, Output& output);
nlohmann::json plot(const PlotOptions& options, const CommonOptions& common, Output& output);
nlohmann::json info(const InfoOptions& options, const CommonOptions& common, Output& output);
nlohmann::json bench(const BenchOptions& options, const CommonOptions& common, Output& output);
nlohmann::json layer(const LayerOptions& options, const CommonOptions& common, Output& output);
nlohmann::json forward(const ForwardOptions& options, const CommonOptions& common, Output& output);
nlohmann::json generate(const GenerateOptions& options, const CommonOptions& common, Output& output);
nlohmann::json export_model(const ExportOptions& options, const CommonOptions& common, Output& output);
nlohmann::json report(const ReportOptions& options, const CommonOptions& common, Output& output);
nlohmann::json tokenize(const TokenizeOptions& options, const CommonOptions& common, Output& output);
nlohmann::json claims(const Output& output);
nlohmann::json session(const SessionWordOptions& options, const CommonOptions& common, Output& output);
nlohmann::json table(const TableOptions& options, const CommonOptions& common, Output& output);
nlohmann::json sweep(const SweepOptions& options, const CommonOptions& common, Output& output);

/// assets/help/commands.json: the texts of `--help`, of the page for `man` and of the papers' figures.
const nlohmann::json& help_texts();

/// The formats of `export`: "transformers", "fla", "npz".
std::vector<std::string> export_formats();

int run_command_line(int argc, char** argv);

}  // namespace afterglow
