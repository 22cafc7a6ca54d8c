// Panels in rows with splitters between them, or one panel alone.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "views/page/page.h"
#include "views/panel.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double gap_units = 8;
constexpr double min_share = 0.12;
constexpr double min_panel_width = 230, min_panel_height = 170;  ///< layout units

/// How many parts of a row or column get at least this much room; one always does.
std::size_t parts_that_fit(std::size_t parts, double room, double least) {
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(0.0, room / least)), 1, parts);
}

/// The shares of a row or column of parts: those that were set by hand, or the usual ones; they sum to 1.
std::vector<double> shares_of(const PageState& state, const std::string& name, std::vector<double> usual) {
  const auto kept = state.splits.find(name);
  if (kept != state.splits.end() && kept->second.size() == usual.size() &&
      std::all_of(kept->second.begin(), kept->second.end(), [](double s) { return s >= min_share / 2 && s <= 1; })) {
    usual = kept->second;
  }
  const double total = std::accumulate(usual.begin(), usual.end(), 0.0);
  for (double& share : usual) share /= total;
  return usual;
}

/// Dragging the gap between parts i and i + 1 moves room from one to the other; double click evens out again.
void draw_splitter(Frame& frame, const std::string& name, const Rect& gap, bool is_vertical, std::vector<double> shares,
                   std::size_t i, double length) {
  const Press press = press_area((name + std::to_string(i)).c_str(), gap);
  if (press.hovered || press.held) {
    ImGui::SetMouseCursor(is_vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
    FigureCanvas canvas = frame.look.canvas();
    const double thick = frame.px(2);
    const Rect bar =
        is_vertical ? Rect{gap.x + gap.width / 2 - thick / 2, gap.y + frame.px(8), thick, gap.height - frame.px(16)}
                    : Rect{gap.x + frame.px(8), gap.y + gap.height / 2 - thick / 2, gap.width - frame.px(16), thick};
    canvas.fill_rect(bar, thick / 2, press.held ? frame.look.theme->accent : frame.look.theme->hairline);
  }
  if (press.double_clicked) {
    frame.state.splits.erase(name);
  } else if (press.held && !press.started && length > 0) {
    const ImVec2 moved = ImGui::GetIO().MouseDelta;
    const double wanted = static_cast<double>(is_vertical ? moved.x : moved.y) / length;
    const double change =
        std::clamp(wanted, std::min(0.0, min_share - shares[i]), std::max(0.0, shares[i + 1] - min_share));
    if (change != 0) {
      shares[i] += change;
      shares[i + 1] -= change;
      frame.state.splits[name] = shares;
    }
  }
}

void draw_row(Frame& frame, const WorkspaceRow& row, const std::string& name, const Rect& area) {
  std::vector<double> usual;
  for (const auto& [id, share] : row.panels) usual.push_back(share);
  usual.resize(parts_that_fit(usual.size(), area.width, frame.px(min_panel_width)));
  const std::vector<double> shares = shares_of(frame.state, name, usual);
  const double gap = std::round(frame.px(gap_units));
  const double room = area.width - gap * static_cast<double>(shares.size() - 1);
  double x = area.x;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double width = i + 1 == shares.size() ? area.right() - x : std::round(room * shares[i]);
    if (const Panel* panel = find_panel(row.panels[i].first))
      draw_panel(frame, *panel, {x, area.y, width, area.height});
    x += width;
    if (i + 1 < shares.size()) draw_splitter(frame, name, {x, area.y, gap, area.height}, true, shares, i, room);
    x += gap;
  }
}

/// Moves room from the neighbour of part i to it, as far as both keep the least share.
void give_share(PageState& state, const std::string& name, std::vector<double> shares, std::size_t i, double change) {
  if (shares.size() < 2 || change == 0) return;
  const std::size_t neighbour = i + 1 < shares.size() ? i + 1 : i - 1;
  change = std::clamp(change, std::min(0.0, min_share - shares[i]), std::max(0.0, shares[neighbour] - min_share));
  shares[i] += change;
  shares[neighbour] -= change;
  state.splits[name] = shares;
}

const Workspace& present_workspace(const PageState& state) {
  for (const Workspace& workspace : workspaces()) {
    if (state.workspace == workspace.id) return workspace;
  }
  return workspaces().front();
}

}  // namespace

