// Each number of a claim is in results that are kept with the command that made them, or has the day on which it was
// written down; and those commands train the runs whose results are kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/studies/claims_view.h"
#include "core/studies/table.h"

namespace afterglow {

std::span<const EmbeddedText> claim_files();
std::span<const EmbeddedText> result_files();

namespace {

using nlohmann::json;

/// The word behind an option of a command; empty without it.
std::string option(const std::string& command, const std::string& name) {
  std::istringstream words(command);
  for (std::string word, last; words >> word; last = word) {
    if (last == name) return word;
  }
  return "";
}

TEST(PaperClaims, HaveNumbersWithACommandSeedsAndADevice) {
  for (const PaperClaim& claim : paper_claims()) {
    EXPECT_THAT((std::set<std::string>{"holds", "holds in part", "does not", "not tried"}),
                testing::Contains(claim.verdict));
    EXPECT_EQ(claim.number.empty(), claim.verdict == "not tried") << claim.claim;
    if (claim.number.empty()) continue;
    EXPECT_EQ(claim.command.rfind("afterglow ", 0), 0u) << claim.claim;
    EXPECT_GE(claim.seeds, 1) << claim.claim;
    EXPECT_FALSE(claim.device.empty()) << claim.claim;
    if (claim.recorded.empty()) continue;
    EXPECT_THAT(claim.recorded, testing::MatchesRegex("20[0-9]+-[0-9]+-[0-9]+")) << claim.claim;
  }
}

// Computed here once more, from the files alone.
TEST(PaperClaims, WithoutADayAreTheMeansOfKeptRuns) {
  const json claims = json::parse(claim_files().front().json);
  ASSERT_EQ(claims.size(), paper_claims().size());
  int found = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const PaperClaim& claim = paper_claims()[i];
    if (claim.number.empty() || !claim.recorded.empty()) continue;
    ASSERT_TRUE(claims[i].contains("of")) << claim.claim;
    const json place = claims[i]["of"].is_array() ? claims[i]["of"].front() : claims[i]["of"];
    std::map<int, double> sums, counts, most;  // by seed
    const bool is_of_best = find_table(place["table"].get<std::string>()).is_of_best;
    for (const EmbeddedText& file : result_files()) {
      const json results = json::parse(file.json);
      for (const json& run : results["runs"]) {
        if (results["table"] != place["table"] || run["series"] != place["series"] || run["x"] != place["x"]) continue;
        const auto value = run[place["metric"].get<std::string>()].get<double>();
        const int seed = run["seed"];
        sums[seed] += value;
        counts[seed] += 1;
        most[seed] = std::max(value, most.contains(seed) ? most[seed] : value);
        EXPECT_NE(claim.command.find(results["command"].get<std::string>()), std::string::npos) << claim.claim;
      }
    }
    double sum = 0, count = 0;
    for (const auto& [seed, runs] : counts) {
      sum += is_of_best ? most[seed] : sums[seed];
      count += is_of_best ? 1 : runs;
    }
    EXPECT_NEAR(std::stod(claim.number), sum / count, 6e-4) << claim.claim;
    EXPECT_TRUE(claims[i]["number"].is_null()) << claim.claim << ": a number by hand stands next to the results";
    ++found;
  }
  EXPECT_GE(found, 15);
}

TEST(PaperClaims, CommandsOfKeptResultsTrainTheirRuns) {
  for (const EmbeddedText& file : result_files()) {
    const json results = json::parse(file.json);
    const std::string command = results["command"].get<std::string>(), only = option(command, "--only"),
                      seeds = option(command, "--seeds");
    const Table& usual = find_table(results["table"].get<std::string>());
    const Table table = option(command, "--set") == "size=large" ? usual.large() : usual;
    EXPECT_EQ(command.rfind("afterglow table " + usual.name + " ", 0), 0u) << command;
    const std::vector<PlannedRun> planned = runs_of(table, seeds.empty() ? table.seeds : std::stoi(seeds), {});
    for (const json& run : results["runs"]) {
      const bool is_trained = std::ranges::any_of(planned, [&](const PlannedRun& one) {
        const TableRow& row = table.rows[one.row];
        const bool is_place = run["x"].is_string() ? run["x"] == place_text(table, row.x) : run["x"] == row.x;
        return row.series == run["series"] && is_place && one.recipe.seed == run["seed"] &&
               (one.name + ".json").find(only) != std::string::npos;
      });
      EXPECT_TRUE(is_trained) << command << ": " << run["series"] << " at " << run["x"] << ", seed " << run["seed"];
    }
  }
}

}  // namespace
}  // namespace afterglow
