// `afterglow bench`: medians of training steps and layers on this machine.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <functional>

#include "app/cli/bench/bench_layers.h"
#include "app/cli/bench/bench_runs.h"
#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/engine/analyses/influence/jacobian_measure.h"
#include "core/engine/analyses/patch/patch_measurement.h"
#include "core/engine/analyses/transplant/transplant.h"
#include "core/engine/inspection/generation.h"
#include "core/engine/inspection/observer.h"
#include "core/engine/training/objective.h"
#include "core/figure/files/figure_files.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/number_text.h"
#include "core/layers/layer_kind.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/random/random.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

struct Work {
  std::string name;
  double flops = 0, bytes = 0;  ///< operations of the matrix products, counted
  std::function<void()> run;
  int warm_ups = 3;
};

/// What every benchmark is given, and where its rows go.
struct Setup {
  const BenchOptions& options;
  const CommonOptions& common;
  Backend& backend;
  const Output& output;
  json& rows;

  /// Runs the work, prints its median and returns its new row.
  json& measure(const Work& work) const {
    std::vector<double> times;
    for (int i = -work.warm_ups; i < options.repeats; ++i) {
      const double taken = seconds_of(work.run, backend);
      if (i >= 0) times.push_back(1e3 * taken);
      Interruption::check("during \"" + work.name + "\"");
    }
    json& row = rows.emplace_back(row_of(work.name, backend, times, work.flops, work.bytes));
    const double median = row["median_ms"].get<double>();
    char rate[40] = "";
    if (work.flops > 0) std::snprintf(rate, sizeof rate, "  %.2f GFLOP/s", work.flops / median * 1e-6);
    output.print("%-34s %-5s %10.3f ms  (%.3f to %.3f, %d repeats)%s", work.name.c_str(), backend.name().c_str(),
                 median, times.front(), times.back(), options.repeats, rate);
    return row;
  }
};

/// A preset with other sizes, in the precision of the options.
Recipe recipe_of(const std::string& preset, const std::vector<std::string>& changes, const Backend& backend) {
  Recipe recipe = changed_recipe(parse_recipe(find_preset(preset).text, preset), changes, preset);
  recipe.precision = backend.precision();
  return recipe;
}

/// A training step of the preset, with other sizes where there are changes.
void bench_step(const std::string& name, const std::string& preset, const std::vector<std::string>& changes,
                const Setup& setup) {
  Recipe recipe = recipe_of(preset, changes, setup.backend);
  recipe.training.evaluate_every = 0;
  Trainer trainer(recipe, setup.backend);
  json& row = setup.measure({name, 0, 0, [&] { trainer.step(); }});
  const auto held = static_cast<std::int64_t>(setup.backend.held_bytes());
  row["held_bytes"] = held;
  setup.output.line("  holds ", bytes_text(held));
}

// The recurrent form of the reference model over one sequence, with the state, captures and eigenvalues of every token.
void bench_trace(const std::string& name, const std::string& preset, const Setup& setup) {
  Trainer trainer(recipe_of(preset, {}, setup.backend), setup.backend);
  Observer observer(trainer);
  observer.choose(0);
  setup.measure({name, 0, 0, [&] { observer.trace(observer.first_ska()); }});
}

/// What the page Causes computes of an untrained model: all cells by backward passes, then exactly, and the answer
/// after a memory is replaced.
struct CausesCase {
  const char* name;
  void (*run)(PatchMeasurement& patch, Trainer& trainer);
};
constexpr CausesCase causes_cases[] = {
    {"causes ssm-ska, attribution", [](PatchMeasurement& patch, Trainer&) { patch.begin({}); }},
    {"causes ssm-ska, exact grid",
     [](PatchMeasurement& patch, Trainer&) {
       patch.begin({});
       while (patch.advance()) {
       }
     }},
    {"causes ssm-ska, transplant", [](PatchMeasurement&, Trainer& trainer) { measure_transplant(trainer, {}); }},
};

void bench_causes(const CausesCase& of, const std::string& preset, const Setup& setup) {
  const Recipe recipe = recipe_of(preset, {}, setup.backend);
  Trainer trainer(recipe, setup.backend);
  PatchMeasurement patch(recipe.model, trainer);
  setup.measure({of.name, 0, 0, [&] { of.run(patch, trainer); }});
}

