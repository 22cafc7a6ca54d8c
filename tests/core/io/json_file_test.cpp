// JSON files: positions in messages, limits, and fields that say what is allowed.
#include "core/io/json_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/core/io/temporary_folder.h"
#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string refused(const std::string& text, const JsonLimits& limits = {}) {
  return message_of(ExitCode::bad_input, [&] { parse_json(text, "r.json", limits); });
}

class JsonFile : public TemporaryFolder {};

TEST_F(JsonFile, ReadsBackWhatWasWritten) {
  const json value = {{"version", 1}, {"lr", 0.1}, {"name", "λ"}, {"list", {1, nullptr, true}}};
  write_json(file("r.json"), value);
  EXPECT_EQ(read_json(file("r.json")), value);
  EXPECT_EQ(content_of(file("r.json")).back(), '\n');
  EXPECT_THAT(message_of(ExitCode::failure, [&] { write_json(file("bad"), json("\xff")); }), HasSubstr("UTF-8"));
}

TEST_F(JsonFile, LimitsTheSizeBeforeReading) {
  const auto path = put("r.json", "[" + std::string(5000, ' ') + "]");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_json(path, {.bytes = 5001}); }), HasSubstr("5.0 KB"));
  EXPECT_EQ(read_json(path, {.bytes = 5002}), json::array());
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_THAT(refused("{\n  \"lr\": 0,1\n}"), AllOf(HasSubstr("r.json, line 2, column 11"), HasSubstr("not JSON")));
  EXPECT_THAT(refused("{\"a\": tru}"), HasSubstr("line 1, column 10"));
  EXPECT_THAT(refused(""), HasSubstr("line 1, column 1"));
  EXPECT_THAT(refused("[1,\n2"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(refused("[\"\xff\"]"), HasSubstr("UTF-8"));
  EXPECT_THAT(refused("[1e999]"), HasSubstr("1e999"));
  EXPECT_THAT(refused("[1] [2]"), HasSubstr("column 5"));
  EXPECT_THAT(refused("[nope]"), Not(HasSubstr("json.exception")));
  EXPECT_LT(refused("[\"" + std::string(100000, 'x')).size(), 500);
}

TEST(Json, DeepNestingIsRefusedWithItsPlace) {
  EXPECT_EQ(parse_json("[[[0]]]", "r.json", {.depth = 3}), json::parse("[[[0]]]"));
  EXPECT_THAT(refused("[[\n [0]]]", {.depth = 2}), AllOf(HasSubstr("line 2, column 2"), HasSubstr("more than 2")));
  EXPECT_EQ(parse_json("[\"[[[\\\"[[[\"]", "r.json", {.depth = 1}).size(), 1) << "brackets in texts do not nest";
  start_counting_memory();
  refused(std::string(1000000, '['));
  EXPECT_LT(max_memory_since_start(), 1100000) << "the text itself, nothing for its nesting";
}

TEST(Json, AFieldThatIsThereTwiceIsRefused) {
  EXPECT_THAT(refused("{\"a\": {\"lr\": 1, \"lr\": 2}}"), HasSubstr("field 'lr' is there twice"));
  EXPECT_EQ(parse_json("[{\"a\": {\"a\": 1}}, {\"a\": 2}]", "r.json").size(), 2);
}

TEST(JsonFields, NumbersAreCheckedAgainstTheirRange) {
  const json object = {{"lr", 0.5}, {"text", "fast"}, {"list", {1}}, {"none", nullptr}};
  EXPECT_EQ(get_number(object, "lr", {}, 0, 1, "r.json"), 0.5);
  EXPECT_EQ(get_number(object, "lr", {}, 0.5, 0.5, "r.json"), 0.5);
  EXPECT_EQ(get_number(object, "beta", 0.9, 0, 1, "r.json"), 0.9);
  const auto message = [&](const char* key, double min, double max) {
    return message_of(ExitCode::bad_input, [&] { get_number(object, key, {}, min, max, "r.json, training"); });
  };
  EXPECT_EQ(message("lr", 1, 2), "r.json, training: field 'lr' is 0.5 where a number from 1 to 2 should be; change it");
  EXPECT_THAT(message("lr", 1, infinity), HasSubstr("a number of at least 1"));
  EXPECT_THAT(message("lr", -infinity, 0), HasSubstr("a number of at most 0"));
  EXPECT_THAT(message("text", -infinity, infinity), HasSubstr("'text' is 'fast' where a number should be"));
  EXPECT_THAT(message("list", 0, 1), HasSubstr("is a list where"));
  EXPECT_THAT(message("none", 0, 1), HasSubstr("is null where"));
  EXPECT_THAT(message("Lr", 0, 1), AllOf(HasSubstr("field 'Lr' is missing"), HasSubstr("did you mean 'lr'?")));
}

TEST(JsonFields, WholeNumbersAreWhole) {
  const json object = json::parse(R"({"a": 3, "b": 3.0, "c": 3.5, "d": 18446744073709551615, "e": 1e300, "f": -4})");
  const auto read = [&](const char* key) { return get_integer(object, key, {}, INT64_MIN, INT64_MAX, "r.json"); };
  EXPECT_EQ(read("a"), 3);
  EXPECT_EQ(read("b"), 3);
  EXPECT_EQ(read("f"), -4);
  EXPECT_EQ(get_integer(object, "z", 7, 0, 9, "r.json"), 7);
  for (const char* key : {"c", "d", "e"}) {
    EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read(key); }), HasSubstr("a whole number should be")) << key;
  }
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { get_integer(object, "f", {}, 0, 9, "r.json"); }),
              HasSubstr("is -4 where a whole number from 0 to 9"));
}

