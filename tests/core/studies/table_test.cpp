// Tables: the runs they ask for, results on disk, means and deviations, the printed form.
#include "core/studies/table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/objective.h"
#include "core/engine/training/training_run.h"
#include "core/io/checksum.h"
#include "core/io/csv.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "tests/core/engine/small_forecaster.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/io/temporary_folder.h"
#include "tests/support/csv_file.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

Table small_table() {
  Table table;
  table.name = "small";
  table.x_label = "pairs";
  table.rows = {{"one", 2, "tiny", {"task.bindings=2", "steps=3"}}, {"two words", 4, "tiny-ssm", {"steps=3"}}};
  table.metrics = {{"steps", ""}, {"never", ""}};
  table.measure = [](TrainingRun& run) { return std::vector{static_cast<double>(run.step()), std::nan("")}; };
  return table;
}

RunResult result(std::size_t row, std::uint64_t seed, double first) { return {row, seed, 10, "abc", {first, NAN}}; }

class Tables : public TemporaryFolder {};

TEST_F(Tables, EveryTableHasRecipesThatBuild) {
  std::set<std::string> names;
  for (const Table& table : tables()) {
    EXPECT_TRUE(names.insert(table.name).second) << table.name;
    EXPECT_FALSE(table.metrics.empty());
    EXPECT_TRUE(table.measure) << table.name;
    std::set<std::string> files;
    for (const PlannedRun& cell : runs_of(table, table.seeds, {})) {
      EXPECT_TRUE(files.insert(cell.name).second) << cell.name;
      ParameterStore store;
      EXPECT_NO_THROW(make_objective(cell.recipe, store)) << cell.name;
    }
  }
}

void expect_matched(const Table& table) {
  std::map<std::string, std::int64_t> sizes;
  std::set<std::int64_t> steps;
  for (const PlannedRun& cell : runs_of(table, 1, {})) {
    ParameterStore store;
    make_objective(cell.recipe, store);
    const std::string& series = table.rows[cell.row].series;
    std::int64_t& size = sizes[series];
    EXPECT_TRUE(size == 0 || size == store.count()) << series << " is the same on every task";
    size = store.count();
    steps.insert(cell.recipe.training.steps);
  }
  EXPECT_EQ(steps.size(), 1u);
  ASSERT_EQ(sizes.size(), 6u);
  const auto sessa = static_cast<double>(sizes.at("Sessa"));
  for (const auto& [series, size] : sizes) {
    if (series == "Sessa without feedback") continue;
    EXPECT_NEAR(static_cast<double>(size) / sessa, 1, 0.01) << series;
  }
}

// Sessa is compared with models of its own size and steps; the plain ablation alone is smaller, and its name says so.
TEST_F(Tables, SessaIsComparedUnderMatchedParametersAndSteps) {
  expect_matched(find_table("sessa"));
  expect_matched(find_table("sessa").large());
}

TEST_F(Tables, VariantsAreMoreRunsOfARow) {
  Table table = small_table();
  table.variants = {"learning_rate=1e-3", "learning_rate=1e-2"};
  const std::vector<PlannedRun> cells = runs_of(table, 2, {});
  ASSERT_EQ(cells.size(), 8u);
  EXPECT_EQ(cells[0].row, cells[3].row);
  EXPECT_EQ(cells[0].recipe.seed, cells[2].recipe.seed);
  EXPECT_EQ(cells[0].recipe.training.learning_rate, 1e-3);
  EXPECT_EQ(cells[2].recipe.training.learning_rate, 1e-2);
  std::set<std::string> names;
  for (const PlannedRun& cell : cells) EXPECT_TRUE(names.insert(cell.name).second) << cell.name;
}

TEST_F(Tables, OtherSizesBuild) {
  for (const Table& table : tables()) {
    for (const auto& make : {table.small, table.large}) {
      if (!make) continue;
      const Table sized = make();
      EXPECT_NE(sized.name, table.name);
      for (const PlannedRun& cell : runs_of(sized, 1, {})) {
        ParameterStore store;
        EXPECT_NO_THROW(make_objective(cell.recipe, store)) << cell.name;
      }
    }
  }
}