/// "layer ska prefix B16 T128 d128".
std::string name_of(const LayerKind& kind, const LayerBenchmark& sizes, std::int64_t width) {
  const std::string variant = *sizes.variant ? std::string(" ") + sizes.variant : "";
  return concat("layer ", kind.name, variant, " B", sizes.batch, " T", sizes.length, " d", width);
}

void bench_layer(const std::string& name, const LayerKind& kind, const LayerBenchmark& sizes, const Setup& setup) {
  LayerPass pass(kind, json::parse(sizes.config), sizes.batch, sizes.length, setup.backend);
  const std::unique_ptr<DeviceGraph> graph = pass.recorded();
  setup.measure({name, pass.flops(), 0, [&] { graph->run(); }});
}

/// Influence tail of a stack of four blocks: T 2048, one source, every lag, four random cotangents.
void bench_influence(const char* preset, const Setup& setup) {
  constexpr int tokens = 2048;
  ParameterStore store;
  Model model(parse_recipe(find_preset(preset).text, preset).model, store);
  store.allocate_values(setup.backend, DType::f32);
  store.initialise(7);
  std::vector<double> x;
  Random random(7);
  for (std::int64_t i = 0; i < tokens * model.width(); ++i) x.push_back(random.normal());
  JacobianPlan plan{.blocks = influence_blocks(std::vector<int>{0}, tokens, 8),
                    .tokens_at_once = tokens_in_a_pass(setup.backend)};
  for (const Branch& branch : model.branches()) plan.causal = plan.causal && branch.layer->is_causal();
  Arena arena(setup.backend);
  Tape tape(setup.backend, arena);
  const SequenceMap stack = [&](Tape& on, const Var& in, const Tensor& mask) {
    return model.forward_branches(on, in, mask, 0, model.branches().size());
  };
  setup.measure({concat("influence ", preset, " T2048"), 0, 0, [&] {
                   JacobianMeasure measure(tape, DType::f32, x, std::vector<std::uint8_t>(tokens, 1), stack, plan);
                   while (measure.advance()) {
                   }
                 }});
}

void bench_gka(const GkaCase& sizes, const Setup& setup) {
  GkaBench bench(sizes, setup.backend);
  setup.measure({sizes.name, bench.flops(), bench.bytes(), [&] { bench.run(); }});
}

MachineRates show_rates(const Setup& setup) {
  const MachineRates rates = measure_rates(setup.backend);
  setup.output.print("this machine: %.3g TFLOP/s in one large product in %s, %.3g GB/s in a copy", 1e-12 * rates.flops,
                     name_of(setup.backend.precision()), 1e-9 * rates.bytes);
  return rates;
}

void bench_head(const HeadCase& sizes, const Setup& setup) {
  HeadBench bench(sizes, setup.backend);
  json& row = setup.measure({sizes.name, bench.flops(), 0, [&] { bench.run(); }});
  row["held_bytes"] = bench.held_bytes();
  setup.output.line("  holds ", bytes_text(static_cast<std::int64_t>(bench.held_bytes())),
                    " in addition to its weight, its input and their gradients");
}

/// Cost of publishing observations: milliseconds per step with a reader and without. Analyses are rare compared with
/// steps, so the loss of speed is measured over the whole time; medians would hide it.
void bench_publish(const PublishCase& of, const Setup& setup) {
  constexpr double seconds_each = 2;
  SessionOptions session{.device = setup.common.device, .threads = setup.common.threads};
  PublishBench bench(recipe_of(of.preset, of.changes, setup.backend), of.analyses, session);
  std::vector<double> times, times_alone;
  PublishBench::Stretch watched, alone;
  const auto add = [](const PublishBench::Stretch& stretch, PublishBench::Stretch& sum, std::vector<double>& each) {
    each.push_back(stretch.step_ms());
    sum = {sum.seconds + stretch.seconds, sum.steps + stretch.steps};
  };
  for (int i = 0; i < setup.options.repeats; ++i) {
    add(bench.watched(seconds_each), watched, times);
    add(bench.alone(seconds_each), alone, times_alone);
  }
  json& row = setup.rows.emplace_back(row_of(of.name, setup.backend, times));
  const double median_alone = row_of(of.name, setup.backend, times_alone)["median_ms"].get<double>();
  row["unwatched_median_ms"] = median_alone;
  const double cost = 1 - alone.step_ms() / watched.step_ms();
  row["cost_share"] = cost;
  setup.output.print("%-34s %-5s %10.3f ms a step, %.3f without a reader; in all %.1f %% of the steps/s", of.name,
                     setup.backend.name().c_str(), row["median_ms"].get<double>(), median_alone, 100 * cost);
}

