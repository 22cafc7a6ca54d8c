// The view of a figure (zoom, hidden curves, page), which its file stores with the recipe and opening the file
// restores.

#include "app/window/commands/window_commands.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "views/page/page.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

const std::string the_view = "the value of view";
const std::vector<std::string> scales{"linear", "log", "symlog"};  // in the order of Scale

json pair_of(const Range& range) { return json::array({range.low, range.high}); }

std::optional<Range> range_in(const json& view, const char* key) {
  if (!view.contains(key)) return std::nullopt;
  const json& pair = view[key];
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number())
    throw BadInput(the_view + "." + key + ": expected two numbers, got " + pair.dump().substr(0, 40));
  return Range{pair[0].get<double>(), pair[1].get<double>()};
}

std::optional<Scale> scale_in(const json& view, const char* key) {
  if (!view.contains(key)) return std::nullopt;
  return get_enum(view, key, scales, Scale::linear, the_view);
}

void zoom_to(PlotState& plot, const json& view) {
  plot.x = range_in(view, "x");
  plot.y = range_in(view, "y");
  plot.x_scale = scale_in(view, "x_scale");
  plot.y_scale = scale_in(view, "y_scale");
  plot.hidden.clear();
  for (const json& name : view.value("hidden", json::array())) {
    if (name.is_string()) plot.hidden.insert(name.get<std::string>());
  }
}

void add_zoom(json& view, const PlotState& plot) {
  if (plot.x) view["x"] = pair_of(*plot.x);
  if (plot.y) view["y"] = pair_of(*plot.y);
  if (plot.x_scale) view["x_scale"] = scales.at(static_cast<std::size_t>(*plot.x_scale));
  if (plot.y_scale) view["y_scale"] = scales.at(static_cast<std::size_t>(*plot.y_scale));
  if (!plot.hidden.empty()) view["hidden"] = plot.hidden;
}

}  // namespace

std::string recipe_with_view(const Figure& figure, const PageState& page) {
  if (figure.recipe.empty()) return "";
  json recipe = json::parse(figure.recipe);
  json& view = recipe["view"];
  const std::string panel = view.at("panel").get<std::string>();
  if (page.workspace != home_of(panel).id) view["page"] = page.workspace;
  if (page.maximised == panel) view["enlarged"] = true;
  const auto shown = page.shown_figure.find(panel);
  if (shown != page.shown_figure.end() && shown->second >= 0) view["figure"] = shown->second;
  if (const auto plot = page.plots.find(figure.id); plot != page.plots.end()) add_zoom(view, plot->second);
  return recipe.dump();
}

void run_view(CommandContext& context, const json& view) {
  refuse_unknown_keys(
      view, {"page", "panel", "plot", "selection", "enlarged", "figure", "x", "y", "x_scale", "y_scale", "hidden"},
      the_view);
  const std::string panel = get_string(view, "panel", std::nullopt, the_view),
                    plot = get_string(view, "plot", "", the_view);
  if (!find_panel(panel)) throw BadInput("there is no panel \"" + panel + "\"");
  PageState& page = context.page;
  PlotState zoomed;
  zoom_to(zoomed, view);  // rejects invalid values before anything changes
  if (!plot.empty()) zoom_to(page.plots[plot], view);
  run_window_command(context,
                     {"workspace", {{"name", get_string(view, "page", std::string(home_of(panel).id), the_view)}}});
  page.maximised = get_bool(view, "enlarged", false, the_view) ? panel : "";
  page.shown_figure[panel] = static_cast<int>(get_integer(view, "figure", -1, -1, 63, the_view));
  page.focus.panel = panel;
  page.focus.plot = plot;
  page.selection = Selection{};
  run_window_command(context, {"select", view.value("selection", json::object())});
  if (page.selection.layer >= 0) context.engine.send("trace", {{"layer", page.selection.layer}});
}

}  // namespace afterglow
