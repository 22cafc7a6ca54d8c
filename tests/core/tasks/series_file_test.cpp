// Series as files hold them: which columns are channels, what is filled or left out, and that it is said.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "core/io/error.h"
#include "core/tasks/series_windows.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int file_rows = 60;

class SeriesFile : public testing::Test {
 protected:
  ~SeriesFile() override { std::filesystem::remove(path_); }
  /// The task of a file with these lines below the header.
  const SeriesWindows& read(const std::string& header, const std::function<std::string(int)>& line,
                            const nlohmann::json& more = nlohmann::json::object()) {
    std::ofstream file(path_, std::ios::binary);
    file << header << "\n";
    for (int row = 0; row < file_rows; ++row) file << line(row) << "\n";
    file.close();
    nlohmann::json config{{"kind", "forecast"}, {"path", path_}, {"length", 4}, {"horizon", 2}};
    config.update(more);
    task_ = make_task(config);
    return *task_->windows();
  }
  std::string refusal(const std::string& header, const std::function<std::string(int)>& line,
                      const nlohmann::json& more = nlohmann::json::object()) {
    try {
      read(header, line, more);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "it is read";
  }
  /// A value of a channel, and text of one that rises unevenly.
  static std::string value(int row) { return std::to_string(std::sin(row) + 2).substr(0, 6); }
  static std::string wide(long long number) { return std::to_string(number); }
  /// Value of the first channel in a row of the training part.
  static double first_value(const SeriesWindows& series, int row) {
    std::vector<float> input(static_cast<std::size_t>(4 * series.channels())), truth(input.size());
    series.write(SeriesPart::train, row, input.data(), truth.data());
    return series.own_unit(0, input[0]);
  }
  std::string path_ = testing::TempDir() + "afterglow_series_" + std::to_string(::getpid()) + ".csv";
  std::unique_ptr<Task> task_;
};

TEST_F(SeriesFile, NumericTimesAndIndicesAreNoChannels) {
  const std::vector<std::pair<std::string, std::function<long long(int)>>> columns = {
      {"timestamp", [](int row) { return 1467331200LL + row * row; }},
      {"when", [](int row) { return 1467331200LL + 3600 * row; }},
      {"when", [](int row) { return 1467331200000LL + 3600000LL * (row + (row > 30 ? 5 : 0)); }},
      {"year", [](int row) { return 2000LL + row / 12; }},
      {"Date", [](int row) { return 20160701LL + row % 24; }},
      {"yearmonth", [](int row) { return 201601LL + row / 12 * 88 + row; }},
      {"Unnamed: 0", [](int row) { return static_cast<long long>((row * 7) % file_rows); }},
      {"", [](int row) { return static_cast<long long>((row * 7) % file_rows); }},
      {"count down", [](int row) { return 1000LL - row; }}};
  for (const auto& [name, number] : columns) {
    const SeriesWindows& first = read(name + ",load", [&](int row) { return wide(number(row)) + "," + value(row); });
    EXPECT_THAT(first.names(), ElementsAre("load")) << name;
    EXPECT_THAT(first.source().time_columns, ElementsAre(name));
    EXPECT_NEAR(first_value(first, 3), std::stod(value(3)), 1e-5) << name;
    const SeriesWindows& last = read("load," + (name.empty() ? std::string("ds") : name),
                                     [&](int row) { return value(row) + "," + wide(number(row)); });
    EXPECT_THAT(last.names(), ElementsAre("load")) << name << ", after the values";
  }
  EXPECT_THAT(read("excel,load", [](int row) { return std::to_string(42552 + row / 24.0) + "," + value(row); }).names(),
              ElementsAre("load"));
}

TEST_F(SeriesFile, SeveralColumnsOfTimesMakeOneLabel) {
  const auto line = [](int row) {
    return wide(row) + ",2016-07-01," + wide(row / 60) + wide(row / 10 % 6) + ":" + wide(row % 10) + "0," + value(row);
  };
  const SeriesWindows& series = read(",Date,Time,CO(GT)", line);
  EXPECT_THAT(series.names(), ElementsAre("CO(GT)"));
  EXPECT_EQ(series.time(SeriesPart::train, 0, 3), "2016-07-01 00:30");
  EXPECT_THAT(task_->describe(),
              AllOf(HasSubstr("60 of 60 rows"), HasSubstr("1 channel;"), HasSubstr("3 time columns")));
  EXPECT_EQ(read("Unnamed: 0,x", [](int row) { return wide(row) + "," + value(row); }).unit(), "row")
      << "an index says no time";
}

TEST_F(SeriesFile, AChannelMayBeginWithAGap) {
  const SeriesWindows& series = read("a,b", [](int row) {
    return (row < 2 || row == 5 ? std::string(row == 1 ? "NA" : "") : value(row)) + "," + value(3 * row);
  });
  EXPECT_THAT(series.names(), ElementsAre("a", "b"));
  EXPECT_NEAR(first_value(series, 0), std::stod(value(2)), 1e-5) << "the first value there is";
  EXPECT_NEAR(first_value(series, 5), std::stod(value(4)), 1e-5) << "the value before";
  EXPECT_THAT(series.source().notes, ElementsAre(HasSubstr("the first one: 3")));
}

TEST_F(SeriesFile, AFileWithoutAHeaderLosesNoRow) {
  const SeriesWindows& series =
      read("2016-07-01,7.5", [](int row) { return "2016-07-" + wide(row + 2) + "," + value(row); });
  EXPECT_THAT(series.names(), ElementsAre("column 2"));
  EXPECT_EQ(series.rows(), file_rows + 1);
  EXPECT_NEAR(first_value(series, 0), 7.5, 1e-5);
  EXPECT_THAT(series.source().notes, Contains(HasSubstr("no names")));
}

TEST_F(SeriesFile, WordsAreLeftOutAndSaid) {
  const SeriesWindows& series =
      read("date,pm,cbwd,none", [](int row) { return "2016-07-01," + value(row) + (row % 2 > 0 ? ",NW," : ",cv,"); });
  EXPECT_THAT(series.names(), ElementsAre("pm"));
  EXPECT_THAT(series.source().notes,
              ElementsAre(HasSubstr("'cbwd' holds no numbers"), HasSubstr("'none' holds no numbers")));
  EXPECT_THAT(refusal("date,pm", [](int row) { return "2016-07-01," + (row == 7 ? "oops" : value(row)); }),
              AllOf(HasSubstr("line 9"), HasSubstr("'oops'")));
  EXPECT_THAT(refusal("date,price", [](int row) { return "2016-07-01,\"1," + wide(100 + row) + "\""; }),
              HasSubstr("line 2"));
  EXPECT_THAT(refusal("date,word", [](int) { return "2016-07-01,x"; }), HasSubstr("task.column"));
}

TEST_F(SeriesFile, ColumnsAreChosenByName) {
  const auto line = [](int row) { return wide(row) + "," + value(row) + "," + value(2 * row) + "," + value(3 * row); };
  EXPECT_THAT(read("time,a,b,c", line, {{"column", "c, a"}}).names(), ElementsAre("c", "a"));
  EXPECT_THAT(read("time,a,b,c", line, {{"column", "time"}}).names(), ElementsAre("time"))
      << "a name that is given counts";
  EXPECT_THAT(read("time,\"a,b\",b,c", line, {{"column", "a,b"}}).names(), ElementsAre("a,b"));
  EXPECT_THAT(refusal("time,a,b,c", line, {{"column", "a,d"}}), HasSubstr("no column 'd'"));
}

TEST_F(SeriesFile, RowsThatAreNotReadAreSaid) {
  const auto line = [](int row) { return "2016-07-01," + value(row); };
  EXPECT_THAT(read("date,x", line).source().notes, IsEmpty());
  const SeriesWindows& part = read("date,x", line, {{"rows", 40}});
  EXPECT_EQ(part.rows(), 40);
  EXPECT_EQ(part.source().rows_in_file, file_rows);
  EXPECT_EQ(part.summary(), "40 of 60 rows; 1 channel; 1 time column; --set task.rows=60 reads more");
  EXPECT_EQ(read("date,x", line, {{"every", 2}}).summary(), "30 of 60 rows; 1 channel; 1 time column");
}

TEST_F(SeriesFile, ValuesTooLargeForAVarianceAreRefused) {
  EXPECT_THAT(refusal("date,a,b", [](int row) { return "2016-07-01," + value(row) + "," + value(row) + "e300"; }),
              AllOf(HasSubstr("'b'"), HasSubstr("too large")));
  EXPECT_THAT(refusal("date,a", [](int row) { return "2016-07-01," + (row == 59 ? "1e60" : value(row)); }),
              HasSubstr("too large"));
  EXPECT_THAT(refusal("date,a", [](int row) { return "2016-07-01," + (row == 9 ? "inf" : value(row)); }),
              AllOf(HasSubstr("line 11"), HasSubstr("finite")));
}

}  // namespace
}  // namespace afterglow
