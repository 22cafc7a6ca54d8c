// What lands where: labels stay inside, nothing overlaps that should not, hits find what was drawn.
#include "core/figure/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/figure/decimate.h"
#include "core/figure/files/page.h"
#include "core/figure/readout.h"
#include "tests/core/figure/example_figures.h"
#include "tests/core/figure/recording_canvas.h"

namespace afterglow {
namespace {

bool is_finite(Point p) { return std::isfinite(p.x) && std::isfinite(p.y); }

void expect_all_text_inside(const RecordingCanvas& canvas, const Rect& area, const std::string& what) {
  for (const auto& text : canvas.texts) {
    EXPECT_GE(text.box.x, area.x - 0.5) << what << ": " << text.text;
    EXPECT_GE(text.box.y, area.y - 0.5) << what << ": " << text.text;
    EXPECT_LE(text.box.right(), area.right() + 0.5) << what << ": " << text.text;
    EXPECT_LE(text.box.bottom(), area.bottom() + 0.5) << what << ": " << text.text;
  }
}

TEST(RenderFigure, NeverCutsALabel) {
  for (const Figure& figure : example_figures()) {
    for (const Rect area : {Rect{0, 0, 360, 260}, Rect{10, 20, 700, 420}, Rect{0, 0, 260, 190}}) {
      for (const Theme* theme : {&light_theme(), &dark_theme(), &projector_theme()}) {
        RecordingCanvas canvas;
        render_figure(figure, *theme, {.show_title = true, .text_size = 10}, area, canvas);
        expect_all_text_inside(canvas, area, figure.id + " " + theme->name);
        EXPECT_EQ(canvas.open_clips, 0);
      }
    }
  }
}

HeatMap numbered_row(const std::vector<double>& cells) {
  HeatMap map;
  map.name = "G";
  map.rows = 1;
  map.cols = static_cast<int>(cells.size());
  map.cells = cells;
  map.shows_numbers = true;
  return map;
}

RecordingCanvas drawn(const HeatMap& map, double width) {
  Figure figure;
  figure.series.emplace_back(map);
  RecordingCanvas canvas;
  render_figure(figure, dark_theme(), {.text_size = 12}, {0, 0, width, 300}, canvas);
  return canvas;
}

TEST(RenderFigure, NumbersStandInAllCellsOrInNone) {
  const auto shown = [](double width) {
    const RecordingCanvas canvas = drawn(numbered_row({0.123, 2, -3.3, 1, 1, 1, 1, 0.456}), width);
    return std::pair{canvas.shows("0.1"), canvas.shows("0.5")};
  };
  EXPECT_EQ(shown(400), std::pair(true, true));
  EXPECT_EQ(shown(90), std::pair(false, false)) << "the widest has no room";
}

TEST(RenderFigure, SharesKeepTwoDigitsBesideAWholeOne) {
  const RecordingCanvas canvas = drawn(numbered_row({1, 0.961, 0.384}), 400);
  EXPECT_TRUE(canvas.shows("0.96"));
  EXPECT_TRUE(canvas.shows("0.38"));
}

TEST(RenderFigure, ALegendLeavesTheLabelOfAReferenceLineItsRoom) {
  Figure figure;
  figure.labels = LabelPlacement::legend;
  figure.y.range = Range{0, 10};
  for (const std::string name : {"a name that is rather long", "another of this length"}) {
    Line line;
    line.name = name;
    std::vector<double> x, y;
    for (int i = 0; i < 60; ++i) {
      x.push_back(i);
      y.push_back(i % 2 == 0 ? 3.5 : 10);
    }
    line.curve = {Values(std::move(x)), Values(std::move(y))};
    figure.series.emplace_back(std::move(line));
  }
  figure.reference_lines.push_back({.at = 0.2, .label = "a bound far below"});
  for (const double width : {240.0, 260.0, 280.0, 300.0, 340.0}) {
    RecordingCanvas canvas;
    render_figure(figure, dark_theme(), {.text_size = 12}, {0, 0, width, 220}, canvas);
    const auto box_of = [&](const std::string& text) {
      const auto found = std::ranges::find(canvas.texts, text, &RecordingCanvas::Text::text);
      return found == canvas.texts.end() ? Rect{} : found->box;
    };
    const Rect label = box_of("a bound far below");
    ASSERT_GT(label.width, 0);
    for (const std::string name : {"a name that is rather long", "another of this length"}) {
      const Rect entry = box_of(name);
      EXPECT_TRUE(entry.right() <= label.x || label.right() <= entry.x || entry.bottom() <= label.y ||
                  label.bottom() <= entry.y)
          << name << " at " << width;
    }
  }
}

TEST(RenderFigure, RoughCellsAreFramedInTheColourBehindTheMap) {
  HeatMap map = numbered_row({0.5, 0.7, 0.9});
  const std::size_t others = drawn(map, 400).frames.size();
  map.is_rough = {false, true, false};
  const RecordingCanvas canvas = drawn(map, 400);
  ASSERT_EQ(canvas.frames.size(), others + 1);
  const Rect grid = canvas.grids.front().rect;
  const auto is_inside = [&](const Rect& frame) {
    return frame.x > grid.x + grid.width / 3 && frame.x + frame.width < grid.x + grid.width * 2 / 3 &&
           frame.y > grid.y && frame.y + frame.height < grid.y + grid.height;
  };
  EXPECT_EQ(std::ranges::count_if(canvas.frames, is_inside), 1) << "in the second of three cells";
}

TEST(RenderFigure, ABlankCellHasNoNumber) {
  HeatMap map = numbered_row({0.5, std::numeric_limits<double>::quiet_NaN()});
  const auto says_so = [&](bool is_blank) {
    map.nan_is_blank = is_blank;
    const RecordingCanvas canvas = drawn(map, 400);
    EXPECT_TRUE(canvas.shows("0.5"));
    return canvas.shows("NaN");
  };
  EXPECT_TRUE(says_so(false));
  EXPECT_FALSE(says_so(true));
}

TEST(RenderFigure, TickLabelsDoNotTouch) {
  for (const Figure& figure : example_figures()) {
    RecordingCanvas canvas;
    const FigureGeometry g = render_figure(figure, light_theme(), {.text_size = 12}, {0, 0, 400, 300}, canvas);
    std::vector<Rect> below;
    for (const auto& text : canvas.texts) {
      if (text.box.y > g.plot.bottom() && text.box.height < 20 && text.box.bottom() < g.plot.bottom() + 20)
        below.push_back(text.box);
    }
    for (std::size_t i = 0; i < below.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(below[i].overlaps(below[j])) << figure.id;
    }
  }
}

TEST(RenderFigure, DrawsAwkwardFigures) {
  for (const Figure& figure : awkward_figures()) {
    for (const Rect area : {Rect{0, 0, 300, 200}, Rect{0, 0, 20, 10}, Rect{0, 0, 0, 0}}) {
      RecordingCanvas canvas;
      const FigureGeometry g = render_figure(
          figure, dark_theme(), {.cursor_x = 1, .mark_a = 0, .mark_b = 2, .show_title = true}, area, canvas);
      EXPECT_GT(g.plot.width, 0);
      for (const auto& line : canvas.polylines) {
        for (const Point p : line.points) ASSERT_TRUE(is_finite(p)) << figure.id;
      }
      for (const auto& polygon : canvas.polygons) {
        for (const Point p : polygon) ASSERT_TRUE(is_finite(p)) << figure.id;
      }
      for (const auto& text : canvas.texts) ASSERT_TRUE(is_finite({text.box.x, text.box.y})) << figure.id << text.text;
      for (const Rect& rect : canvas.rects) {
        ASSERT_TRUE(is_finite({rect.x, rect.y}) && is_finite({rect.width, rect.height})) << figure.id;
        ASSERT_GE(rect.width, 0) << figure.id;
        ASSERT_GE(rect.height, 0) << figure.id;
      }
    }
  }
}

TEST(RenderFigure, PutsCurvesWhereTheTransformsSay) {
  const Figure figure = training_figure();
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas);
  const CurveView curve(std::get<Line>(figure.series[0]).curve);
  const Point last = g.to_canvas(curve.x(428), curve.y(428));
  const bool found = std::ranges::any_of(canvas.polylines, [&](const auto& line) {
    return std::hypot(line.points.back().x - last.x, line.points.back().y - last.y) < 1e-9;
  });
  EXPECT_TRUE(found);
  EXPECT_NEAR(g.x.to_data(g.plot.right()), 800, 1e-9);
  EXPECT_NEAR(g.y.to_data(g.plot.y), 1, 1e-12);
}

TEST(RenderFigure, ACentredTextStandsAtItsPlaceHoweverTallThePlot) {
  Figure figure;
  figure.x.range = figure.y.range = Range{0, 1};
  figure.text_labels.push_back({0.5, 0.5, "12", Role::dim, Anchor::middle, true});
  for (const double height : {120.0, 900.0}) {
    RecordingCanvas canvas;
    const FigureGeometry g = render_figure(figure, light_theme(), {}, {0, 0, 400, height}, canvas);
    const auto text = std::ranges::find(canvas.texts, "12", &RecordingCanvas::Text::text);
    ASSERT_NE(text, canvas.texts.end());
    EXPECT_NEAR(text->box.y + text->box.height / 2, g.to_canvas(0.5, 0.5).y, 0.2 * text->box.height);
  }
}

TEST(RenderFigure, LabelsCurvesAtTheirEndsWithTheirColour) {
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(training_figure(), light_theme(), {}, {0, 0, 500, 400}, canvas);
  EXPECT_TRUE(canvas.shows("SSM + SKA 0.998"));
  EXPECT_TRUE(canvas.shows("rate 3×10^\u22124 → 10^\u22123"));
  ASSERT_EQ(g.labels.size(), 2u);
  EXPECT_FALSE(g.labels[0].rect.overlaps(g.labels[1].rect));
  const Rect& rect = g.labels[1].rect;
  EXPECT_EQ(g.label_at({rect.x + 2, rect.y + 2}), 1u);
  EXPECT_EQ(g.label_at({-5, -5}), std::nullopt);
}

TEST(RenderFigure, LabelsTheEndsOfASecondRunWhereThereIsRoomAndTheyDiffer) {
  Figure figure = training_figure();
  Line b = std::get<Line>(figure.series.front());
  b.name = "B: " + b.name;
  b.end_value = "0.5";
  b.is_outlined = true;
  RecordingCanvas same, other;
  figure.series.emplace_back(b);
  render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, same);
  EXPECT_FALSE(same.shows("B 0.5")) << "the curve of A ends there and has its label";
  EXPECT_TRUE(same.shows("SSM + SKA 0.998"));
  std::vector<double> low(b.curve.y.span().begin(), b.curve.y.span().end());
  for (double& y : low) y *= 0.5;
  b.curve.y = std::move(low);
  figure.series.back() = b;
  render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, other);
  EXPECT_TRUE(other.shows("B 0.5"));
  EXPECT_TRUE(other.shows("SSM + SKA 0.998"));
}