/// One analysis of a model as the window runs it.
void bench_analysis(const AnalysisInfo& row, const std::string& name, AnalysisBench& bench, const Setup& setup) {
  json& result = setup.measure({name, 0, 0, [&] { bench.run(row.analysis); }, /*warm_ups=*/1});
  const AnalysisBench::Pieces& pieces = bench.pieces();
  result["pieces"] = pieces.count;
  result["longest_piece_ms"] = 1e3 * pieces.longest;
  if (pieces.count < 2) return;
  setup.output.print("  in %d pieces, the longest of %.0f ms", pieces.count, 1e3 * pieces.longest);
}

/// Steps per second of several runs at the same time.
void bench_runs(const std::string& name, const char* preset, int runs, const Setup& setup) {
  constexpr int steps = 100;
  RunsBench bench(recipe_of(preset, {}, setup.backend), runs, setup.backend.name(), setup.common.threads);
  std::vector<double> times;
  for (int i = 0; i < setup.options.repeats; ++i) {
    times.push_back(1e3 * bench.seconds(steps) / (runs * steps));
    Interruption::check("during \"" + name + "\"");
  }
  json& row = setup.rows.emplace_back(row_of(name, setup.backend, times));
  const double median = 1e3 / row["median_ms"].get<double>();
  row["runs"] = runs;
  row["steps_per_second"] = median;
  setup.output.print("%-34s %-5s %10.0f steps/s of all  (%.0f to %.0f, %d repeats)", name.c_str(),
                     setup.backend.name().c_str(), median, 1e3 / times.back(), 1e3 / times.front(),
                     setup.options.repeats);
}

/// Tokens per second of the recurrent form, the most probable one each time, after a prompt that is read at once.
void bench_generate(const Setup& setup) {
  constexpr int prompt = 2048, written = 65;
  const std::string model = setup.options.model.empty() ? "ssm" : setup.options.model;
  SavedRun saved = std::filesystem::exists(model) ? open_saved_run(model)
                                                  : SavedRun{recipe_of(model, {}, setup.backend), std::nullopt};
  saved.own_recipe().precision = setup.backend.precision();
  if (saved.origin) saved.origin->keep_narrow();
  TrainingRun run(saved, setup.backend);
  Trainer& trainer = run.trainer();
  std::vector<int> beginning;
  for (int i = 0; i < prompt; ++i) beginning.push_back(static_cast<int>(i % trainer.model().vocab()));
  std::vector<double> times, prefills;
  for (int i = -1; i < setup.options.repeats; ++i) {
    std::vector<std::chrono::steady_clock::time_point> at{std::chrono::steady_clock::now()};
    generate(trainer, beginning, {.count = written, .temperature = 0, .prefills = true}, [&](int) {
      at.push_back(std::chrono::steady_clock::now());
      return true;
    });
    Interruption::check("during generate");
    const auto milliseconds = [&](std::size_t from, std::size_t to) {
      return std::chrono::duration<double, std::milli>(at[to] - at[from]).count();
    };
    if (i < 0) continue;
    prefills.push_back(milliseconds(0, 1));
    times.push_back(milliseconds(1, at.size() - 1) / (written - 1));
  }
  json& row = setup.rows.emplace_back(row_of("generate " + model, setup.backend, times));
  const double prefill = row_of("", setup.backend, prefills)["median_ms"], token = row["median_ms"];
  row["prefill_tokens"] = prompt;
  row["prefill_ms"] = prefill;
  row["tokens_per_second"] = 1e3 / token;
  row["held_bytes"] = setup.backend.held_bytes();
  setup.output.print("%-34s %-5s %10.1f tokens/s  (%.3f ms a token); a prompt of %d tokens in %.1f ms; holds %s",
                     ("generate " + model).c_str(), setup.backend.name().c_str(), 1e3 / token, token, prompt, prefill,
                     bytes_text(static_cast<std::int64_t>(setup.backend.held_bytes())).c_str());
}

