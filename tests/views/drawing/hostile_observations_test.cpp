// What a broken or hostile session sends is refused or drawn: every page shows observations in which one value is not
// what it was. AFTERGLOW_LIES=100000 tries as many; the usual number takes some seconds.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/io/error.h"
#include "core/random/random.h"
#include "core/remote/wire.h"
#include "tests/support/changed_observation.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

constexpr int drawn = 0, refused = 3;

/// What a window makes of the message.
int show(NullWindow& window, const std::string& message) {
  ReceivedParts parts;
  std::shared_ptr<const Observation> now;
  try {
    now = std::get<Sight>(decode_answer(message, parts)).now;
  } catch (const Error&) {
    return refused;
  }
  if (!now) return refused;
  window.show(now);
  follow_model(window.state, now->model);
  for (const Workspace& workspace : workspaces()) {
    window.state.workspace = workspace.id;
    window.draw_page(2);
  }
  return drawn;
}

/// In a process of its own, so that a crash names its case: its exit code, 128 and the signal of a crash.
int outcome(NullWindow& window, const Observation& now, std::int64_t place, std::uint64_t way) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    try {
      ::_exit(show(window, changed_sight(now, place, way)));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// AFTERGLOW_LIE="huge values,3137,950063" repeats one case in this process.
bool repeats_one(NullWindow& window) {
  const char* wanted = std::getenv("AFTERGLOW_LIE");
  if (!wanted) return false;
  const std::string text = wanted;
  const std::size_t name_end = text.find(','), place_end = text.find(',', name_end + 1);
  for (const samples::Sample& sample : samples::all()) {
    if (sample.name != text.substr(0, name_end)) continue;
    const std::int64_t place = std::stoll(text.substr(name_end + 1));
    EXPECT_EQ(show(window, changed_sight(*sample.observation(), place, std::stoull(text.substr(place_end + 1)))),
              drawn);
  }
  return true;
}

TEST(HostileObservations, AreRefusedOrDrawn) {
  const char* wanted = std::getenv("AFTERGLOW_LIES");
  const int lies = wanted ? std::atoi(wanted) : 60;
  const char* seed = std::getenv("AFTERGLOW_LIES_SEED");
  Random random(seed ? static_cast<std::uint64_t>(std::atoi(seed)) : 1, 0, 0);
  NullWindow window(1280, 720);
  if (repeats_one(window)) return;
  const std::vector<samples::Sample>& all = samples::all();
  int refusals = 0;
  for (int i = 0; i < lies; ++i) {
    const samples::Sample& sample = all[random.uniform_int(all.size())];
    const Observation& now = *sample.observation();
    const auto values = static_cast<std::uint64_t>(changeable_values(now));
    const auto place = static_cast<std::int64_t>(random.uniform_int(values));
    const std::uint64_t way = random.uniform_int(1 << 20);
    const int end = outcome(window, now, place, way);
    refusals += end == refused;
    EXPECT_TRUE(end == drawn || end == refused) << sample.name << ", value " << place << ", way " << way << ": " << end;
  }
  EXPECT_LT(refusals, lies / 2) << "most are drawn";
}

}  // namespace
}  // namespace afterglow