TEST(RenderFigure, NamesNoQuietLine) {
  Figure figure = training_figure();
  std::get<Line>(figure.series[0]).is_quiet = true;
  RecordingCanvas canvas;
  EXPECT_EQ(render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas).labels.size(), 1u);
  figure.labels = LabelPlacement::legend;
  EXPECT_EQ(render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas).labels.size(), 1u);
}

TEST(RenderFigure, FallsBackToALegendWhereThereIsNoRoom) {
  Figure figure;
  for (int i = 0; i < 12; ++i) {
    const double height = i;
    figure.series.push_back(
        Line{.name = "curve " + std::to_string(i), .curve = {{0, 1}, {height, height}, {}}, .ink = i});
  }
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas);
  ASSERT_EQ(g.labels.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_TRUE(canvas.shows("curve " + std::to_string(i)));
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(g.labels[i].rect.overlaps(g.labels[j].rect));
  }
}

// A race of eleven layers: the page grows by its legend, which is neither cut nor over the curves.
TEST(RenderFigure, ALongLegendHasRoomOnItsPage) {
  Figure figure;
  figure.labels = LabelPlacement::legend;
  for (int i = 0; i < 11; ++i)
    figure.series.push_back(Line{.name = "a rather long name of a curve, number " + std::to_string(i),
                                 .curve = {{0, 1}, {0.1 * i, 1 - 0.1 * i}, {}},
                                 .ink = i});
  const PageSize page = page_size(SizePreset::one_column, figure);
  EXPECT_GT(page.height_mm, page_size(SizePreset::one_column, Figure{}).height_mm + 20);
  EXPECT_EQ(page_size(SizePreset::slide, figure).height_mm, page_size(SizePreset::slide, Figure{}).height_mm);
  RecordingCanvas canvas;
  const FigureGeometry g = draw_page(figure, page, light_theme(), {}, canvas);
  ASSERT_EQ(g.labels.size(), 11u);
  for (const SeriesLabel& label : g.labels) EXPECT_LE(label.rect.bottom(), g.plot.y + 0.5) << label.series;
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(canvas.shows("a rather long name of a curve, number " + std::to_string(i)));
  EXPECT_GT(g.plot.height, 0.4 * page.height_pt());
}

