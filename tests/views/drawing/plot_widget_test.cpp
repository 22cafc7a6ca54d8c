// Touching a plot: zoom, pan, follow, hide, measure, with input as a mouse gives it.
#include "views/widgets/plot_widget.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

Figure line_figure(int points, const std::string& id = "plot") {
  std::vector<double> x, y;
  for (int i = 1; i <= points; ++i) {
    x.push_back(i);
    y.push_back(std::sin(0.1 * i) + 2);
  }
  Line line;
  line.name = "sine";
  line.curve.x = x;
  line.curve.y = y;
  Figure figure;
  figure.id = id;
  figure.title = "A sine";
  figure.x.label = "step";
  figure.y.label = "value";
  figure.series.emplace_back(line);
  return figure;
}

struct PlotWidgetTest : testing::Test {
  NullWindow window{800, 600};
  Figure figure = line_figure(100);
  PlotState& state = window.state.plots["plot"];

  void draw(int frames = 1) {
    for (int i = 0; i < frames; ++i) {
      window.draw([&](Frame& frame) { plot_widget(frame, figure, {0, 0, 800, 600}); });
      window.state.crosshair = window.state.pointer.crosshair;
    }
  }
  void drag(Point from, Point to, int button = 0) {
    window.mouse(from.x, from.y);
    draw(2);
    window.button(true, button);
    draw();
    for (int i = 1; i <= 4; ++i) {
      window.mouse(from.x + (to.x - from.x) * i / 4, from.y + (to.y - from.y) * i / 4);
      draw();
    }
    window.button(false, button);
    draw(2);
  }
  void click(Point at) {
    window.mouse(at.x, at.y);
    draw(2);
    window.button(true);
    draw();
    window.button(false);
    draw();
  }
};

TEST_F(PlotWidgetTest, MovesADotInsteadOfTheViewWhereItMay) {
  Scatter dots;
  dots.points.push_back({1, 5, 8, 0, false, "eigenvalue 0", ""});
  figure.series = {dots};
  figure.x.range = Range{0, 2};
  figure.y.range = Range{0, 10};
  PlotResponse response;
  PlotOptions options;
  options.moves_points = true;
  const auto draw_dots = [&] {
    window.draw([&](Frame& frame) { response = plot_widget(frame, figure, {0, 0, 800, 600}, options); });
  };
  Point dot{-1, -1};
  for (double x = 380; x < 480 && dot.x < 0; x += 6) {
    for (double y = 250; y < 350 && dot.x < 0; y += 6) {
      window.mouse(x, y);
      draw_dots();
      draw_dots();
      if (response.hovered_point == "eigenvalue 0") dot = {x, y};
    }
  }
  ASSERT_GE(dot.x, 0);
  window.button(true);
  draw_dots();
  EXPECT_FALSE(response.drag);
  window.mouse(dot.x, dot.y - 60);
  draw_dots();
  ASSERT_TRUE(response.drag);
  EXPECT_EQ(response.drag->point, "eigenvalue 0");
  EXPECT_GT(response.drag->y, 5.5);
  EXPECT_LT(response.drag->y, 7);
  EXPECT_FALSE(response.drag->is_over);
  window.mouse(dot.x, -50);
  draw_dots();
  ASSERT_TRUE(response.drag);
  EXPECT_NEAR(response.drag->y, 10, 1e-9);  // not beyond what the axis shows
  window.button(false);
  draw_dots();
  ASSERT_TRUE(response.drag);
  EXPECT_TRUE(response.drag->is_over);
  draw_dots();
  EXPECT_FALSE(response.drag);
  EXPECT_TRUE(state.follows());
}

TEST_F(PlotWidgetTest, FollowsUntilItIsTouched) {
  draw(2);
  EXPECT_TRUE(state.follows());
  drag({400, 300}, {300, 300});
  EXPECT_FALSE(state.follows());
}