TEST(JsonFields, TextsSwitchesAndChoices) {
  const json object = {{"name", "x"}, {"on", true}, {"task", "recal"}};
  EXPECT_EQ(get_string(object, "name", {}, "r.json"), "x");
  EXPECT_EQ(get_string(object, "title", "none", "r.json"), "none");
  EXPECT_TRUE(get_bool(object, "on", {}, "r.json"));
  EXPECT_TRUE(get_bool(object, "off", true, "r.json"));
  EXPECT_EQ(get_choice(object, "layer", {"ska", "gka"}, "gka", "r.json"), "gka");
  EXPECT_EQ(get_choice(object, "name", {"y", "x"}, {}, "r.json"), "x");
  EXPECT_THAT(message_of(ExitCode::bad_input,
                         [&] {
                           get_choice(object, "task", {"copy", "recall"}, {}, "r.json");
                         }),
              AllOf(HasSubstr("'task' is 'recal' where one of 'copy', 'recall'"), HasSubstr("did you mean 'recall'?")));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { get_choice(object, "on", {"copy"}, {}, "r.json"); }),
              HasSubstr("'on' is true"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { get_bool(object, "name", {}, "r.json"); }),
              HasSubstr("true or false"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { get_string(object, "on", {}, "r.json"); }), HasSubstr("in quotes"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [] { get_bool(json::array(), "a", true, "r.json"); }),
              HasSubstr("a list where an object"));
}

TEST(JsonFields, WholeNumbersComeAloneInListsAndInRanges) {
  const json object = {{"one", 3}, {"list", {8, 1.0, 8}}, {"range", "2..4"}};
  EXPECT_THAT(get_integers(object, "one", 1, 8, "r.json"), ElementsAre(3));
  EXPECT_THAT(get_integers(object, "list", 1, 8, "r.json"), ElementsAre(8, 1, 8));
  EXPECT_THAT(get_integers(object, "range", 1, 8, "r.json"), ElementsAre(2, 3, 4));
  for (const json& bad : {json(9), json("4..2"), json("0..3"), json("2..9"), json("2.."), json("2"), json::array(),
                          json({1, 9}), json({1, "2"}), json(), json(1.5), json(std::vector<int>(1025, 1))}) {
    EXPECT_THAT(message_of(ExitCode::bad_input,
                           [&] {
                             get_integers({{"n", bad}}, "n", 1, 8, "r.json");
                           }),
                AllOf(HasSubstr("'n' is"), HasSubstr("a whole number from 1 to 8, a list of them, or a range")))
        << bad;
  }
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { get_integers(object, "more", 1, 8, "r.json"); }),
              HasSubstr("'more' is missing"));
}

TEST(JsonFields, InfinitiesAreNamed) {
  EXPECT_THAT(message_of(ExitCode::bad_input,
                         [] {
                           get_number({{"n", infinity}}, "n", {}, 0, 1, "r.json");
                         }),
              HasSubstr("'n' is inf where"));
}

TEST(JsonFields, UnknownKeysCanBeRefused) {
  EXPECT_NO_THROW(refuse_unknown_keys({{"lr", 1}}, {"lr", "steps"}, "r.json"));
  EXPECT_THAT(message_of(ExitCode::bad_input,
                         [] {
                           refuse_unknown_keys({{"step", 1}}, {"lr", "steps"}, "r.json");
                         }),
              AllOf(HasSubstr("r.json: there is no field 'step'"), HasSubstr("did you mean 'steps'?")));
  EXPECT_THAT(message_of(ExitCode::bad_input,
                         [] {
                           refuse_unknown_keys({{"colour", 1}}, {"lr", "b"}, "r.json");
                         }),
              HasSubstr("there are lr, b"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [] { refuse_unknown_keys(json::array(), {"lr"}, "r.json"); }),
              HasSubstr("expected an object"));
}

TEST(JsonFields, NonFiniteNumbersBecomeTexts) {
  EXPECT_EQ(json_number(0.5).dump(), "0.5");
  EXPECT_EQ(json_number(NAN).dump(), "\"nan\"");
  EXPECT_EQ(json_number(-infinity).dump(), "\"-inf\"");
}

TEST(Json, DamageNeverCrashes) {
  const std::string good =
      R"({"version": 1, "training": {"lr": 1e-3, "steps": [1, 2, 3]}, "name": "a\u00e9\n", "on": true})";
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good.substr(0, good.size() - random() % 3 * (random() % good.size()) / 2);
    for (unsigned n = random() % 4; n > 0 && !text.empty(); --n) {
      text[random() % text.size()] = "\"{}[],:\\ue0-+.\xff\0\n"[random() % 18];
    }
    start_counting_memory();
    try {
      const json value = parse_json(text, "r.json");
      get_number(value, "version", 0, 0, 9, "r.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      ++refused;
    }
    ASSERT_LE(max_memory_since_start(), 64 * text.size() + 8192);
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace afterglow