TEST(RenderFigure, AFlatPlotKeepsItsRoomAndItsLegendTheStemsOfNames) {
  Figure figure;
  figure.labels = LabelPlacement::legend;
  for (int i = 0; i < 8; ++i)
    figure.series.push_back(Line{.name = "layer " + std::to_string(i) + ": 1 % at 204, a law, a state and its price",
                                 .curve = {{0, 1, 2, 3}, {0.1 * i, 1 - 0.1 * i, 0.1 * i, 1}, {}},
                                 .ink = i});
  RecordingCanvas flat, tall;
  const FigureGeometry g = render_figure(figure, light_theme(), {.text_size = 12}, {0, 0, 600, 180}, flat);
  render_figure(figure, light_theme(), {.text_size = 12}, {0, 0, 600, 500}, tall);
  EXPECT_GT(g.plot.height, 60);
  for (int i = 0; i < 8; ++i) {
    const std::string stem = "layer " + std::to_string(i);
    EXPECT_TRUE(flat.shows(stem));
    EXPECT_TRUE(tall.shows(stem + ": 1 % at 204, a law, a state and its price"));
  }
}

/// Eight layers whose curves leave no corner free.
Figure crowded_figure() {
  Figure figure;
  figure.y.label = "gradient norm |∂L/∂θ| of every layer, before clipping";
  figure.labels = LabelPlacement::legend;
  for (int i = 0; i < 8; ++i)
    figure.series.push_back(Line{.name = "gated_deltanet " + std::to_string(i) + ": half-life 12",
                                 .curve = {{0, 1, 2, 3}, {0.1 * i, 1 - 0.1 * i, 0.1 * i, 1}, {}},
                                 .ink = i});
  return figure;
}