/// Eigenvalues of one random general matrix, as the analyses compute them: on the processor and by cuSOLVER.
void bench_eigenvalues(int n, const Setup& setup) {
  register_general_eigen_solver(nullptr);  // measures each solver alone, without the program's choice by size
  Random random(7);
  std::vector<double> matrix;
  for (int i = 0; i < n * n; ++i) matrix.push_back(random.normal() / std::sqrt(n));
  std::vector<std::complex<double>> values(static_cast<std::size_t>(n));
  setup.measure({concat("eigenvalues ", n, ", processor"), 0, 0, [&] { eigenvalues(matrix, n); }});
  if (!cuda_general_eigenvalues(n, matrix.data(), values.data())) return;
  setup.measure({concat("eigenvalues ", n, ", cuSOLVER"), 0, 0,
                 [&] { cuda_general_eigenvalues(n, matrix.data(), values.data()); }});
}

/// The options of the command, and what a benchmark needs in order to run.
enum class Asked { nothing, within, beginning, whole };

/// One benchmark that the command offers.
struct Case {
  std::string name;
  Asked needs = Asked::nothing;
  std::function<void()> run;
};

Asked asked(const std::string& name, const std::string& words) {
  if (words.empty()) return Asked::nothing;
  if (name == words) return Asked::whole;
  return name.rfind(words, 0) == 0 ? Asked::beginning : Asked::within;
}

/// The benchmarks with `words` in their name. Where the name of some begins with them, only those: `gka` means the
/// core, and not the training steps of all models that have it.
std::vector<const Case*> chosen(const std::vector<Case>& cases, const std::string& words) {
  std::vector<const Case*> result;
  Asked closest = Asked::nothing;
  for (const Case& one : cases) {
    const Asked how = asked(one.name, words);
    if (one.name.find(words) == std::string::npos || how < one.needs) continue;
    const Asked rank = std::min(how, Asked::beginning);
    if (rank > closest) result.clear();
    closest = std::max(closest, rank);
    if (rank == closest) result.push_back(&one);
  }
  return result;
}

/// Lengths of Gated KalmaNet's figure 3b, time over length; the CPU runs only the shortest, as a check.
constexpr std::string_view eight_heads = "8 heads x 128";
constexpr std::int64_t shortest_race = 128;

/// Models with more weights run only when the user names them: one step takes seconds on a processor.
constexpr std::int64_t max_parameters = 10'000'000;