TEST_F(Tables, TheSmallOnesMeasureEveryNumberOfTheirTask) {
  for (const Table& whole : tables()) {
    ASSERT_TRUE(whole.small) << whole.name;
    const Table table = whole.small();
    std::set<double> seen;
    for (const PlannedRun& cell : runs_of(table, 1, {})) {
      if (!seen.insert(table.rows[cell.row].x).second) continue;
      const auto backend = make_cpu_backend(1);
      TrainingRun run(cell.recipe, *backend, 0);
      const std::vector<double> values = table.measure(run);
      ASSERT_EQ(values.size(), table.metrics.size()) << cell.name;
      const bool tells_stories = cell.recipe.task["kind"] == "stories" || whole.name == "echo_mlp";  // answers, too
      for (std::size_t m = 0; m < values.size(); ++m) {
        const RunMetric& metric = table.metrics[m];
        const bool is_known = std::isfinite(values[m]);
        EXPECT_FALSE(metric.is_share && is_known && (values[m] < 0 || values[m] > 1)) << metric.name;
        EXPECT_FALSE(metric.name == "perplexity" && is_known != tells_stories) << cell.name;
        EXPECT_FALSE(metric.group == "diffuse recall" && is_known != (table.rows[cell.row].x == 2)) << cell.name;
      }
    }
  }
}

// By plain loops over the logits of the held-out sequences.
TEST_F(Tables, AnswersAreThoseOfTheLogits) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(parse_recipe(nlohmann::json::parse(find_preset("tiny").text), "tiny"), *backend, 0);
  for (int step = 0; step < 3; ++step) run.train_step();
  Trainer& trainer = run.trainer();
  constexpr int examples = 10;
  const AnswerScore score = trainer.answers(examples);
  EXPECT_NEAR(score.accuracy, trainer.evaluate(examples), 1e-12);
  double loss = 0, near = 0, asked = 0;
  Arena arena(*backend);
  Tape tape(*backend, arena);
  for (int i = 0; i < examples; ++i) {
    const Example example = trainer.task().example(trainer.seed(), static_cast<std::uint64_t>(i), Split::held_out);
    const auto length = static_cast<std::int64_t>(example.tokens.size());
    tape.begin(false);
    const Tensor tokens = tape.scratch({1, length}, DType::i32), mask = tape.scratch({1, length}, DType::u8);
    backend->upload(tokens, example.tokens.data());
    backend->upload(mask, example.context.data());
    const Var logits = trainer.model().forward(tape, tokens, mask);
    const std::vector<double> all = to_host(*backend, logits.value);
    const auto words = static_cast<std::size_t>(logits.shape().last());
    for (std::size_t t = 0; t < example.targets.size(); ++t) {
      if (example.targets[t] < 0) continue;
      const double own = all[t * words + static_cast<std::size_t>(example.targets[t])];
      double sum = 0;
      int above = 0;
      for (std::size_t w = 0; w < words; ++w) {
        sum += std::exp(all[t * words + w] - own);
        above += all[t * words + w] > own ? 1 : 0;
      }
      loss += std::log(sum);
      near += above < 5 ? 1 : 0;
      ++asked;
    }
  }
  EXPECT_NEAR(score.perplexity, std::exp(loss / asked), 1e-4 * score.perplexity);
  EXPECT_NEAR(score.among_five, near / asked, 1e-12);
}

TEST_F(Tables, UnknownNamesAreAnsweredWithTheNearest) {
  EXPECT_THAT(message_of(ExitCode::usage, [] { find_table("mquar"); }), HasSubstr("did you mean"));
}

TEST_F(Tables, CellsFollowRowsAndSeedsAndChanges) {
  const std::vector<PlannedRun> cells = runs_of(small_table(), 2, {"batch=4"});
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0].name, "one_2_seed7");
  EXPECT_EQ(cells[3].name, "two_words_4_seed8");
  EXPECT_EQ(cells[0].recipe.task["bindings"], 2);
  EXPECT_EQ(cells[1].recipe.seed, 8U);
  EXPECT_EQ(cells[2].recipe.training.batch, 4);
}

