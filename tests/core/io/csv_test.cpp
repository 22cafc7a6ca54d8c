// CSV tables: round trips through text, RFC 4180's corners, and messages that name line and column.
#include "core/io/csv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <locale>
#include <random>

#include "tests/core/io/temporary_folder.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/csv_file.h"

namespace afterglow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
  EXPECT_TRUE(table.notes().empty());
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

TEST(Csv, GapsAreNoNumbersAndTextsAmongNumbersAreNamed) {
  const CsvTable table = parse_csv("step,loss\n0,1\n\"1\n\",2\n2,\n3,n/a\n4,nan\n5,oops\n", "t.csv");
  EXPECT_THAT(
      message_of(ExitCode::bad_input, [&] { table.numbers("loss"); }),
      AllOf(HasSubstr("t.csv, line 8"), HasSubstr("column 2 ('loss')"), HasSubstr("'oops'"), HasSubstr("empty")));
  const Numbers gaps = parse_csv("x,y\n1,NA\n,?\n-,2\n", "").numbers("y");
  EXPECT_TRUE(std::isnan(gaps[0]) && std::isnan(gaps[1]));
  EXPECT_EQ(gaps[2], 2);
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
  EXPECT_THAT(refusal("a,b\n1,\"2\n3,4\n"), AllOf(HasSubstr("line 2"), HasSubstr("never closed")));
  EXPECT_THAT(refusal("a,b\n1,\"2\"x\n"), AllOf(HasSubstr("line 2"), HasSubstr("closing quote")));
  EXPECT_THAT(refusal("a,b,a\n"), HasSubstr("two columns are called 'a'"));
  EXPECT_THAT(refusal("a;b\n1;2\n1,5;2;3\n"), HasSubstr("line 3: 3 fields where"));
  EXPECT_THAT(refusal(std::string("a\0b", 3)), HasSubstr("zero bytes"));
}

TEST(Csv, OtherSeparatorsAndDecimalCommasAreRead) {
  const CsvTable semicolons = parse_csv("date;a, b;c\n1.7.2016;10,5;3\n2.7.2016;-1,25e1;4\n", "t.csv");
  EXPECT_THAT(semicolons.names(), ElementsAre("date", "a, b", "c"));
  EXPECT_THAT(semicolons.numbers("a, b"), ElementsAre(10.5, -12.5));
  EXPECT_THAT(semicolons.numbers("c"), ElementsAre(3, 4));
  EXPECT_THAT(semicolons.notes(), ElementsAre(HasSubstr("decimal commas")));
  const CsvTable thousands = parse_csv("a;b\n1.234,5;2\n1,5;1.234\n", "t.csv");
  for (const char* name : {"a", "b"})
    EXPECT_THAT(message_of(ExitCode::bad_input, [&] { thousands.numbers(name); }), HasSubstr("without points"));
  for (const char* text : {"a\tb\n1.5\t2\n", "sep=;\r\na;b\r\n1.5;2\r\n", "\"sep=|\"\na|b\n1.5|2\n", "a;b\r1.5;2\r",
                           "\n\na,b,\n1.5,2,\n", "a,b\n1.5,2,,\n", "a,\"b\"\n\"1.5\",2\n"})
    EXPECT_EQ(parse_csv(text, "t.csv").numbers("a"), Numbers{1.5}) << text;
  EXPECT_EQ(parse_csv("date,T (deg; mean)\n1,2\n", "").columns(), 2) << "a semicolon of the header alone";
}

TEST(Csv, RowsWithoutContentDoNotCount) {
  const CsvTable table = parse_csv("a,b\n1,2\n\n,\n3,4\n,,\n", "t.csv");
  EXPECT_THAT(table.numbers("a"), ElementsAre(1, 3));
  EXPECT_EQ(table.line(1), 5);
  EXPECT_THAT(table.notes(), ElementsAre("blank rows left out: 3"));
}

TEST(Csv, AFirstRowOfDataIsNoHeader) {
  for (const char* text : {"2016-07-01 00:00:00,1.5\n2016-07-01 01:00:00,2\n", "0.5,1.5\n7,2\n", ",1.5\n3,2\n",
                           "2016-07-01,1.5,words\n2016-07-02,2,more\n"}) {
    const CsvTable table = parse_csv(text, "t.csv");
    EXPECT_EQ(table.names()[1], "column 2") << text;
    EXPECT_THAT(table.numbers("column 2"), ElementsAre(1.5, 2)) << text;
    EXPECT_THAT(table.notes(), ElementsAre(HasSubstr("no names"))) << text;
  }
  for (const char* text :
       {"date,0,1\n1,2,3\n", "0,1,2\n3,4,5\n", ",0,1\n1,2,3\n", "date,2016-01\n1,2\n", "a,1990,1991\n1,2,3\n"})
    EXPECT_EQ(parse_csv(text, "t.csv").rows(), 1) << text;
}

TEST(Csv, TimesHaveMoreDigitsThanLetters) {
  for (const char* time :
       {"2016-07-01", "2016-07-01T00:00:00Z", "1/7/2016 7:00 PM", "01.07.2016", "7:30", "01-Jan-2016"})
    EXPECT_TRUE(looks_like_time(time)) << time;
  for (const char* other : {"", "12.5", "-3", "1.234.567", "12 %", "-12 %", "DE-01", "NW", "1e-3", "1,234"})
    EXPECT_FALSE(looks_like_time(other)) << other;
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
