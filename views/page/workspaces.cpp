// The workspaces, and which of them can show a model.
#include <algorithm>
#include <map>
#include <stdexcept>

#include "core/io/json.h"
#include "views/page/page.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

std::string_view text_of(const json& text) { return text.get_ref<const std::string&>(); }

/// [id, share of the width, id of the replacement, "below"]; all but the first may be missing.
WorkspacePanel panel_of(const json& one) {
  return {text_of(one[0]), one.size() > 1 ? one[1].get<double>() : 1,
          one.size() > 2 ? text_of(one[2]) : std::string_view(), one.size() > 3};
}

Workspace page_of(const json& page) {
  static const std::map<std::string_view, LayerTrait> traits{
      {"koopman_heads", LayerTrait::koopman_heads},     {"koopman_modes", LayerTrait::koopman_modes},
      {"ridge_systems", LayerTrait::ridge_systems},     {"feedback", LayerTrait::feedback},
      {"training_memory", LayerTrait::training_memory}, {"series", LayerTrait::series}};
  Workspace made{text_of(page["id"]), text_of(page["group"]), text_of(page["title"]), text_of(page["question"])};
  for (const json& row : page["rows"]) {
    made.rows.push_back({row[0].get<double>(), {}});
    for (std::size_t i = 1; i < row.size(); ++i) made.rows.back().panels.push_back(panel_of(row[i]));
  }
  if (const auto strip = page.find("strip"); strip != page.end()) {
    made.rows.push_back({0.7, {}, true});
    for (const json& one : *strip) made.rows.back().panels.push_back(panel_of(one));
  }
  for (const json& trait : page.value("about", json::array())) made.about = made.about | traits.at(text_of(trait));
  made.shows_others = page.value("shows_others", true);
  return made;
}

}  // namespace

std::span<const Workspace> workspaces() {
  static const json texts = json::parse(page_texts()[1].json);
  static const std::vector<Workspace> list = [] {
    std::vector<Workspace> all;
    for (const json& page : texts["pages"]) all.push_back(page_of(page));
    return all;
  }();
  return list;
}

const Workspace& present_workspace(const PageState& state) {
  const auto found = std::ranges::find(workspaces(), std::string_view(state.workspace), &Workspace::id);
  return found == workspaces().end() ? workspaces().front() : *found;
}

const Workspace& home_of(std::string_view plot) {
  const auto named_like_it = std::ranges::find(workspaces(), plot, &Workspace::id);
  if (named_like_it != workspaces().end()) return *named_like_it;
  const auto names_it = [&](const WorkspaceRow& row) {
    return std::ranges::any_of(
        row.panels, [&](const WorkspacePanel& panel) { return panel.id == plot || panel.otherwise == plot; });
  };
  for (const Workspace& workspace : workspaces()) {
    if (std::ranges::any_of(workspace.rows, names_it)) return workspace;
  }
  throw std::out_of_range("no workspace shows the plot " + std::string(plot));
}

namespace {

bool fits_panel(std::string_view id, const ModelSummary& model) {
  const PlotKind* kind = find_plot_kind(id);
  return kind && fits(*kind, model);
}

/// A panel that can show every model counts only on its own page.
bool is_of(std::string_view panel, const Workspace& workspace) {
  return find_plot_kind(panel)->needs != LayerTraits() || home_of(panel).id == workspace.id;
}

/// The panels that the workspace shows of a model that fits everything.
std::vector<std::string_view> own_panels(const Workspace& workspace) {
  std::vector<std::string_view> own;
  for (const WorkspaceRow& row : workspace.rows) {
    for (const WorkspacePanel& panel : row.panels) {
      if (is_of(panel.id, workspace)) own.push_back(panel.id);
    }
  }
  return own;
}

}  // namespace

std::vector<WorkspaceRow> fitting_rows(const Workspace& workspace, const ModelSummary& model) {
  std::vector<WorkspaceRow> rows;
  for (const WorkspaceRow& row : workspace.rows) {
    WorkspaceRow fitting{row.share, {}, row.is_strip};
    for (const WorkspacePanel& panel : row.panels) {
      if (fits_panel(panel.id, model)) {
        fitting.panels.push_back(panel);
      } else if (fits_panel(panel.otherwise, model)) {
        fitting.panels.push_back({panel.otherwise, panel.share, {}, panel.is_below});
      }
    }
    if (!fitting.panels.empty()) rows.push_back(std::move(fitting));
  }
  return rows;
}

std::vector<std::string_view> missing_panels(const Workspace& workspace, const ModelSummary& model) {
  std::vector<std::string_view> missing;
  for (const WorkspaceRow& row : workspace.rows) {
    for (const WorkspacePanel& panel : row.panels) {
      if (!fits_panel(panel.id, model) && !fits_panel(panel.otherwise, model)) missing.push_back(panel.id);
    }
  }
  return missing;
}

std::string why_not(const Workspace& workspace, const ModelSummary& model) {
  for (const WorkspaceRow& row : fitting_rows(workspace, model)) {
    if (std::ranges::any_of(row.panels, [&](const WorkspacePanel& panel) { return is_of(panel.id, workspace); }))
      return "";
  }
  return why_not(*find_plot_kind(own_panels(workspace).front()));
}

const Preset* preset_for(const Workspace& workspace) {
  return first_preset_that_shows(find_plot_kind(own_panels(workspace).front())->needs);
}

namespace {

/// The number of its panels about layers of the model.
std::size_t fitting_layers(const Workspace& workspace, const ModelSummary& model) {
  std::size_t count = 0;
  for (const WorkspaceRow& row : fitting_rows(workspace, model)) {
    count += static_cast<std::size_t>(std::ranges::count_if(
        row.panels, [](const WorkspacePanel& panel) { return find_plot_kind(panel.id)->needs != LayerTraits(); }));
  }
  return count;
}

}  // namespace

void follow_model(PageState& state, const ModelSummary& model, bool is_trained) {
  if (model.layers.empty() || model.name == state.opened.model) return;
  const bool is_first = state.opened.model.empty();
  state.opened.model = model.name;
  const auto is_about = [&](const Workspace& workspace) {
    return std::ranges::any_of(model.layers,
                               [&](const LayerSummary& layer) { return shows(layer.kind, workspace.about); });
  };
  const Workspace& present = present_workspace(state);
  if ((is_first && state.opened.workspace_is_chosen) || is_about(present)) return;
  const bool has_curves = is_trained || present.id != "training";
  if (present.shows_others && why_not(present, model).empty() && has_curves) return;
  const auto home = std::ranges::find_if(workspaces(), is_about);
  const auto most = std::ranges::max_element(workspaces(), {}, [&](const Workspace& workspace) {
    return workspace.shows_others ? fitting_layers(workspace, model) : 0;
  });
  const bool fades = fits_panel("half_lives", model);  // the map of all its heads, for the price of one sequence
  const std::string_view opened = is_trained ? "training" : fades ? home_of("half_lives").id : most->id;
  state.workspace = home != workspaces().end() ? home->id : opened;
}

}  // namespace afterglow