/// All benchmarks, in the order in which they run.
std::vector<Case> all_cases(const Setup& setup) {
  std::vector<Case> cases;
  const bool on_cpu = setup.backend.name() == "cpu";
  for (const Preset& preset : presets()) {
    const bool is_large = parameter_count(parse_recipe(preset.text, preset.name)) > max_parameters;
    cases.push_back({"step " + preset.name, is_large ? Asked::within : Asked::nothing,
                     [&] { bench_step("step " + preset.name, preset.name, {}, setup); }});
  }
  // `bench long` of one mixer takes minutes on a CPU.
  std::vector<std::string> changes{"batch=8", "task.length=2048"};
  for (const std::string name : {"long step echo-50m, B8 T2048", "long step echo-50m, B8 T2048, blocks twice"}) {
    cases.push_back({name, on_cpu ? Asked::whole : Asked::beginning,
                     [&, name, changes] { bench_step(name, "echo-50m", changes, setup); }});
    changes.emplace_back("recompute=16");
  }
  for (const char* preset : {"ssm", "ssm-attn"}) {
    cases.push_back({std::string("influence ") + preset,
                     on_cpu ? Asked::within : Asked::nothing,  // takes seconds on a CPU
                     [&, preset] { bench_influence(preset, setup); }});
  }
  const std::string trace = "trace ssm-ska, 64 tokens";
  cases.push_back({trace, Asked::nothing, [&, trace] { bench_trace(trace, "ssm-ska", setup); }});
  for (const CausesCase& of : causes_cases)
    cases.push_back({of.name, Asked::within, [&] { bench_causes(of, "ssm-ska", setup); }});
  for (const LayerKind& kind : layer_kinds()) {
    for (const LayerBenchmark& sizes : kind.benchmarks) {
      if (sizes.variant == eight_heads) continue;
      const std::string name = name_of(kind, sizes, json::parse(sizes.config)[kind.width_field]);
      cases.push_back({name, Asked::nothing, [&, name] { bench_layer(name, kind, sizes, setup); }});
    }
  }
  for (const std::int64_t tokens : {128, 512, 1024, 2048, 4096, 8192}) {
    for (const LayerKind& kind : layer_kinds()) {
      for (LayerBenchmark sizes : kind.benchmarks) {
        if (sizes.variant != eight_heads) continue;
        sizes.length = tokens;
        if (tokens == shortest_race) sizes.batch = 1;
        const std::string name = "figure 3b T" + std::to_string(tokens) + " " + kind.name;
        cases.push_back({name, Asked::within, [&, name, sizes] { bench_layer(name, kind, sizes, setup); }});
      }
    }
  }
  for (const GkaCase& sizes : gka_cases) {
    const bool patient = setup.backend.name() == "cuda" || !sizes.large;
    cases.push_back({sizes.name, patient ? Asked::nothing : Asked::whole, [&] { bench_gka(sizes, setup); }});
  }
  const auto rates = std::make_shared<MachineRates>();  // measured at the first use
  for (const LayerKind& kind : layer_kinds()) {
    if (!kind.mixes_tokens) continue;
    cases.push_back({"long " + kind.name, Asked::beginning, [&, rates] {
                       if (rates->flops <= 0) *rates = show_rates(setup);
                       bench_long(kind, {setup.options.seconds, setup.options.repeats}, *rates, setup.backend,
                                  setup.output, setup.rows);
                     }});
  }
  for (const HeadCase& sizes : head_cases)
    cases.push_back(
        {sizes.name, on_cpu && sizes.large ? Asked::whole : Asked::within, [&] { bench_head(sizes, setup); }});
  for (const PublishCase& of : publish_cases) {
    const bool is_large = of.changes.size() > 0;
    cases.push_back({of.name, is_large ? Asked::whole : Asked::within,  // takes half a minute
                     [&] { bench_publish(of, setup); }});
  }
  const auto analysis_bench = std::make_shared<std::unique_ptr<AnalysisBench>>();  // created at the first use
  for (const AnalysisInfo& row : analysis_table()) {
    if (!has(measured_analyses, row.analysis)) continue;
    const std::string name = "look echo-50m B8 T1024, " + std::string(row.name);
    cases.push_back({name, Asked::beginning, [&, name, analysis_bench] {
                       std::unique_ptr<AnalysisBench>& bench = *analysis_bench;
                       if (!bench)
                         bench = std::make_unique<AnalysisBench>(recipe_of("echo-50m", long_echo, setup.backend),
                                                                 setup.backend);
                       bench_analysis(row, name, *bench, setup);
                     }});
  }
  for (const char* preset : {"tiny", "ssm-ska"}) {
    for (const int runs : {1, 2, 4, 8, 16, 32, 64}) {
      const std::string name = std::string("runs ") + preset + ", " + std::to_string(runs) + " side by side";
      cases.push_back({name, Asked::beginning, [&, name, preset, runs] { bench_runs(name, preset, runs, setup); }});
    }
  }
  cases.push_back({"generate", Asked::whole, [&] { bench_generate(setup); }});
  for (const int n : {24, 56, 128, 256, 512, 1024})
    cases.push_back({"eigenvalues " + std::to_string(n), Asked::beginning, [&, n] { bench_eigenvalues(n, setup); }});
  return cases;
}

