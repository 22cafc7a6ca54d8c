// Ctrl+E: the plot as it is looked at, into SVG, PDF, PNG and CSV, on light ground.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/window/commands/window_commands.h"
#include "core/figure/files/figure_files.h"
#include "core/io/error.h"
#include "views/page/page.h"
#include "views/panel.h"

namespace afterglow {

namespace {

using nlohmann::json;

std::vector<FigureFormat> formats_of(const json& value) {
  std::vector<FigureFormat> formats;
  for (const json& name : value.value("formats", json::array({"svg", "pdf", "png", "csv"}))) {
    const auto format = format_of(name.get<std::string>());
    if (!format)
      throw Error(ExitCode::bad_input,
                  "there is no format \"" + name.get<std::string>() + "\"; there are svg, pdf, png and csv");
    formats.push_back(*format);
  }
  return formats;
}

SizePreset preset_of(const json& value) {
  const std::string name = value.value("size", "column");
  return name == "slide" ? SizePreset::slide : name == "page" ? SizePreset::two_columns : SizePreset::one_column;
}

/// What lies beyond the present step after a rewind is no part of the moment that a file brings back.
std::shared_ptr<const Observation> without_ahead(const std::shared_ptr<const Observation>& observation) {
  if (!observation->ahead) return observation;
  auto moment = std::make_shared<Observation>(*observation);
  moment->ahead.reset();
  return moment;
}

/// The first figure of a panel is what stands for it; {"all": true} means every figure of every panel that has one.
std::vector<Figure> wanted_figures(CommandContext& context, const json& value) {
  const bool all = value.value("all", false);
  std::string panel = value.value("panel", "");
  std::string plot = value.value("plot", panel.empty() ? context.page.hovered_plot : "");
  if (panel.empty() && plot.empty())
    panel = context.page.hovered_panel.empty() ? context.page.maximised : context.page.hovered_panel;
  const std::shared_ptr<const Observation> observation = without_ahead(context.observation);
  std::vector<Figure> found;
  for (const Panel& candidate : panels()) {
    const auto& figures = context.figures.figures(*candidate.kind, observation, context.page.selection);
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const bool is_named = plot.empty() ? candidate.kind->id == panel && i == 0 : figures[i].id == plot;
      if (all || is_named) found.push_back(figures[i]);
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

}  // namespace

void run_export(CommandContext& context, const Command& command) {
  const json value = json::parse(command.value);
  const std::vector<Figure> figures = wanted_figures(context, value);
  if (figures.empty()) {
    add_note(context.page, Severity::info, "Put the mouse over the plot that Ctrl+E should write.", context.time);
    return;
  }
  for (Figure figure : figures) {
    std::filesystem::path path = value.value("path", "");
    if (path.empty()) {
      path = std::filesystem::path(context.actions.export_folder) /
             (figure.id + "_seed" + std::to_string(context.observation->seed) + "_step" +
              std::to_string(context.observation->step));
    }
    if (!path.has_extension()) path += ".svg";
    std::error_code error;
    std::filesystem::create_directories(path.parent_path().empty() ? "." : path.parent_path(), error);
    figure.recipe = recipe_with_view(figure, context.page);
    WriteOptions options;
    options.view = view_of(context.page.plots[figure.id], 12);
    const auto files = write_figure(figure, path, formats_of(value), preset_of(value), options);
    if (!files.empty()) add_note(context.page, Severity::info, written_text(files), context.time);
  }
}

}  // namespace afterglow
