// Panels in rows with splitters between them, or one panel alone.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/recipe/lesson.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/plots/families.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double gap_units = 8;
constexpr double min_share = 0.12;
constexpr double min_panel_width = 230, min_panel_height = 170;  ///< layout units
constexpr FigureSize large_page{1800, 1100};                     ///< with room for the panels of the strip

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

/// The columns of a row: panels below one another.
std::vector<std::vector<WorkspacePanel>> columns_of(const WorkspaceRow& row) {
  std::vector<std::vector<WorkspacePanel>> columns;
  for (const WorkspacePanel& panel : row.panels) {
    if (columns.empty() || !panel.is_below) columns.emplace_back();
    columns.back().push_back(panel);
  }
  return columns;
}

/// Draws parts of an area next to one another (`is_row`) or below one another, with splitters between them; returns
/// their shares.
template <class Draw>
std::vector<double> split_area(Frame& frame, const std::string& name, const Rect& area, bool is_row,
                               std::vector<double> usual, const Draw& draw) {
  std::vector<double> shares = shares_of(frame.state, name, std::move(usual));
  const double gap = std::round(frame.px(gap_units)), length = is_row ? area.width : area.height;
  const double room = length - gap * static_cast<double>(shares.size() - 1);
  const auto part = [&](double at, double size) {
    return is_row ? Rect{area.x + at, area.y, size, area.height} : Rect{area.x, area.y + at, area.width, size};
  };
  double at = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double size = i + 1 == shares.size() ? length - at : std::round(room * shares[i]);
    draw(i, part(at, size));
    at += size;
    if (i + 1 < shares.size()) draw_splitter(frame, name, part(at, gap), is_row, shares, i, room);
    at += gap;
  }
  return shares;
}

void draw_row(Frame& frame, const WorkspaceRow& row, const std::string& name, const Rect& area) {
  const std::vector<std::vector<WorkspacePanel>> columns = columns_of(row);
  std::vector<double> usual;
  for (const auto& column : columns) usual.push_back(column.front().share);
  ShownRow shown{name, {}, {}};
  shown.shares = split_area(frame, name, area, true, usual, [&](std::size_t i, const Rect& column) {
    const std::vector<double> equal(columns[i].size(), 1);
    split_area(frame, name + "/" + std::to_string(i), column, false, equal, [&](std::size_t j, const Rect& place) {
      const std::string id(columns[i][j].id);
      if (const Panel* panel = find_panel(id)) draw_panel(frame, *panel, place);
      shown.panels.emplace_back(id, i);
    });
  });
  frame.state.drawn.rows.push_back(std::move(shown));
}

void draw_rows(Frame& frame, std::span<const WorkspaceRow> rows, const std::string& name, const Rect& area) {
  std::vector<double> usual;
  for (const WorkspaceRow& row : rows) usual.push_back(row.share);
  frame.state.drawn.rows_name = name + "/rows";
  frame.state.drawn.row_shares = split_area(
      frame, frame.state.drawn.rows_name, area, false, usual,
      [&](std::size_t i, const Rect& place) { draw_row(frame, rows[i], name + "/" + std::to_string(i), place); });
}

/// While presenting only the panels that the lesson points at, as large as possible; without such all panels.
std::vector<WorkspaceRow> rows_for_audience(const PageState& state, std::vector<WorkspaceRow> rows) {
  WorkspaceRow stressed{1, {}};
  std::size_t all = 0;
  for (const WorkspaceRow& row : rows) {
    all += row.panels.size();
    std::ranges::copy_if(row.panels, std::back_inserter(stressed.panels),
                         [&](const WorkspacePanel& panel) { return is_stressed(state, panel.id); });
  }
  for (WorkspacePanel& panel : stressed.panels) panel.is_below = true;
  const bool is_chosen = state.presentation.is_on && !stressed.panels.empty() && stressed.panels.size() < all;
  return is_chosen ? std::vector{std::move(stressed)} : rows;
}

/// Panels by name; a click enlarges one. Returns the right end.
double draw_links(Frame& frame, const Rect& row, std::string_view head, std::span<const std::string_view> ids) {
  if (ids.empty()) return row.x;
  FigureCanvas canvas = frame.look.canvas();
  double x = row.x + row_text(frame.look, canvas, row, head,
                              {tiny_size, FontFace::regular, frame.look.theme->faint, Anchor::start});
  for (const std::string_view id : ids) {
    const PlotKind& kind = *find_plot_kind(id);
    const double width = canvas.text_width(kind.title, frame.px(tiny_size), FontFace::regular) + frame.px(16);
    if (x + width > row.right()) break;
    const bool is_of_model = fits(kind, frame.seen().model);
    command_chip(frame, {"maximise", {{"panel", id}}}, id.data(), x + width, row, kind.title, false,
                 is_of_model ? std::string(kind.about) : why_not(kind) + " Click for a preset that has one.");
    x += width;
  }
  return x + frame.px(14);
}

/// A line below the panels about those that do not fit, and those that cannot show the model.
void draw_strip(Frame& frame, const Rect& row, std::span<const std::string_view> more,
                std::span<const std::string_view> missing) {
  const double x = draw_links(frame, {row.x + frame.px(4), row.y, row.width, row.height}, "More here:", more);
  draw_links(frame, {x, row.y, row.right() - x, row.height}, "Not of this model:", missing);
}