TEST_F(Tables, SummariesAreMeansWithSampleDeviations) {
  const std::vector<RunResult> results{result(0, 7, 1.0), result(0, 8, 2.0), result(0, 9, NAN), result(1, 7, 5.0)};
  const ResultSummary summary = summary_of(results, 0, 0);
  EXPECT_EQ(summary.runs, 2);
  EXPECT_DOUBLE_EQ(summary.mean, 1.5);
  EXPECT_DOUBLE_EQ(summary.deviation, std::sqrt(0.5));
  EXPECT_EQ(summary.best, 2.0);
  EXPECT_EQ(summary_of(results, 1, 0).deviation, 0.0);
  EXPECT_EQ(summary_of(results, 0, 1).runs, 0);
}

TEST_F(Tables, TextIsAlignedAndCsvHasALineForEachRun) {
  const std::vector<RunResult> results{result(0, 7, 0.5), result(0, 8, 0.75), result(1, 7, 5.0)};
  const std::vector<std::string> lines = text_of(small_table(), results);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], HasSubstr("parameters"));
  EXPECT_THAT(lines[1], HasSubstr("0.625 ± 0.177"));
  EXPECT_EQ(lines[0].size() + 1, lines[1].size());  // the sign between is two bytes wide
  EXPECT_THAT(lines[2], HasSubstr("-"));
  Table shares = small_table();
  shares.metrics[0].is_share = true;
  EXPECT_THAT(text_of(shares, results)[1], HasSubstr("0.625 ± 0.177 (best 0.750)"));
  write_table_csv(file("table.csv"), small_table(), results);
  const CsvTable csv = read_csv(file("table.csv"));
  EXPECT_EQ(csv.rows(), 3U);
  EXPECT_EQ(csv.numbers("steps"), (std::vector<double>{0.5, 0.75, 5.0}));
}

TEST_F(Tables, WhatIsPublishedStandsBesideAndGroupsHaveTheirOwnLines) {
  Table table = small_table();
  table.x_names = {"published", "", "ours", "", "theirs"};
  table.group_label = "length";
  table.metrics = {{"mean", "", true}, {"at 64", "", true, "needle", 64}};
  table.published = {{"one", {0.25, NAN}}};
  const std::vector<RunResult> results{result(0, 7, 0.5)};
  const std::vector<std::string> lines = text_of(table, results);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_THAT(lines[1], testing::AllOf(HasSubstr("ours"), HasSubstr("0.500")));
  EXPECT_THAT(lines[2], testing::AllOf(HasSubstr("published"), HasSubstr("0.250")));
  EXPECT_THAT(lines[4], HasSubstr("needle, over the length"));
  EXPECT_THAT(lines[5], HasSubstr("64"));
  write_table_csv(file("table.csv"), table, results);
  const CsvTable csv = read_csv(file("table.csv"));
  ASSERT_EQ(csv.rows(), 2u);
  EXPECT_EQ(csv.text(1, csv.column("series")), "one (published)");
  EXPECT_EQ(csv.numbers("mean")[1], 0.25);
  EXPECT_EQ(csv.text(0, csv.column("pairs")), "ours") << "places have their names, not their numbers";
  EXPECT_EQ(csv.text(1, csv.column("pairs")), "published");
}

TEST_F(Tables, GroupsWithoutPlacesStandInTheCsvAlone) {
  Table table = small_table();
  table.group_label = "length";
  table.metrics = {{"mean", ""}, {"hidden cell", "", true, "cells", NAN}};
  const std::vector<RunResult> results{{0, 7, 10, "abc", {0.5, 0.125}}};
  const std::vector<std::string> lines = text_of(table, results);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) EXPECT_THAT(line, testing::Not(HasSubstr("cell")));
  write_table_csv(file("table.csv"), table, results);
  EXPECT_EQ(read_csv(file("table.csv")).numbers("hidden cell"), std::vector{0.125});
}

