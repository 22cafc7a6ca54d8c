// The command line: results, exit codes, clean streams, the same numbers from every way in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/engine/training/saved/snapshot.h"
#include "core/io/csv.h"
#include "core/io/safetensors.h"
#include "core/layers/layer_kind.h"
#include "tests/app/run_program.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/support/csv_file.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::HasSubstr;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

json parsed(const ProgramResult& result) {
  const json value = json::parse(result.out, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << "stdout is not one JSON object: " << result.out << "\nstderr: " << result.err;
  return value;
}

class CommandLine : public testing::Test {
 protected:
  CommandLine() : folder_(std::string("cli_") + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    write(folder_ / "small.json", small_recipe_json().dump());
  }
  ProgramResult run(const std::string& arguments, const std::string& before = "") {
    return run_program(arguments, folder_.path(), before);
  }
  json train(const std::string& more) {
    return parsed(run("train --recipe small.json --json --device cpu --no-figures --out out " + more));
  }
  ScratchFolder folder_;
};

TEST_F(CommandLine, TrainAnswersWithOneObject) {
  const json result = train("");
  EXPECT_EQ(result["ok"], true);
  EXPECT_EQ(result["steps"], 40);
  EXPECT_EQ(result["device"], "cpu");
  EXPECT_EQ(result["seed"], 3);
  EXPECT_EQ(result["checksum"].get<std::string>().size(), 16u);
  EXPECT_GT(result["steps_per_second"], 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / result["snapshot"].get<std::string>()));
  const CsvTable metrics = read_csv(folder_ / result["metrics"].get<std::string>());
  EXPECT_EQ(metrics.rows(), 40u);
  EXPECT_DOUBLE_EQ(metrics.numbers("loss [nats]").back(), result["loss"].get<double>());
}

TEST_F(CommandLine, TableTrainsWhatIsMissingAndWritesItsFiles) {
  const std::string command =
      "table mqar --json --quiet --device cpu --only attention_16 --seeds 2 --set steps=2 --set batch=2 --out table";
  const json first = parsed(run(command));
  ASSERT_EQ(first["runs"].size(), 2u);
  EXPECT_EQ(first["runs"][0]["series"], "attention");
  EXPECT_NE(first["runs"][0]["checksum"], first["runs"][1]["checksum"]);
  for (const json& file : first["files"]) EXPECT_TRUE(std::filesystem::exists(folder_ / file.get<std::string>()));
  EXPECT_EQ(read_csv(folder_ / "table/table_mqar.csv").rows(), 2u);
  const auto written = std::filesystem::last_write_time(folder_ / "table/attention_16_seed7.json");
  EXPECT_EQ(parsed(run(command))["runs"], first["runs"]);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "table/attention_16_seed7.json"), written);
  EXPECT_EQ(run("table mqarr").code, 2);
  EXPECT_EQ(parsed(run(command + "_beside --jobs 2"))["runs"], first["runs"]);
}

TEST_F(CommandLine, TablesGrowByTheRunsThatOnlyNames) {
  const std::string command =
      "table mqar --json --quiet --device cpu --seeds 1 --set steps=2 --set batch=2 --out table";
  const json first = parsed(run(command + " --only attention_16"));
  ASSERT_EQ(first["runs"].size(), 1u);
  const json grown = parsed(run(command + " --only attention_32"));
  ASSERT_EQ(grown["runs"].size(), 2u);
  EXPECT_EQ(grown["runs"][0], first["runs"][0]);
  EXPECT_EQ(read_csv(folder_ / "table/table_mqar.csv").rows(), 2u);
  const ProgramResult none = run("table mqar --device cpu --only nothing");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no run of mqar has 'nothing' in its name, such as attention_16_seed7"));
}

TEST_F(CommandLine, TheTransferStudyInSmallRunsThroughAllOfIt) {
  const std::string command =
      "table echo_transfer --json --quiet --device cpu --set size=small --set steps=2 --out echo";
  const json result = parsed(run(command));
  ASSERT_EQ(result["runs"].size(), 5u);
  for (const json& row : result["runs"]) {
    for (const char* task : {"sysprompt", "tooltrace", "niah", "multihop", "commonword", "mqar"}) {
      const double mean = row["mean of " + std::string(task)];
      EXPECT_TRUE(mean >= 0 && mean <= 1) << row;
    }
  }
  const CsvTable csv = read_csv(folder_ / "echo/table_echo_transfer_small.csv");
  EXPECT_EQ(csv.rows(), 8u) << "five models, and three as published";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "echo/table_echo_transfer_small_group_0_1.svg"));
  EXPECT_EQ(run("table mqar --set size=large").code, 2) << "it has no such size";
}