/// The sentence of a first start above the panels, with the tour and the lessons; returns its height.
double draw_intro(Frame& frame, const Rect& area) {
  const Theme& theme = *frame.look.theme;
  const Rect box{area.x, area.y, area.width, frame.px(56)};
  FigureCanvas canvas = frame.look.canvas();
  canvas.fill_rect(box, frame.px(8), theme.panel);
  const double height = frame.px(30);
  const Rect row{box.x + frame.px(16), box.y + (box.height - height) / 2, box.width - frame.px(24), height};
  const auto gap = [&](double x) { return x - frame.px(8); };
  double x = command_button(frame, row.right(), row, {"hints", {{"intro", false}}}, "×", Icon::none, ButtonKind::quiet,
                            "Closes this; the command \"hints\" shows it again");
  x = command_button(frame, gap(x), row, {"lesson", {}}, std::to_string(shipped_lessons().size() - 1) + " lessons",
                     Icon::none, ButtonKind::normal, "Lists the lessons  Ctrl O");
  x = command_button(frame, gap(x), row, {"lesson", {{"open", "tour"}}}, "Take the tour", Icon::none,
                     ButtonKind::primary, "Two minutes: a memory learns, you change it, time runs backwards");
  static const std::string sentence = nlohmann::json::parse(page_texts()[1].json)["intro"];
  const double room = x - row.x - frame.px(12), size = 16, line = frame.px(1.25 * size);
  const auto lines = wrapped_text(canvas, sentence, room, frame.px(size), FontFace::semibold, 2);
  const double y = box.y + (box.height - static_cast<double>(lines.size()) * line) / 2;
  text_lines(frame.look, canvas, {row.x, y, room, line}, lines, line,
             {size, FontFace::semibold, theme.text, Anchor::start});
  return box.height + frame.px(gap_units);
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
  for (std::size_t r = 0; r < state.drawn.rows.size(); ++r) {
    const ShownRow& row = state.drawn.rows[r];
    const auto place = std::ranges::find(row.panels, panel, &std::pair<std::string, std::size_t>::first);
    if (place == row.panels.end()) continue;
    give_share(state, row.name, row.shares, place->second, width);
    give_share(state, state.drawn.rows_name, state.drawn.row_shares, r, height);
    return;
  }
}

void draw_workspace(Frame& frame, const Rect& area) {
  PageState& state = frame.state;
  const double gap = std::round(frame.px(is_slide(state) ? 2 : gap_units));
  Rect inside{area.x + gap, area.y + gap, area.width - 2 * gap, area.height - 2 * gap};
  if (inside.width < 20 || inside.height < 20) return;
  if (const Panel* alone = find_panel(state.maximised)) return draw_panel(frame, *alone, inside);
  const bool is_roomy = inside.height > frame.px(2.4 * min_panel_height);  // below the sentence plots stay readable
  if (state.hints.is_intro_due && is_roomy && !state.presentation.is_on && !state.presentation.is_locked &&
      !state.lesson.lesson) {
    const double used = draw_intro(frame, inside);
    inside.y += used;
    inside.height -= used;
  }
  const Workspace& workspace = present_workspace(state);
  const ModelSummary& model = frame.seen().model;
  if (const std::string why = why_not(workspace, model); !why.empty())
    return draw_missing(frame, inside, std::string(workspace.question) + " " + why, preset_for(workspace));

  std::vector<WorkspaceRow> rows = rows_for_audience(state, fitting_rows(workspace, model));
  std::vector<std::string_view> more;
  const auto link_last = [&](WorkspaceRow& row) {
    more.push_back(row.panels.back().id);
    row.panels.pop_back();
  };
  const bool is_large = inside.width >= frame.px(large_page.width) && inside.height >= frame.px(large_page.height);
  const std::size_t columns = parts_that_fit(inside.width, frame.px(min_panel_width));
  for (WorkspaceRow& row : rows) {
    while (columns_of(row).size() > columns) link_last(row);
  }
  while (rows.size() > parts_that_fit(inside.height, frame.px(min_panel_height)) ||
         (rows.size() > 1 && rows.back().is_strip && !is_large)) {
    while (!rows.back().panels.empty()) link_last(rows.back());
    rows.pop_back();
  }
  // Panels below one another need the height of two.
  for (WorkspaceRow& row : rows) {
    const double height = inside.height / static_cast<double>(rows.size());
    while (!is_slide(state) && row.panels.back().is_below && parts_that_fit(height, frame.px(min_panel_height)) < 2)
      link_last(row);
  }
  std::ranges::reverse(more);
  const std::vector<std::string_view> missing = missing_panels(workspace, model);
  const bool has_strip = !state.presentation.is_on && (!more.empty() || !missing.empty());
  const double strip = has_strip ? std::round(frame.px(22)) : 0;
  draw_rows(frame, rows, std::string(workspace.id), {inside.x, inside.y, inside.width, inside.height - strip});
  if (has_strip)
    draw_strip(frame, {inside.x, inside.bottom() - strip + frame.px(4), inside.width, strip}, more, missing);
}

}  // namespace afterglow