TEST_F(Tables, WhatIsPublishedAlikeOfSeveralPlacesIsOneLineOfTextAndALineEachForOtherPrograms) {
  Table table = small_table();
  table.published = {{"one", {0.5, NAN}, 2}, {"one", {0.5, NAN}, 4}, {"one", {0.75, NAN}, 8}, {"two", {0.75, NAN}, 8}};
  const std::vector<std::string> lines = text_of(table, {result(0, 7, 0.5)});
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[2], testing::AllOf(HasSubstr("one (published)"), HasSubstr("2 to 4"), HasSubstr("0.500")));
  EXPECT_THAT(lines[3], testing::AllOf(HasSubstr("one (published)"), HasSubstr("8"), HasSubstr("0.750")));
  EXPECT_THAT(lines[4], HasSubstr("two (published)"));
  write_table_csv(file("table.csv"), table, {result(0, 7, 0.5)});
  const CsvTable csv = read_csv(file("table.csv"));
  EXPECT_EQ(csv.rows(), 5u);
  EXPECT_EQ(csv.numbers("pairs"), (std::vector<double>{2, 2, 4, 8, 8}));
}

// Results that are finished are found by these names.
TEST_F(Tables, FilesAreNamedInPlainLetters) {
  Table table = small_table();
  const auto name_of = [&](const std::string& series) {
    table.rows[0].series = series;
    return runs_of(table, 1, {}).front().name;
  };
  EXPECT_EQ(name_of("Mamba-2 + attention, 4 pairs"), "mamba_2___attention__4_pairs_2_seed7");
  EXPECT_EQ(name_of("SKA, action mask, η 2.5"), "ska__action_mask__eta_2_5_2_seed7");
  EXPECT_EQ(name_of("a – b"), "a___b_2_seed7") << "each of the two blanks, and the dash between them";
  EXPECT_EQ(name_of("→∞"), "__2_seed7");
}

// Echo 5.1: both recipes on every model; the published numbers stand where ours of the same name do.
TEST(Table, EchoTransferHasThePapersNumbersAtTheirPlaces) {
  const Table& table = find_table("echo_transfer");
  const auto metric = [&](const std::string& name) {
    for (std::size_t m = 0; m < table.metrics.size(); ++m) {
      if (table.metrics[m].name == name) return m;
    }
    ADD_FAILURE() << name;
    return std::size_t{0};
  };
  ASSERT_EQ(table.published.size(), 3u);
  const PublishedSeries& ska = table.published[2];
  EXPECT_EQ(ska.series, "SSM + SKA");
  EXPECT_DOUBLE_EQ(ska.values[metric("mean of niah")], 0.842);
  EXPECT_DOUBLE_EQ(ska.values[metric("mean of mqar")], 0.822);
  EXPECT_EQ(heading_of(table.metrics[metric("mean of niah")]), "mean of niah");
  EXPECT_EQ(heading_of(table.metrics[metric("mean of multihop")]), "mean of multihop [not as published]");
  EXPECT_THAT(table.about, HasSubstr("sysprompt, tooltrace and niah can be compared"));
  EXPECT_DOUBLE_EQ(ska.values[metric("needle in a haystack, 1 binding, 4096 tokens")], 0.651);
  EXPECT_TRUE(std::isnan(ska.values[metric("needle in a haystack, 4 bindings, 64 tokens")]));
  EXPECT_EQ(table.metrics[metric("needle in a haystack, 3 bindings, 512 tokens")].at, 512) << "a point of a curve";
  EXPECT_TRUE(std::isnan(table.metrics[metric("multihop, 2 bindings, 64 tokens")].at)) << "in the CSV alone";
  EXPECT_EQ(table.metrics.size(), 6u + 6 * 5 * 7) << "means, and every cell";
  for (const PlannedRun& run : runs_of(table, 1, {})) {
    const TrainingConfig& training = run.recipe.training;
    const bool is_papers = table.rows[run.row].x == 1;
    EXPECT_EQ(training.steps, is_papers ? 6000 : 4000) << run.name;
    EXPECT_EQ(training.batch, is_papers ? 16 : 64) << run.name;
    EXPECT_EQ(training.learning_rate, is_papers ? 3e-4 : 1e-3) << run.name;
    EXPECT_EQ(run.recipe.task["tasks"].size(), 2u);
  }
}

