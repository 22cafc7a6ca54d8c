// Ctrl+E: writes the plot with its zoom as SVG, PDF, PNG and CSV, on a light ground.
#include <algorithm>
#include <filesystem>

#include "app/window/commands/window_commands.h"
#include "core/engine/observation/run_numbers.h"
#include "core/figure/files/figure_files.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/number_text.h"
#include "views/panels/panel.h"
#include "views/plots/file_stem.h"
#include "views/plots/report_page.h"

namespace afterglow {
namespace {

std::vector<FigureFormat> formats_of(const json& value) {
  std::vector<FigureFormat> formats;
  for (const json& name : value.value("formats", json::array({"svg", "pdf", "png", "csv"}))) {
    const auto format = name.is_string() ? format_of(name.get<std::string>()) : std::nullopt;
    if (!format) throw BadInput("there is no format " + name.dump() + "; there are svg, pdf, png and csv");
    formats.push_back(*format);
  }
  return formats;
}

/// Curves after the present step, which a rewind leaves, do not belong to the moment that the file restores.
std::shared_ptr<const Observation> without_ahead(const std::shared_ptr<const Observation>& observation) {
  if (!observation->ahead) return observation;
  auto moment = std::make_shared<Observation>(*observation);
  moment->ahead.reset();
  return moment;
}

/// {"all": true}: every figure on the page. Otherwise the first figure of a panel, or the plot that is named or under
/// the mouse.
std::vector<Figure> wanted_figures(CommandContext& context, const json& value) {
  const bool all = value.value("all", false);
  std::string panel = value.value("panel", "");
  std::string plot = value.value("plot", panel.empty() ? context.page.pointer.plot : "");
  if (panel.empty() && plot.empty())
    panel = context.page.pointer.panel.empty() ? context.page.maximised : context.page.pointer.panel;
  const auto is_shown = [&](const Figure& figure) {
    return std::ranges::find(context.page.drawn.plots, figure.id, &ShownPlot::plot) != context.page.drawn.plots.end();
  };
  const std::shared_ptr<const Observation> observation = without_ahead(context.observation);
  std::vector<Figure> found;
  for (const Panel& candidate : panels()) {
    const auto& figures = context.figures.figures(*candidate.kind, observation, context.page.selection);
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const bool is_named = plot.empty() ? candidate.kind->id == panel && i == 0 : figures[i].id == plot;
      if (all ? is_shown(figures[i]) : is_named) found.push_back(figures[i]);
    }
  }
  return found;
}

/// "a.svg, .pdf and .csv in /home/ada"
std::string written_text(const std::vector<std::filesystem::path>& files) {
  std::string text = files.front().filename().string();
  for (std::size_t i = 1; i < files.size(); ++i)
    text += (i + 1 == files.size() ? " and " : ", ") + files[i].extension().string();
  std::error_code error;
  const auto folder = std::filesystem::absolute(files.front(), error).parent_path();
  return text + " written to " + folder.string();
}

/// Whether the page has just said what a command without a path writes; otherwise says it.
bool is_said(CommandContext& context, const std::string& words) {
  constexpr double patience = 20;  // seconds between what is said and the same command again
  if (context.page.export_said.text == words && context.time - context.page.export_said.at <= patience)
    return !std::exchange(context.page.export_said.text, {}).empty();
  context.page.export_said.text = words;
  context.page.export_said.at = context.time;
  add_note(context.page, Severity::info, words, context.time);
  return false;
}

}  // namespace

void run_export(CommandContext& context, const json& value) {
  const bool all = value.value("all", false);
  const std::vector<Figure> figures = wanted_figures(context, value);
  if (figures.empty()) {
    add_note(context.page, Severity::info,
             all ? "This page shows no plot." : "Point the mouse at the plot that Ctrl+E should write.", context.time);
    return;
  }
  const std::string moment =
      "_seed" + std::to_string(context.observation->seed) + "_step" + std::to_string(context.observation->step);
  const std::filesystem::path place = value.value("path", ""), usual = context.actions.export_folder;
  const std::filesystem::path folder = place.empty() ? free_path(usual / (context.page.workspace + moment)) : place;
  if (all && value.value("ask", false) &&
      !is_said(context, "Ctrl Shift E again writes " + std::to_string(figures.size()) +
                            (figures.size() == 1 ? " plot" : " plots") + " of this page as " +
                            std::to_string(figures.size() * formats_of(value).size()) + " files into " +
                            std::filesystem::absolute(folder).string() + "."))
    return;
  const std::string name = value.value("size", "column");
  const SizePreset size = name == "slide"  ? SizePreset::slide
                          : name == "page" ? SizePreset::two_columns
                                           : SizePreset::one_column;
  std::size_t written = 0;
  for (Figure figure : figures) {
    // Its texts are the session's, which may be elsewhere.
    const std::string stem = file_name_of(file_stem(figure.id, context.observation->model));
    std::filesystem::path path = all ? folder / stem : place.empty() ? usual / (stem + moment) : place;
    if (all || !path.has_extension()) path += ".svg";
    std::error_code error;
    std::filesystem::create_directories(path.parent_path().empty() ? "." : path.parent_path(), error);
    figure.recipe = recipe_with_view(figure, context.page);
    WriteOptions options{.view = view_of(context.page.plots[figure.id], 12)};
    const auto files = write_figure(figure, path, formats_of(value), size, options);
    written += files.size();
    if (!all) add_note(context.page, Severity::info, written_text(files), context.time);
  }
  if (all)
    add_note(context.page, Severity::info,
             std::to_string(figures.size()) + " figures, " + std::to_string(written) + " files in " + folder.string(),
             context.time);
}

void run_report(CommandContext& context, const json& value) {
  const std::string where = "the command's value";
  refuse_unknown_keys(value, {"path", "states"}, where);
  const Observation& o = *context.observation;
  if (o.model.layers.empty() || (o.folder && o.folder->states.empty()))
    throw BadInput("there is no model to report on");
  const std::int64_t count = get_integer(value, "states", 21, 1, 1000, where);
  const std::string place = get_string(value, "path", "", where);
  const auto usual = std::filesystem::path(context.actions.export_folder) /
                     (name_word(o.folder ? o.folder->name : o.preset) + "_report.html");
  ReportTour tour{ReportPage({}, o.model),
                  spread_steps(o.oldest_step, std::max(o.step, o.latest_step), count, o.folder.get()),
                  place.empty() ? free_path(usual).string() : place,
                  o.step,
                  o.running,
                  context.time};
  if (context.actions.begin_report) context.actions.begin_report(std::move(tour));
}

}  // namespace afterglow
