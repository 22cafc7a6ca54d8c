// Configurations: what is refused, with which words, for every kind and every field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/io/error.h"
#include "core/tasks/series_windows.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const nlohmann::json& config) {
  try {
    make_task(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

// A configuration of the kind that is accepted, to be spoilt in one field; empty where the kind needs a file.
nlohmann::json good(const TaskInfo& info) {
  nlohmann::json config = {{"kind", info.kind}};
  for (const TaskParameter& parameter : info.parameters)
    if (parameter.type == TaskParameter::Type::tasks) config[parameter.name] = {"sysprompt", "tooltrace"};
  return config;
}

TEST(Configuration, EveryKindHasDefaultsThatWork) {
  for (const TaskInfo& info : task_kinds()) {
    if (info.kind == "text") continue;  // needs a file
    const auto task = make_task(good(info));
    EXPECT_EQ(task->name(), info.kind);
    EXPECT_FALSE(task->describe().empty());
    EXPECT_FALSE(info.description.empty());
    if (info.kind == "forecast") continue;  // numbers, no tokens
    EXPECT_FALSE(answer_places(task->example(1, 0)).empty());
  }
}

TEST(Configuration, UnknownKindNamesTheKnownOnes) {
  EXPECT_THAT(refusal({{"kind", "needle"}}), AllOf(HasSubstr("'needle'"), HasSubstr("sysprompt, tooltrace, niah")));
  EXPECT_THAT(refusal("needle"), HasSubstr("niah"));
  for (const char* json : {"null", "[]", "5", "{}", R"({"kind":3})", R"({"kind":null})", "[\"niah\"]"})
    EXPECT_THAT(refusal(nlohmann::json::parse(json)), HasSubstr("Set 'kind' to one of")) << json;
}

TEST(Configuration, UnknownFieldNamesTheKnownOnes) {
  EXPECT_THAT(refusal({{"kind", "niah"}, {"binding", 3}}),
              HasSubstr("no field 'binding'; did you mean 'bindings'?; there are bindings, length, kind"));
}

TEST(Configuration, EveryFieldOfEveryKindRefusesWrongTypesAndRanges) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<nlohmann::json> never = {nullptr,
                                             true,
                                             nlohmann::json::object(),
                                             nlohmann::json::array(),
                                             "",
                                             "many",
                                             nan,
                                             infinity,
                                             -infinity,
                                             -1,
                                             1e300,
                                             -5000000000ll,
                                             std::numeric_limits<std::uint64_t>::max()};
  for (const TaskInfo& info : task_kinds())
    for (const TaskParameter& parameter : info.parameters) {
      if (parameter.type == TaskParameter::Type::text) continue;
      for (const nlohmann::json& bad : never) {
        nlohmann::json config = good(info);
        config[parameter.name] = bad;
        EXPECT_THAT(refusal(config), HasSubstr("'" + parameter.name + "'")) << config.dump();
      }
    }
}

TEST(Configuration, ASeriesOfAHeaderAloneIsRefused) {
  const std::string path = testing::TempDir() + "afterglow_header_" + std::to_string(::getpid()) + ".csv";
  for (const char* text : {"date,load,oil\n", "date,load", "date,load\r\n"}) {
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_THAT(refusal({{"kind", "forecast"}, {"path", path}}), AllOf(HasSubstr(path), HasSubstr("no row"))) << text;
  }
  std::filesystem::remove(path);
}

TEST(Configuration, WholeNumbersMustBeWhole) {
  EXPECT_THAT(refusal({{"kind", "niah"}, {"length", 64.5}}), HasSubstr("'length' is 64.5 where a whole number"));
  EXPECT_EQ(make_task({{"kind", "niah"}, {"length", 64.0}})->length(), 64);
  EXPECT_THAT(refusal({{"kind", "niah"}, {"length", 0}}), HasSubstr("from 1 to 1048576"));
  EXPECT_THAT(refusal({{"kind", "niah"}, {"length", (1 << 20) + 1}}), HasSubstr("from 1 to 1048576"));
}

TEST(Configuration, ListsAndRangesOfBindings) {
  for (const char* bad : {"\"0..4\"", "\"4..1\"", "\"1..33\"", "\"1..\"", "\"..3\"", "\"1..3x\"", "\"1-3\"",
                          "\" 1..3\"", "\"1..3..5\"", "\"99999999999..3\"", "[1,0]", "[1,\"2\"]", "[[1]]", "33"})
    EXPECT_THAT(refusal({{"kind", "niah"}, {"length", 128}, {"bindings", nlohmann::json::parse(bad)}}),
                HasSubstr("'bindings' is"))
        << bad;
  EXPECT_EQ(refusal({{"kind", "niah"}, {"length", 128}, {"bindings", "1..32"}}), "accepted");
  EXPECT_EQ(refusal({{"kind", "niah"}, {"length", 128}, {"bindings", {8, 1, 8}}}), "accepted");
}

TEST(Configuration, BytesThatAreNoTextDoNotBreakTheMessage) {
  EXPECT_THAT(refusal({{"kind", "niah"}, {"bindings", "\xff\xfe"}}), HasSubstr("'bindings' is"));
  EXPECT_THAT(refusal({{"kind", "niah"}, {"bi\xffndings", 3}}), HasSubstr("there is no field"));
}

TEST(Configuration, MixtureNamesWhatIsWrongInside) {
  const auto mixed = [](const char* tasks) {
    return refusal({{"kind", "mixed"}, {"tasks", nlohmann::json::parse(tasks)}});
  };
  EXPECT_THAT(refusal({{"kind", "mixed"}}), HasSubstr("'tasks' must be a list"));
  EXPECT_THAT(mixed("[]"), HasSubstr("'tasks' must be a list"));
  EXPECT_THAT(mixed("[3]"), HasSubstr("every entry of 'tasks'"));
  EXPECT_THAT(mixed("[\"nothing\"]"), HasSubstr("'nothing'"));
  for (const char* weight : {"0", "-1", "0.5", "1001", "\"2\"", "null", "1e300"})
    EXPECT_THAT(mixed((R"([{"kind":"niah","weight":)" + std::string(weight) + "}]").c_str()), HasSubstr("'weight'"));
  EXPECT_THAT(mixed(R"([{"kind":"niah","bindings":-3}])"), HasSubstr("'bindings' is -3"));
  EXPECT_THAT(mixed(R"([{"kind":"niah","weight":2,"wait":2}])"), HasSubstr("no field 'wait'"));
}

TEST(Configuration, AForecastChoosesSplitColumnAndStepOfAFile) {
  std::string text = "date,a,b\n";
  for (int row = 0; row < 40; ++row)
    text += "day " + std::to_string(row) + "," + std::to_string(-row) + "," + std::to_string(row) + "\n";
  const std::string path = testing::TempDir() + "afterglow_own_" + std::to_string(::getpid()) + ".csv";
  std::ofstream(path, std::ios::binary) << text;
  nlohmann::json config{{"kind", "forecast"}, {"path", path},  {"length", 2}, {"horizon", 1},
                        {"split", "2,1,1"},   {"column", "b"}, {"every", 2},  {"unit", "d"}};
  const auto task = make_task(config);
  const SeriesWindows& windows = *task->windows();
  EXPECT_EQ(windows.names(), std::vector<std::string>{"b"});
  EXPECT_EQ(windows.unit(), "d");
  EXPECT_EQ(windows.count(SeriesPart::train), 10 - 2 - 1 + 1) << "half of the twenty rows used";
  EXPECT_EQ(windows.count(SeriesPart::validation), 5);
  EXPECT_EQ(windows.count(SeriesPart::test), 5);
  float input[2], truth[1];
  windows.write(SeriesPart::test, 0, input, truth);
  EXPECT_NEAR(windows.own_unit(0, truth[0]), 30, 1e-5) << "the first of the test part: row 15 of those used";
  EXPECT_NEAR(windows.own_unit(0, input[0]), 26, 1e-5);
  EXPECT_EQ(windows.time(SeriesPart::test, 0, 2), "day 30");
  config["column"] = "c";
  EXPECT_THAT(refusal(config), HasSubstr("no column 'c'"));
  config["column"] = "b";
  for (const char* split : {"2,1", "2,1,1,1", "2,0,1", "2,x,1", ""}) {
    config["split"] = split;
    EXPECT_THAT(refusal(config), HasSubstr("split")) << split;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace afterglow