// Echo 5.2: 4 to 32 pairs over gaps of 64 to 4,096, and no step larger than that of a gap of 1,024.
TEST(Table, EchoMqarIsTheGridOfThePaperAtAMillionAndAtFiftyMillionWeights) {
  const Table& usual = find_table("echo_mqar");
  const Table large = usual.large();
  for (const auto& [table, kinds, most] : {std::tuple{&usual, 6u, 1 << 16}, {&large, 3u, 1 << 14}}) {
    const std::vector<PlannedRun> runs = runs_of(*table, table->seeds, {});
    ASSERT_EQ(runs.size(), kinds * 4 * 7) << "the paper's three, and SKA with other powers and a mask";
    std::set<std::pair<int, double>> cells;
    for (const PlannedRun& run : runs) {
      const int pairs = run.recipe.task["bindings"], length = run.recipe.task["length"];
      const double gap = table->rows[run.row].x;
      cells.insert({pairs, gap});
      EXPECT_EQ(length, 4 * pairs + static_cast<int>(gap));
      EXPECT_LE(run.recipe.training.batch * gap, most) << run.name;
      EXPECT_EQ(run.recipe.training.batch == 64, gap * 64 <= most) << run.name;
    }
    EXPECT_EQ(cells.size(), 28u);
    EXPECT_EQ(inquiry_of(*table).enough.evaluations, 2);
    EXPECT_EQ(inquiry_of(*table).enough.accuracy, 0.99);
  }
}

TEST(Table, EchoMqarHasWhatIsPublishedOfEveryCellThatHasANumber) {
  const Table& table = find_table("echo_mqar");
  EXPECT_EQ(table.published.size(), 3u * 4 * 7 - 1) << "one cell is not published";
  std::map<std::string, std::set<double>> numbers;
  for (const PublishedSeries& published : table.published) {
    ASSERT_EQ(published.values.size(), table.metrics.size());
    EXPECT_TRUE(std::ranges::any_of(table.rows, [&](const TableRow& row) {
      return row.series == published.series && row.x == published.x;
    })) << published.series;
    EXPECT_FALSE(published.series == "Mamba-2 + attention, 4 pairs" && published.x == 4096);
    numbers[published.series.substr(0, published.series.rfind(','))].insert(published.values[0]);
  }
  EXPECT_EQ(numbers["Mamba-2"], std::set<double>{0.03});
  EXPECT_EQ(numbers["Mamba-2 + attention"], std::set<double>{1.0});
  EXPECT_EQ(numbers["Mamba-2 + SKA"], std::set<double>{1.0});
  const Table small = table.small();
  EXPECT_TRUE(small.published.empty()) << "no cell is in the paper";
  EXPECT_THAT(small.about, HasSubstr("20 steps at most"));
  EXPECT_THAT(table.about, HasSubstr("2500 steps at most"));
  for (const Table& sized : {small, table, table.large()}) {
    for (const PlannedRun& run : runs_of(sized, 1, {})) {
      const std::string steps = std::to_string(run.recipe.training.steps);
      EXPECT_THAT(sized.about, HasSubstr("for " + steps + " steps at most")) << sized.name;
    }
  }
}

// Echo 3.4: the same width, depth and layout; SKA in the place of some of the Mamba-2 layers, then the other MLP.
TEST(Table, EchoTextComparesTheVariantsOfThePaper) {
  const Table& usual = find_table("echo_text");
  for (const Table& table : {usual.small(), usual, usual.large()}) {
    ASSERT_EQ(table.rows.size(), 4u);
    std::vector<std::multiset<std::string>> kinds;
    std::vector<double> sizes;
    for (const TableRow& row : table.rows) {
      const nlohmann::json recipe = recipe_of(row, {});
      kinds.emplace_back();
      for (const nlohmann::json& block : recipe["model"]["blocks"]) {
        const nlohmann::json& mixer = block["mixer"];
        kinds.back().insert(mixer["kind"].get<std::string>());
        kinds.back().insert(block["mlp"]["kind"].get<std::string>());
        EXPECT_EQ(mixer.value("norm_scope", ""), mixer["kind"] == "ska" ? "prefix" : "")
            << "what is asked later does not change the norm";
      }
      sizes.push_back(static_cast<double>(parameter_count(parse_recipe(recipe, row.series))));
    }
    EXPECT_EQ(kinds[0].count("ska") + kinds[0].count("koopman_mlp"), 0u);
    EXPECT_GT(kinds[1].count("ska"), 0u);
    EXPECT_EQ(kinds[1].count("koopman_mlp"), 0u);
    EXPECT_EQ(kinds[2].count("swiglu"), 0u);
    EXPECT_EQ(kinds[1].count("ska"), kinds[2].count("ska"));
    EXPECT_EQ(kinds[2], kinds[3]);
    EXPECT_LT(sizes[2], sizes[1]);
    EXPECT_NEAR(sizes[3] / sizes[1], 1, 0.01);
  }
}