TEST_F(CommandLine, EchosTablesOfRecallRunInSmallThroughAllOfThem) {
  const std::string options = " --json --quiet --device cpu --threads 1 --set size=small --set steps=2 --out ";
  const json recall = parsed(run("table echo_recall" + options + "recall"));
  ASSERT_EQ(recall["runs"].size(), 28u) << "fourteen kinds on two tasks";
  EXPECT_EQ(recall["runs"][0]["parameters"], recall["runs"][2]["parameters"]) << "the gain alone differs";
  const json grid = parsed(run("table echo_mqar" + options + "mqar"));
  EXPECT_EQ(grid["runs"].size(), 12u) << "six kinds, two gaps";
  EXPECT_EQ(grid["runs"][0]["trained"], 2);
  const std::string large = run("table echo_mqar --list --set size=large").out;
  EXPECT_EQ(std::ranges::count(large, '\n'), 84) << "a command for each run";
  EXPECT_NE(large.find("afterglow table echo_mqar --set size=large --shard 84/84"), std::string::npos) << large;
  EXPECT_EQ(parsed(run("table echo_in_task" + options + "in_task"))["runs"].size(), 9u) << "three kinds, three tasks";
  const json ablation = parsed(run("table echo_ablation" + options + "ablation"));
  ASSERT_EQ(ablation["runs"].size(), 14u);
  EXPECT_NE(ablation["runs"][0]["checksum"], ablation["runs"][4]["checksum"]) << "each token normed";
  EXPECT_EQ(ablation["runs"][5]["parameters"].get<int>() - ablation["runs"][0]["parameters"].get<int>(), 4 * 64)
      << "a gate for each head";
  const json mlps = parsed(run("table echo_mlp" + options + "mlp --seeds 1"));
  ASSERT_EQ(mlps["runs"].size(), 8u) << "four kinds on two tasks";
  const auto weights = [&](std::size_t i) { return mlps["runs"][i]["parameters"].get<double>(); };
  EXPECT_NEAR(weights(2), weights(0), 0.02 * weights(0)) << "matched";
  EXPECT_LT(weights(4), 0.95 * weights(0)) << "a third of the MLP fewer";
  EXPECT_NEAR(weights(6), weights(0), 0.02 * weights(0));
}

// Those that no other test runs; in small none has a published number of its own.
TEST_F(CommandLine, OtherTablesRunInSmallThroughAllOfThem) {
  for (const auto& [name, runs, metric] : {std::tuple{"mqar", 6u, "accuracy at 4 pairs"},
                                           {"sessa", 24u, "training loss"},
                                           {"gka_ablation", 24u, "training loss"},
                                           {"gka_figure3", 12u, "accuracy at 4 pairs"},
                                           {"etth1_memory", 6u, "MSE"},
                                           {"memory_controls", 7u, ""},
                                           {"echo_mask", 56u, "best accuracy"},
                                           {"second_hop", 6u, "accuracy"}}) {
    const std::string words =
        "table " + std::string(name) + " --json --quiet --device cpu --threads 1 --set size=small";
    const json result = parsed(run(words + " --set steps=2 --out " + name));
    ASSERT_EQ(result["runs"].size(), runs) << name;
    for (const json& row : result["runs"]) {
      const char* its_metric = *metric ? metric : row["x"] == "recall" ? "accuracy" : "MSE";
      EXPECT_TRUE(row[its_metric].is_number()) << row;
    }
    EXPECT_EQ(read_csv(folder_ / name / ("table_" + std::string(name) + "_small.csv")).rows(), runs);
  }
}

TEST_F(CommandLine, EchosVariantsAreComparedOnATextOfOnesOwn) {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "In Köln um " + std::to_string(i) + " Uhr läutet es.\n";
  write(folder_ / "text.txt", text);
  const std::string options = "table echo_text --json --quiet --device cpu --threads 1 --set size=small --set steps=2 ";
  const json own = parsed(run(options + "--data text.txt --out own")), told = parsed(run(options + "--out told"));
  ASSERT_EQ(own["runs"].size(), 4u);
  ASSERT_EQ(told["runs"].size(), 4u);
  EXPECT_NEAR(own["runs"][0]["held-out loss"].get<double>(), std::log(256.0), 0.5) << "bytes, of which none is known";
  EXPECT_LT(told["runs"][0]["held-out loss"].get<double>(), std::log(40.0)) << "the letters of the stories";
  EXPECT_GT(own["runs"][0]["parameters"], told["runs"][0]["parameters"]);
  EXPECT_EQ(own["runs"][0]["perplexity at 64 tokens"], own["runs"][0]["perplexity"]);
  EXPECT_EQ(run(options + "--data nowhere.txt --out other").code, 3);
}

