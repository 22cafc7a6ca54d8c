// Draws the figures of a run with what the cursor reads, and fills in the page of assets/report.
#include "views/plots/report_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/engine/observation/run_numbers.h"
#include "core/figure/axis.h"
#include "core/figure/decimate.h"
#include "core/figure/files/page.h"
#include "core/figure/files/xml_text.h"
#include "core/io/embedded_text.h"
#include "core/io/named.h"
#include "core/recipe/recipe.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

std::span<const EmbeddedText> report_texts();  // the files of assets/report

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_figures = 6, max_of_plot = 2;  // unless the user names the plots
// Of a curve and of a map whose values the cursor reads.
constexpr std::size_t max_points = 300, max_cells = 1 << 14;

/// Four significant digits; null for a number that is not finite.
Json rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return std::isfinite(value) ? Json(0) : Json();
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  return unit < 1 ? std::round(value / unit) / std::round(1 / unit) : std::round(value / unit) * unit;
}

Json axis_json(const Axis& axis) {
  Json ticks = Json::array();
  for (const AxisTick& tick : axis.ticks) ticks.push_back({tick.at, tick.label});
  return {{"label", axis.label}, {"unit", axis.unit}, {"ticks", ticks}};
}

/// What the cursor reads: places on the page with their values, in groups of one name, and the cells of a map.
struct Readings {
  const FigureGeometry& geometry;
  Json groups = Json::array(), map{};

  void begin(const std::string& name) { groups.push_back({{"name", name}, {"points", Json::array()}}); }
  void add(double x, double y, double radius, const std::string& name = "") {
    const Point place = geometry.to_canvas(x, y);
    Json point = {rounded(place.x), rounded(place.y), radius, rounded(x), rounded(y)};
    if (!name.empty()) point.push_back(name);
    if (geometry.plot.contains(place)) groups.back()["points"].push_back(std::move(point));
  }
  void operator()(const Line& line) {
    const CurveView curve(line.curve);
    const std::size_t size = line.is_quiet ? 0 : curve.size(), stride = size / max_points + 1;
    begin(line.name);
    for (std::size_t i = 0; i < size; i = i + 1 == size ? size : std::min(i + stride, size - 1))
      add(curve.x(i), curve.y(i), 0);
  }
  void operator()(const Scatter& scatter) {
    begin(scatter.name);
    for (const ScatterPoint& point : scatter.points) add(point.x, point.y, point.radius, point.id);
  }
  void operator()(const Bars& bars) {
    begin(bars.name);
    for (const Bar& bar : bars.bars) add(bar.x, bar.value, 12);
  }
  void operator()(const HeatMap& heat) {
    const Point corner = geometry.to_canvas(-0.5, -0.5), end = geometry.to_canvas(heat.cols - 0.5, heat.rows - 0.5);
    map = {
        {"corners", {corner.x, corner.y, end.x, end.y}}, {"size", {heat.rows, heat.cols}}, {"name", heat.value.label}};
    map["rows"] = heat.row_labels;
    map["cols"] = heat.col_labels;
    map["cells"] = Json::array();
    const Values shown = heat.cells.first(heat.cells.size() > max_cells ? 0 : max_cells);
    for (const double value : shown.span()) map["cells"].push_back(rounded(value));
  }
};

bool is_over_training(const Figure& figure) { return figure.x.label == "step"; }

/// Of what another program logged these curves come first.
bool is_telling(const std::string& name) { return name.find("loss") != name.npos || name.find("acc") != name.npos; }

