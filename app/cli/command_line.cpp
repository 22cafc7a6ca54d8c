// The arguments of every command, and what happens when one fails.
#include "app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "app/cli/start.h"
#include "app/cli/version.h"
#include "app/lessons/lesson_options.h"
#include "app/shell/shell_texts.h"
#include "app/window/window.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/figure/files/page.h"
#include "core/io/embedded_text.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/recipe/lesson.h"
#include "core/recipe/recipe.h"

namespace afterglow {

/// The files of assets/help.
std::span<const EmbeddedText> help_files();

const json& help_texts() {
  static const json texts = json::parse(help_files().front().json);
  return texts;
}

namespace {

constexpr const char* window_options[] = {"--preset", "--recipe",     "--set",    "--data",   "--seed",
                                          "--script", "--screenshot", "--frames", "--theme",  "--scale",
                                          "--size",   "--portable",   "--on",     "--through"};

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
void add_off_switch(CLI::App& command, const char* name, bool& value) {
  command.add_flag_callback(name, [&value] { value = false; });
}

/// Names the options that a command needs in its line of usage.
void need(CLI::App& command, const char* options) {
  const auto formatter = std::make_shared<CLI::Formatter>();
  formatter->label("Usage", std::string("Usage, with ") + options);
  command.formatter(formatter);
}

/// The lines with examples of a command and the exit codes, which `--help` shows last.
std::string footer_of(const std::string& name) {
  std::string footer = "Examples:\n";
  for (const json& line : help_texts().at(name).at("examples")) footer += line.get<std::string>() + "\n";
  return footer + help_texts().at("exit_codes").get<std::string>();
}

CLI::App* add_command(CLI::App& app, const std::string& name) {
  CLI::App* command = app.add_subcommand(name, help_texts().at(name).at("about").get<std::string>());
  command->footer(footer_of(name));
  return command;
}

/// Gives the options of a command their meanings: its own ones, or those that several commands share.
void describe_options(CLI::App& command, const std::string& name) {
  const json own = help_texts().at(name).value("options", json::object());
  for (CLI::Option* option : command.get_options()) {
    const json& meanings = own.contains(option->get_name()) ? own : help_texts().at("shared");
    if (meanings.contains(option->get_name())) option->description(meanings[option->get_name()].get<std::string>());
  }
}

void add_start(CLI::App& command, StartOptions& start) {
  command.add_option("--preset", start.preset);
  command.add_option("--recipe", start.recipe);
  command.add_option("--set", start.assignments)->take_all();
  command.add_option("--data", start.data);
  command.add_option("--seed", start.seed)->check(number_from(std::int64_t{0}, largest_seed));
}

void add_text(CLI::App& command, TextOptions& options) {
  CLI::Option* text = command.add_option("--text", options.text);
  command.add_option("--text-file", options.file)->excludes(text);
}

void add_step(CLI::App& command, std::int64_t& step) {
  command.add_option("--step", step)->check(number_from(std::int64_t{0}));
}

void add_saves(CLI::App& command, SaveInterval& saves) {
  command.add_option("--save-minutes", saves.minutes)->check(number_from(0.0));
  command.add_option("--save-steps", saves.steps)->check(number_from(std::int64_t{0}));
}

void add_train(CLI::App* command, TrainOptions& options) {
  add_start(*command, options.start);
  command->add_option("--resume", options.start.snapshot);
  command->add_option("--text-file", options.start.text_file)->excludes("--data");
  command->add_option("--steps", options.start.steps)->check(number_from(std::int64_t{1}));
  command->add_option("--until", options.until)->check(number_from(std::int64_t{0}));
  command->add_option("--out", options.out);
  add_saves(*command, options.saves);
  command->add_option("--figures", options.figures)->check(CLI::IsMember({"page", "all", "none"}));
  command->add_flag_callback("--no-figures", [&options] { options.figures = "none"; });
  add_off_switch(*command, "--no-title", options.titles);
  command->add_option("--stop-when", options.stop_when);
  command->add_flag("--follow", options.follow);
}

void add_eval(CLI::App* command, EvalOptions& options) {
  command->add_option("snapshot", options.snapshot)->required();
  add_step(*command, options.step);
  command->add_option("--task", options.task);
  command->add_option("--text-file", options.text_file);
  command->add_option("--bindings", options.bindings)->delimiter(',')->check(number_from(1, 1 << 20));
  command->add_option("--lengths", options.lengths)->delimiter(',')->check(number_from(1, 1 << 24));
  command->add_flag_callback("--grid", [&options] {
    options.bindings = {1, 2, 4, 8};
    options.lengths = {64, 128, 256, 512};
  });
  command->add_option("--examples", options.examples)->check(number_from(1, 1 << 20));
  CLI::Option* recurrent = command->add_flag("--recurrent", options.is_recurrent);
  CLI::Option* decode =
      command->add_option("--decode", options.decoded)->check(number_from(0, 1 << 20))->excludes(recurrent);
  command->add_flag("--freeze-scale", options.keeps_scale)->needs(decode);
  command->add_flag("--perplexity", options.has_perplexity)->excludes(recurrent)->excludes(decode);
  command->add_option("--csv", options.csv);
}

void add_plot(CLI::App* command, PlotOptions& options) {
  command->add_option("kind", options.kind)->required();
  add_start(*command, options.start);
  command->add_option("--snapshot", options.snapshots);
  command->add_option("--against", options.against);
  add_step(*command, options.start.step);
  command->add_option("--steps", options.until)->check(number_from(std::int64_t{0}));
  command->add_option("--svg", options.svg);
  command->add_option("--pdf", options.pdf);
  command->add_option("--png", options.png);
  command->add_option("--csv", options.csv);
  command->add_option("--size", options.size);
  add_off_switch(*command, "--no-title", options.titles);
  need(*command, "--svg, --pdf, --png or --csv FILE");
  command->add_option("--figure", options.number)->check(number_from(0));
  command->add_option("--layer", options.layer);
  command->add_option("--head", options.head)->check(number_from(0));
  command->add_option("--token", options.token)->check(number_from(0));
  command->add_option("--power", options.power)->check(number_from(0, 64));
  add_text(*command, options.text);
  command->add_option("--influence", options.influence);
  command->add_option("--pair", options.pair);
  command->add_option("--ask", options.asked);
  command->add_option("--part", options.part)->check(number_from(0.0, 1.0));
  command->add_option("--problem", options.problem);
  command->add_option("--arithmetic", options.arithmetic);
  command->add_flag("--all-heads", options.all_heads);
}

void add_info(CLI::App* command, InfoOptions& options) {
  command->add_option("file", options.file);
  command->add_flag("--optimiser", options.optimiser);
  command->add_flag("--models", options.models);
}

void add_bench(CLI::App* command, BenchOptions& options) {
  command->add_option("name", options.name);
  command->add_option("model", options.model);
  command->add_option("--repeats", options.repeats)->check(number_from(1, 10000));
  command->add_option("--against", options.against);
  command->add_option("--seconds", options.seconds)->check(number_from(1e-6, 3600.0));
  command->add_option("--svg", options.svg);
}

void add_layer(CLI::App* command, LayerOptions& options) {
  command->add_option("file", options.file)->required();
  command->add_option("--out", options.out)->required();
  command->add_flag("--float64", options.float64);
}

void add_study(CLI::App& command, StudyOptions& options) {
  command.add_option("--seeds", options.seeds)->check(number_from(1, 1000));
  command.add_option("--jobs", options.jobs)->check(number_from(1, 1024));
  command.add_option("--shard", options.shard);
  add_saves(command, options.saves);
  command.add_flag("--list", options.list);
  command.add_option("--out", options.out);
}

void add_forward(CLI::App* command, ForwardOptions& options) {
  command->add_option("model", options.model)->required();
  add_step(*command, options.step);
  command->add_option("--tokens", options.tokens);
  add_text(*command, options.text);
  need(*command, "--tokens F, --text T or --text-file F");
  command->add_option("--out", options.out)->required();
}

void add_generate(CLI::App* command, GenerateOptions& options) {
  command->add_option("model", options.model)->required();
  add_step(*command, options.step);
  CLI::Option* prompt = command->add_option("--prompt", options.prompt);
  command->add_option("--tokens", options.tokens)->excludes(prompt);
  add_text(*command, options.text);
  command->add_option("--count", options.count)->check(number_from(1, 1 << 24));
  command->add_option("--temperature", options.temperature)->check(number_from(0.0, 1e3));
  command->add_option("--top", options.top)->check(number_from(1, 1 << 24));
  command->add_option("--top-p", options.top_p)->check(number_from(0.0, 1.0));
  command->add_flag("--prefill", options.prefills);
  command->add_flag("--freeze-scale", options.keeps_scale);
  command->add_option("--draw", options.seed)->check(number_from(std::int64_t{0}));
}

void add_export(CLI::App* command, ExportOptions& options) {
  command->add_option("model", options.model)->required();
  add_step(*command, options.step);
  command->add_option("--format", options.format)->required()->check(CLI::IsMember(export_formats()));
  command->add_option("--out", options.out)->required();
}

void add_report(CLI::App* command, ReportOptions& options) {
  command->add_option("run", options.run)->required();
  command->add_option("-o,--out", options.out)->required();
  command->add_option("--plot", options.plots);
  command->add_option("--states", options.states)->check(number_from(1, 1000));
}

void add_tokenize(CLI::App* command, TokenizeOptions& options) {
  command->add_option("model", options.model)->required();
  add_text(*command, options.text);
  command->add_option("--json-lines", options.json_lines)->excludes("--text")->excludes("--text-file");
  add_off_switch(*command, "--no-special", options.has_special);
  need(*command, "--text T, --text-file F or --json-lines F");
}

void add_table(CLI::App* command, TableOptions& options) {
  command->add_option("name", options.name)->required();
  command->add_option("--only", options.only);
  command->add_option("--data", options.data);
  command->add_option("--set", options.assignments)->take_all();
  add_study(*command, options);
}

void add_sweep(CLI::App* command, SweepOptions& options) {
  add_start(*command, options.start);
  command->add_option("--axis", options.axes)->take_all();
  command->add_option("--figure", options.figures)->take_all();
  command->add_option("--enough", options.enough)->check(number_from(0.0, 1.0));
  add_study(*command, options);
}

void add_check(CLI::App* command, CheckOptions& options) {
  command->add_option("lessons", options.lessons);
  command->add_flag("--names", options.lists_names);
}

void add_grade(CLI::App* command, GradeOptions& options) {
  command->add_option("lesson", options.lesson)->required();
  command->add_option("recipe", options.recipe)->required();
}

void add_handout(CLI::App* command, HandoutOptions& options) {
  command->add_option("lesson", options.lesson)->required();
  command->add_option("--pdf", options.pdf);
  command->add_option("--html", options.html);
  need(*command, "--pdf FILE, --html FILE or both");
}

void add_common(CLI::App& app, CommonOptions& common, Output& output) {
  std::vector<CLI::Option*> options{
      app.add_flag("--json", output.json),
      app.add_flag("--quiet", output.quiet),
      app.add_option("--device", common.device)->check(CLI::IsMember({"auto", "cpu", "cuda"})),
      app.add_option("--precision", common.precision)->check(CLI::IsMember({"fp32", "tf32", "bf16"})),
      app.add_option("--threads", common.threads)->check(number_from(0, 1024)),
      app.add_flag("--force", common.force)};
  for (CLI::Option* option : options) option->group("Options of every command");
}

void add_session(CLI::App* command, SessionWordOptions& options) {
  command->add_option("name", options.name);
  command->add_flag("--listen", options.listens);
  command->add_flag("--connect", options.connects)->excludes("--listen");
  command->add_flag("--list", options.lists)->excludes("--listen", "--connect");
  command->add_flag("--stop", options.stops)->excludes("--listen", "--connect", "--list");
}

void add_window(CLI::App& app, std::vector<std::string>& files, WindowOptions& window) {
  CLI::Option* on = app.add_option("--on", window.on);
  app.add_option("--through", window.through)->excludes(on);
  app.add_option("--session", window.session_name);
  app.add_option("files", files);
  app.add_option("--script", window.script);
  app.add_option("--screenshot", window.screenshot);
  app.add_option("--frames", window.exit_after_frames)->check(number_from(0));
  app.add_option("--theme", window.theme)->check(CLI::IsMember({"dark", "light", "projector"}));
  app.add_flag("--lock", window.is_locked);
  app.add_flag("--presenter", window.has_presenter);
  app.add_flag("--portable", window.is_portable);
  app.add_option("--scale", window.scale)->check(number_from(0.5, 3.0));
  app.add_option("--size", window.size);
}

std::vector<std::string> command_names(const CLI::App& app) {
  return names_of(app.get_subcommands({}), [](const CLI::App* command) { return command->get_name(); });
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
    if (std::ranges::find(words, argv[i]) != words.end()) continue;
    const std::string advice = did_you_mean(argv[i], words);
    const bool is_command = i == 1 && argv[i][0] != '-';
    if (!advice.empty()) return (is_command ? "there is no command " + in_quotes(argv[i]) : message) + advice;
  }
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return message + "; see `afterglow " + (commands.empty() ? "" : commands.front()->get_name() + " ") + "--help`";
}

bool is_preset(const std::string& word) { return find_by(presets(), word, &Preset::name) != nullptr; }

/// CLI11 also parses words and options of the window next to a command; without this check they would be ignored
/// silently.
void refuse_words_of_window(const CLI::App& app, const std::vector<std::string>& files) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (commands.empty()) return;
  const std::string command = commands.front()->get_name();
  for (const char* option : window_options) {
    if (app.get_option(option)->count() == 0) continue;
    const bool knows = commands.front()->get_option_no_throw(option) != nullptr;
    throw UsageError(option,
                     knows ? " belongs after `" + command + "`" : " is for the window; `" + command + "` opens none");
  }
  if (files.empty()) return;
  const std::string& word = files.front();
  throw UsageError("`", command, "` takes no argument \"", word, "\"",
                   is_preset(word) ? "; a preset is chosen with --preset " + word : "", "; see `afterglow ", command,
                   " --help`");
}