TEST_F(CommandLine, AFileOfAnyKindIsLearnedByItsBytes) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) bytes += static_cast<char>(i * 37);
  write(folder_ / "bytes.bin", bytes);
  const json trained = parsed(run(
      "train --recipe small.json --data bytes.bin --set 'task={\"kind\":\"text\",\"letters\":\"bytes\",\"length\":24}' "
      "--set model.vocab=256 --steps 2 --json --device cpu --no-figures --out out"));
  const json written = parsed(
      run("generate '" + trained["snapshot"].get<std::string>() + "' --json --device cpu --count 40 --prompt abc"));
  EXPECT_EQ(written["beginning"], json({'a', 'b', 'c'}));
  EXPECT_EQ(written["tokens"].size(), 40u);
}

TEST_F(CommandLine, AModelWritesOnFromABeginning) {
  const std::string snapshot = train("--until 5")["snapshot"];
  const std::string command = "generate '" + snapshot + "' --json --device cpu --count 6 ";
  const json first = parsed(run(command + "--prompt '^ k3 v9 | ? k3'"));
  EXPECT_EQ(first["tokens"].size(), 6u);
  EXPECT_EQ(first["begun"], "^ k3 v9 | ? k3 ");
  EXPECT_EQ(parsed(run(command + "--prompt '^ k3 v9 | ? k3'"))["tokens"], first["tokens"]);
  EXPECT_NE(parsed(run(command + "--prompt '^ k3 v9 | ? k3' --draw 1"))["tokens"], first["tokens"]);
  EXPECT_EQ(parsed(run(command))["beginning"].size(), 24u) << "a held-out sequence up to its question";
  EXPECT_EQ(run(command + "--prompt 'k3 nothing'").code, 3);
  EXPECT_EQ(run(command + "--prompt k3 --tokens ids.txt").code, 2);
}

// On the built-in series, so that it needs no file.
TEST_F(CommandLine, TheTableOfForecastsRunsInSmallWithEveryRowOfTheComparison) {
  const json result =
      parsed(run("table etth1 --json --quiet --device cpu --threads 1 --set size=small --set steps=8 --out forecasts"));
  ASSERT_EQ(result["runs"].size(), 7u);
  std::set<std::string> checksums;
  for (const json& row : result["runs"]) {
    EXPECT_GT(row["MSE"], 0) << row;
    if (row["series"] == "history emptied each epoch") {
      EXPECT_EQ(row["checksum"], result["runs"][0]["checksum"]) << "nothing is emptied within the first epoch";
    } else {
      EXPECT_TRUE(checksums.insert(row["checksum"]).second) << row << " is a model of its own";
    }
  }
  EXPECT_EQ(result["runs"][2]["series"], "modes alone");
  EXPECT_EQ(result["runs"][3]["series"], "learned tokens alone");
}

TEST_F(CommandLine, ThreadsAndResumingGiveTheSameChecksum) {
  const std::string whole = train("--threads 1")["checksum"];
  EXPECT_EQ(train("--threads 2")["checksum"], whole);
  const json half = train("--until 20");
  EXPECT_EQ(half["steps"], 20);
  const json rest = parsed(
      run("train --json --device cpu --no-figures --out out --resume '" + half["snapshot"].get<std::string>() + "'"));
  EXPECT_EQ(rest["steps"], 40);
  EXPECT_EQ(rest["checksum"], whole);
  const ProgramResult done = run("train --device cpu --no-figures --out out --steps 30 --resume '" +
                                 rest["snapshot"].get<std::string>() + "'");
  EXPECT_THAT(done.err, HasSubstr("nothing is left to train: this run is at step 40 already"));
  EXPECT_NE(train("--seed 5")["checksum"], whole);
  EXPECT_NE(train("--set learning_rate=1e-4")["checksum"], whole);
}