void resize_panel(PageState& state, std::string_view panel, double width, double height) {
  const Workspace& workspace = present_workspace(state);
  // Only parts that are there take part: a small window leaves some out.
  const auto is_shown = [&](std::string_view id) {
    return std::any_of(state.shown_panels.begin(), state.shown_panels.end(),
                       [&](const ShownPanel& shown) { return shown.panel == id; });
  };
  std::vector<double> rows;
  for (const WorkspaceRow& row : workspace.rows) {
    if (is_shown(row.panels.front().first)) rows.push_back(row.share);
  }
  const std::string name(workspace.id);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<double> columns;
    std::size_t place = workspace.rows[r].panels.size();
    for (const auto& [id, share] : workspace.rows[r].panels) {
      if (id == panel && is_shown(id)) place = columns.size();
      if (is_shown(id)) columns.push_back(share);
    }
    if (place >= columns.size()) continue;
    const std::string row_name = name + "/" + std::to_string(r);
    give_share(state, row_name, shares_of(state, row_name, columns), place, width);
    give_share(state, name + "/rows", shares_of(state, name + "/rows", rows), r, height);
  }
}

std::span<const Workspace> workspaces() {
  static const std::vector<Workspace> list{
      {"koopman",
       "Koopman",
       {{1.15, {{"training", 1.25}, {"spectrum", 1.1}, {"power_filter", 0.9}}},
        {1, {{"stepper", 1.8}, {"conditioning", 0.95}, {"token_weights", 1.05}}}},
       LayerTrait::koopman_heads | LayerTrait::koopman_modes,
       false},
      {"training", "Training", {{1.9, {{"training", 1}}}, {1, {{"gradient_depth", 1}}}}},
      {"probe",
       "Probe",
       {{1.25, {{"probe", 1.5}, {"spectrum", 1}}}, {1, {{"power_filter", 1}, {"token_weights", 1}, {"training", 1}}}}},
      {"theory",
       "Theory",
       {{1, {{"perturbation", 1.6}, {"query_jacobian", 0.8}, {"gradient_depth", 0.8}}},
        {1, {{"filter_theory", 2}, {"linear_gap", 0.9}, {"memory", 0.8}}}},
       LayerTrait::koopman_heads,
       false},
      {"stepper", "Stepper", {{1.3, {{"stepper", 1}}}, {1, {{"conditioning", 1}, {"spectrum", 1}}}}},
      {"solvers",
       "Solvers",
       {{1.25, {{"solver_race", 2.1}, {"conditioning", 1}}}, {1, {{"gradient_check", 1.6}, {"gate", 1}}}},
       LayerTrait::ridge_systems,
       false},
      {"influence",
       "Influence",
       {{1.5, {{"influence", 1}, {"race", 1.45}}},
        {1, {{"routing", 1.5}, {"position_code", 0.75}, {"deep_profiles", 0.75}}}},
       LayerTrait::feedback},
      {"memory",
       "Memory",
       {{1, {{"trajectory", 1.3}, {"kl_spectrum", 1}}},
        {1, {{"temporal_modes", 0.9}, {"forecast", 1.2}, {"memory_tokens", 1}}}},
       LayerTrait::training_memory | LayerTrait::series},
  };
  return list;
}

void follow_model(PageState& state, const ModelSummary& model) {
  if (model.layers.empty() || model.name == state.followed_model) return;
  const bool is_first = state.followed_model.empty();
  state.followed_model = model.name;
  const auto is_about = [&](const Workspace& workspace) {
    return std::ranges::any_of(model.layers,
                               [&](const LayerSummary& layer) { return shows(layer.kind, workspace.about); });
  };
  const Workspace& present = present_workspace(state);
  if ((is_first && state.workspace_is_chosen) || present.shows_others || is_about(present)) return;
  const auto home = std::ranges::find_if(workspaces(), is_about);
  state.workspace = home == workspaces().end() ? "training" : home->id;
}

void draw_workspace(Frame& frame, const Rect& area) {
  const double gap = std::round(frame.px(gap_units));
  const Rect inside{area.x + gap, area.y + gap, area.width - 2 * gap, area.height - 2 * gap};
  if (inside.width < 20 || inside.height < 20) return;
  if (const Panel* alone = find_panel(frame.state.maximised)) {
    draw_panel(frame, *alone, inside);
    return;
  }
  const Workspace* workspace = &present_workspace(frame.state);
  const std::string name(workspace->id);
  std::vector<double> usual;
  for (const WorkspaceRow& row : workspace->rows) usual.push_back(row.share);
  usual.resize(parts_that_fit(usual.size(), inside.height, frame.px(min_panel_height)));
  const std::vector<double> shares = shares_of(frame.state, name + "/rows", usual);
  const double room = inside.height - gap * static_cast<double>(shares.size() - 1);
  double y = inside.y;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double height = i + 1 == shares.size() ? inside.bottom() - y : std::round(room * shares[i]);
    draw_row(frame, workspace->rows[i], name + "/" + std::to_string(i), {inside.x, y, inside.width, height});
    y += height;
    if (i + 1 < shares.size())
      draw_splitter(frame, name + "/rows", {inside.x, y, inside.width, gap}, false, shares, i, room);
    y += gap;
  }
}

}  // namespace afterglow