TEST(RenderFigure, ALegendTakesNoMoreRowsThanItMayAndCountsTheRest) {
  for (const double width : {160.0, 300.0, 420.0}) {
    RecordingCanvas canvas;
    const FigureGeometry g =
        render_figure(crowded_figure(), light_theme(), {.legend_rows = 2}, {0, 0, width, 300}, canvas);
    ASSERT_FALSE(g.labels.empty());
    std::set<double> rows;
    for (const SeriesLabel& label : g.labels) {
      rows.insert(label.rect.y);
      EXPECT_LE(label.rect.bottom(), g.plot.y) << "over the curves";
      EXPECT_LE(label.rect.right(), width);
    }
    EXPECT_LE(rows.size(), 2u);
    const std::string rest = "+" + std::to_string(8 - g.labels.size());
    EXPECT_EQ(canvas.shows(rest), g.labels.size() < 8) << rest;
  }
}

TEST(RenderFigure, ALegendWithoutRoomIsLeftOutRatherThanOverTheCurves) {
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(crowded_figure(), light_theme(), {}, {0, 0, 300, 100}, canvas);
  EXPECT_TRUE(g.labels.empty());
  EXPECT_GT(g.plot.height, 40);
}

TEST(RenderFigure, TheTitleOfAnAxisKeepsOutOfTheLegendAndIsSetSmallerBeforeItIsCut) {
  RecordingCanvas canvas;
  const Figure figure = crowded_figure();
  const FigureGeometry g = render_figure(figure, light_theme(), {.legend_rows = 2}, {0, 0, 300, 320}, canvas);
  const auto title =
      std::ranges::find_if(canvas.texts, [](const auto& t) { return t.text.starts_with("gradient norm"); });
  ASSERT_NE(title, canvas.texts.end());
  EXPECT_EQ(title->text, figure.y.label);
  EXPECT_GE(title->box.y, g.plot.y - 0.5);
  for (const SeriesLabel& label : g.labels) EXPECT_FALSE(label.rect.overlaps(title->box));
}

TEST(RenderFigure, ATitleOfAnAxisThatIsTooLongLosesWholeWords) {
  RecordingCanvas canvas;
  const Figure figure = crowded_figure();
  render_figure(figure, light_theme(), {.legend_rows = 1}, {0, 0, 300, 150}, canvas);
  const auto title = std::ranges::find_if(canvas.texts, [](const auto& t) { return t.text.starts_with("gradient"); });
  ASSERT_NE(title, canvas.texts.end());
  EXPECT_LT(title->text.size(), figure.y.label.size());
  EXPECT_TRUE(figure.y.label.starts_with(title->text + " ")) << title->text;
}