TEST_F(CommandLine, CommandsStillToComeSurviveResumingAndFigures) {
  json recipe = small_recipe_json();
  recipe["training"]["steps"] = 14;
  recipe["commands"] = json::parse(R"([
    {"step": 7, "name": "set", "value": {"key": "learning_rate", "to": 0.02}},
    {"step": 9, "name": "set", "value": {"key": "steps", "to": 16}},
    {"step": 16, "name": "set", "value": {"key": "steps", "to": 18}}])");
  write(folder_ / "later.json", recipe.dump());
  const std::string end = " --json --device cpu --out out ", numbers = "--no-figures" + end;
  const json whole = parsed(run("train --recipe later.json " + numbers));
  EXPECT_EQ(whole["steps"], 18);
  for (const int stop : {0, 1, 6, 7, 8, 14, 16}) {
    const json part = parsed(run("train --recipe later.json --until " + std::to_string(stop) + " " + numbers));
    EXPECT_EQ(part["steps"], stop);
    const json rest = parsed(run("train --resume '" + part["snapshot"].get<std::string>() + "' " + numbers));
    EXPECT_EQ(rest["steps"], 18);
    EXPECT_EQ(rest["checksum"], whole["checksum"]) << "resumed at " << stop;
  }
  const json drawn = parsed(run("train --recipe later.json --until 3" + end));
  const auto svg = std::find_if(drawn["figures"].begin(), drawn["figures"].end(),
                                [](const json& path) { return path.get<std::string>().ends_with(".svg"); });
  ASSERT_NE(svg, drawn["figures"].end());
  const json again = parsed(run("train --recipe '" + svg->get<std::string>() + "' " + numbers));
  EXPECT_EQ(again["checksum"], whole["checksum"]) << "from a figure of step 3";
}

TEST_F(CommandLine, ARecipesNameWritesNowhereElse) {
  const std::filesystem::path kept = folder_ / "kept";
  write(kept, "old");
  for (const std::string& name :
       {std::string("../X"), (folder_ / "X").string(), kept.string() + std::string(1, '\0')}) {
    json recipe = small_recipe_json();
    recipe["name"] = name;
    write(folder_ / "hostile.json", recipe.dump());
    for (const char* force : {"", " --force"}) {
      const ProgramResult result =
          run("train --recipe hostile.json --until 1 --no-figures --device cpu --out out" + std::string(force),
              "timeout 20");
      EXPECT_EQ(result.code, 3) << result.err;
      EXPECT_THAT(result.err, HasSubstr("hostile.json.name: "));
    }
  }
  EXPECT_EQ(text_of(kept), "old");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "X_seed3_step1.safetensors"));
}

TEST_F(CommandLine, ASeriesOfAHeaderAloneIsThree) {
  write(folder_ / "header.csv", "date,load,oil\n");
  const ProgramResult result = run("train --preset forecast --data header.csv --until 1 --device cpu");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("header.csv: "));
}

TEST_F(CommandLine, NothingIsOverwrittenUnlessForced) {
  const json first = train("--until 1"), second = train("--until 1"), forced = train("--until 1 --force");
  EXPECT_NE(first["snapshot"], second["snapshot"]);
  EXPECT_EQ(first["snapshot"], forced["snapshot"]);
}

TEST_F(CommandLine, FiguresAreWrittenAndReopenTheirMoment) {
  const json result = parsed(run("train --recipe small.json --json --device cpu --until 12 --out out"));
  ASSERT_GE(result["figures"].size(), 8u);
  std::string svg;
  for (const auto& path : result["figures"]) {
    EXPECT_GT(std::filesystem::file_size(folder_ / path.get<std::string>()), 100u) << path;
    if (path.get<std::string>().ends_with(".svg")) svg = path.get<std::string>();
  }
  ASSERT_FALSE(svg.empty());
  const json again =
      parsed(run("train --json --device cpu --no-figures --until 12 --out again --recipe '" + svg + "'"));
  EXPECT_EQ(again["checksum"], result["checksum"]);
}

TEST_F(CommandLine, PlotFromSnapshotOrRecipeGivesTheSameBytesTwice) {
  const std::string arguments =
      "plot training --recipe small.json --steps 10 --device cpu --force --svg a.svg --csv a.csv";
  ASSERT_EQ(run(arguments).code, 0);
  const std::string svg = text_of(folder_ / "a.svg"), csv = text_of(folder_ / "a.csv");
  EXPECT_THAT(svg, HasSubstr("<text"));
  ASSERT_EQ(run(arguments, "env -u DISPLAY -u WAYLAND_DISPLAY").code, 0);
  EXPECT_EQ(text_of(folder_ / "a.svg"), svg);
  EXPECT_EQ(text_of(folder_ / "a.csv"), csv);
  EXPECT_EQ(run("plot nonsense --recipe small.json --svg b.svg").code, 2);
  EXPECT_EQ(run("plot training --recipe small.json --steps 1").code, 2) << "no file named";
}

