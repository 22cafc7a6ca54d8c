// The arguments of every command, and what happens when one fails.
#include "app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "app/cli/examples.h"
#include "app/cli/start.h"
#include "app/cli/version.h"
#include "app/lessons/lesson_options.h"
#include "app/shell/shell_texts.h"
#include "app/window/window.h"
#include "core/engine/recipe/lesson.h"
#include "core/engine/recipe/recipe_text.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/figure/files/page_writer.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"

namespace afterglow {

namespace {

using nlohmann::json;
constexpr const char* window_options[] = {"--preset",     "--recipe", "--set",   "--data",  "--seed", "--script",
                                          "--screenshot", "--frames", "--theme", "--scale", "--size", "--portable"};

/// Checks that a number lies within these bounds.
template <class Number>
CLI::Validator number_from(Number least, Number most = std::numeric_limits<Number>::max()) {
  const auto text_of = [](Number number) {
    if constexpr (std::is_integral_v<Number>) return std::to_string(number);
    return shortest(static_cast<double>(number));
  };
  const bool is_open = most == std::numeric_limits<Number>::max();
  const std::string range = "from " + text_of(least) + (is_open ? " on" : " to " + text_of(most));
  const auto problem = [=](const std::string& text) -> std::string {
    const auto number = [&] {
      if constexpr (std::is_integral_v<Number>)
        return parse_whole_number(text);
      else
        return parse_number(text);
    }();
    if (number && *number >= least && *number <= most) return "";
    return std::string("expected a ") + (std::is_integral_v<Number> ? "whole " : "") + "number " + range + ", got " +
           in_quotes(text);
  };
  return {problem, "(" + range + ")"};
}

/// A switch that turns something off.
void add_off_switch(CLI::App& command, const char* name, bool& value, const char* meaning) {
  command.add_flag_callback(
      name, [&value] { value = false; }, meaning);
}

/// Names the options that a command needs in its line of usage.
void need(CLI::App& command, const char* options) {
  const auto formatter = std::make_shared<CLI::Formatter>();
  formatter->label("Usage", std::string("Usage, with ") + options);
  command.formatter(formatter);
}

CLI::App* add_command(CLI::App& app, const char* name, const char* meaning, const char* its_examples) {
  CLI::App* command = app.add_subcommand(name, meaning);
  command->footer(std::string(its_examples) + exit_codes);
  return command;
}

void add_start(CLI::App& command, StartOptions& start) {
  command.add_option("--preset", start.preset, "Start from a preset (`afterglow info` lists them)");
  command.add_option("--recipe", start.recipe, "Start from a recipe (.json) or an exported figure");
  command.add_option("--set", start.assignments, "Change the recipe: learning_rate=1e-3, task.bindings=8, ...")
      ->take_all();
  command.add_option("--data", start.data, "Data for the task: a text, token numbers, or a CSV file");
  command.add_option("--seed", start.seed, "Seed of weights and data")
      ->check(number_from(std::int64_t{0}, largest_seed));
}

void add_text(CLI::App& command, TextOptions& options, const char* meaning) {
  CLI::Option* text = command.add_option("--text", options.text, meaning);
  command.add_option("--text-file", options.file, "The same from a UTF-8 file")->excludes(text);
}

void add_saves(CLI::App& command, SaveInterval& saves) {
  command.add_option("--save-minutes", saves.minutes, "Save every so many minutes of training; 0: never [10]")
      ->check(number_from(0.0));
  command.add_option("--save-steps", saves.steps, "Save every so many steps of training; 0: never [0]")
      ->check(number_from(std::int64_t{0}));
}

void add_train(CLI::App& app, TrainOptions& options) {
  CLI::App* command = add_command(app, "train", "Train; writes snapshot, metrics, recipe and figures", train_examples);
  add_start(*command, options.start);
  command->add_option("--resume", options.start.snapshot,
                      "Continue a snapshot, or start from the weights in a model folder");
  command->add_option("--text-file", options.start.text_file, "Text as data, for the tokenizer.json of the folder")
      ->excludes("--data");
  command->add_option("--steps", options.start.steps, "Last step of the training and of its learning rate schedule")
      ->check(number_from(std::int64_t{1}));
  command->add_option("--until", options.until, "Stop after this step; the schedule stays the same")
      ->check(number_from(std::int64_t{0}));
  command->add_option("--out", options.out, "Folder for the results [out]");
  add_saves(*command, options.saves);
  command
      ->add_option(
          "--figures", options.figures,
          "Figures to write; page: of the page that the window opens for this model; all: of every page; none [page]")
      ->check(CLI::IsMember({"page", "all", "none"}));
  command->add_flag_callback(
      "--no-figures", [&options] { options.figures = "none"; }, "The same as --figures none");
  add_off_switch(*command, "--no-title", options.titles, "Figures without a title, for pages with captions");
  command->add_option("--stop-when", options.stop_when,
                      "Stop at the first step at which a condition begins to hold: \"held_out_accuracy > 0.9\"");
  command->add_flag("--follow", options.follow, "JSON lines on stdout: one for each step, the last is the result");
}

void add_eval(CLI::App& app, EvalOptions& options) {
  CLI::App* command = add_command(app, "eval", "Accuracy of a snapshot on held-out sequences", eval_examples);
  command->add_option("snapshot", options.snapshot, "Snapshot (.safetensors), or the folder of a model")->required();
  command->add_option("--task", options.task, "Another task: its name or configuration as JSON");
  command->add_option("--text-file", options.text_file, "Text as data, for the tokenizer.json of the folder");
  command->add_option("--bindings", options.bindings, "Grid: numbers of key-value pairs, 1,2,4,8")
      ->delimiter(',')
      ->check(number_from(1, 1 << 20));
  command->add_option("--lengths", options.lengths, "Grid: sequence lengths, 64,128")
      ->delimiter(',')
      ->check(number_from(1, 1 << 24));
  command->add_flag_callback(
      "--grid",
      [&options] {
        options.bindings = {1, 2, 4, 8};
        options.lengths = {64, 128, 256, 512};
      },
      "Grid of 1 to 8 key-value pairs and lengths 64 to 512");
  command->add_option("--examples", options.examples, "Held-out sequences for each number [256]")
      ->check(number_from(1, 1 << 20));
  CLI::Option* recurrent =
      command->add_flag("--recurrent", options.is_recurrent,
                        "Read token by token, as decoding does, and compare with reading all tokens at once");
  CLI::Option* decode =
      command
          ->add_option("--decode", options.decoded,
                       "Read all but the last so many tokens at once, as a prompt, and the last ones one by one")
          ->check(number_from(0, 1 << 20))
          ->excludes(recurrent);
  command
      ->add_flag("--freeze-scale", options.keeps_scale,
                 "With --decode: keep SKA's scale m from the end of the prompt (Echo 3.2.1); without: update it")
      ->needs(decode);
  command
      ->add_flag(
          "--perplexity", options.has_perplexity,
          "Also report the perplexity of the answers, and how often the right one is among the five most probable")
      ->excludes(recurrent)
      ->excludes(decode);
  command->add_option("--csv", options.csv, "Write the grid to a file");
}

void add_plot(CLI::App& app, PlotOptions& options) {
  CLI::App* command = add_command(app, "plot", "Write a plot as the window shows it", plot_examples);
  command->add_option("kind", options.kind, "training, spectrum, ... (`afterglow info` lists them)")->required();
  add_start(*command, options.start);
  command->add_option("--snapshot", options.snapshots,
                      "Snapshot to plot; repeat for other seeds, whose spread a forecast shows");
  command->add_option("--steps", options.until, "Train the recipe for so many steps, then plot")
      ->check(number_from(std::int64_t{0}));
  command->add_option("--svg", options.svg, "File to write");
  command->add_option("--pdf", options.pdf, "File to write");
  command->add_option("--png", options.png, "File to write");
  command->add_option("--csv", options.csv, "File to write");
  command->add_option("--size", options.size, "column (85 mm), page (178 mm) or slide (16:9)");
  add_off_switch(*command, "--no-title", options.titles, "No title above the plot, for pages with captions");
  need(*command, "--svg, --pdf, --png or --csv FILE");
  command
      ->add_option("--figure", options.number,
                   "Which figure of the panel, from 0; without it a paper's figure has all parts")
      ->check(number_from(0));
  command->add_option("--layer", options.layer, "Selected layer, by its number or name in the window: 1.ska");
  command->add_option("--head", options.head, "Selected head")->check(number_from(0));
  command->add_option("--token", options.token, "Selected token")->check(number_from(0));
  command->add_option("--power", options.power, "K of the power filter")->check(number_from(0, 64));
  add_text(*command, options.text, "The sequence to plot, as text");
  command->add_option("--influence", options.influence,
                      "Settings of influence and race: {\"tokens\": 1024, \"source\": 8, \"directions\": 64}");
  command->add_option("--pair", options.pair,
                      "For patch, transplant and logit_lens: a file with two sequences of token numbers, the clean one "
                      "and the corrupted one (.npy, .safetensors, or two lines)");
  command->add_option("--ask", options.asked,
                      "A command of a script, run before the plot: {\"name\": \"pair\", \"value\": {\"at\": 4, "
                      "\"label\": \"v9\"}}");
  command
      ->add_option(
          "--part", options.part,
          "Share of an analysis to compute, 0 to 1, where a large model makes it slow; its time is printed first")
      ->check(number_from(0.0, 1.0));
  command->add_option("--problem", options.problem,
                      "Spectrum for the solvers: {\"shape\": \"geometric\", \"kappa\": 51}");
  command->add_option("--arithmetic", options.arithmetic, "Arithmetic of the solvers: bf16, tf32, fp32 or fp64");
  command->add_flag("--all-heads", options.all_heads, "Plot every head of the layer");
}

void add_info(CLI::App& app, InfoOptions& options) {
  CLI::App* command =
      add_command(app, "info", "Show what this program and machine can do, or what a file contains", info_examples);
  command->add_option("file", options.file, "Snapshot, recipe, exported figure or the folder of a model");
  command->add_flag("--optimiser", options.optimiser, "Also list the optimiser's tensors of a snapshot");
  command->add_flag("--models", options.models, "List the models of other libraries that are opened");
}

void add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* command = add_command(app, "bench", "Measure training steps and layers on this machine", bench_examples);
  command->add_option("name", options.name,
                      "Run only benchmarks whose names begin with this, or, if none does, contain it");
  command->add_option("--repeats", options.repeats, "Repetitions; the median is reported [15]")
      ->check(number_from(1, 10000));
  command->add_option("--against", options.against, "Compare with an earlier result of --json");
  command->add_option("--seconds", options.seconds, "For bench long: longest time of a pass, in seconds [0.5]")
      ->check(number_from(1e-6, 3600.0));
  command->add_option("--svg", options.svg,
                      "For bench long: figure of time over length; FILE_memory.svg shows the memory");
}

void add_soak(CLI::App& app, SoakOptions& options) {
  CLI::App* command =
      add_command(app, "soak", "Train and analyse for several minutes; fails if memory grows", soak_examples);
  add_start(*command, options.start);
  command->add_option("--seconds", options.seconds, "Duration in seconds [600]")->check(number_from(1.0, 1e6));
}

void add_layer(CLI::App& app, LayerOptions& options) {
  CLI::App* command = add_command(app, "layer", "Run one layer from a file forward and backward", layer_examples);
  command->add_option("file", options.file, "safetensors with param.*, x, grad_y and metadata layer, config")
      ->required();
  command->add_option("--out", options.out, "File for the result: y, grad.*, probe.*")->required();
  command->add_flag("--float64", options.float64, "Compute in float64 (CPU)");
}

void add_study(CLI::App& command, StudyOptions& options) {
  command.add_option("--seeds", options.seeds, "Number of seeds with which each recipe is trained")
      ->check(number_from(1, 1000));
  command
      .add_option("--jobs", options.jobs,
                  "Runs trained at the same time [one for each processor; on each GPU as many as fit, up to 24]")
      ->check(number_from(1, 1024));
  command.add_option("--shard", options.shard,
                     "i/n: train only every n-th run from the i-th on; several processes can share the folder");
  add_saves(command, options.saves);
  command.add_flag("--list", options.list, "Print one command for each run instead of training");
  command.add_option("--out", options.out,
                     "Folder for the results; runs that are finished there are not trained again");
}

void add_forward(CLI::App& app, ForwardOptions& options) {
  CLI::App* command = add_command(app, "forward", "Compute the logits of a model for given tokens", forward_examples);
  command->add_option("model", options.model, "Snapshot, or a folder with config.json and safetensors")->required();
  command->add_option("--tokens", options.tokens, "Token numbers: .npy, .npz, .safetensors, .bin, JSON or text");
  add_text(*command, options.text, "A text instead, for the model's tokenizer.json");
  need(*command, "--tokens F, --text T or --text-file F");
  command->add_option("--out", options.out, "File for the result: logits [B, T, vocab]")->required();
}

void add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* command = add_command(app, "generate", "Let a model write, token by token", generate_examples);
  command->add_option("model", options.model, "Snapshot, or a folder with config.json and safetensors")->required();
  CLI::Option* prompt = command->add_option("--prompt", options.prompt,
                                            "Beginning as text or as labels of tokens; without it a held-out sequence");
  command->add_option("--tokens", options.tokens, "Beginning as a file of token numbers, in the formats of `forward`")
      ->excludes(prompt);
  add_text(*command, options.text, "How it begins, as text, whatever it begins with");
  command->add_option("--count", options.count, "Tokens to write [256]")->check(number_from(1, 1 << 24));
  command
      ->add_option("--temperature", options.temperature, "Temperature of sampling [1]; 0 takes the most probable token")
      ->check(number_from(0.0, 1e3));
  command->add_option("--top", options.top, "Sample only from the so many most probable tokens [all]")
      ->check(number_from(1, 1 << 24));
  command->add_flag("--prefill", options.prefills,
                    "Read the beginning at once, as a prompt, instead of token by token");
  command->add_flag("--freeze-scale", options.keeps_scale,
                    "Keep SKA's scale m from the end of the beginning (Echo 3.2.1); without: update it");
  command->add_option("--draw", options.seed, "Seed of the sampling [0]")->check(number_from(std::int64_t{0}));
}