TEST(RenderFigure, TheViewLocksTheColoursOfHeatMaps) {
  RecordingCanvas canvas;
  const FigureGeometry g =
      render_figure(heat_figure(), light_theme(), {.colours = Range{0, 7}}, {0, 0, 500, 400}, canvas);
  ASSERT_EQ(g.color_bars.size(), 1u);
  EXPECT_EQ(g.color_bars[0].range, (Range{0, 7}));
}

TEST(RenderFigure, ItsHeadingStandsInThePlaceOfTheTitleInFiles) {
  Figure figure = training_figure();
  figure.heading = "Loss · tiny · step 460";
  RecordingCanvas with, without;
  draw_page(figure, {}, light_theme(), {}, with);
  EXPECT_TRUE(with.shows(figure.heading));
  EXPECT_FALSE(with.shows(figure.title));
  draw_page(figure, {.shows_title = false}, light_theme(), {}, without);
  EXPECT_FALSE(without.shows(figure.heading));
}

TEST(RenderFigure, MeasuringCursorsHaveTagsInsideThePlot) {
  RecordingCanvas canvas;
  const Figure figure = training_figure();
  const FigureGeometry g = render_figure(figure, light_theme(), {.mark_a = 1, .mark_b = 1e9}, {0, 0, 500, 400}, canvas);
  const auto tag = std::ranges::find_if(canvas.texts, [](const auto& t) { return t.text == "A"; });
  ASSERT_NE(tag, canvas.texts.end());
  EXPECT_GE(tag->box.x, g.plot.x - 0.5);
  EXPECT_LT(tag->box.bottom(), g.plot.y + 40);
  EXPECT_EQ(tag, canvas.texts.end() - 1) << "on top of everything";
  EXPECT_FALSE(canvas.shows("B")) << "out of sight";
}

TEST(RenderFigure, SpreadsLabelsOfCurvesThatEndTogether) {
  Figure figure;
  figure.labels = LabelPlacement::at_curves;
  for (int i = 0; i < 5; ++i)
    figure.series.push_back(Line{.name = "run " + std::to_string(i), .curve = {{0, 1}, {0.1 * i, 0.5}, {}}, .ink = i});
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas);
  ASSERT_EQ(g.labels.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GT(g.labels[i].rect.x, g.plot.right());
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(g.labels[i].rect.overlaps(g.labels[j].rect));
  }
}

TEST(RenderFigure, KeepsTheAspect) {
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(spectrum_figure(), light_theme(), {}, {0, 0, 700, 300}, canvas);
  const Point origin = g.to_canvas(0, 0), unit = g.to_canvas(1, 1);
  EXPECT_NEAR(unit.x - origin.x, origin.y - unit.y, 1e-9);
}

TEST(RenderFigure, FindsDots) {
  const Figure figure = spectrum_figure();
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(figure, light_theme(), {}, {0, 0, 500, 500}, canvas);
  const auto& dots = std::get<Scatter>(figure.series[0]).points;
  ASSERT_EQ(g.points.size(), dots.size());
  for (std::size_t i = 0; i < dots.size(); ++i) {
    const auto hit = g.point_at(g.to_canvas(dots[i].x, dots[i].y), 3);
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->point, i);
  }
  EXPECT_FALSE(g.point_at({g.plot.x, g.plot.y}, 3));
}

TEST(RenderFigure, TheTitleOfTheYAxisEndsAboveALabelThatReachesUnderIt) {
  Figure figure;
  figure.x.ticks = {{0, "0 mamba2 of a long name"}, {1, "0 swiglu"}, {2, "1 mamba2"}};
  figure.x.range = Range{0, 2};
  figure.y.label = "gradient norm of the loss";
  Line line;
  line.name = "measured";
  line.curve.x = std::vector<double>{0, 1, 2};
  line.curve.y = std::vector<double>{1, 3, 2};
  figure.series.emplace_back(line);
  for (const double height : {90.0, 120.0, 160.0, 300.0}) {
    RecordingCanvas canvas;
    render_figure(figure, light_theme(), {.text_size = 12}, {0, 0, 330, height}, canvas);
    const auto title = std::ranges::find_if(
        canvas.texts, [](const RecordingCanvas::Text& text) { return text.text.starts_with("grad"); });
    ASSERT_NE(title, canvas.texts.end()) << height;
    for (const RecordingCanvas::Text& text : canvas.texts) {
      const bool is_first = text.text.starts_with("0 mamba");
      EXPECT_FALSE(is_first && text.box.overlaps(title->box)) << height;
    }
  }
}