TEST_F(PlotWidgetTest, PanKeepsItsPlaceWhileDataArrive) {
  draw();
  drag({400, 300}, {300, 340});
  ASSERT_TRUE(state.x && state.y);
  const Range x = *state.x, y = *state.y;
  EXPECT_GT(x.low, 1) << "dragging to the left shows what comes later";
  for (int n = 200; n <= 1000; n += 200) {
    figure = line_figure(n);
    draw(2);
  }
  EXPECT_EQ(*state.x, x);
  EXPECT_EQ(*state.y, y);
}

TEST_F(PlotWidgetTest, WheelZoomsAtThePointer) {
  window.mouse(400, 300);
  draw(2);
  ASSERT_EQ(window.state.crosshair.axis, "step");
  const double under_pointer = window.state.crosshair.x;
  window.wheel(2);
  draw(3);
  ASSERT_TRUE(state.x && state.y);
  EXPECT_LT(state.x->high - state.x->low, 99);
  // Narrower tick labels may move the plot by a few pixels.
  EXPECT_NEAR(window.state.crosshair.x, under_pointer, 2) << "what is under the pointer stays there";
}

TEST_F(PlotWidgetTest, WheelOverAnAxisZoomsThatAxis) {
  window.mouse(400, 590);
  draw(2);
  window.wheel(2);
  draw(2);
  EXPECT_TRUE(state.x);
  EXPECT_FALSE(state.y);
}

TEST_F(PlotWidgetTest, RightDragZoomsToTheBox) {
  window.mouse(300, 300);
  draw(2);
  const double left = window.state.crosshair.x;
  drag({300, 200}, {500, 400}, 1);
  ASSERT_TRUE(state.x && state.y);
  EXPECT_NEAR(state.x->low, left, 0.5);
  EXPECT_LT(state.x->high, 99);
}

TEST_F(PlotWidgetTest, DoubleClickShowsEverythingAgain) {
  drag({400, 300}, {300, 300});
  ASSERT_FALSE(state.follows());
  window.mouse(400, 300);
  draw(40);
  for (int i = 0; i < 2; ++i) {
    window.button(true);
    draw();
    window.button(false);
    draw();
  }
  EXPECT_TRUE(state.follows());
}

TEST_F(PlotWidgetTest, FollowButtonIsOnlyThereWhenNeeded) {
  draw(2);
  const int without = window.vertices();
  state.x = Range{1, 100};
  draw(2);
  EXPECT_GT(window.vertices(), without);
}

TEST_F(PlotWidgetTest, AClickOnANameHidesItsCurve) {
  Line other = std::get<Line>(figure.series[0]);
  other.name = "other";
  figure.series.emplace_back(other);
  figure.labels = LabelPlacement::legend;
  const auto label_of_first = [&] {
    Point place;
    window.draw([&](Frame& frame) {
      FigureCanvas canvas = frame.look.canvas();
      const FigureView view = view_of(state, frame.look.figure_text(11));
      const FigureGeometry geometry = render_figure(figure, *frame.look.theme, view, {0, 20, 800, 580}, canvas);
      const auto middle = [](const Rect& r) { return Point{r.x + r.width / 2, r.y + r.height / 2}; };
      for (const SeriesLabel& label : geometry.labels) {
        if (label.series == 0) place = middle(label.rect);
      }
      for (const HiddenLabel& label : hidden_labels(frame, geometry, state)) place = middle(label.rect);
    });
    return place;
  };
  click(label_of_first());
  EXPECT_EQ(state.hidden, std::set<std::string>{"sine"});
  draw(40);
  click(label_of_first());
  EXPECT_TRUE(state.hidden.empty());
}

TEST_F(PlotWidgetTest, AClickOnAMapSaysWhere) {
  HeatMap map;
  map.rows = 2;
  map.cols = 4;
  map.cells = std::vector<double>(8, 0.5);
  figure.series = {map};
  PlotResponse response;
  std::optional<Point> clicked;
  const auto draw_map = [&] {
    window.draw([&](Frame& frame) { response = plot_widget(frame, figure, {0, 0, 800, 600}); });
    if (response.clicked) clicked = response.clicked;
  };
  window.mouse(400, 150);
  draw_map();
  draw_map();
  ASSERT_TRUE(response.place);
  EXPECT_FALSE(clicked);
  window.button(true);
  draw_map();
  window.button(false);
  draw_map();
  ASSERT_TRUE(clicked);
  EXPECT_EQ(clicked->x, response.place->x);
  EXPECT_EQ(clicked->y, response.place->y);
}