void add_export(CLI::App& app, ExportOptions& options) {
  CLI::App* command = add_command(app, "export", "Write a model's weights for other programs", export_examples);
  command->add_option("model", options.model, "Snapshot, or a folder with config.json and safetensors")->required();
  command
      ->add_option("--format", options.format,
                   "transformers, fla (flash-linear-attention), sessa, spectral_memory or npz (NumPy)")
      ->required()
      ->check(CLI::IsMember(export_formats()));
  command->add_option("--out", options.out, "Folder to write into")->required();
}

void add_tokenize(CLI::App& app, TokenizeOptions& options) {
  CLI::App* command =
      add_command(app, "tokenize", "Token numbers of a text by a model's tokenizer.json", tokenize_examples);
  command->add_option("model", options.model, "Folder of a model, or its tokenizer.json")->required();
  add_text(*command, options.text, "The text");
  command->add_option("--json-lines", options.json_lines, "Many texts: a file with a JSON string on each line")
      ->excludes("--text")
      ->excludes("--text-file");
  add_off_switch(*command, "--no-special", options.has_special,
                 "Without the tokens that the file's template puts around a text");
  need(*command, "--text T, --text-file F or --json-lines F");
}

void add_table(CLI::App& app, TableOptions& options) {
  CLI::App* command =
      add_command(app, "table", "Train the runs of a comparison and write its table and figures", table_examples);
  command->add_option("name", options.name, "mqar, ... (`afterglow info` lists them)")->required();
  command->add_option("--only", options.only, "Train only runs whose file name contains this");
  command->add_option("--data", options.data, "Data for the task of every recipe, such as ETTh1.csv or a text");
  command->add_option("--set", options.assignments, "Change every recipe: steps=500, batch=32, ...")->take_all();
  add_study(*command, options);
}

