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

/// The number of parts of at least this size that fit; at least one.
std::size_t parts_that_fit(double room, double least) { return static_cast<std::size_t>(std::max(1.0, room / least)); }

/// The shares of a row or column of parts: the user's, or the default ones; they sum to 1.
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

/// Dragging the gap between parts i and i + 1 moves room from one to the other; a double click makes them equal.
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
  for (const WorkspacePanel& panel : row.panels) usual.push_back(panel.share);
  const std::vector<double> shares = shares_of(frame.state, name, usual);
  ShownRow& shown = frame.state.shown_rows.emplace_back(ShownRow{name, shares, {}});
  for (const WorkspacePanel& panel : row.panels) shown.panels.emplace_back(panel.id);
  const double gap = std::round(frame.px(gap_units));
  const double room = area.width - gap * static_cast<double>(shares.size() - 1);
  double x = area.x;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double width = i + 1 == shares.size() ? area.right() - x : std::round(room * shares[i]);
    if (const Panel* panel = find_panel(row.panels[i].id)) draw_panel(frame, *panel, {x, area.y, width, area.height});
    x += width;
    if (i + 1 < shares.size()) draw_splitter(frame, name, {x, area.y, gap, area.height}, true, shares, i, room);
    x += gap;
  }
}

/// One page of rows, one below the other; `name` is that of their shares.
void draw_rows(Frame& frame, std::span<const WorkspaceRow> rows, const std::string& name, std::size_t first,
               const Rect& area) {
  const double gap = std::round(frame.px(gap_units));
  std::vector<double> usual;
  for (const WorkspaceRow& row : rows) usual.push_back(row.share);
  const std::string rows_name = name + "/rows" + (first == 0 ? "" : std::to_string(first));
  const std::vector<double> shares = shares_of(frame.state, rows_name, usual);
  frame.state.rows_name = rows_name;
  frame.state.row_shares = shares;
  const double room = area.height - gap * static_cast<double>(shares.size() - 1);
  double y = area.y;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double height = i + 1 == shares.size() ? area.bottom() - y : std::round(room * shares[i]);
    draw_row(frame, rows[i], name + "/" + std::to_string(first + i), {area.x, y, area.width, height});
    y += height;
    if (i + 1 < shares.size()) draw_splitter(frame, rows_name, {area.x, y, area.width, gap}, false, shares, i, room);
    y += gap;
  }
}

/// The default rows if all panels fit, else all panels in reading order in rows of `columns`.
std::vector<WorkspaceRow> rows_of(std::vector<WorkspaceRow> rows, std::size_t columns) {
  if (std::ranges::all_of(rows, [&](const WorkspaceRow& row) { return row.panels.size() <= columns; })) return rows;
  std::vector<WorkspaceRow> narrow;
  for (const WorkspaceRow& row : rows) {
    for (const WorkspacePanel& panel : row.panels) {
      if (narrow.empty() || narrow.back().panels.size() == columns) narrow.push_back({1, {}});
      narrow.back().panels.push_back(panel);
    }
  }
  return narrow;
}

/// While presenting only the panels that the lesson points at, as large as possible; without such all panels.
std::vector<WorkspaceRow> rows_for_audience(const PageState& state, std::vector<WorkspaceRow> rows) {
  WorkspaceRow stressed{1, {}};
  bool is_any_left_out = false;
  for (const WorkspaceRow& row : rows) {
    for (const WorkspacePanel& panel : row.panels) {
      if (is_stressed(state, panel.id)) {
        stressed.panels.push_back(panel);
      } else {
        is_any_left_out = true;
      }
    }
  }
  const bool is_chosen = state.presenting && is_any_left_out && !stressed.panels.empty();
  return is_chosen ? std::vector{std::move(stressed)} : rows;
}

std::size_t count_panels(std::span<const WorkspaceRow> rows) {
  return std::accumulate(rows.begin(), rows.end(), std::size_t{0},
                         [](std::size_t sum, const WorkspaceRow& row) { return sum + row.panels.size(); });
}

/// "+3 panels  1 / 2" with arrows that turn the pages; returns its left edge.
double draw_pager(Frame& frame, const Rect& row, std::size_t elsewhere) {
  const PageState& state = frame.state;
  const std::string keys = state.lesson.lesson ? "" : "  Page Down";  // which moves through an open lesson
  const auto turn = [&](std::int64_t by) { frame.commands.send("page", {{"by", by}, {"of", "panels"}}); };
  const ChipResult on =
      header_chip(frame, "next page", row.right(), row, "→", false, "Shows the panels that do not fit here" + keys);
  if (on.clicked) turn(1);
  const ChipResult back = header_chip(frame, "page before", on.left, row, "←", false, "Back");
  if (back.clicked) turn(-1);
  const std::string text = "+" + std::to_string(elsewhere) + (elsewhere == 1 ? " panel" : " panels") + " · page " +
                           std::to_string(state.panel_page + 1) + " of " + std::to_string(state.panel_pages);
  const ChipResult count = header_chip(frame, "pages", back.left, row, text, true, "Shows the next panels" + keys);
  if (count.clicked) turn(1);
  return count.left;
}

