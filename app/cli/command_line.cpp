// The arguments of every command, and what happens when one fails.
#include "app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "app/cli/version.h"
#include "app/window/window.h"
#include "core/engine/recipe/recipe.h"
#include "core/engine/training/saved_run.h"
#include "core/io/error.h"
#include "core/io/wording.h"

namespace afterglow {

namespace {

using nlohmann::json;
using Command = std::function<json()>;

constexpr const char* examples =
    "Examples:\n"
    "  afterglow                                   the window, training the tiny preset\n"
    "  afterglow --preset ssm-ska --device cuda    another preset; `afterglow info` lists them\n"
    "  afterglow figure.svg                        reopen the moment a figure shows\n"
    "  afterglow train --preset tiny --out out     train without a window\n"
    "  afterglow plot spectrum --snapshot run.safetensors --svg spectrum.svg\n"
    "  afterglow layer golden.safetensors --out result.safetensors\n";
constexpr const char* exit_codes =
    "Exit codes: 0 done, 1 other failure, 2 wrong usage, 3 input missing or unreadable, 4 no usable GPU,\n"
    "5 out of memory, 6 non-finite numbers, 7 check failed, 130 interrupted";

constexpr const char* window_options[] = {"--preset",     "--recipe", "--set",   "--data",  "--seed", "--script",
                                          "--screenshot", "--frames", "--theme", "--scale", "--size"};

void add_start(CLI::App& command, StartOptions& start) {
  command.add_option("--preset", start.preset, "Start from a preset (`afterglow info` lists them)");
  command.add_option("--recipe", start.recipe, "Start from a recipe (.json) or an exported figure");
  command.add_option("--set", start.assignments, "Change the recipe: learning_rate=1e-3, task.bindings=8, ...")
      ->take_all();
  command.add_option("--data", start.data, "The task's own data: a text, or a CSV file in the ETT form");
  command.add_option("--seed", start.seed, "Another seed")->check(CLI::NonNegativeNumber);
}

void add_train(CLI::App& app, TrainOptions& options) {
  CLI::App* command = app.add_subcommand("train", "Train; writes snapshot, metrics, recipe and figures");
  add_start(*command, options.start);
  command->add_option("--resume", options.start.snapshot, "Go on from a snapshot");
  command->add_option("--steps", options.start.steps, "Last step of the training and its schedule")
      ->check(CLI::PositiveNumber);
  command->add_option("--until", options.until, "Stop after this step; the schedule stays")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--out", options.out, "Folder for the results [out]");
  command->add_flag("!--no-figures", options.figures, "Write no figures");
  command->add_flag("!--no-title", options.titles, "Figures without a title, for pages with captions");
  command->add_flag("--follow", options.follow, "One JSON line a step on stdout");
}

void add_eval(CLI::App& app, EvalOptions& options) {
  CLI::App* command = app.add_subcommand("eval", "Accuracy of a snapshot on held-out sequences");
  command->add_option("snapshot", options.snapshot, "Snapshot (.safetensors)")->required();
  command->add_option("--task", options.task, "Another task: its name or configuration as JSON");
  command->add_option("--bindings", options.bindings, "Grid: numbers of bindings, 1,2,4,8")->delimiter(',');
  command->add_option("--lengths", options.lengths, "Grid: sequence lengths, 64,128")->delimiter(',');
  command->add_flag_callback(
      "--grid",
      [&options] {
        options.bindings = {1, 2, 4, 8};
        options.lengths = {64, 128, 256, 512};
      },
      "Grid of 1 to 8 bindings and lengths 64 to 512");
  command->add_option("--examples", options.examples, "Sequences for each number [256]")->check(CLI::Range(1, 1 << 20));
  command->add_option("--csv", options.csv, "Write the grid to a file");
}

void add_plot(CLI::App& app, PlotOptions& options) {
  CLI::App* command = app.add_subcommand("plot", "Write a plot as the window shows it");
  command->add_option("kind", options.kind, "training, spectrum, ... (`afterglow info` lists them)")->required();
  add_start(*command, options.start);
  command->add_option("--snapshot", options.snapshots,
                      "The moment of a snapshot; again: other seeds, which a forecast shows beside it");
  command->add_option("--steps", options.until, "The moment after so many steps of the recipe")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--svg", options.svg, "File to write");
  command->add_option("--pdf", options.pdf, "File to write");
  command->add_option("--png", options.png, "File to write");
  command->add_option("--csv", options.csv, "File to write");
  command->add_option("--size", options.size, "column (85 mm), page (178 mm) or slide (16:9)");
  command->add_flag("!--no-title", options.titles, "No title above the plot, for pages with captions");
  command->add_option("--figure", options.number,
                      "Which figure of the panel, from 0; of a paper's figure all without it");
  command->add_option("--layer", options.layer, "Selected layer, as listed in the window");
  command->add_option("--head", options.head, "Selected head");
  command->add_option("--token", options.token, "Selected token");
  command->add_option("--power", options.power, "K of the power filter");
  command->add_option("--influence", options.influence,
                      "What influence and race measure: {\"tokens\": 1024, \"source\": 8, \"directions\": 64}");
  command->add_option("--problem", options.problem,
                      "Spectrum for the solvers: {\"shape\": \"geometric\", \"kappa\": 51}");
  command->add_option("--arithmetic", options.arithmetic, "Arithmetic of the solvers: bf16, tf32, fp32 or fp64");
  command->add_flag("--all-heads", options.all_heads, "Every head of the layer");
}

void add_info(CLI::App& app, InfoOptions& options) {
  app.add_subcommand("info", "What this program and machine can do, or what a file holds")
      ->add_option("file", options.file, "Snapshot, recipe or exported figure");
}

void add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* command = app.add_subcommand("bench", "Measure training steps and layers on this machine");
  command->add_option("name", options.name, "Only benchmarks whose names begin with this, or else have it in them");
  command->add_option("--repeats", options.repeats, "Repeats, the median counts [15]")->check(CLI::Range(1, 10000));
}

void add_soak(CLI::App& app, SoakOptions& options) {
  CLI::App* command = app.add_subcommand("soak", "Train and look for minutes; fails when memory grows");
  add_start(*command, options.start);
  command->add_option("--seconds", options.seconds, "How long [600]")->check(CLI::Range(1.0, 1e6));
}

void add_layer(CLI::App& app, LayerOptions& options) {
  CLI::App* command = app.add_subcommand("layer", "Run one layer of a file forward and backward");
  command->add_option("file", options.file, "safetensors with param.*, x, grad_y and metadata layer, config")
      ->required();
  command->add_option("--out", options.out, "Result: y, grad.*, probe.*")->required();
  command->add_flag("--float64", options.float64, "Compute in float64 (CPU)");
}

void add_table(CLI::App& app, TableOptions& options) {
  CLI::App* command = app.add_subcommand("table", "Train the runs of a comparison and write its table and figures");
  command->add_option("name", options.name, "mqar, ... (`afterglow info` lists them)")->required();
  command->add_option("--only", options.only, "Only runs with this in their file name");
  command->add_option("--seeds", options.seeds, "Runs of each row, with one seed after another")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--jobs", options.jobs,
                   "Runs trained side by side [1]; six small ones on one GPU take about 0.6 of their time")
      ->check(CLI::Range(1, 64));
  command->add_option("--data", options.data, "Data of every recipe's task, such as ETTh1.csv");
  command->add_option("--set", options.assignments, "Change every recipe: steps=500, batch=32, ...")->take_all();
  command->add_option("--out", options.out, "Folder of the results; what is finished there is not trained again");
}