void add_sweep(CLI::App& app, SweepOptions& options) {
  CLI::App* command = add_command(
      app, "sweep", "Train a recipe at every point of a grid of its fields; sweep.csv has one row for each run",
      sweep_examples);
  add_start(*command, options.start);
  command->add_option("--axis", options.axes, "A field of the recipe and its values; repeat for each axis")->take_all();
  command->add_option("--figure", options.figures, "Number to plot; repeat for several [accuracy]")->take_all();
  command->add_option("--enough", options.enough, "End a run early at this held-out accuracy")
      ->check(number_from(0.0, 1.0));
  add_study(*command, options);
}

void add_check(CLI::App& app, CheckOptions& options) {
  CLI::App* command = add_command(app, "check", "Run lessons and check what they expect", check_examples);
  command->add_option("lessons", options.lessons, "Names or files of lessons; without: all that are included");
  command->add_flag("--names", options.lists_names, "List the numbers at the end of a lesson, or of a preset");
}

void add_grade(CLI::App& app, GradeOptions& options) {
  CLI::App* command = add_command(app, "grade", "Show which goals of a lesson a recipe reaches", grade_examples);
  command->add_option("lesson", options.lesson, "Name or file of the lesson")->required();
  command->add_option("recipe", options.recipe, "Recipe, snapshot or exported figure")->required();
}

