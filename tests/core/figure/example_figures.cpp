// The example figures; every number comes from a closed form or a fixed generator.
#include "tests/core/figure/example_figures.h"

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {

// Numbers in [0, 1): the minimal standard generator.
class Noise {
 public:
  double next() {
    state_ = state_ * 16807 % 2147483647;
    return static_cast<double>(state_) / 2147483647.0;
  }

 private:
  long long state_ = 7;
};

Figure titled(const char* id, const char* title, const char* subtitle) {
  Figure figure;
  figure.id = id;
  figure.title = title;
  figure.subtitle = subtitle;
  figure.recipe = std::string(R"({"version":1,"seed":7,"note":"a < b & c > \"d\" ·λ·","figure":")") + id + "\"}";
  figure.provenance = "afterglow 0.1.0, seed 7, step 428, checksum 4f2a91c1";
  return figure;
}

}  // namespace

Figure training_figure() {
  Figure f = titled("training", "Training", "accuracy · smoothed 0.9, raw behind");
  f.x = {.label = "step", .unit = "", .range = Range{0, 800}, .integer_ticks = true};
  f.y = {.label = "accuracy", .range = Range{0, 1}};
  Noise noise;
  std::vector<double> x, with, with_raw, without, without_raw;
  for (int i = 0; i <= 428; ++i) {
    const double a = 1 / (1 + std::exp(-(i / 800.0 - 0.33) * 26));
    x.push_back(i);
    with.push_back(a);
    with_raw.push_back(std::clamp(a + (noise.next() - 0.5) * 0.1 * (1 - a), 0.0, 1.0));
    without.push_back(0.05 + 0.16 * i / 428);
    without_raw.push_back(without.back() + (noise.next() - 0.5) * 0.03);
  }
  f.series.push_back(
      Line{.name = "SSM + SKA", .curve = {x, with, {}}, .raw = {x, with_raw, {}}, .ink = 0, .end_value = "0.998"});
  f.series.push_back(
      Line{.name = "SSM", .curve = {x, without, {}}, .raw = {x, without_raw, {}}, .ink = 1, .end_value = "0.207"});
  f.events.push_back({300, "rate 3e\u22124 → 1e\u22123"});
  return f;
}

Figure spectrum_figure() {
  Figure f = titled("spectrum", "Koopman spectrum", "layer 1 · head 2 · trail 60 steps");
  f.x = {.label = "Re λ"};
  f.y = {.label = "Im λ"};
  f.equal_aspect = true;
  for (const double r : {0.25, 0.5, 0.75}) f.reference_circles.push_back({0, 0, r, Role::faint, Dash::dotted});
  f.reference_circles.push_back({0, 0, 1, Role::dim, Dash::solid});
  constexpr double modes[][4] = {{.97, .18, 0, 7},   {.95, .52, 0, 6},  {.9, .95, 2, 5},  {.84, 1.5, 2, 4.2},
                                 {.72, 2.1, 4, 3.8}, {.61, .7, 4, 3.5}, {.55, 2.6, 1, 3}, {.42, 1.2, 1, 2.8},
                                 {.3, 1.9, 3, 2.6},  {.21, 2.8, 3, 2.4}};
  Scatter dots{.name = "modes"};
  int k = 0;
  for (const auto& [magnitude, angle, color, size] : modes) {
    for (const double sign : {1.0, -1.0}) {
      Trail trail{{}, {}, Ink(static_cast<int>(color))};
      for (int i = 60; i >= 0; --i) {
        const double m = magnitude * (1 - 0.0026 * i), a = angle + 0.0047 * i * (k % 2 ? 1 : -1);
        trail.x.push_back(m * std::cos(a));
        trail.y.push_back(sign * m * std::sin(a));
      }
      ScatterPoint point{.x = trail.x.back(),
                         .y = trail.y.back(),
                         .radius = size,
                         .ink = Ink(static_cast<int>(color)),
                         .ring = k == 1 && sign > 0,
                         .id = "mode " + std::to_string(k) + (sign > 0 ? "+" : "-"),
                         .label = k == 1 && sign > 0 ? "mode 3" : ""};
      dots.points.push_back(point);
      dots.trails.push_back(trail);
    }
    ++k;
  }
  f.series.push_back(dots);
  return f;
}

