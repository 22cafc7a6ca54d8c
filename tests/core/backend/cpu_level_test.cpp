// Which build of the CPU kernels is chosen for a processor, and what is said where none can be.
#include "core/backend/level/cpu_level.h"

#include <gmock/gmock.h>

#include "core/io/error.h"

namespace afterglow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The name of what is chosen on a processor that runs the first `supported` of three levels.
std::string chosen(int supported, std::string_view wanted = "") {
  const CpuLevel levels[] = {{"x86-64-v2", supported >= 1, nullptr},
                             {"x86-64-v3", supported >= 2, nullptr},
                             {"x86-64-v4", supported >= 3, nullptr}};
  return std::string(choose_level(levels, wanted).name);
}

std::string refusal(int supported, std::string_view wanted, ExitCode code) {
  try {
    return "took " + chosen(supported, wanted);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
}

TEST(ChooseLevel, TakesTheHighestThatTheProcessorRuns) {
  EXPECT_EQ(chosen(1), "x86-64-v2");
  EXPECT_EQ(chosen(2), "x86-64-v3");
  EXPECT_EQ(chosen(3), "x86-64-v4");
}

TEST(ChooseLevel, TakesALowerOneThatIsAskedFor) {
  EXPECT_EQ(chosen(3, "v2"), "x86-64-v2");
  EXPECT_EQ(chosen(3, "x86-64-v3"), "x86-64-v3");
}

TEST(ChooseLevel, SaysWhyItCannotTakeOne) {
  EXPECT_THAT(refusal(2, "v4", ExitCode::usage), AllOf(HasSubstr("x86-64-v4"), HasSubstr("it can run x86-64-v3")));
  EXPECT_THAT(refusal(3, "v5", ExitCode::usage), AllOf(HasSubstr("\"v5\""), HasSubstr("x86-64-v2, x86-64-v3")));
  EXPECT_THAT(refusal(3, "4", ExitCode::usage), HasSubstr("\"4\""));
  EXPECT_THAT(refusal(0, "", ExitCode::failure), AllOf(HasSubstr("older than x86-64-v2"), HasSubstr("from source")));
}

}  // namespace
}  // namespace afterglow