TEST(Table, Etth1TellsBothErrorsOfOnePassOverTheTestWindows) {
  nlohmann::json json = nlohmann::json::parse(find_preset("forecast").text);
  json["model"] = small_forecaster();
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun run(parse_recipe(json, "forecast"), *backend, 0);
  const ForecastScore score = run.trainer().score();
  EXPECT_NE(score.mse, score.mae);
  EXPECT_EQ(find_table("etth1").measure(run), (std::vector{score.mse, score.mae}));
}

// Spectral Memory 4.1: ten epochs of 32 windows, seeds 2019 to 2021, ended by validation after whole epochs.
TEST(Table, Etth1FollowsThePaper) {
  const auto cells = runs_of(find_table("etth1"), 3, {});
  ASSERT_EQ(cells.size(), 84u);
  for (const PlannedRun& cell : cells) {
    const TrainingConfig& training = cell.recipe.training;
    const std::int64_t windows = 8640 - 96 - cell.recipe.task["horizon"].get<std::int64_t>() + 1;
    EXPECT_EQ(training.evaluate_every, windows / 32) << cell.name;
    EXPECT_EQ(training.steps, 10 * training.evaluate_every);
    EXPECT_EQ(training.patience, 3);
    EXPECT_EQ(training.batch, 32);
    EXPECT_EQ(training.clip, 0.0);
    EXPECT_EQ(training.weight_decay, 0.0);
    EXPECT_GE(cell.recipe.seed, 2019u);
    EXPECT_LE(cell.recipe.seed, 2021u);
    if (cell.name.starts_with("spectral_memory")) {
      EXPECT_EQ(cell.recipe.model["d_model"], 64);
      EXPECT_EQ(cell.recipe.model["n_components"], 16);
      EXPECT_EQ(cell.recipe.model["memory_tokens"], 4);
      EXPECT_EQ(cell.recipe.model["memory_depth"], 3000);
      EXPECT_EQ(training.learning_rate, 1e-4);
    }
  }
}

// Spectral Memory, table 4: each seed's error, and their means as the paper prints them.
TEST(Table, Etth1HasThePapersErrorsOfEachSeed) {
  std::map<double, double> printed, sums;
  int seeds = 0;
  for (const PublishedSeries& published : find_table("etth1").published) {
    if (published.series == "spectral memory") printed[published.x] = published.values[0];
    if (!published.series.starts_with("spectral memory, seed ")) continue;
    sums[published.x] += published.values[0];
    ++seeds;
  }
  EXPECT_EQ(seeds, 12);
  ASSERT_EQ(printed.size(), 4u);
  for (const auto& [horizon, mean] : printed) EXPECT_NEAR(sums[horizon] / 3, mean, 1e-3) << horizon;
}

/// The names of a table's runs, the hashes of their recipes without the prose, and what is published, as one checksum.
std::string checksum_of(const Table& table) {
  std::string text;
  for (const PlannedRun& run : runs_of(table, table.seeds, {}))
    text += run.name + " " + hash_of(run.recipe, inquiry_of(table)) + "\n";
  for (const RunMetric& metric : table.metrics) text += heading_of(metric) + "\n";
  for (const PublishedSeries& published : table.published)
    text += published.series + " " + nlohmann::json(published.values).dump() + "\n";
  return hex16(checksum(std::as_bytes(std::span(text))));
}