TEST_F(PlotWidgetTest, CrosshairIsSharedByTheAxis) {
  const Figure second = line_figure(50, "second");
  const auto both = [&](Frame& frame) {
    plot_widget(frame, figure, {0, 0, 800, 300});
    plot_widget(frame, second, {0, 300, 800, 300});
  };
  window.draw(both);
  const int without = window.vertices();
  window.mouse(400, 150);
  for (int i = 0; i < 3; ++i) {
    window.draw(both);
    window.state.crosshair = window.state.pointer.crosshair;
  }
  EXPECT_EQ(window.state.crosshair.plot, "plot");
  EXPECT_GT(window.vertices(), without);
}

TEST_F(PlotWidgetTest, CursorsAreDraggedWithoutMovingTheView) {
  state.mark_a = 20;
  state.mark_b = 80;
  Point at_b;
  const auto find_b = [&](Frame& frame) {
    const FigureGeometry geometry = [&] {
      FigureCanvas canvas = frame.look.canvas();
      return render_figure(figure, *frame.look.theme, view_of(state, frame.look.figure_text(11)), {0, 20, 800, 580},
                           canvas);
    }();
    at_b = {geometry.x.to_canvas(80), geometry.plot.y + geometry.plot.height / 2};
  };
  window.draw(find_b);
  drag(at_b, {at_b.x - 200, at_b.y});
  EXPECT_EQ(state.mark_a, 20);
  ASSERT_TRUE(state.mark_b);
  EXPECT_LT(*state.mark_b, 70);
  EXPECT_GT(*state.mark_b, 20);
  EXPECT_TRUE(state.follows()) << "the plot stands still";
  EXPECT_EQ(window.state.drag.cursor, 0) << "and has let go";
  const double stays = *state.mark_b;
  drag({at_b.x + 40, at_b.y}, {at_b.x - 60, at_b.y});
  EXPECT_EQ(state.mark_b, stays);
  EXPECT_FALSE(state.follows()) << "away from the cursors a drag pans as usual";
}

TEST(PlotStates, ACursorMovesAlone) {
  PlotState state;
  move_cursor(state, 'b', 5);
  EXPECT_EQ(state.mark_a, 5) << "the first one is A";
  move_cursor(state, 'b', 9);
  move_cursor(state, 'a', 3);
  move_cursor(state, 'a', std::nan(""));
  EXPECT_EQ(state.mark_a, 3);
  EXPECT_EQ(state.mark_b, 9);
  FigureGeometry geometry;
  geometry.x = AxisTransform(Scale::linear, {0, 10}, 0, 100);
  EXPECT_EQ(cursor_near(state, geometry, 34, 6), 'a');
  EXPECT_EQ(cursor_near(state, geometry, 88, 6), 'b');
  EXPECT_EQ(cursor_near(state, geometry, 60, 6), 0);
  EXPECT_EQ(cursor_near({}, geometry, 60, 1000), 0);
}

TEST(PlotStates, ZoomOnALogAxisKeepsDecades) {
  FigureGeometry geometry;
  geometry.plot = {0, 0, 100, 100};
  geometry.x = AxisTransform(Scale::log, {1, 10000}, 0, 100);
  geometry.y = AxisTransform(Scale::linear, {0, 1}, 100, 0);
  PlotState state;
  zoom_at(state, geometry, {50, 50}, 0.5, {true, false});
  EXPECT_NEAR(state.x->low, 10, 1e-9);
  EXPECT_NEAR(state.x->high, 1000, 1e-6);
  EXPECT_FALSE(state.y);
}