void add_handout(CLI::App& app, HandoutOptions& options) {
  CLI::App* command = add_command(app, "handout", "Write a lesson with its figures as PDF or HTML", handout_examples);
  command->add_option("lesson", options.lesson, "Name or file of the lesson")->required();
  command->add_option("--pdf", options.pdf, "File to write");
  command->add_option("--html", options.html, "File to write");
  need(*command, "--pdf FILE, --html FILE or both");
}

void add_shell_texts(CLI::App& app, std::string& shell) {
  CLI::App* command =
      add_command(app, "completion", "Print the script with which a shell completes words", completion_examples);
  command->add_option("shell", shell, "The shell")->required()->check(CLI::IsMember(known_shells()));
  add_command(app, "manual", "Print this help as a page for `man`", manual_examples);
}

void add_common(CLI::App& app, CommonOptions& common, Output& output) {
  std::vector<CLI::Option*> options{
      app.add_flag("--json", output.json, "Print one JSON object on stdout"),
      app.add_flag("--quiet", output.quiet, "Print no messages and no progress"),
      app.add_option("--device", common.device, "Device: auto, cpu or cuda")
          ->check(CLI::IsMember({"auto", "cpu", "cuda"})),
      app.add_option("--precision", common.precision, "Precision of matrix products on the GPU: fp32, tf32 or bf16")
          ->check(CLI::IsMember({"fp32", "tf32", "bf16"})),
      app.add_option("--threads", common.threads, "Number of CPU threads; 0: all")->check(number_from(0, 1024)),
      app.add_flag("--force", common.force, "Overwrite existing files")};
  for (CLI::Option* option : options) option->group("Options of every command");
}

