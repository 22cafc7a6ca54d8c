// CSV tables: round trips through text, RFC 4180's corners, and messages that name line and column.
#include "core/io/csv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <locale>
#include <random>

#include "tests/core/io/temporary_folder.h"
#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

std::string refusal(const std::string& text) {
  return message_of(ExitCode::bad_input, [&] { parse_csv(text, "t.csv"); });
}

TEST(Csv, ReadsHeaderTextsAndNumbers) {
  const CsvTable table = parse_csv("date,OT [°C]\n2016-07-01,30.5\r\n2016-07-02, -1e-3 \n", "t.csv");
  EXPECT_THAT(table.names(), ElementsAre("date", "OT [°C]"));
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.text(1, 0), "2016-07-02");
  EXPECT_THAT(table.numbers("OT [°C]"), ElementsAre(30.5, -1e-3));
  EXPECT_FALSE(table.looks_numeric(0));
  EXPECT_TRUE(table.looks_numeric(1));
}

TEST(Csv, QuotedFieldsHoldAnything) {
  const CsvTable table = parse_csv("\"a,\"\"b\"\"\",c\n\"line one\nline two\",\"\"\nx,\"1.5\"\n", "t.csv");
  EXPECT_THAT(table.names(), ElementsAre("a,\"b\"", "c"));
  EXPECT_EQ(table.text(0, 0), "line one\nline two");
  EXPECT_EQ(table.text(0, 1), "");
  EXPECT_EQ(table.text(1, 1), "1.5");
}

TEST(Csv, TheLastLineNeedsNoEndAndBlankLinesAtTheEndDoNotCount) {
  EXPECT_EQ(parse_csv("a,b\n1,2", "").rows(), 1);
  EXPECT_EQ(parse_csv("a,b\n1,2\n\r\n\n", "").rows(), 1);
  EXPECT_EQ(parse_csv("a,b\n1,", "").text(0, 1), "");
  EXPECT_EQ(parse_csv("a,b", "").rows(), 0);
  EXPECT_EQ(parse_csv("a\n1\n\n3\n", "").rows(), 3) << "in one column an empty line is an empty field";
}

TEST(Csv, AByteOrderMarkIsNoPartOfTheFirstName) {
  EXPECT_THAT(parse_csv("\xef\xbb\xbfstep,loss\n", "").names(), ElementsAre("step", "loss"));
  EXPECT_THAT(parse_csv("\xef\xbb\xbf\xef\xbb\xbfstep,loss\n", "").names(), ElementsAre("step", "loss"));
}

TEST(Csv, GapsAndTextsAmongNumbersAreNamed) {
  const CsvTable table = parse_csv("step,loss\n0,1\n\"1\n\",2\n2,\n3,n/a\n", "t.csv");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { table.numbers("loss"); }),
              AllOf(HasSubstr("t.csv, line 5"), HasSubstr("column 2 ('loss')"), HasSubstr("empty"), HasSubstr("fill")));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { table.numbers("step"); }),
              AllOf(HasSubstr("line 3"), HasSubstr("'1?'")));
  const CsvTable comma = parse_csv("a,b\n1,\"0,5\"\n", "t.csv");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { comma.numbers("b"); }), HasSubstr("decimal point"));
}

TEST(Csv, DamagedTablesAreRefusedWithTheirLine) {
  EXPECT_THAT(refusal(""), HasSubstr("t.csv is empty"));
  EXPECT_THAT(refusal("\n\n"), HasSubstr("t.csv is empty"));
  EXPECT_THAT(refusal("a,b\n1,2\n3\n"), AllOf(HasSubstr("line 3: 1 field where"), HasSubstr("has 2")));
  EXPECT_THAT(refusal("a,b\n1,2,3\n"), HasSubstr("line 2: 3 fields where"));
  EXPECT_THAT(refusal("a,b\n1,2\n\n3,4\n"), HasSubstr("line 3: 1 field where"));
  EXPECT_THAT(refusal("a,b\n1,\"2\n3,4\n"), AllOf(HasSubstr("line 2"), HasSubstr("never closed")));
  EXPECT_THAT(refusal("a,b\n1,\"2\"x\n"), AllOf(HasSubstr("line 2"), HasSubstr("closing quote")));
  EXPECT_THAT(refusal("a,b,a\n"), HasSubstr("two columns are called 'a'"));
  EXPECT_THAT(refusal("1,2\n3,4\n"), HasSubstr("header line"));
  EXPECT_THAT(refusal("a;b\n1,5;2\n"), HasSubstr("separated by ';'"));
  EXPECT_THAT(refusal("a\tb\n"), HasSubstr("separated by tabs"));
  EXPECT_THAT(refusal(std::string("a\0b", 3)), HasSubstr("zero bytes"));
}