TEST_F(CommandLine, EvalMakesAGrid) {
  const std::string snapshot = train("--until 5")["snapshot"];
  const json result = parsed(
      run("eval '" + snapshot + "' --json --device cpu --examples 16 --bindings 1,2 --lengths 16,32 --csv grid.csv"));
  EXPECT_EQ(result["cells"].size(), 4u);
  EXPECT_EQ(read_csv(folder_ / "grid.csv").rows(), 4u);
  EXPECT_TRUE(result["left_out"].empty());
  const ProgramResult holes = run("eval '" + snapshot + "' --device cpu --examples 4 --bindings 1,99 --lengths 16,32");
  EXPECT_EQ(holes.code, 0) << holes.err;
  EXPECT_THAT(holes.err, HasSubstr("2 of the grid, the first with bindings 99 and length 16: Task"));
  EXPECT_EQ(parsed(run("eval '" + snapshot + "' --json --device cpu --task niah --examples 4"))["cells"].size(), 1u);
  EXPECT_EQ(run("eval small.json --device cpu").code, 3);
  const json told = parsed(run("eval '" + snapshot + "' --perplexity --json --device cpu --examples 16"))["cells"][0];
  EXPECT_GT(told["perplexity"], 1.0);
  EXPECT_GE(told["among_five"], told["accuracy"]);
  const json by_token = parsed(run("eval '" + snapshot + "' --recurrent --json --device cpu --examples 4"));
  EXPECT_EQ(by_token["form"], "recurrent");
  const json at_once = parsed(run("eval '" + snapshot + "' --json --device cpu --examples 4"));
  EXPECT_EQ(by_token["cells"][0]["accuracy_at_once"], at_once["cells"][0]["accuracy"]);
  const std::string decoded = "eval '" + snapshot + "' --json --device cpu --examples 4 --freeze-scale";
  EXPECT_EQ(parsed(run(decoded + " --decode 2"))["form"], "prompt, then recurrent with its scale");
  EXPECT_EQ(run(decoded).code, 2) << "there is no prompt that could leave a scale";
}

TEST_F(CommandLine, InfoListsEverythingAndReadsFiles) {
  const json result = parsed(run("info --json"));
  for (const char* part : {"devices", "presets", "layers", "tasks", "plots", "commands"})
    EXPECT_FALSE(result[part].empty()) << part;
  const std::string snapshot = train("--until 1")["snapshot"];
  EXPECT_EQ(parsed(run("info --json '" + snapshot + "'"))["metadata"]["format"], "afterglow");
  EXPECT_EQ(parsed(run("info --json small.json"))["recipe"]["name"], "small");
}

TEST_F(CommandLine, LayerChecksOneLayerAgainstAFile) {
  const std::string golden = golden_folder() / "swiglu_tiny.safetensors";
  ASSERT_EQ(run("layer '" + golden + "' --out result.safetensors --device cpu").code, 0);
  const TensorFile want = read_safetensors(golden), got = read_safetensors(folder_ / "result.safetensors");
  const std::vector<double> expected = to_doubles(require_tensor(want, "y", "golden")),
                            found = to_doubles(require_tensor(got, "y", "result"));
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4);
  EXPECT_EQ(run("layer small.json --out r.safetensors").code, 3);
}

TEST_F(CommandLine, WrongUsageIsTwoAndSaysWhatIsNear) {
  EXPECT_EQ(run("trian").code, 2);
  const ProgramResult typo = run("train --presett tiny");
  EXPECT_EQ(typo.code, 2);
  EXPECT_THAT(typo.err, HasSubstr("--preset"));
  EXPECT_EQ(run("train --preset no-such").code, 2);
  EXPECT_EQ(run("train --recipe small.json --preset tiny").code, 2);
  EXPECT_EQ(run("train --steps -3").code, 2);
  EXPECT_EQ(run("train --recipe small.json --set nonsense").code, 2);
  const json failure = parsed(run("train --preset no-such --json"));
  EXPECT_EQ(failure["ok"], false);
  EXPECT_EQ(failure["code"], 2);
  EXPECT_THAT(failure["error"].get<std::string>(), HasSubstr("tiny"));
}