TEST(RenderFigure, ALabelOfACrowdedDotStaysNearAndALineLeadsToIt) {
  Figure figure;
  figure.labels = LabelPlacement::none;
  figure.x.range = figure.y.range = Range{0, 10};
  Scatter scatter;
  scatter.name = "crowd";
  for (int i = 0; i < 12; ++i)
    scatter.points.push_back({4.5 + 0.1 * i, 5, 6, i, false, "", "dot " + std::to_string(i)});
  figure.series.emplace_back(scatter);
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(figure, light_theme(), {.text_size = 12}, {0, 0, 500, 400}, canvas);
  const Point crowd = g.to_canvas(5, 5);
  const auto leads_there = [&](const RecordingCanvas::Polyline& line) {
    const double away = std::hypot(line.points[0].x - crowd.x, line.points[0].y - crowd.y);
    return line.points.size() == 2 && away < 40;
  };
  EXPECT_TRUE(std::ranges::any_of(canvas.polylines, leads_there));
  std::vector<Rect> labels;
  for (const RecordingCanvas::Text& text : canvas.texts) {
    if (!text.text.starts_with("dot ")) continue;
    EXPECT_LT(std::abs(text.box.x + text.box.width / 2 - crowd.x), 0.3 * g.plot.width) << text.text;
    for (const Rect& other : labels) EXPECT_FALSE(text.box.overlaps(other)) << text.text;
    labels.push_back(text.box);
  }
  EXPECT_EQ(labels.size(), 12u);
}

TEST(RenderFigure, EveryHeatMapHasNumbersBesideItsColours) {
  RecordingCanvas canvas;
  const FigureGeometry g = render_figure(heat_figure(), light_theme(), {}, {0, 0, 500, 400}, canvas);
  ASSERT_EQ(g.color_bars.size(), 1u);
  EXPECT_TRUE(canvas.shows("0.2"));
  EXPECT_TRUE(canvas.shows("weight"));
  ASSERT_EQ(canvas.grids.size(), 2u);
  EXPECT_EQ(canvas.grids[0].rows, 34);
  EXPECT_EQ(canvas.grids[0].cells[1].a, 0);  // the causal mask is left empty
  EXPECT_EQ(canvas.grids[0].cells[34].a, 255);
}

TEST(RenderFigure, LocksColoursWhenAsked) {
  Figure figure = heat_figure();
  std::get<HeatMap>(figure.series[0]).value.range = Range{0, 10};
  RecordingCanvas canvas;
  EXPECT_EQ(render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas).color_bars[0].range, (Range{0, 10}));
}

TEST(RenderFigure, ShowsCellsThatAreNotFinite) {
  RecordingCanvas canvas;
  render_figure(diverging_figure(), light_theme(), {}, {0, 0, 500, 400}, canvas);
  EXPECT_TRUE(canvas.shows("not finite"));
  EXPECT_EQ(canvas.grids[0].cells[9], light_theme().failure);
}

TEST(RenderFigure, ReducedHeatMapsKeepTheirSpikes) {
  Figure figure;
  std::vector<double> cells(1500 * 1500, 0.1);
  cells[1234 * 1500 + 1345] = 5;
  figure.series.push_back(HeatMap{.rows = 1500, .cols = 1500, .cells = std::move(cells)});
  RecordingCanvas canvas;
  render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, canvas);
  EXPECT_LE(canvas.grids[0].rows, 1024);
  EXPECT_TRUE(std::ranges::any_of(canvas.grids[0].cells,
                                  [&](Color c) { return c == map_color(light_theme(), ColourMap::sequential, 1); }));
}

TEST(RenderFigure, MarksFlawsInRed) {
  RecordingCanvas canvas;
  render_figure(flawed_figure(), light_theme(), {}, {0, 0, 600, 400}, canvas);
  EXPECT_EQ(std::ranges::count(canvas.polygon_colors, light_theme().failure), 5);  // 3 NaN, +inf, -inf
  EXPECT_EQ(canvas.circles.size(), 1u);                                            // the value between two NaN
}