/// Pairs of name and text; what was not measured is left out.
Json numbers_at(const Observation& o) {
  const std::string share = o.measures.quality == "accuracy" ? "%" : "";
  const std::array<std::array<std::string, 3>, 5> shown{{{"held_out_accuracy", "held-out " + o.measures.quality, share},
                                                         {"loss", o.measures.loss, o.measures.loss_unit},
                                                         {"batch_accuracy", o.measures.quality + " in training", share},
                                                         {"half_life", "longest half-life", "tokens"},
                                                         {"kappa", "largest condition number", ""}}};
  Json rows = Json::array();
  const std::vector<NamedNumber> numbers = numbers_of(o);
  for (const auto& [name, label, unit] : shown) {
    const std::optional<Quantity> found = number_in(numbers, name);
    if (found && std::isfinite(found->number))
      rows.push_back({label, number_text((unit == "%" ? 100 : 1) * found->number, 3) + " " + unit});
  }
  std::vector<LoggedCurve> curves = o.folder ? o.folder->curves : std::vector<LoggedCurve>();
  std::ranges::stable_partition(curves, is_telling, &LoggedCurve::name);
  for (const LoggedCurve& curve : curves) {
    const auto after = std::ranges::upper_bound(curve.steps, static_cast<double>(o.step)) - curve.steps.begin();
    if (after > 0) rows.push_back({curve.name, number_text(curve.values[static_cast<std::size_t>(after) - 1])});
  }
  return rows;
}

/// The figures of the plots with their captions, those of the complex plane first.
std::vector<std::pair<Figure, std::string>> figures_of(const std::vector<const PlotKind*>& plots, bool is_all,
                                                       const Observation& observation) {
  std::vector<std::pair<Figure, std::string>> found;
  for (const PlotKind* kind : plots) {
    CurveStore curves;
    std::vector<Figure> figures = prepared_figures(*kind, observation, {}, curves);
    if (!is_all) std::erase_if(figures, [](const Figure& one) { return one.title == "epoch"; });  // it counts the steps
    if (!is_all) figures.resize(std::min(figures.size(), max_of_plot));
    for (Figure& figure : figures) {
      const std::string title = std::string(kind->title) + (figures.size() > 1 ? ": " + figure.title : "");
      found.emplace_back(std::move(figure), "<b>" + xml_escaped(title) + ".</b> " + xml_escaped(kind->about));
    }
  }
  std::ranges::stable_partition(found, [](const auto& one) { return one.first.equal_aspect; });
  if (!is_all) found.resize(std::min(found.size(), max_figures));
  return found;
}

std::string row_html(const std::string& name, const std::string& text) {
  return "<tr><td>" + xml_escaped(name) + "</td><td>" + xml_escaped(text) + "</td></tr>";
}

std::string recipe_rows(const Observation& o) {
  const std::string layers = joined(names_of(o.model.layers, &LayerSummary::label), ", ");
  std::string rows = row_html("layers", layers) + row_html("task", o.task);
  for (const Setting& setting : o.settings) {
    if (!is_layer_setting(setting.key))
      rows += row_html(setting.label, number_text(setting.value) + " " + setting.unit);
  }
  return rows + row_html("seed", std::to_string(o.seed)) + row_html("computed on", o.device);
}

/// Replaces every {{name}} of the page.
std::string filled(std::string_view page, const std::map<std::string, std::string>& parts) {
  std::string text;
  for (std::size_t at; (at = page.find("{{")) != std::string_view::npos;) {
    const std::size_t end = page.find("}}", at);
    text += page.substr(0, at);
    text += parts.at(std::string(page.substr(at + 2, end - at - 2)));
    page.remove_prefix(end + 2);
  }
  return text + std::string(page);
}

}  // namespace

nlohmann::ordered_json living_figure(const Figure& figure, const std::vector<std::int64_t>& steps) {
  constexpr double width_mm = 136, text_pt = 9;  // 12 pixels in a column of 516
  const PageSize column = page_size(SizePreset::one_column, figure);
  FigureGeometry geometry;
  const std::string svg =
      html_picture(figure, {width_mm, column.height_mm * width_mm / column.width_mm, text_pt, false}, &geometry);
  Readings readings{geometry};
  for (const Series& series : figure.series) std::visit(readings, series);
  Json cursors = Json::array();
  for (const std::int64_t step : steps) cursors.push_back(geometry.x.to_canvas(static_cast<double>(step)));
  const Rect& plot = geometry.plot;
  return {{"svg", svg},
          {"plot", {plot.x, plot.y, plot.width, plot.height}},
          {"x", axis_json(figure.x)},
          {"y", axis_json(figure.y)},
          {"groups", readings.groups},
          {"map", readings.map},
          {"cursors", is_over_training(figure) ? cursors : Json()}};
}