void add_common(CLI::App& app, CommonOptions& common, Output& output) {
  app.add_flag("--json", output.json, "One JSON object on stdout");
  app.add_flag("--quiet", output.quiet, "No messages, no progress");
  app.add_option("--device", common.device, "auto, cpu or cuda")->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--precision", common.precision, "Products in fp32, tf32 or bf16 (GPU)")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
  app.add_option("--threads", common.threads, "CPU threads, 0: all")->check(CLI::Range(0, 1024));
  app.add_flag("--force", common.force, "Overwrite files");
  app.fallthrough();
}

void add_window(CLI::App& app, std::vector<std::string>& files, WindowOptions& window) {
  app.add_option("files", files, "Preset, snapshot, recipe or exported figure to open in the window");
  app.add_option("--script", window.script, "Commands for the window, a JSON file");
  app.add_option("--screenshot", window.screenshot, "Write a picture of the window at the end");
  app.add_option("--frames", window.exit_after_frames, "Close the window after so many frames");
  app.add_option("--theme", window.theme, "dark, light or projector");
  app.add_option("--scale", window.scale, "Size of everything, 1 is normal");
  app.add_option("--size", window.size, "Window size, 1600x1000");
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Says the failure once: as JSON on stdout, or as a sentence on stderr.
int fail(const Output& output, ExitCode code, const std::string& message) {
  if (output.json) {
    std::printf("%s\n", json{{"ok", false}, {"code", static_cast<int>(code)}, {"error", message}}
                            .dump(-1, ' ', false, json::error_handler_t::replace)
                            .c_str());
  } else {
    std::fprintf(stderr, "afterglow: %s\n", message.c_str());
  }
  return static_cast<int>(code);
}

int run_guarded(const Output& output, const Command& command) {
  try {
    json result = command();
    if (output.json && result.is_object()) {
      result["ok"] = true;
      std::printf("%s\n", result.dump().c_str());
    }
    if (std::fflush(stdout) != 0)
      return fail(output, ExitCode::failure, "stdout cannot be written: the disk is full or the reader went away");
    return 0;
  } catch (const Error& error) {
    return fail(output, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(output, ExitCode::out_of_memory, "not enough memory; choose a smaller model, batch or length");
  } catch (const std::exception& error) {
    return fail(output, ExitCode::failure, error.what());
  }
}

std::string unknown_word_advice(const CLI::App& app, const std::string& message, int argc, char** argv) {
  std::vector<std::string> words = command_names(app);
  for (const CLI::App* level : app.get_subcommands()) {
    for (const CLI::Option* option : level->get_options()) words.push_back(option->get_name());
  }
  for (const CLI::Option* option : app.get_options()) words.push_back(option->get_name());
  for (int i = 1; i < argc; ++i) {
    if (std::find(words.begin(), words.end(), argv[i]) != words.end()) continue;
    const std::string advice = did_you_mean(argv[i], words);
    if (!advice.empty()) return message + advice;
  }
  return message + "; see --help";
}

bool is_preset(const std::string& word) {
  const std::vector<Preset>& known = presets();
  return std::any_of(known.begin(), known.end(), [&](const Preset& one) { return one.name == word; });
}

/// Words and options of the window are parsed beside every command; with one they would be passed over in silence.
void refuse_words_of_window(const CLI::App& app, const std::vector<std::string>& files) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (commands.empty()) return;
  const std::string command = commands.front()->get_name();
  for (const char* option : window_options) {
    if (app.get_option(option)->count() == 0) continue;
    const bool knows = commands.front()->get_option_no_throw(option) != nullptr;
    throw Error(ExitCode::usage, std::string(option) + (knows ? " belongs behind `" + command + "`"
                                                              : " is for the window; `" + command + "` opens none"));
  }
  if (files.empty()) return;
  const std::string& word = files.front();
  throw Error(ExitCode::usage, "`" + command + "` has no place for \"" + word + "\"" +
                                   (is_preset(word) ? "; a preset is chosen with --preset " + word : "") +
                                   "; see `afterglow " + command + " --help`");
}

/// A word beside no command is a file, or the name of a preset where there is no such file.
void take_words(const CLI::App& app, const std::vector<std::string>& words, StartOptions& start,
                WindowOptions& options) {
  if (words.empty()) return;
  const std::string& word = words.front();
  if (words.size() > 1)
    throw Error(ExitCode::usage, "the window opens one file or preset; \"" + words[1] + "\" is one too many");
  if (!start.preset.empty() || !start.recipe.empty())
    throw Error(ExitCode::usage, "give \"" + word + "\", --preset or --recipe, not several");
  if (std::filesystem::exists(word)) {
    if (!start.assignments.empty() || !start.data.empty() || start.seed >= 0)
      throw Error(ExitCode::usage, "a file opens as it is; --set, --data and --seed go with --preset or --recipe");
    open_saved_run(word);  // a bad file is told here, before a window opens
    options.open_path = word;
    return;
  }
  if (is_preset(word)) {
    start.preset = word;
    return;
  }
  std::vector<std::string> known = command_names(app);
  for (const Preset& preset : presets()) known.push_back(preset.name);
  const std::string advice = did_you_mean(word, known);
  if (!advice.empty()) throw Error(ExitCode::usage, "there is no command, preset or file \"" + word + "\"" + advice);
  open_saved_run(word);  // tells what is wrong with it
}

json open_window(const CLI::App& app, const std::vector<std::string>& words, StartOptions& start,
                 WindowOptions& options, const CommonOptions& common) {
  options.session.device = common.device;
  options.session.threads = common.threads;
  take_words(app, words, start, options);
  options.recipe = to_json(starting_run(start, common, "tiny").recipe).dump();
  const int code = run_window(options);
  if (code != 0)
    throw Error(static_cast<ExitCode>(code),
                "the window could not be opened; `afterglow train` works without a display");
  return nullptr;
}

/// All that can be written on the command line, and which command that chooses.
struct Arguments {
  Output output;
  CommonOptions common;
  std::vector<std::string> files;
  StartOptions start;  ///< of the window
  WindowOptions window;
  TrainOptions train;
  EvalOptions eval;
  PlotOptions plot;
  InfoOptions info;
  BenchOptions bench;
  SoakOptions soak;
  LayerOptions layer;
  TableOptions table;

  void add_to(CLI::App& app) {
    add_common(app, common, output);
    add_window(app, files, window);
    add_start(app, start);
    add_train(app, train);
    add_eval(app, eval);
    add_plot(app, plot);
    add_info(app, info);
    add_bench(app, bench);
    add_soak(app, soak);
    add_layer(app, layer);
    add_table(app, table);
    app.require_subcommand(0, 1);
  }

  json run(const CLI::App& app) {
    refuse_words_of_window(app, files);
    if (app.got_subcommand("train")) return afterglow::train(train, common, output);
    if (app.got_subcommand("eval")) return evaluate(eval, common, output);
    if (app.got_subcommand("plot")) return afterglow::plot(plot, common, output);
    if (app.got_subcommand("info")) return afterglow::info(info, common, output);
    if (app.got_subcommand("bench")) return afterglow::bench(bench, common, output);
    if (app.got_subcommand("soak")) return afterglow::soak(soak, common, output);
    if (app.got_subcommand("layer")) return afterglow::layer(layer, common, output);
    if (app.got_subcommand("table")) return afterglow::table(table, common, output);
    return open_window(app, files, start, window, common);
  }
};

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app("Afterglow shows what sequence layers remember.");
  app.set_version_flag("--version", version_line());
  app.footer(std::string(examples) + exit_codes);
  Arguments arguments;
  arguments.add_to(app);
  Output& output = arguments.output;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    for (int i = 1; i < argc; ++i) output.json = output.json || std::string(argv[i]) == "--json";
    return fail(output, ExitCode::usage, unknown_word_advice(app, error.what(), argc, argv));
  }
  return run_guarded(output, [&] { return arguments.run(app); });
}

}  // namespace afterglow