TEST(Csv, UnknownColumnsGetASuggestion) {
  const CsvTable table = parse_csv("date,HUFL\n", "t.csv");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { table.column("hufl "); }),
              AllOf(HasSubstr("no column 'hufl '"), HasSubstr("did you mean 'HUFL'?")));
}

TEST(CsvWriter, WritesRfc4180) {
  EXPECT_EQ(
      format_csv({{"step", Numbers{0, 1}}, {"loss, \"raw\" [nats]", Numbers{0.1, NAN}}, {"note", Texts{"", "a b"}}}),
      "step,\"loss, \"\"raw\"\" [nats]\",note\r\n0,0.1,\r\n1,nan,a b\r\n");
  EXPECT_EQ(format_csv({{"a", Texts{""}}}), "a\r\n\"\"\r\n");
  EXPECT_THAT(message_of(ExitCode::failure,
                         [] {
                           format_csv({{"a", Numbers{1}}, {"b", Numbers{}}});
                         }),
              HasSubstr("column 'b' has 0 rows"));
}

TEST(CsvWriter, QuotesANameThatBeginsLikeAByteOrderMark) {
  const std::string name = "\xef\xbb\xbfstep";
  EXPECT_THAT(parse_csv(format_csv({{name, Numbers{1}}}), "").names(), ElementsAre(name));
}

TEST(CsvWriter, IgnoresTheLocale) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
  };
  const std::locale old = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string text = format_csv({{"x", Numbers{0.5}}});
  const Numbers back = parse_csv(text, "").numbers("x");
  std::locale::global(old);
  EXPECT_EQ(text, "x\r\n0.5\r\n");
  EXPECT_THAT(back, ElementsAre(0.5));
}

class CsvFile : public TemporaryFolder {};

TEST_F(CsvFile, ReadsBackWhatWasWritten) {
  const Numbers numbers = {0.1, -1e-300, 5e-324, std::numeric_limits<double>::max(), HUGE_VAL, -HUGE_VAL, -0.0};
  const Texts texts = {"plain", "a,b", "\"", "", " spaced ", "two\nlines", "\r\n"};
  write_csv(file("t.csv"), {{"number", numbers}, {"text", texts}});
  const CsvTable table = read_csv(file("t.csv"));
  EXPECT_EQ(table.numbers("number"), numbers);
  for (std::size_t row = 0; row < texts.size(); ++row) EXPECT_EQ(table.text(row, 1), texts[row]) << row;
}

TEST_F(CsvFile, LimitsTheSize) {
  const auto path = put("t.csv", "a\n" + std::string(1000, '1'));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_csv(path, 1000); }), HasSubstr("more than the 1.0 KB"));
}

TEST(Csv, DamageNeverCrashes) {
  const std::string good =
      format_csv({{"a, b", Numbers{1, 2, 3}}, {"t", Texts{"x\"y", "", "1\n2"}}, {"c", Numbers{4, 5, 6}}});
  std::mt19937 random(99);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good.substr(0, 1 + random() % good.size());
    for (int n = 0; n < 3; ++n) text[random() % text.size()] = "\",\n\r;1x\xff"[random() % 8];
    start_counting_memory();
    try {
      const CsvTable table = parse_csv(text, "t.csv");
      for (std::size_t i = 0; i < table.columns(); ++i) table.numbers(i);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      ++refused;
    }
    ASSERT_LE(max_memory_since_start(), 64 * text.size() + 4096);
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace afterglow
