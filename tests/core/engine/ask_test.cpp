// Commands that only ask: the same from the command line as from the window.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/recipe/inspection_setup.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(Asking, IsTheWindowsCommandAndChangesNoTraining) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun asked({small_recipe(), std::nullopt}, *backend), plain({small_recipe(), std::nullopt}, *backend);
  asked.ask({"probe", R"({"index": 3})"_json});
  asked.ask({"head_off", R"({"layer": 3, "head": 0, "off": true})"_json});
  EXPECT_TRUE(asked.inspection_has_interventions());
  plain.choose_inspected({{"index", 3}});
  const Observation with = asked.observe(set_of(Analysis::inspected)),
                    without = plain.observe(set_of(Analysis::inspected));
  ASSERT_TRUE(with.inspected && without.inspected);
  EXPECT_EQ(with.inspected->tokens.size(), without.inspected->tokens.size());
  EXPECT_EQ(with.inspected->tokens[2].id, without.inspected->tokens[2].id);
  EXPECT_EQ(with.checksum, without.checksum);
}

// Echo 3.2.1: the inspected sequence is read on with the scale that a token left.
TEST(Asking, TheScaleOfSkaStaysBehindAToken) {
  constexpr std::size_t behind = 1;
  const auto backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  const auto scales = [&run] {
    const Observation seen = run.observe(set_of(Analysis::trace));
    std::vector<double> of_head;
    for (const TokenStep& step : seen.trace->steps) of_head.push_back(step.heads.front().m);
    return of_head;
  };
  const std::vector<double> running = scales();
  ASSERT_GT(running.back(), running[behind]) << "a later key is longer";
  run.ask({"freeze_scale", R"({"behind": 1})"_json});
  const std::vector<double> kept = scales();
  for (std::size_t t = 0; t < kept.size(); ++t) EXPECT_EQ(kept[t], running[std::min(t, behind)]) << t;
  EXPECT_EQ(run.observe(set_of(Analysis::trace)).trace->scale_kept_behind, 1);
  const nlohmann::json inspected = run.recipe().inspected;
  EXPECT_EQ(inspected, nlohmann::json({{"index", 0}, {"freeze_scale", 1}})) << "figures bring it back";
  EXPECT_EQ(parse_inspection_setup(inspected, {}).scale_kept_behind, 1);
  EXPECT_TRUE(run.undo());
  EXPECT_EQ(scales(), running);
  EXPECT_TRUE(run.redo());
  run.ask({"freeze_scale"});
  EXPECT_EQ(scales(), running);
  EXPECT_THROW(run.ask({"freeze_scale", R"({"behind": 24})"_json}), Error) << "there are 24 tokens, from 0";
}

TEST(Asking, RefusesCommandsThatDoSomethingElse) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  for (const char* name : {"set", "reset", "screenshot"}) {
    try {
      run.ask({name});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), testing::HasSubstr("choose one of accuracy_grid, "));
    }
  }
}

}  // namespace
}  // namespace afterglow