void add_window(CLI::App& app, std::vector<std::string>& files, WindowOptions& window) {
  app.add_option("files", files,
                 "Preset, lesson, snapshot, recipe, exported figure or folder of a model to open in the window");
  app.add_option("--script", window.script, "JSON file with commands for the window");
  app.add_option("--screenshot", window.screenshot, "Write a picture of the window at the end");
  app.add_option("--frames", window.exit_after_frames, "Close the window after this number of frames")
      ->check(number_from(0));
  app.add_option("--theme", window.theme, "dark, light or projector")
      ->check(CLI::IsMember({"dark", "light", "projector"}));
  app.add_flag("--lock", window.is_locked, "For a class: no controls; keys and mouse cannot change the run");
  app.add_flag("--presenter", window.has_presenter, "Open a second window with the notes of the lesson");
  app.add_flag("--portable", window.is_portable,
               "Keep the settings in the program's folder, as a file `portable` there also does");
  app.add_option("--scale", window.scale, "Scale of text, plots and controls; 1 is normal")
      ->check(number_from(0.5, 3.0));
  app.add_option("--size", window.size, "Size of the window in pixels, such as 1600x1000");
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

/// Names the file and its fault, because the JSON library's own text is for programmers.
std::string sentence_of(const std::filesystem::filesystem_error& error) {
  const std::string file = error.path1().string();
  return (file.empty() ? "a folder" : file) + ": " + error.code().message() + "; check the disk and the permissions";
}

/// Every failure to create a thread arrives as this exception.
std::string sentence_of(const std::system_error& error) {
  return "cannot create a thread: " + error.code().message() + "; close other programs, or raise the limit (ulimit -u)";
}

/// Runs `work` and returns its exit code. Reports a failure, also when no memory is left.
int run_guarded(const Output& output, const std::function<void()>& work) {
  try {
    work();
    require_output_arrived();
    return 0;
  } catch (const Error& error) {
    return say_failure(output, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return say_failure(output, ExitCode::out_of_memory, "not enough memory; choose a smaller model, batch or length");
  } catch (const std::length_error&) {
    return say_failure(output, ExitCode::out_of_memory,
                       "more memory is needed than can be addressed; choose a smaller model, batch or length");
  } catch (const json::exception&) {
    return say_failure(output, ExitCode::bad_input,
                       "a value in the file has the wrong type, such as a text instead of a number; compare it with "
                       "`afterglow info --json`");
  } catch (const std::filesystem::filesystem_error& error) {
    const bool is_memory = error.code() == std::errc::not_enough_memory;
    return say_failure(output, is_memory ? ExitCode::out_of_memory : ExitCode::bad_input, sentence_of(error).c_str());
  } catch (const std::system_error& error) {
    return say_failure(output, ExitCode::failure, sentence_of(error).c_str());
  } catch (const std::exception& error) {
    return say_failure(output, ExitCode::failure, error.what());
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
    const bool is_command = i == 1 && argv[i][0] != '-';
    if (!advice.empty()) return (is_command ? "there is no command " + in_quotes(argv[i]) : message) + advice;
  }
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return message + "; see `afterglow " + (commands.empty() ? "" : commands.front()->get_name() + " ") + "--help`";
}

bool is_preset(const std::string& word) {
  const std::vector<Preset>& known = presets();
  return std::any_of(known.begin(), known.end(), [&](const Preset& one) { return one.name == word; });
}

bool is_lesson(const std::string& word) {
  return std::ranges::any_of(shipped_lessons(), [&](const ShippedLesson& one) { return one.name == word; });
}

/// CLI11 also parses words and options of the window next to a command; without this check they would be ignored
/// silently.
void refuse_words_of_window(const CLI::App& app, const std::vector<std::string>& files) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (commands.empty()) return;
  const std::string command = commands.front()->get_name();
  for (const char* option : window_options) {
    if (app.get_option(option)->count() == 0) continue;
    const bool knows = commands.front()->get_option_no_throw(option) != nullptr;
    throw Error(ExitCode::usage, std::string(option) + (knows ? " belongs after `" + command + "`"
                                                              : " is for the window; `" + command + "` opens none"));
  }
  if (files.empty()) return;
  const std::string& word = files.front();
  throw Error(ExitCode::usage, "`" + command + "` takes no argument \"" + word + "\"" +
                                   (is_preset(word) ? "; a preset is chosen with --preset " + word : "") +
                                   "; see `afterglow " + command + " --help`");
}

/// A word that is close to a known name was mistyped; any other is a missing file.
void refuse_unknown_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known = command_names(app);
  for (const Preset& preset : presets()) known.push_back(preset.name);
  for (const ShippedLesson& one : shipped_lessons()) known.push_back(one.name);
  const std::string advice = did_you_mean(word, known);
  if (!advice.empty())
    throw Error(ExitCode::usage, "there is no command, preset, lesson or file \"" + word + "\"" + advice);
  refuse_missing_file(word);
}