/// A line below the panels about those that do not fit or cannot show the model, with links.
void draw_strip(Frame& frame, const Rect& row, std::span<const std::string_view> missing, std::size_t elsewhere) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const double end = elsewhere > 0 ? draw_pager(frame, row, elsewhere) : row.right();
  if (missing.empty()) return;
  double x = row.x + frame.px(4);
  x += row_text(frame.look, canvas, {x, row.y, std::max(0.0, end - x), row.height},
                "Not of this model:", {tiny_size, FontFace::regular, theme.faint, Anchor::start}) +
       frame.px(4);
  for (const std::string_view id : missing) {
    const PlotKind& kind = *find_plot_kind(id);
    const double width = canvas.text_width(kind.title, frame.px(tiny_size), FontFace::regular) + frame.px(16);
    if (x + width > end) return;
    command_chip(frame, {"maximise", {{"panel", std::string(id)}}}, id.data(), x + width, row, kind.title, false,
                 why_not(kind) + " Click for a preset that has one.");
    x += width;
  }
}

/// Moves room from the neighbour of part i to it, as far as both keep the smallest share.
void give_share(PageState& state, const std::string& name, std::vector<double> shares, std::size_t i, double change) {
  if (shares.size() < 2 || change == 0) return;
  const std::size_t neighbour = i + 1 < shares.size() ? i + 1 : i - 1;
  change = std::clamp(change, std::min(0.0, min_share - shares[i]), std::max(0.0, shares[neighbour] - min_share));
  shares[i] += change;
  shares[neighbour] -= change;
  state.splits[name] = shares;
}

}  // namespace

void resize_panel(PageState& state, std::string_view panel, double width, double height) {
  for (std::size_t r = 0; r < state.shown_rows.size(); ++r) {
    const ShownRow& row = state.shown_rows[r];
    const auto place = static_cast<std::size_t>(std::ranges::find(row.panels, panel) - row.panels.begin());
    if (place == row.panels.size()) continue;
    give_share(state, row.name, row.shares, place, width);
    give_share(state, state.rows_name, state.row_shares, r, height);
    return;
  }
}

void draw_workspace(Frame& frame, const Rect& area) {
  PageState& state = frame.state;
  const double gap = std::round(frame.px(gap_units));
  Rect inside{area.x + gap, area.y + gap, area.width - 2 * gap, area.height - 2 * gap};
  if (inside.width < 20 || inside.height < 20) return;
  if (const Panel* alone = find_panel(state.maximised)) return draw_panel(frame, *alone, inside);
  const Workspace& workspace = present_workspace(state);
  const ModelSummary& model = frame.seen().model;
  if (const std::string why = why_not(workspace, model); !why.empty())
    return draw_missing(frame, inside, why, preset_for(workspace));

  const std::vector<WorkspaceRow> fitting = rows_for_audience(state, fitting_rows(workspace, model));
  const std::size_t columns = parts_that_fit(inside.width, frame.px(min_panel_width));
  const std::vector<WorkspaceRow> rows = rows_of(fitting, columns);
  const std::vector<std::string_view> missing =
      state.presenting ? std::vector<std::string_view>() : missing_panels(workspace, model);
  std::size_t on_a_page = parts_that_fit(inside.height, frame.px(min_panel_height));
  if (on_a_page < rows.size() || !missing.empty()) {
    const double strip = std::round(frame.px(22));
    inside.height -= strip;
    on_a_page = parts_that_fit(inside.height, frame.px(min_panel_height));
  }
  state.panel_pages = static_cast<int>((rows.size() + on_a_page - 1) / on_a_page);
  state.panel_page = std::clamp(state.panel_page, 0, state.panel_pages - 1);
  const std::size_t first = static_cast<std::size_t>(state.panel_page) * on_a_page;
  const std::span<const WorkspaceRow> page = std::span(rows).subspan(first, std::min(on_a_page, rows.size() - first));
  const std::string name =
      std::string(workspace.id) + (rows.size() == fitting.size() ? "" : "/" + std::to_string(columns));
  draw_rows(frame, page, name, first, inside);
  const Rect strip{inside.x, inside.bottom() + frame.px(2), inside.width,
                   area.bottom() - inside.bottom() - frame.px(4)};
  if (state.panel_pages > 1 || !missing.empty())
    draw_strip(frame, strip, missing, count_panels(rows) - count_panels(page));
}

}  // namespace afterglow