TEST_F(CommandLine, WordsThatOnlyTheWindowReadsAreRefusedBesideACommand) {
  const ProgramResult preset = run("train tiny-memory --steps 1");
  EXPECT_EQ(preset.code, 2);
  EXPECT_THAT(preset.err, HasSubstr("--preset tiny-memory"));
  EXPECT_EQ(run("bench step tiny small.json").code, 2);
  const ProgramResult option = run("train --recipe small.json --theme dark");
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, HasSubstr("--theme is for the window"));
  const ProgramResult before = run("--preset tiny-ssm train --steps 1");
  EXPECT_EQ(before.code, 2);
  EXPECT_THAT(before.err, HasSubstr("--preset belongs after `train`"));
}

TEST_F(CommandLine, WhatTheWindowCannotStartFromIsToldBeforeItOpens) {
  const auto refusal = [&](const std::string& arguments) {
    const ProgramResult result = run(arguments, "DISPLAY=:none WAYLAND_DISPLAY=");
    EXPECT_EQ(result.code, 2) << arguments << ": " << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal("tiny-smm"), HasSubstr("did you mean 'tiny-ssm'"));
  EXPECT_THAT(refusal("--preset no-such"), HasSubstr("no-such"));
  EXPECT_THAT(refusal("tiny --preset tiny-ssm"), HasSubstr("give only one of"));
  EXPECT_THAT(refusal("tiny tiny-ssm few-modes"), HasSubstr("one too many"));
  EXPECT_THAT(refusal("tour tiny"), HasSubstr("compared with nothing"));
  EXPECT_THAT(refusal("tiny --seed 3 tiny-smm"), HasSubstr("tiny-smm"));
  EXPECT_THAT(refusal("small.json --seed 4"), HasSubstr("--seed"));
}

TEST_F(CommandLine, HelpAndVersionSucceed) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_THAT(run("--help").out, HasSubstr("Exit codes"));
  EXPECT_EQ(run("train --help").code, 0);
  EXPECT_THAT(run("--version").out, HasSubstr("afterglow "));
}

TEST_F(CommandLine, NoGpuIsFour) {
  const ProgramResult result = run("train --recipe small.json --device cuda --until 1", "CUDA_VISIBLE_DEVICES=");
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("--device cpu"));
}

TEST_F(CommandLine, NonFiniteTrainingIsSixAndKeepsTheLastGoodSnapshot) {
  json recipe = small_recipe_json();
  recipe["training"]["learning_rate"] = 1.0;
  recipe["training"]["warmup"] = 0;
  recipe["training"]["clip"] = 0;
  recipe["training"]["weight_decay"] = 1.0;
  recipe["model"]["norm_eps"] = 0.0;
  for (auto& block : recipe["model"]["blocks"]) {
    if (block["mixer"]["kind"] == "ska") block["mixer"]["ridge"] = 1e-30;
  }
  write(folder_ / "wild.json", recipe.dump());
  const ProgramResult result = run("train --recipe wild.json --device cpu --no-figures --steps 400");
  // Wild settings need not break; when they do, the report must be complete.
  if (result.code != 0) {
    EXPECT_EQ(result.code, 6) << result.err;
    EXPECT_THAT(result.err, HasSubstr("step "));
    EXPECT_THAT(result.err, HasSubstr(".safetensors"));
  }
}