/// A word without a command is a file, or the name of a preset if there is no such file.
void take_words(const CLI::App& app, const std::vector<std::string>& words, StartOptions& start,
                WindowOptions& options) {
  if (words.empty()) return;
  const std::string& word = words.front();
  const bool is_file = std::filesystem::exists(word);
  if (!is_file && !is_preset(word) && !is_lesson(word)) refuse_unknown_word(app, word);
  if (words.size() > 1)
    throw Error(ExitCode::usage, "the window opens one file or preset; \"" + words[1] + "\" is one too many");
  if (!start.preset.empty() || !start.recipe.empty())
    throw Error(ExitCode::usage, "give only one of \"" + word + "\", --preset and --recipe");
  if (word.ends_with(".md") || (!is_file && is_lesson(word))) {
    open_lesson(word);  // reports a fault before a window opens
    options.lesson = word;
    return;
  }
  if (is_file) {
    if (!start.assignments.empty() || !start.data.empty() || start.seed >= 0)
      throw Error(ExitCode::usage, "a file opens unchanged; --set, --data and --seed need --preset or --recipe");
    open_saved_run(word);  // reports a bad file before a window opens
    options.open_path = word;
    return;
  }
  start.preset = word;
}

json open_window(const CLI::App& app, const std::vector<std::string>& words, StartOptions& start,
                 WindowOptions& options, const CommonOptions& common) {
  options.session.device = common.device;
  options.session.threads = common.threads;
  if (!options.screenshot.empty()) require_writable(options.screenshot);
  take_words(app, words, start, options);
  if (!common.precision.empty() && !(options.open_path.empty() && options.lesson.empty()))
    throw Error(ExitCode::usage, "a file or lesson opens with its own precision; choose another one in the window");
  options.recipe = to_json(starting_run(start, common, "few-modes").recipe).dump();
  run_window(options);
  return nullptr;
}