/// Writes the figures of `bench long`: time to `path`, memory to a second file.
json draw_long(const json& rows, const std::filesystem::path& path, bool overwrite, const Output& output) {
  json files = json::array();
  WriteOptions write{.overwrite = overwrite};
  for (const LongQuantity quantity : {LongQuantity::time, LongQuantity::memory}) {
    std::filesystem::path place = path;
    if (quantity == LongQuantity::memory) place.replace_filename(path.stem().string() + "_memory.svg");
    for (const auto& file :
         write_figure(long_figure(rows, quantity), place, {FigureFormat::svg}, SizePreset::two_columns, write))
      files.push_back(output.wrote(file));
  }
  return files;
}

bool is_time(const json& row) {
  return row.is_object() && row.value("name", json()).is_string() && row.value("median_ms", json()).is_number() &&
         row["median_ms"].get<double>() > 0;
}

/// An earlier result of `afterglow bench --json`. Throws Error(bad_input) where the file is missing or is no such
/// result.
json read_earlier(const std::filesystem::path& file) {
  json result = read_json(file);
  const bool is_result = result.is_object() && result.value("rows", json()).is_array() &&
                         result.value("device", json()).is_string() && result.value("precision", json()).is_string();
  if (!is_result || std::ranges::none_of(result["rows"], is_time))
    throw BadInput(file.string(), " contains no benchmarks; `afterglow bench --json > FILE` writes such a file");
  return result;
}

/// Adds "before_ms" and "ratio" (new divided by old) to every row of `result` whose name the earlier result has, and
/// "against": the earlier file, its device and precision. Prints each row, other differences, and the new rows.
void compare(const std::string& file, const json& earlier, json& result, const Output& output) {
  result["against"] = {{"file", file}, {"device", earlier["device"]}, {"precision", earlier["precision"]}};
  output.line("against ", file, ":");
  for (const char* what : {"device", "precision"}) {
    if (earlier[what] != result[what]) output.line("  another ", what, ": ", earlier[what].get<std::string>());
  }
  for (json& row : result["rows"]) {
    if (!is_time(row)) continue;
    const auto known = std::ranges::find_if(
        earlier["rows"], [&](const json& before) { return is_time(before) && before["name"] == row["name"]; });
    const double now = row["median_ms"].get<double>();
    const std::string name = row["name"];
    if (known == earlier["rows"].end()) {
      output.print("  %-34s %10.3f ms, new", name.c_str(), now);
      continue;
    }
    const double before = (*known)["median_ms"].get<double>();
    row["before_ms"] = before;
    row["ratio"] = now / before;
    output.print("  %-34s %10.3f ms, before %10.3f: %.2f times as long", name.c_str(), now, before, now / before);
  }
}

}  // namespace

json bench(const BenchOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  if (!options.svg.empty()) require_writable(options.svg);
  const json earlier = options.against.empty() ? json() : read_earlier(options.against);
  if (!options.model.empty() && options.name != "generate")
    throw UsageError("a model belongs to `afterglow bench generate`; bench ", options.name, " takes no \"",
                     options.model, "\"");
  if (options.name.starts_with("runs")) cuda_expect_many_runs();  // as `table` and `sweep` do
  const std::unique_ptr<Backend> backend = chosen_backend(common);
  json rows = json::array();
  const Setup setup{options, common, *backend, output, rows};
  const std::vector<Case> cases = all_cases(setup);
  const std::vector<const Case*> asked_for = chosen(cases, options.name);
  if (!options.svg.empty() &&
      std::ranges::none_of(asked_for, [](const Case* one) { return one->name.starts_with("long "); }))
    throw UsageError("--svg belongs to `afterglow bench long`; give that name");
  for (const Case* one : asked_for) one->run();
  if (rows.empty())
    throw UsageError("no benchmark has \"", options.name, "\" in its name; `afterglow bench` without a name runs all");
  json result = {{"device", backend->description()}, {"precision", name_of(backend->precision())}, {"rows", rows}};
  if (!earlier.is_null()) compare(options.against.string(), earlier, result, output);
  if (!options.svg.empty()) result["files"] = draw_long(rows, options.svg, common.force, output);
  return result;
}

}  // namespace afterglow