// Results of hours are found by the names and recipes of their runs.
TEST(Table, RunsAndColumnsOfEverySizeStayTheSame) {
  const std::map<std::string, std::string> expected{{"echo_ablation", "a971f3f33e31bba5"},
                                                    {"echo_ablation_small", "fb7ee94e5d44191a"},
                                                    {"echo_in_task", "b66e73cbdfaeff99"},
                                                    {"echo_in_task_small", "735643c1a34448d0"},
                                                    {"echo_mask", "44369215c6a0ca65"},
                                                    {"echo_mask_small", "5806d35cdc24ca01"},
                                                    {"echo_mlp", "bf830e409d80d0e9"},
                                                    {"echo_mlp_small", "346c7503903c2741"},
                                                    {"echo_mqar", "782b7c9295346fbb"},
                                                    {"echo_mqar_large", "4f5ccb1225ed6ef6"},
                                                    {"echo_mqar_small", "aee777f610a4d614"},
                                                    {"echo_recall", "11d0b7e93604859d"},
                                                    {"echo_recall_small", "a21dfc8f2c14b3ec"},
                                                    {"echo_text", "43716648e3f0acd2"},
                                                    {"echo_text_large", "069e826bb9309314"},
                                                    {"echo_text_small", "582b8b4e43008791"},
                                                    {"echo_transfer", "f615b31b4b84e026"},
                                                    {"echo_transfer_small", "640614b357a6e08b"},
                                                    {"etth1", "b4fd8ecaf38f84b3"},
                                                    {"etth1_memory", "4015add5541edbb9"},
                                                    {"etth1_memory_small", "46e1e135b0a5ddcf"},
                                                    {"etth1_small", "ab95fcf2e60f7091"},
                                                    {"gka_ablation", "62e981515f75fb0e"},
                                                    {"gka_ablation_small", "d7aaa59bd123e0bc"},
                                                    {"gka_figure3", "731c854b678325ae"},
                                                    {"gka_figure3_small", "7cdc75b969393c76"},
                                                    {"memory_controls", "0513ad5e97c3220e"},
                                                    {"memory_controls_small", "28bc6aaa6de38e41"},
                                                    {"mqar", "10e29bef875ffbe4"},
                                                    {"mqar_small", "2e2bfcc305f0b93f"},
                                                    {"second_hop", "072d71dfa23a740d"},
                                                    {"second_hop_small", "1db29e060b8b60be"},
                                                    {"sessa", "816973d5b783211f"},
                                                    {"sessa_large", "d89a76d53fb03cd5"},
                                                    {"sessa_small", "93e73f61392e68a6"}};
  std::map<std::string, std::string> found;
  for (const Table& table : tables()) {
    found[table.name] = checksum_of(table);
    for (const auto& make : {table.small, table.large})
      if (make) found[make().name] = checksum_of(make());
  }
  EXPECT_EQ(found, expected);
}

// The message about a mistake in a table's file names the table and the word.
TEST(Table, MistakesInAFileAreNamed) {
  nlohmann::json file = nlohmann::json::parse(R"({"title": "t", "about": "a", "x": {"label": "x"},
    "rows": [{"series": "one", "x": 1, "preset": "tiny", "set": {"steps": "{steps}"}}],
    "metrics": [{"name": "m", "measure": "accuracy"}], "words": {"steps": 3, "examples": 8}})");
  EXPECT_EQ(read_table("own", file).rows[0].changes, std::vector<std::string>{"steps=3"});
  const auto message = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json changed = file;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    return message_of(ExitCode::bad_input, [&] { read_table("own", changed); });
  };
  EXPECT_THAT(message("/rows/0/set/steps", "{stepz}"), testing::AllOf(HasSubstr("table own"), HasSubstr("stepz")));
  EXPECT_THAT(message("/metrics/0/measure", "acuracy"), testing::AllOf(HasSubstr("own"), HasSubstr("did you mean")));
  EXPECT_THAT(message("/metrics/0/shares", true), HasSubstr("shares"));
  EXPECT_THAT(message("/published", {{{"series", "one"}, {"values", {{"n", 1}}}}}), HasSubstr("'n'"));
}

}  // namespace
}  // namespace afterglow
