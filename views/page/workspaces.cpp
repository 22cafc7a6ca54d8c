// The workspaces, and which of them can show a model.
#include <algorithm>
#include <stdexcept>

#include "views/page/page.h"

namespace afterglow {

namespace {

/// The layouts, without the plots that name their workspace themselves.
std::vector<Workspace> layouts() {
  return {
      {"koopman",
       "Koopman",
       {{1.15, {{"training", 1.25}, {"spectrum", 1.1, "state_spectrum"}, {"power_filter", 0.9, "gate"}}},
        {1, {{"stepper", 1.8}, {"conditioning", 0.95, "state_growth"}, {"token_weights", 1.05}}}},
       LayerTrait::koopman_heads | LayerTrait::koopman_modes,
       false},
      {"training", "Training", {{1.9, {{"training"}}}, {1, {{"accuracy_grid", 1.5}, {"gradient_depth"}, {"blame"}}}}},
      {"probe",
       "Sequence",
       {{1.25, {{"probe", 1.5}, {"spectrum", 1, "state_spectrum"}}},
        {1, {{"power_filter", 1, "half_lives"}, {"token_weights"}, {"training"}}}}},
      {"causes",
       "Causes",
       {{1.45, {{"patch", 1.9}, {"transplant"}}}, {1, {{"readout"}, {"logit_lens"}, {"ablation"}}}}},
      {"why",
       "Why it learns",
       {{1.5, {{"forces", 1.2, "training"}, {"microscope"}}}, {1, {{"bisect", 1.2}, {"over_training", 1}}}}},
      {"theory",
       "Theory",
       {{1, {{"perturbation", 1.6, "state_spectrum"}, {"query_jacobian", 0.8}, {"gradient_depth", 0.8}}},
        {1, {{"filter_theory", 2, "gate"}, {"linear_gap", 0.9}, {"state_size", 0.8, "state_growth"}}}},
       LayerTrait::koopman_heads,
       false},
      {"stepper",
       "Stepper",
       {{1.3, {{"stepper"}}}, {1, {{"conditioning", 1, "state_growth"}, {"token_spectrum", 1.3, "state_spectrum"}}}}},
      {"solvers",
       "Solvers",
       {{1.25, {{"solver_race", 2.1, "state_spectrum"}, {"conditioning", 1, "state_growth"}}},
        {1, {{"gradient_check", 1.2}, {"kalman_filter", 1.6}, {"gate"}}}},
       LayerTrait::ridge_systems,
       false},
      {"influence",
       "Influence",
       {{1.5, {{"influence"}, {"race", 1.45}}},
        {1, {{"routing", 1.5}, {"position_code", 0.75}, {"deep_profiles", 0.75}}}},
       LayerTrait::feedback},
      {"retrieval", "Retrieval", {{1.6, {{"selective_retrieval"}}}, {1, {{"deep_profiles"}, {"position_code"}}}}},
      {"memory",
       "Training path",
       {{1, {{"trajectory", 1.3}, {"kl_spectrum"}, {"memory_inspector", 1.5}}},
        {1, {{"temporal_modes", 0.9}, {"forecast", 1.2}}}},
       LayerTrait::training_memory | LayerTrait::series},
      {"phase_map", "Phase map", {{1, {{"phase_map"}}}}},
      {"costs", "Cost", {{1, {{"costs"}}}}},
  };
}

std::vector<Workspace> with_joining_plots(std::vector<Workspace> all) {
  for (const PlotKind& kind : plot_kinds()) {
    if (kind.workspace.empty()) continue;
    std::ranges::find(all, kind.workspace, &Workspace::id)->rows.back().panels.push_back({kind.id});
  }
  return all;
}

}  // namespace

std::span<const Workspace> workspaces() {
  static const std::vector<Workspace> list = with_joining_plots(layouts());
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
    WorkspaceRow fitting{row.share, {}};
    for (const WorkspacePanel& panel : row.panels) {
      if (fits_panel(panel.id, model)) {
        fitting.panels.push_back(panel);
      } else if (fits_panel(panel.otherwise, model)) {
        fitting.panels.push_back({panel.otherwise, panel.share});
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
  if (model.layers.empty() || model.name == state.followed_model) return;
  const bool is_first = state.followed_model.empty();
  state.followed_model = model.name;
  state.panel_page = 0;
  const auto is_about = [&](const Workspace& workspace) {
    return std::ranges::any_of(model.layers,
                               [&](const LayerSummary& layer) { return shows(layer.kind, workspace.about); });
  };
  const Workspace& present = present_workspace(state);
  if ((is_first && state.workspace_is_chosen) || is_about(present)) return;
  const bool has_curves = is_trained || present.id != "training";
  if (present.shows_others && why_not(present, model).empty() && has_curves) return;
  const auto home = std::ranges::find_if(workspaces(), is_about);
  const auto most = std::ranges::max_element(workspaces(), {}, [&](const Workspace& workspace) {
    return workspace.shows_others ? fitting_layers(workspace, model) : 0;
  });
  state.workspace = home != workspaces().end() ? home->id : is_trained ? "training" : most->id;
}

}  // namespace afterglow