TEST_F(CommandLine, BadFilesAreThreeAndNameFileAndRemedy) {
  const std::string snapshot_name = train("--until 1")["snapshot"];
  const std::string good = text_of(folder_ / snapshot_name);
  const auto code_of = [&](const std::string& name, const std::string& content) {
    write(folder_ / name, content);
    const ProgramResult result = run("train --device cpu --no-figures --resume " + name);
    EXPECT_THAT(result.err, HasSubstr(name));
    return result.code;
  };
  EXPECT_EQ(run("train --resume missing.safetensors").code, 3);
  EXPECT_THAT(run("info missing").err, HasSubstr("there is no such file"));
  EXPECT_EQ(code_of("empty.safetensors", ""), 3);
  for (const std::size_t size : {std::size_t{7}, std::size_t{8}, std::size_t{100}, good.size() / 2, good.size() - 1}) {
    EXPECT_EQ(code_of("cut.safetensors", good.substr(0, size)), 3) << size;
  }
  EXPECT_EQ(code_of("huge_header.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + good.substr(8)), 3);
  EXPECT_EQ(code_of("text.safetensors", "this is no snapshot, but it is long enough to be one"), 3);
  write(folder_ / "bad.json", "{\"model\": {");
  EXPECT_EQ(run("train --recipe bad.json").code, 3);
  write(folder_ / "deep.json", std::string(100000, '['));
  EXPECT_EQ(run("train --recipe deep.json").code, 3);
  write(folder_ / "picture.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>");
  EXPECT_EQ(run("train --recipe picture.svg").code, 3);
}

TEST_F(CommandLine, AChangedSnapshotIsRefusedBeforeMemoryIsTaken) {
  const std::string name = train("--until 1")["snapshot"];
  const auto refused = [&](const std::function<void(TensorFile&)>& change, const std::string& word) {
    TensorFile file = read_safetensors(folder_ / name);
    change(file);
    write_safetensors(folder_ / "changed.safetensors", file);
    // One gigabyte of address space more than the program needs to start: a hostile width must not be reserved.
    const ProgramResult result = run("train --device cpu --threads 1 --no-figures --resume changed.safetensors");
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr("changed.safetensors"));
    EXPECT_THAT(result.err, HasSubstr(word));
  };
  const auto edit_recipe = [](TensorFile& file, const char* pointer, const json& value) {
    json recipe = json::parse(file.metadata.at("afterglow.recipe"));
    recipe[json::json_pointer(pointer)] = value;
    file.metadata["afterglow.recipe"] = recipe.dump();
  };
  refused([&](TensorFile& file) { edit_recipe(file, "/model/d_model", 65536); }, "embedding.weight");
  refused([&](TensorFile& file) { edit_recipe(file, "/model/blocks/1/mixer/r", 7); }, "k_proj");
  refused([&](TensorFile& file) { file.tensors.pop_back(); }, "optim");
  refused([&](TensorFile& file) { file.metadata["step"] = "-4"; }, "step");
  refused([&](TensorFile& file) { file.metadata.erase("afterglow.recipe"); }, "afterglow.recipe");
  refused(
      [](TensorFile& file) {
        for (HostTensor& tensor : file.tensors) {
          if (tensor.name == "embedding.weight")
            tensor = make_tensor<float>(tensor.name, tensor.shape,
                                        std::vector<float>(static_cast<std::size_t>(tensor.elements()), NAN));
        }
      },
      "NaN");
}

// Of weights and moments alike: a training that goes on from others would be another one.
TEST_F(CommandLine, ABitThatChangedOnTheDiskIsFoundByItsChecksum) {
  const std::string name = train("--until 2")["snapshot"];
  const TensorFile whole = read_safetensors(folder_ / name);
  for (std::size_t i = 0; i < whole.tensors.size(); i += 4) {
    TensorFile file = whole;
    HostTensor& tensor = file.tensors[i];
    if (tensor.type != StoredType::f32 || tensor.bytes.empty() || tensor.name.starts_with("curves")) continue;
    tensor.bytes.front() ^= std::byte{1};  // the last bit of a number
    write_safetensors(folder_ / "changed.safetensors", file);
    const ProgramResult result =
        run("train --device cpu --threads 1 --no-figures --until 3 --resume changed.safetensors --out changed");
    EXPECT_EQ(result.code, 7) << tensor.name << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("checksum")) << tensor.name;
  }
}

TEST_F(CommandLine, AFullDiskOrReadOnlyFolderLosesNothing) {
  const std::string before = train("--until 2")["snapshot"];
  const std::string content = text_of(folder_ / before);
  const ProgramResult limited =
      run("train --recipe small.json --device cpu --no-figures --until 2 --force --out out", "ulimit -f 8;");
  EXPECT_NE(limited.code, 0);
  EXPECT_EQ(text_of(folder_ / before), content) << "the old snapshot is as it was";
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out")) {
    EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr("tmp"))) << "no stray file";
  }
  write(folder_ / "a_file", "x");
  const ProgramResult nowhere =
      run("train --recipe small.json --device cpu --no-figures --until 1 --out a_file/inside");
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("--out"));
}

TEST_F(CommandLine, InterruptedTrainingSavesAndAnswers130) {
  const ProgramResult result = run("train --recipe small.json --set steps=1000000 --device cpu --no-figures --out out",
                                   "timeout --foreground --preserve-status -s INT 4");
  EXPECT_EQ(result.code, 130) << result.err;
  bool found = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out")) {
    if (entry.path().extension() == ".safetensors") found = read_snapshot(entry.path()).step > 0;
  }
  EXPECT_TRUE(found);
}

TEST_F(CommandLine, BenchAnswersWithRows) {
  const json result = parsed(run("bench 'layer swiglu' --repeats 3 --json --device cpu --threads 1"));
  ASSERT_EQ(result["rows"].size(), 1u);
  for (const char* field : {"name", "device", "median_ms", "min_ms", "max_ms", "repeats", "flops", "bytes"})
    EXPECT_TRUE(result["rows"][0].contains(field)) << field;
  EXPECT_EQ(run("bench nothing-like-this").code, 2);
}