/// All options of the command line, and the parser that chooses the command.
struct Arguments {
  Output output;
  CommonOptions common;
  std::vector<std::string> files;
  StartOptions start;  ///< options of the window
  WindowOptions window;
  TrainOptions train;
  EvalOptions eval;
  PlotOptions plot;
  InfoOptions info;
  BenchOptions bench;
  SoakOptions soak;
  LayerOptions layer;
  ForwardOptions forward;
  GenerateOptions generate;
  ExportOptions exported;
  TokenizeOptions tokenize;
  TableOptions table;
  SweepOptions sweep;
  CheckOptions check;
  GradeOptions grade;
  HandoutOptions handout;
  std::string shell;

  void add_to(CLI::App& app) {
    app.fallthrough();
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
    add_forward(app, forward);
    add_generate(app, generate);
    add_export(app, exported);
    add_tokenize(app, tokenize);
    add_table(app, table);
    add_sweep(app, sweep);
    add_check(app, check);
    add_grade(app, grade);
    add_handout(app, handout);
    add_shell_texts(app, shell);
    for (CLI::App* command : app.get_subcommands({})) add_common(*command, common, output);
    app.require_subcommand(0, 1);
  }

  json run(const CLI::App& app) {
    refuse_words_of_window(app, files);
    for (const char* name : {"info", "export", "tokenize", "check", "grade", "handout", "completion", "manual"}) {
      if (!common.precision.empty() && app.got_subcommand(name))
        throw Error(ExitCode::usage, std::string(name) + " does not use --precision; leave it out");
    }
    output.json = output.json || train.follow;  // one reader parses the lines of the steps and of the result
    if (app.got_subcommand("train")) return afterglow::train(train, common, output);
    if (app.got_subcommand("eval")) return evaluate(eval, common, output);
    if (app.got_subcommand("plot")) return afterglow::plot(plot, common, output);
    if (app.got_subcommand("info")) return afterglow::info(info, common, output);
    if (app.got_subcommand("bench")) return afterglow::bench(bench, common, output);
    if (app.got_subcommand("soak")) return afterglow::soak(soak, common, output);
    if (app.got_subcommand("layer")) return afterglow::layer(layer, common, output);
    if (app.got_subcommand("forward")) return afterglow::forward(forward, common, output);
    if (app.got_subcommand("generate")) return afterglow::generate(generate, common, output);
    if (app.got_subcommand("export")) return export_model(exported, common, output);
    if (app.got_subcommand("tokenize")) return afterglow::tokenize(tokenize, common, output);
    if (app.got_subcommand("table")) return afterglow::table(table, common, output);
    if (app.got_subcommand("sweep")) return afterglow::sweep(sweep, common, output);
    if (app.got_subcommand("check")) return afterglow::check(check, common, output);
    if (app.got_subcommand("grade")) return afterglow::grade(grade, common, output);
    if (app.got_subcommand("handout")) return afterglow::handout(handout, common, output);
    if (app.got_subcommand("completion")) return print(completion_script(app, shell));
    if (app.got_subcommand("manual")) return print(manual_page(app, version_line()));
    return open_window(app, files, start, window, common);
  }

 private:
  json print(const std::string& text) const {
    if (!output.json) std::fputs(text.c_str(), stdout);
    return {{"text", text}};
  }
};

/// Parses the arguments and runs the command.
void run_arguments(int argc, char** argv, Output& asked) {
  CLI::App app("Afterglow shows what sequence layers remember.");
  app.set_version_flag("--version", version_line());
  app.footer(std::string(window_examples) + exit_codes);
  Arguments arguments;
  arguments.add_to(app);
  arguments.table.words = arguments.sweep.words = {argv + 1, argv + argc};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // or the version
    app.exit(help);
    return;
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::usage, unknown_word_advice(app, error.what(), argc, argv));
  }
  for (const std::filesystem::path& folder : asset_folders()) add_page_fonts(folder / "fonts");
  json result = arguments.run(app);
  asked.json = arguments.output.json;
  if (!asked.json || !result.is_object()) return;
  result["ok"] = true;
  if (!arguments.output.notes.empty()) result["notes"] = arguments.output.notes;
  // File names are bytes, and JSON stores text.
  std::printf("%s\n", result.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

}  // namespace

int run_command_line(int argc, char** argv) {
  Output asked;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    asked.json = asked.json || word == "--json" || word == "--follow";
  }
  return run_guarded(asked, [&] { run_arguments(argc, argv, asked); });
}

}  // namespace afterglow
