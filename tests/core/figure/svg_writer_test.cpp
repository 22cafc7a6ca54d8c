// SVG files: well-formed, small, deterministic, and the same numbers as the CSV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <set>
#include <sstream>

#include "core/figure/decimate.h"
#include "core/figure/files/csv_writer.h"
#include "core/figure/files/page.h"
#include "tests/core/figure/example_figures.h"
#include "tests/core/figure/recording_canvas.h"
#include "tests/core/figure/xml_checker.h"

namespace afterglow {
namespace {

using ::testing::Contains;

std::string svg_of(const Figure& figure) { return svg_text(figure, page_size(SizePreset::one_column, figure)); }

/// Every text with its spans, those that are raised after a "^"; spaces that are kept from stripping are spaces.
std::vector<std::string> texts_of(const XmlReport& report) {
  std::vector<std::string> out;
  for (const XmlElement& element : report.elements) {
    if (element.name == "text") out.push_back(element.text);
    if (element.name != "tspan") continue;
    const auto rise = element.attributes.find("dy");
    std::string span = element.text;
    for (std::size_t at; (at = span.find("\u00a0")) != std::string::npos;) span.replace(at, 2, " ");
    out.back() += (rise != element.attributes.end() && rise->second.starts_with('-') ? "^" : "") + span;
  }
  return out;
}

// The points of a path made of M, L and bare coordinates.
std::vector<Point> points_of(std::string path) {
  for (char& c : path) c = c == 'M' || c == 'L' ? ' ' : c;
  std::istringstream in(path);
  std::vector<Point> points;
  for (Point p; in >> p.x >> p.y;) points.push_back(p);
  return points;
}

// The strokes of the n-th series, widest first: the curve itself, then the raw values.
std::vector<Point> curve_points(const XmlReport& report, const std::string& group, bool widest) {
  const XmlElement* best = nullptr;
  for (const XmlElement& element : report.elements) {
    if (element.name != "path" || element.group != group || !element.attributes.contains("stroke-width")) continue;
    const auto width = [](const XmlElement& e) { return std::stod(e.attributes.at("stroke-width")); };
    if (!best || (widest ? width(element) > width(*best) : width(element) < width(*best))) best = &element;
  }
  return best ? points_of(best->attributes.at("d")) : std::vector<Point>{};
}

std::vector<std::vector<std::string>> csv_rows(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line.substr(0, line.find('\r')));
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

TEST(Svg, IsWellFormedAndUsesTheSubsetOnly) {
  std::vector<Figure> figures = example_figures();
  for (const Figure& figure : awkward_figures()) figures.push_back(figure);
  const std::set<std::string> allowed = {"svg",      "g",     "path", "text",     "tspan",
                                         "clipPath", "title", "desc", "metadata", "recipe"};
  for (const Figure& figure : figures) {
    const XmlReport report = check_xml(svg_of(figure));
    ASSERT_EQ(report.error, "") << figure.id;
    for (const XmlElement& element : report.elements) {
      EXPECT_TRUE(allowed.contains(element.name)) << element.name;
      EXPECT_FALSE(element.attributes.contains("style") || element.attributes.contains("class"));
      for (const auto& [name, value] : element.attributes) {
        const bool is_place = name == "d" || name == "x" || name == "y";
        ASSERT_TRUE(!is_place || value.find_first_of("ni") == std::string::npos) << value;  // nan, inf
      }
    }
  }
}

TEST(Svg, KeepsTextAsText) {
  const auto texts = texts_of(check_xml(svg_of(tail_figure())));
  for (const char* wanted : {"Influence tail", "three layers, one input · theory dashed", "lag ℓ (tokens)",
                             "influence |∂y/∂x|", "10^\u22128", "10k", "Sessa ℓ^\u22120.401 ± 0.003"}) {
    EXPECT_THAT(texts, Contains(wanted));
  }
  EXPECT_THAT(texts_of(check_xml(svg_of(conditioning_figure()))), Contains("jitter + 10^\u22124"));
}

TEST(Svg, HoldsTheNumbersOfTheCsv) {
  const Figure figure = training_figure();
  const PageSize page = page_size(SizePreset::one_column, figure);
  const XmlReport report = check_xml(svg_text(figure, page));
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(figure, light_theme(), {.show_title = true, .text_size = page.text_pt},
                                         {0, 0, page.width_pt(), page.height_pt()}, canvas);
  const auto rows = csv_rows(csv_text(figure));
  ASSERT_EQ(rows[0], (std::vector<std::string>{"step", "SSM + SKA", "SSM + SKA (raw)", "SSM", "SSM (raw)"}));
  ASSERT_EQ(rows.size(), 430u);
  const std::vector<std::pair<std::size_t, std::vector<Point>>> columns = {
      {1, curve_points(report, "training-series-0", true)},
      {2, curve_points(report, "training-series-0", false)},
      {3, curve_points(report, "training-series-1", true)},
      {4, curve_points(report, "training-series-1", false)}};
  for (const auto& [column, points] : columns) {
    ASSERT_FALSE(points.empty());
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const Point expected = g.to_canvas(std::stod(rows[i][0]), std::stod(rows[i][column]));
      const bool found = std::ranges::any_of(
          points, [&](Point p) { return std::abs(p.x - expected.x) < 0.5 && std::abs(p.y - expected.y) < 0.5; });
      EXPECT_TRUE(found) << "row " << i << ", column " << column;
    }
  }
}

TEST(Svg, HoldsAMillionPointsInUnder300KilobytesWithEverySpike) {
  const Figure figure = million_point_figure();
  for (const SizePreset preset : {SizePreset::one_column, SizePreset::two_columns, SizePreset::slide}) {
    const PageSize page = page_size(preset, figure);
    const std::string svg = svg_text(figure, page);
    EXPECT_LT(svg.size(), 300000u);
    const std::vector<Point> points = curve_points(check_xml(svg), "million-series-0", true);
    double top = 1e9;
    for (const Point p : points) top = std::min(top, p.y);
    const auto spikes = std::ranges::count_if(points, [&](Point p) { return p.y <= top + 0.011; });
    EXPECT_EQ(spikes, 100);
  }
}

TEST(Svg, IsTheSameEveryTimeAndInEveryLocale) {
  const std::string before = svg_of(spectrum_figure());
  const bool has_comma =
      std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr || std::setlocale(LC_ALL, "C.UTF-8") != nullptr;
  EXPECT_TRUE(has_comma);
  EXPECT_EQ(svg_of(spectrum_figure()), before);
  std::setlocale(LC_ALL, "C");
  EXPECT_EQ(svg_of(spectrum_figure()), before);
}

TEST(Svg, StatesItsSizeOnPaper) {
  const XmlReport report = check_xml(svg_of(tail_figure()));
  EXPECT_EQ(report.elements[0].attributes.at("width"), "85mm");
  EXPECT_EQ(report.elements[0].attributes.at("viewBox").substr(0, 11), "0 0 240.94 ");
}

TEST(Svg, LargeHeatMapsStaySmall) {
  Figure figure;
  std::vector<double> cells;
  for (int i = 0; i < 700 * 700; ++i) cells.push_back(std::sin(i * 0.7) * std::cos(i * 0.013));
  figure.series.push_back(HeatMap{.name = "map", .rows = 700, .cols = 700, .cells = std::move(cells)});
  EXPECT_LT(svg_of(figure).size(), 300000u);
}

TEST(Svg, EscapesWhatItIsGiven) {
  Figure figure;
  figure.id = "../9 \"evil\" <id>";
  figure.title = "a < b & \"c\" \xff\x02";
  figure.provenance = "</desc><script>";
  figure.recipe = "</recipe><script>\x01";
  const std::string svg = svg_of(figure);
  const XmlReport report = check_xml(svg);
  EXPECT_EQ(report.error, "");
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_THAT(texts_of(report), Contains("a < b & \"c\" \uFFFD\uFFFD"));
}

TEST(XmlChecker, FindsFaults) {
  for (const char* broken : {"", "<a>", "<a></b>", "<a b=\"1\" b=\"2\"/>", "<a>&nope;</a>", "<a/><b/>", "<a b=c/>",
                             "<a\x01/>", "<a id=\"x\"><b id=\"x\"/></a>", "text"}) {
    EXPECT_NE(check_xml(broken).error, "") << broken;
  }
  EXPECT_EQ(check_xml("<?xml version=\"1.0\"?>\n<a b=\"1\">&amp;<c/></a>\n").error, "");
}

}  // namespace
}  // namespace afterglow
