// Commands that only ask: the same from the command line as from the window.
#include <gmock/gmock.h>

#include "core/engine/observation/probe_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(Asking, IsTheWindowsCommandAndChangesNoTraining) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun asked({small_recipe(), std::nullopt}, *backend), plain({small_recipe(), std::nullopt}, *backend);
  asked.ask({"probe", R"({"index": 3})"});
  asked.ask({"head_off", R"({"layer": 3, "head": 0, "off": true})"});
  EXPECT_TRUE(asked.probe_has_interventions());
  plain.choose_probe({{"index", 3}});
  const Observation with = asked.observe(set_of(Analysis::probe)), without = plain.observe(set_of(Analysis::probe));
  ASSERT_TRUE(with.probe && without.probe);
  EXPECT_EQ(with.probe->tokens.size(), without.probe->tokens.size());
  EXPECT_EQ(with.probe->tokens[2].id, without.probe->tokens[2].id);
  EXPECT_EQ(with.checksum, without.checksum);
}

TEST(Asking, RefusesCommandsThatDoSomethingElse) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  for (const char* name : {"set", "reset", "screenshot"}) {
    try {
      run.ask({name, "{}"});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), testing::HasSubstr("there are accuracy_grid, "));
    }
  }
}

}  // namespace
}  // namespace afterglow