/// A word that is close to a known name was mistyped; any other is a missing file.
void refuse_unknown_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known = command_names(app);
  for (const Preset& preset : presets()) known.push_back(preset.name);
  for (const ShippedLesson& one : shipped_lessons()) known.push_back(one.name);
  const std::string advice = did_you_mean(word, known);
  if (!advice.empty()) throw UsageError("there is no command, preset, lesson or file \"", word, "\"", advice);
  refuse_missing_file(word);
}

/// A word without a command is a file, or the name of a preset if there is no such file.
void take_words(const CLI::App& app, const std::vector<std::string>& words, StartOptions& start,
                WindowOptions& options) {
  if (words.empty()) return;
  const std::string& word = words.front();
  // Faults are reported before a window opens, unless the disk is slow; pictures and scripts wait for all of it.
  const double patience = is_automatic(options) ? 1e9 : 0.3;
  const bool is_there = !options.on.empty() || !options.through.empty(),
             is_file = !is_there && std::filesystem::exists(word);
  if (word == "text" && !is_file && !is_there) {
    if (words.size() != 2) throw UsageError("name the file: `afterglow text FILE`");
    options.session.opened = open_aside(
        words[1], [file = words[1]] { return read_text(file); }, patience);
    return;
  }
  if (is_there && words.size() > 1)
    throw UsageError("one file or preset opens on another machine; leave \"", words[1], "\" out");
  const bool is_far = is_there && !is_preset(word) && !is_lesson(word) && !word.ends_with(".md"),
             is_step = word.find('@') != word.npos && !is_file;
  for (const std::string& one : words) {
    if (!is_far && one.find('@') == one.npos && !std::filesystem::exists(one) && !is_preset(one) && !is_lesson(one))
      refuse_unknown_word(app, one);
  }
  if (words.size() > 2)
    throw UsageError("the window compares two files or presets; \"", words[2], "\" is one too many");
  if (!start.preset.empty() || !start.recipe.empty())
    throw UsageError("give only one of \"", word, "\", --preset and --recipe");
  if (word.ends_with(".md") || (!is_file && is_lesson(word))) {
    open_lesson(word);  // reports a fault before a window opens
    if (words.size() > 1) throw UsageError("a lesson is compared with nothing; leave \"", words[1], "\" out");
    options.lesson = word;
    return;
  }
  if (words.size() > 1) options.against = opening_named(words[1], patience);
  if (is_far || is_file || is_step) {
    if (!start.assignments.empty() || !start.data.empty() || start.seed >= 0)
      throw UsageError("a file opens unchanged; --set, --data and --seed need --preset or --recipe");
    if (is_far) return void(options.hello.path = word);
    options.session.opened = opening_named(word, patience);
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
  if (!common.precision.empty() &&
      (!options.session.opened.name.empty() || !options.hello.path.empty() || !options.lesson.empty()))
    throw UsageError("a file or lesson opens with its own precision; choose another one in the window");
  start.is_elsewhere = !options.on.empty() || !options.through.empty();
  if (!common.precision.empty() && !start.is_elsewhere) chosen_backend(common);  // refuses one that it does not have
  options.hello.opens = !words.empty() || !start.preset.empty() || !start.recipe.empty() ||
                        !start.assignments.empty() || !start.data.empty() || start.seed >= 0;
  options.recipe = to_json(starting_run(start, common, "few-modes").recipe).dump();
  run_window(options);
  return nullptr;
}

/// The commands with their options, and the options of the window.
class Arguments {
 public:
  Output output;

  /// Adds everything to the parser; `words` is the whole command line.
  Arguments(CLI::App& app, std::vector<std::string> words) : words_(std::move(words)) {
    app.fallthrough();
    add_common(app, common_, output);
    add_window(app, files_, window_);
    add_start(app, start_);
    add(app, "train", add_train, train);
    add(app, "eval", add_eval, evaluate);
    add(app, "plot", add_plot, plot);
    add(app, "info", add_info, info);
    add(app, "bench", add_bench, bench);
    add(app, "layer", add_layer, layer);
    add(app, "forward", add_forward, forward);
    add(app, "generate", add_generate, generate);
    add(app, "export", add_export, export_model);
    add(app, "report", add_report, report);
    add(app, "tokenize", add_tokenize, tokenize);
    add(app, "table", add_table, table);
    add_command(app, "claims");
    runs_["claims"] = [&] { return claims(output); };
    add(app, "session", add_session, session);
    add(app, "sweep", add_sweep, sweep);
    add(app, "check", add_check, check);
    add(app, "grade", add_grade, grade);
    add(app, "handout", add_handout, handout);
    add_command(app, "completion")->add_option("shell", shell_)->required()->check(CLI::IsMember(known_shells()));
    runs_["completion"] = [&] { return print(completion_script(app, shell_)); };
    add_command(app, "manual");
    runs_["manual"] = [&] { return print(manual_page(app, version_line())); };
    for (CLI::App* command : app.get_subcommands({})) {
      add_common(*command, common_, output);
      describe_options(*command, command->get_name());
    }
    describe_options(app, "window");
    app.require_subcommand(0, 1);
  }

  json run(const CLI::App& app) {
    refuse_words_of_window(app, files_);
    for (const char* name :
         {"info", "export", "tokenize", "claims", "check", "grade", "handout", "completion", "manual"}) {
      if (!common_.precision.empty() && app.got_subcommand(name))
        throw UsageError(name, " does not use --precision; leave it out");
    }
    const std::vector<CLI::App*> commands = app.get_subcommands();
    if (!commands.empty()) return runs_.at(commands.front()->get_name())();
    return open_window(app, files_, start_, window_, common_);
  }

 private:
  template <class Options>
  void add(CLI::App& app, const std::string& name, void (*declare)(CLI::App* command, Options& options),
           json (*carry_out)(const Options&, const CommonOptions&, Output&)) {
    const auto options = std::make_shared<Options>();
    if constexpr (std::is_base_of_v<StudyOptions, Options>) options->words = words_;
    declare(add_command(app, name), *options);
    runs_[name] = [this, options, carry_out] { return carry_out(*options, common_, output); };
  }

  json print(const std::string& text) const {
    if (!output.json) std::fputs(text.c_str(), stdout);
    return {{"text", text}};
  }

  std::vector<std::string> words_, files_;
  CommonOptions common_;
  StartOptions start_;  ///< options of the window
  WindowOptions window_;
  std::string shell_;
  std::map<std::string, std::function<json()>> runs_;  ///< the commands by name
};

/// Parses the arguments and runs the command.
void run_arguments(int argc, char** argv, Output& asked) {
  CLI::App app("Afterglow shows what sequence layers remember.");
  app.set_version_flag("--version", version_line());
  app.footer(footer_of("window"));
  Arguments arguments(app, {argv + 1, argv + argc});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // or the version
    app.exit(help);
    return;
  } catch (const CLI::ParseError& error) {
    throw UsageError(unknown_word_advice(app, error.what(), argc, argv));
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