Figure tail_figure() {
  Figure f = titled("tail", "Influence tail", "three layers, one input · theory dashed");
  f.x = {.label = "lag ℓ", .unit = "tokens", .scale = Scale::log};
  f.y = {.label = "influence |∂y/∂x|", .scale = Scale::log, .range = Range{1e-8, 1}};
  Noise noise;
  std::vector<double> x, sessa, attention, mamba, fit;
  for (int i = 0; i <= 280; ++i) {
    const double l = std::pow(10.0, 4.0 * i / 280);
    x.push_back(l);
    sessa.push_back(0.5 * std::pow(l, -0.4) * (1 + (noise.next() - 0.5) * 0.25));
    attention.push_back(0.8 / l * (1 + (noise.next() - 0.5) * 0.25));
    mamba.push_back(0.9 * std::exp(-l / 14.1));
    fit.push_back(0.5 * std::pow(l, -0.401));
  }
  f.series.push_back(Line{.name = "Sessa ℓ^\u22120.401 ± 0.003", .curve = {x, sessa, {}}, .ink = 0});
  f.series.push_back(Line{.name = "attention 1/ℓ", .curve = {x, attention, {}}, .ink = 2});
  f.series.push_back(Line{.name = "Mamba-2 exp(\u2212ℓ/14.1)", .curve = {x, mamba, {}}, .ink = 1});
  f.series.push_back(Line{.name = "", .curve = {x, fit, {}}, .ink = Role::text, .dash = Dash::dashed, .width = 1});
  return f;
}

Figure conditioning_figure() {
  Figure f = titled("kappa", "Conditioning", "4 heads · one jitter event at token 3");
  f.x = {.label = "token", .range = Range{0, 64}, .integer_ticks = true};
  f.y = {.label = "κ(G + εI)", .scale = Scale::log};
  f.labels = LabelPlacement::at_curves;
  for (int h = 0; h < 4; ++h) {
    std::vector<double> x, y;
    for (int i = 0; i <= 64; ++i) {
      const double u = i / 64.0;
      x.push_back(i);
      y.push_back(1 + (900 + h * 900) * (1 - std::exp(-u * (5 + h))) * (1 + 0.15 * std::sin(u * 20 + h)));
    }
    f.series.push_back(Line{.name = "head " + std::to_string(h + 1), .curve = {x, y, {}}, .ink = h, .width = 1.6});
  }
  f.reference_lines.push_back({.at = 256, .label = "1/u bf16"});
  f.reference_lines.push_back({.at = 2048, .label = "1/u tf32"});
  f.reference_lines.push_back({.at = 1.7e7, .label = "1/u fp32"});
  f.events.push_back({3, "jitter + 1e\u22124"});
  return f;
}

Figure heat_figure() {
  Figure f = titled("weights", "Token weights", "equivalent attention of SKA · head 2");
  f.x = {.label = "source token"};
  f.y = {.label = "query token"};
  HeatMap map{.name = "weights", .rows = 34, .cols = 34, .value = {.label = "weight"}, .nan_is_blank = true};
  Noise noise;
  std::vector<double> cells;
  for (int i = 0; i < 34; ++i) {
    for (int j = 0; j < 34; ++j) {
      double v = std::exp(-(i - j) * 0.25) * 0.35 + noise.next() * 0.05;
      if (j < 9 && j % 2 == 1 && i > 26 && (i * 3 + j) % 8 < 2) v = 0.95;
      cells.push_back(j <= i ? v : NAN);
    }
  }
  map.cells = cells;
  f.series.push_back(map);
  return f;
}

Figure diverging_figure() {
  Figure f = titled("value-change", "Change of value", "head by position, after the edit");
  f.x = {.label = "position"};
  f.y = {.label = "head"};
  HeatMap map{.name = "change",
              .rows = 4,
              .cols = 8,
              .map = ColourMap::diverging,
              .value = {.label = "Δ log p", .unit = "nats"},
              .row_labels = {"h 1", "h 2", "h 3", "h 4"}};
  std::vector<double> cells;
  for (int i = 0; i < 32; ++i) cells.push_back(1.4 * std::sin(0.7 * i) * std::exp(-0.02 * i));
  cells[9] = NAN;
  map.cells = cells;
  f.series.push_back(map);
  return f;
}