std::string living_page(const std::string& kind, std::map<std::string, std::string> parts, const Json& data) {
  for (const EmbeddedText& text : report_texts()) parts[text.name] = text.json;
  std::string& packed = parts["data"] = data.dump();
  for (std::size_t at = 0; (at = packed.find('<', at)) != std::string::npos;) packed.replace(at, 1, "\\u003c");
  parts["kind"] = kind;
  parts["body"] = filled(parts.at(kind + ".html"), parts);
  return filled(parts.at("frame.html"), parts);
}

ReportPage::ReportPage(std::vector<const PlotKind*> plots, const ModelSummary& model)
    : plots_(std::move(plots)), is_all_(!plots_.empty()) {
  for (const char* id : {"spectrum", "state_spectrum", "training", "ablation", "half_lives", "token_weights"}) {
    const PlotKind* const kind = find_plot_kind(id);
    if (!is_all_ && fits(*kind, model)) plots_.push_back(kind);
  }
}

AnalysisSet ReportPage::analyses() const {
  AnalysisSet analyses = set_of(Analysis::spectra);
  for (const PlotKind* kind : plots_) analyses |= analyses_for(kind->id);
  return analyses;
}

void ReportPage::record(const Observation& observation, bool is_last) {
  steps_.push_back(observation.step);
  numbers_.push_back(numbers_at(observation));
  for (const auto& [figure, caption] : figures_of(plots_, is_all_, observation)) {
    auto& moving = figures_[figure.id];
    moving["caption"] = caption;
    if (is_over_training(figure) && !is_last) continue;
    const Json state = living_figure(figure, steps_);
    do moving["states"].push_back(state);  // also for steps before the figure was there
    while (!is_over_training(figure) && moving["states"].size() < steps_.size());
  }
}

std::string ReportPage::html(const Observation& last, const std::string& program) const {
  const std::string name = last.folder ? last.folder->name : last.preset;
  const std::string word = name_word(name), file = word + "_recipe.json", step = grouped_number(last.step);
  Json data = {{"steps", steps_}, {"numbers", numbers_}, {"figures", Json::array()}, {"file", file}};
  if (!last.folder) data["recipe"] = Json::parse(last.recipe);
  std::map<std::string, std::string> parts;
  for (const auto& [id, moving] : figures_.items()) {
    if (!moving.contains("states")) continue;
    data["figures"].push_back(moving["states"]);
    parts["figures"] += "<figure><div class=\"picture\">" + moving["states"].back()["svg"].get<std::string>() +
                        "</div><figcaption>" + moving["caption"].get<std::string>() + "</figcaption></figure>\n";
  }
  parts["notes"] = last.notes.empty() ? "" : "<h2>Notes</h2>";
  for (const RunNote& note : last.notes)
    parts["notes"] += "<div class=\"note\" data-step=\"" + std::to_string(note.step) + "\"><small>step " +
                      grouped_number(note.step) + "</small>" + xml_escaped(note.text) + "</div>";
  for (const Json& row : numbers_.back()) parts["number_rows"] += row_html(row[0], row[1]);
  parts["title"] = xml_escaped("What " + name + " remembers");
  parts["lead"] = xml_escaped("A model of " + grouped_number(last.model.parameters) + " parameters after " + step +
                              " steps. " + last.title);
  parts["last"] = step;
  parts["recipe_rows"] = recipe_rows(last);
  parts["command"] = xml_escaped("afterglow report " + (last.folder ? name : file) + " --out " + word + ".html");
  parts["made"] = xml_escaped("The weights of step " + step + " have the checksum " + last.checksum + ". Made with " +
                              program + ".");
  return living_page("report", std::move(parts), data);
}

std::vector<std::int64_t> spread_steps(std::int64_t first, std::int64_t last, std::int64_t count,
                                       const FolderView* folder) {
  const std::int64_t most = folder ? std::ssize(folder->states) - 1 : last - first;
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::int64_t place = i == count ? most : (i - 1) * most / (count - 1);
    chosen.push_back(folder ? folder->states.at(static_cast<std::size_t>(place)) : first + place);
  }
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

}  // namespace afterglow