TEST_F(CommandLine, BenchOfAStepSaysWhatItHolds) {
  const json result = parsed(run("bench 'step tiny' --repeats 1 --json --device cpu --threads 1"));
  ASSERT_GE(result["rows"].size(), 1u);
  const auto weights_and_moments = 4 * sizeof(float) * 110068;
  EXPECT_EQ(result["rows"][0]["name"], "step tiny");
  EXPECT_GT(result["rows"][0]["held_bytes"].get<std::size_t>(), weights_and_moments);
  EXPECT_LT(result["rows"][0]["held_bytes"].get<std::size_t>(), std::size_t{200} << 20);
}

// Training steps have "gka" in their names as well; what begins with it comes alone.
TEST_F(CommandLine, BenchTakesNamesThatBeginWithTheWords) {
  const json result = parsed(run("bench gka --repeats 1 --json --device cpu --threads 1"));
  ASSERT_GE(result["rows"].size(), 1u);
  for (const json& row : result["rows"]) EXPECT_EQ(row["name"].get<std::string>().rfind("gka core ", 0), 0u) << row;
}

// Twice the same: every row has its time of before, and a name that was not measured is new.
TEST_F(CommandLine, BenchAgainstAnEarlierResultSaysRatios) {
  const std::string command = "bench 'layer swiglu' --repeats 1 --json --device cpu --threads 1";
  json before = parsed(run(command));
  before["rows"][0]["median_ms"] = 1e6;
  std::ofstream(folder_ / "before.json") << before;
  const json after = parsed(run(command + " --against " + (folder_ / "before.json").string()));
  EXPECT_EQ(after["against"]["device"], before["device"]);
  EXPECT_EQ(after["rows"][0]["before_ms"], 1e6);
  EXPECT_EQ(after["rows"][0]["ratio"], after["rows"][0]["median_ms"].get<double>() / 1e6);

  before["rows"][0]["name"] = "another";
  std::ofstream(folder_ / "before.json") << before;
  const ProgramResult text =
      run("bench 'layer swiglu' --repeats 1 --device cpu --threads 1 --against " + (folder_ / "before.json").string());
  EXPECT_THAT(text.out, ::testing::HasSubstr(", new"));
  EXPECT_EQ(run(command + " --against " + (folder_ / "missing.json").string()).code, 3);
  std::ofstream(folder_ / "empty.json") << R"({"device": "", "precision": "fp32", "rows": []})";
  EXPECT_EQ(run(command + " --against " + (folder_ / "empty.json").string()).code, 3);
}

TEST_F(CommandLine, BenchLongStopsWhereItsBoundSaysAndDrawsWhatItMeasured) {
  const json result =
      parsed(run("bench 'long linear_attention' --repeats 1 --seconds 0.002 --json --device cpu --threads 1 --svg " +
                 (folder_ / "long.svg").string()));
  ASSERT_GE(result["rows"].size(), 2u) << "the shortest is always measured";
  const json &first = result["rows"].front(), &last = result["rows"].back();
  EXPECT_EQ(first["tokens"], 64);
  for (const char* field : {"median_ms", "held_bytes", "flops", "bytes", "floor_ms", "share_of_floor"})
    EXPECT_GT(first[field].get<double>(), 0.0) << field;
  EXPECT_EQ(last["stopped"], "time");
  EXPECT_GT(last["expected_ms"].get<double>(), 2.0);
  EXPECT_LT(last["tokens"].get<int>(), 65536);
  ASSERT_EQ(result["files"].size(), 2u);
  for (const json& file : result["files"]) EXPECT_TRUE(std::filesystem::exists(file.get<std::string>())) << file;
  EXPECT_EQ(run("bench 'layer swiglu' --repeats 1 --device cpu --svg " + (folder_ / "none.svg").string()).code, 2);
}

TEST_F(CommandLine, BenchLongMeasuresTheMixersAndOnACpuNoWholeModel) {
  const json result = parsed(run("bench long --repeats 1 --seconds 1e-6 --json --device cpu --threads 1"));
  std::set<std::string> mixers, wanted;
  for (const json& row : result["rows"]) {
    const std::string name = row["name"];
    mixers.insert(name.substr(0, name.find(" T")));
  }
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.mixes_tokens) wanted.insert("long " + kind.name);
  }
  EXPECT_EQ(mixers, wanted) << "a step of Echo-50M over 2048 tokens takes minutes";
}

}  // namespace
}  // namespace afterglow