Figure filter_figure() {
  Figure f = titled("filter", "Power filter", "bars: query energy before and after");
  f.x = {.label = "|λ|", .range = Range{0, 1.03}};
  f.y = {.label = "gain |λ|^K", .range = Range{0, 1.03}};
  std::vector<double> x;
  for (int i = 0; i <= 100; ++i) x.push_back(i / 100.0);
  const auto power = [&](int k) {
    std::vector<double> y;
    for (const double v : x) y.push_back(std::pow(v, k));
    return y;
  };
  f.series.push_back(
      Line{.name = "", .curve = {x, power(1), {}}, .ink = Role::faint, .dash = Dash::dashed, .width = 1.2});
  f.series.push_back(
      Line{.name = "", .curve = {x, power(4), {}}, .ink = Role::faint, .dash = Dash::dashed, .width = 1.2});
  f.series.push_back(Line{.name = "", .curve = {x, power(2), {}}, .ink = 0, .width = 2.4});
  f.text_labels = {{0.36, 0.42, "K = 1", Role::dim, Anchor::end},
                   {0.66, 0.5, "K = 2", 0, Anchor::end},
                   {0.74, 0.34, "K = 4", Role::dim, Anchor::end}};
  constexpr double modes[] = {.97, .95, .9, .84, .72, .61, .55, .42, .3, .21},
                   energy[] = {.21, .21, .15, .11, .09, .07, .06, .05, .03, .02};
  constexpr int colors[] = {0, 0, 2, 2, 4, 4, 1, 1, 3, 3};
  Bars bars{.name = "energy", .width = 0.014};
  Scatter dots{.name = "modes"};
  for (int k = 0; k < 10; ++k) {
    bars.bars.push_back({modes[k], energy[k] * modes[k] * modes[k], energy[k], colors[k]});
    dots.points.push_back({.x = modes[k], .y = modes[k] * modes[k], .radius = 3.5, .ink = colors[k]});
  }
  f.series.push_back(bars);
  f.series.push_back(dots);
  f.labels = LabelPlacement::none;
  return f;
}

Figure flawed_figure() {
  Figure f = titled("flawed", "Loss", "NaN at step 30, infinite at 60, alone at 80");
  f.x = {.label = "step", .integer_ticks = true};
  f.y = {.label = "loss", .unit = "nats"};
  std::vector<double> x, y;
  for (int i = 0; i <= 100; ++i) {
    x.push_back(i);
    y.push_back(2 + std::exp(-i / 30.0) + 0.1 * std::sin(i));
  }
  y[30] = y[79] = y[81] = NAN;
  y[60] = INFINITY;
  y[90] = -INFINITY;
  f.series.push_back(Line{.name = "loss", .curve = {x, y, {}}, .ink = 2});
  return f;
}

std::vector<Figure> example_figures() {
  return {training_figure(), spectrum_figure(),  tail_figure(),   conditioning_figure(),
          heat_figure(),     diverging_figure(), filter_figure(), flawed_figure()};
}

