// Interventions from outside: the table of `plot patch --json`, and pairs and transplants that a recipe carries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using Causes = ProgramTest;

TEST_F(Causes, PatchPrintsEveryCellWithItsHook) {
  const ProgramResult result =
      run("plot patch --recipe small.json --steps 8 --device cpu --threads 1 --json --csv patch.csv");
  ASSERT_EQ(result.code, 0) << result.out.substr(0, 500) << result.err;
  const nlohmann::json found = parsed(result), &table = found["table"];
  ASSERT_EQ(found["figure"], "patch_stream");
  const std::size_t cells = table["hook"].size();
  ASSERT_GT(cells, 0U);
  EXPECT_EQ(cells % 24, 0U);  // tokens of the task
  double greatest = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    ASSERT_TRUE(table["exact"][i].is_number()) << i;
    ASSERT_TRUE(table["attributed"][i].is_number()) << i;
    greatest = std::max(greatest, table["exact"][i].get<double>());
  }
  EXPECT_EQ(table["hook"][0], "blocks.0.hook_resid_pre");
  EXPECT_EQ(table["hook"][cells - 1], "blocks.1.hook_resid_post");
  EXPECT_GT(greatest, 0.99);  // the embedding of the changed token carries all of the difference
  const std::string csv = text_of(folder_ / "patch.csv");
  EXPECT_TRUE(csv.starts_with("part,place,hook,position,token,attributed,exact\r\n")) << csv.substr(0, 80);
}

TEST_F(Causes, ARecipeCarriesPairMeasureAndTransplant) {
  nlohmann::json recipe = small_recipe_json();
  recipe["probe"] = {{"pair", {{"choice", 1}, {"measure", "probability"}}},
                     {"transplant", {{"layer", 3}, {"part", "C"}, {"token", 10}}}};
  write("pair.json", recipe.dump());
  const std::string rest = " --steps 8 --device cpu --threads 1 --json --csv out.csv --force";
  const nlohmann::json usual = parsed(run("plot transplant --recipe small.json" + rest)),
                       other = parsed(run("plot transplant --recipe pair.json" + rest));
  EXPECT_NE(usual["table"]["transplanted"], other["table"]["transplanted"]);
  EXPECT_EQ(usual["table"]["transplanted"].size(), usual["table"]["clean"].size());
  recipe["probe"]["pair"]["measure"] = "taste";
  write("wrong.json", recipe.dump());
  const ProgramResult refused = run("plot patch --recipe wrong.json" + rest);
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.out + refused.err, testing::HasSubstr("logit difference"));
}

TEST_F(Causes, QuestionsToTrainingHaveTables) {
  nlohmann::json recipe = small_recipe_json();
  recipe["commands"] = {{{"step", 0}, {"name", "bisect"}, {"value", {{"condition", "loss < 4.8"}, {"until", 12}}}},
                        {{"step", 0}, {"name", "microscope"}, {"value", {{"change", "same"}, {"steps", 3}}}}};
  write("asked.json", recipe.dump());
  for (const char* plot : {"forces", "microscope", "bisect", "over_training"}) {
    const ProgramResult result =
        run("plot " + std::string(plot) +
            " --recipe asked.json --steps 8 --device cpu --threads 1 --json --csv a.csv --force");
    ASSERT_EQ(result.code, 0) << plot << result.out.substr(0, 400) << result.err;
    const nlohmann::json table = parsed(result)["table"];
    ASSERT_FALSE(table.empty()) << plot;
    if (std::string_view(plot) == "microscope") {
      EXPECT_EQ(table["all weights"], nlohmann::json({0.0, 0.0, 0.0, 0.0})) << "the same against the same";
    }
  }
}

TEST_F(Causes, APairComesFromAFile) {
  std::string lines;
  for (const int changed : {70, 71}) {
    for (int t = 0; t < 24; ++t) lines += std::to_string(t == 5 ? changed : t) + " ";
    lines += "\n";
  }
  write("pair.txt", lines);
  const std::string rest = " --recipe small.json --steps 4 --device cpu --threads 1 --json --force --csv a.csv";
  const nlohmann::json found = parsed(run("plot logit_lens --pair pair.txt" + rest));
  ASSERT_TRUE(found["ok"]) << found.dump().substr(0, 400);
  write("pair.txt", "1 2 3\n");
  const ProgramResult refused = run("plot patch --pair pair.txt" + rest);
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.out + refused.err, testing::HasSubstr("pair.txt holds 1 sequence(s) of 3 tokens"));
  EXPECT_EQ(run("plot patch --pair nowhere.txt" + rest).code, 3);
}