TEST(PlotStates, ZoomStopsBeforeNumbersRunOut) {
  FigureGeometry geometry;
  PlotState state;
  Range range{1, 2};
  for (int i = 0; i < 500; ++i) {
    geometry.x = AxisTransform(Scale::linear, range, 0, 100);
    zoom_at(state, geometry, {50, 0}, 0.5, {true, false});
    range = *state.x;
    ASSERT_LT(range.low, range.high);
  }
  for (int i = 0; i < 3000; ++i) {
    geometry.x = AxisTransform(Scale::linear, range, 0, 100);
    zoom_at(state, geometry, {50, 0}, 2, {true, false});
    range = *state.x;
    ASSERT_TRUE(std::isfinite(range.high - range.low));
  }
}

TEST(PlotStates, ScalesGoRoundAndCursorsComeInPairs) {
  EXPECT_EQ(next_scale(next_scale(next_scale(Scale::linear))), Scale::linear);
  PlotState state;
  place_cursor(state, 3);
  place_cursor(state, std::nan(""));
  EXPECT_FALSE(state.mark_b);
  place_cursor(state, 5);
  EXPECT_EQ(state.mark_b, 5);
  place_cursor(state, 7);
  EXPECT_FALSE(state.mark_a);
}

struct LinkedPlots : testing::Test {
  NullWindow window{800, 600};
  Figure above = line_figure(100, "above"), below = line_figure(100, "below");

  LinkedPlots() {
    above.title = "Above";
    below.title = "Below";
    std::get<Line>(below.series[0]).name = "other";
  }
  void draw_two(int frames) {
    for (int i = 0; i < frames; ++i) {
      window.draw([&](Frame& frame) {
        window.state.pointer.readings.clear();
        window.state.card.asked.clear();
        plot_widget(frame, above, {0, 0, 800, 300});
        plot_widget(frame, below, {0, 300, 800, 300});
      });
      window.state.crosshair = window.state.pointer.crosshair;
    }
  }
};

TEST_F(LinkedPlots, ShareOneListOfReadings) {
  window.mouse(400, 150);
  draw_two(4);
  const auto& readings = window.state.pointer.readings;
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_TRUE(readings[0].is_first);
  EXPECT_FALSE(readings[1].is_first);
  EXPECT_EQ(readings[1].title, "Below");
  EXPECT_EQ(readings[0].lines[0].value, readings[1].lines[0].value) << "the same step";
}

TEST_F(LinkedPlots, TheCardOfAnAxisOpensThoughAnotherPlotHasTheSameAxis) {
  window.mouse(400, 292);
  draw_two(4);
  EXPECT_EQ(window.state.card.card, "step");
  window.mouse(400, 150);
  draw_two(2);
  EXPECT_EQ(window.state.card.card, "");
}

TEST_F(LinkedPlots, ARestingPointerOpensNoCardInAHall) {
  const auto vertices_after_a_rest = [&](bool presenting) {
    window.state.presentation.is_on = presenting;
    window.state.card = {};
    window.mouse(400, 292);
    draw_two(60);
    EXPECT_EQ(window.state.card.card, "step") << "F1 has what it needs";
    return window.vertices();
  };
  const int with_card = vertices_after_a_rest(false);
  EXPECT_LT(vertices_after_a_rest(true), with_card);
}

TEST_F(LinkedPlots, F1ExplainsTheCurveOrThePlotUnderThePointer) {
  above.id = "training_loss";
  std::get<Line>(above.series[0]).name = "held out";
  window.mouse(400, 40);
  draw_two(4);
  EXPECT_EQ(window.state.card.asked, "training_loss") << "off the curve";
  const ShownPlot shown = window.state.drawn.plots.at(0);
  window.state.drawn.plots.clear();
  const Curve& curve = std::get<Line>(above.series[0]).curve;
  FigureGeometry geometry;
  window.draw([&](Frame& frame) {
    FigureCanvas canvas = frame.look.canvas();
    geometry = render_figure(above, *frame.look.theme, {.legend_rows = 2, .text_size = frame.look.figure_text(11)},
                             shown.area, canvas);
  });
  const Point on = geometry.to_canvas(curve.x[49], curve.y[49]);
  window.mouse(on.x, on.y);
  draw_two(4);
  EXPECT_EQ(window.state.card.asked, "held_out");
}

}  // namespace
}  // namespace afterglow