TEST(RenderFigure, ZoomAndScaleBelongToTheView) {
  RecordingCanvas canvas;
  const FigureView view{.x = Range{10, 100}, .y = Range{1e-3, 1}, .y_scale = Scale::linear};
  const FigureGeometry g = render_figure(tail_figure(), light_theme(), view, {0, 0, 500, 400}, canvas);
  EXPECT_EQ(g.x.range(), (Range{10, 100}));
  EXPECT_EQ(g.x.scale(), Scale::log);
  EXPECT_EQ(g.y.scale(), Scale::linear);
}

TEST(RenderFigure, HidingMovesNothing) {
  Figure figure;
  figure.series = {Line{.name = "low", .curve = {{0, 1}, {0, 1}, {}}},
                   Line{.name = "high", .curve = {{0, 1}, {0, 100}, {}}, .ink = 1}};
  RecordingCanvas all, one;
  const FigureGeometry a = render_figure(figure, light_theme(), {}, {0, 0, 500, 400}, all);
  const FigureGeometry b = render_figure(figure, light_theme(), {.hidden = {"high"}}, {0, 0, 500, 400}, one);
  EXPECT_EQ(a.y.range(), b.y.range());
  EXPECT_FALSE(one.shows("high"));
  EXPECT_TRUE(one.shows("low"));
}

// A fit in a name changes with every measurement, and a bound goes with its curve.
TEST(RenderFigure, ANameIsHiddenWhateverItsLegendSaysOfIt) {
  EXPECT_EQ(stem_of("1 sessa: lag^−0.4 ± 0.1"), "1 sessa");
  EXPECT_EQ(stem_of("loss"), "loss");
  Figure figure;
  figure.labels = LabelPlacement::legend;
  figure.series = {Line{.name = "1 sessa: lag^−0.5", .curve = {{0, 1}, {0, 1}, {}}},
                   Line{.name = "1 sessa: at most", .curve = {{0, 1}, {1, 2}, {}}, .is_quiet = true},
                   Line{.name = "2 sessa: lag^−0.5", .curve = {{0, 1}, {1, 0}, {}}}};
  RecordingCanvas canvas;
  const FigureGeometry g =
      render_figure(figure, light_theme(), {.hidden = {"1 sessa: lag^−0.4"}}, {0, 0, 500, 400}, canvas);
  ASSERT_EQ(g.labels.size(), 1u);
  EXPECT_EQ(g.labels[0].series, 2u);
  EXPECT_EQ(nearest_points(figure, {.hidden = {"1 sessa: lag^−0.4"}}, 1).size(), 1u);
}

TEST(NearestPoints, AreThePointsUnderTheCursor) {
  Figure figure;
  figure.x.scale = Scale::log;
  figure.series = {Line{.name = "sorted", .curve = {{1, 10, 100}, {5, 6, 7}, {}}},
                   Line{.name = "turned", .curve = {{100, 1, 10}, {7, 5, 6}, {}}}, Line{.name = "none"},
                   Bars{.name = "bars", .bars = {{1, 2}, {90, 3}}}};
  const auto near = nearest_points(figure, {}, 40);  // beyond the geometric middle of 10 and 100
  ASSERT_EQ(near.size(), 3u);
  EXPECT_EQ(near[0].x, 100);
  EXPECT_EQ(near[0].y, 7);
  EXPECT_EQ(near[1].x, 100);
  EXPECT_EQ(near[2].x, 90);
  EXPECT_EQ(nearest_points(figure, {}, 31)[0].x, 10);
  EXPECT_EQ(nearest_points(figure, {.hidden = {"sorted"}}, 31)[0].name, "turned");
  EXPECT_EQ(nearest_points(figure, {}, -5)[0].x, 1);
  EXPECT_EQ(nearest_points(figure, {}, 1e9)[0].x, 100);
}

TEST(HeatCellAt, FindsTheCell) {
  const HeatMap map{.rows = 2, .cols = 3, .cells = {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(heat_cell_at(map, 2.4, 0.6)->value, 6);
  EXPECT_EQ(heat_cell_at(map, -0.4, -0.4)->value, 1);
  EXPECT_FALSE(heat_cell_at(map, 2.6, 0));
  EXPECT_FALSE(heat_cell_at(map, std::nan(""), 0));
}

}  // namespace
}  // namespace afterglow