TEST_F(Causes, AStopLeavesItsMarkInFigures) {
  nlohmann::json recipe = small_recipe_json();
  recipe["commands"] = {{{"step", 0}, {"name", "stop_when"}, {"value", {{"condition", "step >= 3"}}}}};
  write("stopping.json", recipe.dump());
  ASSERT_EQ(run("plot training --recipe stopping.json --steps 6 --device cpu --threads 1 --svg a.svg --force").code, 0);
  EXPECT_THAT(text_of(folder_ / "a.svg"), testing::HasSubstr("stopped: step"));
}

TEST_F(Causes, SurgeryAndFreezeArePartOfTheRecipe) {
  nlohmann::json recipe = small_recipe_json();
  const nlohmann::json drag = {{"name", "drag_mode"}, {"value", {{"head", 1}, {"mode", 0}, {"re", 0.6}}}};
  recipe["commands"] = {{{"step", 4}, {"name", "surgery"}, {"value", {{"overrides", nlohmann::json::array({drag})}}}},
                        {{"step", 6}, {"name", "freeze"}, {"value", {{"part", "head"}}}}};
  write("operated.json", recipe.dump());
  const auto train = [&](const std::string& from, const std::string& out) {
    return parsed(
        run("train " + from + " --steps 10 --device cpu --threads 1 --json --force --out " + out))["checksum"];
  };
  const nlohmann::json once = train("--recipe operated.json", "a"), again = train("--recipe operated.json", "b");
  EXPECT_EQ(once, again);
  EXPECT_NE(once, train("--recipe small.json", "c"));
}

TEST_F(Causes, PlotsFollowWhatIsAskedOfTheModelOrSayThatTheyDoNot) {
  const auto plotted = [&](const std::string& plot, const std::string& ask) {
    const ProgramResult result = run("plot " + plot + " --recipe small.json --steps 12 --device cpu --threads 1 " +
                                     ask + " --json --csv a.csv --force");
    EXPECT_EQ(result.code, 0) << result.err;
    const std::string table = text_of(folder_ / "a.csv");
    return std::pair(table.substr(0, table.find("# afterglow")), parsed(result)["summary"].get<std::string>());
  };
  const auto override_of = [](const char* key, const char* to) {
    return std::string(R"(--ask '{"name":"override","value":{"key":")") + key + R"(","to":)" + to + "}}'";
  };
  const std::string off = R"(--ask '{"name":"mode_off","value":{"head":0,"number":1}}')";
  std::set<std::string> weights{plotted("token_weights", "").first};
  for (const auto& ask :
       {override_of("K", "0"), override_of("K", "1"), override_of("ridge", "0.3"), override_of("gamma", "1.9"), off})
    EXPECT_TRUE(weights.insert(plotted("token_weights", ask).first).second) << ask;
  EXPECT_THAT(plotted("token_weights", override_of("eta", "3")).second, testing::HasSubstr("η = 3"));
  EXPECT_NE(plotted("spectrum", off).first, plotted("spectrum", "").first);
  EXPECT_NE(plotted("power_filter", off).first, plotted("power_filter", "").first);
  const auto spectrum_of_tokens = plotted("token_spectrum", off);
  EXPECT_EQ(spectrum_of_tokens.first, plotted("token_spectrum", "").first);
  EXPECT_THAT(spectrum_of_tokens.second, testing::HasSubstr("without interventions"));
}

TEST_F(Causes, AblationReadoutAndLensHaveTables) {
  for (const char* plot : {"ablation", "readout", "logit_lens --figure 1"}) {
    const ProgramResult result =
        run("plot " + std::string(plot) +
            " --recipe small.json --steps 4 --device cpu --threads 1 --json --csv a.csv --force");
    ASSERT_EQ(result.code, 0) << plot << result.err;
    EXPECT_FALSE(parsed(result)["table"].empty()) << plot;
  }
}

}  // namespace
}  // namespace afterglow