namespace {

Figure bare(std::string id, Series series) {
  Figure figure;
  figure.id = std::move(id);
  figure.title = "Awkward \xff & <odd> \x01 title";
  figure.x.label = "x";
  figure.recipe = "{}";
  figure.series.push_back(std::move(series));
  return figure;
}

void add_awkward_lines(std::vector<Figure>& out) {
  const auto line = [](std::vector<double> x, std::vector<double> y) {
    return Line{.name = "line", .curve = {x, y, {}}, .raw = {x, y, {}}, .marker = Marker::automatic, .end_value = "1"};
  };
  out.push_back(bare("no-line", line({}, {})));
  out.push_back(bare("one-point", line({3}, {4})));
  out.push_back(bare("all-nan", line({1, 2, 3}, {NAN, NAN, NAN})));
  out.push_back(bare("nan-x", line({NAN, 2, INFINITY}, {1, 2, 3})));
  out.push_back(bare("infinities", line({1, 2, 3, 4}, {INFINITY, 1, -INFINITY, 2})));
  out.push_back(bare("huge", line({-1e308, 0, 1e308}, {1e308, -1e308, 5})));
  out.push_back(bare("tiny", line({0, 1e-320, 2e-320}, {1e-310, 2e-310, -1e-310})));
  out.push_back(bare("constant", line({1, 1, 1}, {2, 2, 2})));
  out.push_back(bare("unequal", line({1, 2, 3}, {2})));
  out.push_back(bare("backwards", line({3, 2, 1}, {2, 5, 1})));
}

void add_awkward_dots(std::vector<Figure>& out) {
  Scatter dots{.name = "dots"};
  out.push_back(bare("no-dots", dots));
  dots.points = {{.x = 1, .y = 1}};
  out.push_back(bare("one-dot", dots));
  dots.points = {{.x = NAN, .y = 1},
                 {.x = 1, .y = INFINITY, .radius = NAN},
                 {.x = 1e300, .y = -1e300, .radius = -4, .label = "far"}};
  dots.trails = {{{1, 2}, {3}}, {{}, {}}, {{NAN, 1, 2}, {1, INFINITY, 3}}};
  out.push_back(bare("bad-dots", dots));
  out.back().equal_aspect = true;
  out.back().reference_circles = {{0, 0, NAN}, {NAN, 0, 1}, {0, 0, 1e300}, {0, 0, 0}, {5, 5, -1}};
}

void add_awkward_bars(std::vector<Figure>& out) {
  Bars bars{.name = "bars"};
  out.push_back(bare("no-bars", bars));
  bars.bars = {{2, 3, NAN, 1}};
  out.push_back(bare("one-bar", bars));
  bars.bars = {{0, NAN, 1, 0}, {1, INFINITY, -INFINITY, 1}, {1, -2, 1e300, 2}, {NAN, 1, 1, 3}, {1e300, -1e300, 0, 4}};
  out.push_back(bare("bad-bars", bars));
}

void add_awkward_maps(std::vector<Figure>& out) {
  const auto map = [](int rows, int cols, std::vector<double> cells) {
    return HeatMap{.name = "map", .rows = rows, .cols = cols, .cells = cells, .value = {.label = "v"}};
  };
  out.push_back(bare("no-cells", map(0, 0, {})));
  out.push_back(bare("one-cell", map(1, 1, {7})));
  out.push_back(bare("negative-size", map(-3, 4, {1, 2})));
  out.push_back(bare("too-few-cells", map(3, 3, {1, 2})));
  out.push_back(bare("enormous-promise", map(2000000000, 2000000000, {1, 2})));
  out.push_back(bare("nan-cells", map(2, 2, {NAN, INFINITY, -INFINITY, NAN})));
  out.push_back(bare("huge-cells", map(2, 2, {1e308, -1e308, 0, 1})));
  HeatMap named = map(2, 2, {1, 2, 3, 4});
  named.row_labels = {std::string(300, 'W'), ""};
  named.col_labels = {"a, \"quoted\"\nlabel", "b", "one too many"};
  out.push_back(bare("long-labels", named));
}

}  // namespace

std::vector<Figure> awkward_figures() {
  std::vector<Figure> out(1);
  add_awkward_lines(out);
  add_awkward_dots(out);
  add_awkward_bars(out);
  add_awkward_maps(out);
  const std::size_t plain = out.size();
  for (std::size_t i = 0; i < plain; ++i) {
    for (const Scale scale : {Scale::log, Scale::symlog}) {
      out.push_back(out[i]);
      out.back().x.scale = out.back().y.scale = scale;
      out.back().reference_lines = {{.at = 0, .label = "zero"}, {Orientation::vertical, NAN, "nowhere"}};
      out.back().events = {{INFINITY, "never"}, {1, std::string(400, 'm')}};
      out.back().text_labels = {{1, 1, "here"}, {NAN, 1, "nowhere"}};
    }
  }
  return out;
}

Figure million_point_figure() {
  Figure figure = titled("million", "A million points", "100 spikes");
  figure.x = {.label = "step", .integer_ticks = true};
  figure.y = {.label = "loss"};
  Noise noise;
  std::vector<double> x, y;
  for (int i = 0; i < 1000000; ++i) {
    x.push_back(i);
    y.push_back(i % 10000 == 5000 ? 9 : 1 + noise.next());
  }
  figure.series.push_back(Line{.name = "loss", .curve = {std::move(x), std::move(y), {}}});
  return figure;
}

}  // namespace afterglow
