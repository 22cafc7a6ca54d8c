// The patch grid: parts from input to output down, tokens to the right, the restored share of the answer as colour.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/causes/causes_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

struct Grid {
  PatchGroup group;
  std::string_view id;
  const char* title;
};
constexpr std::array grids{
    Grid{PatchGroup::stream, "patch_stream", "Stream and outputs"},
    Grid{PatchGroup::inside, "patch_inside", "Queries, keys, values"},
    Grid{PatchGroup::memory, "patch_memory", "Memory after a token"},
};

/// The exact value if it is known, else the first-order one.
double shown_share(const PatchView& view, std::size_t cell) {
  return std::isfinite(view.exact[cell]) ? view.exact[cell] : view.attributed[cell];
}

std::vector<int> rows_of(const PatchView& view, PatchGroup group) {
  std::vector<int> rows;
  for (std::size_t row = 0; row < view.rows.size(); ++row) {
    if (view.rows[row].group == group) rows.push_back(static_cast<int>(row));
  }
  return rows;
}

bool is_whole(const PatchView& view) {
  const std::size_t cells = view.rows.size() * static_cast<std::size_t>(std::max(0, view.tokens));
  return view.tokens > 0 && view.attributed.size() == cells && view.exact.size() == cells &&
         static_cast<int>(view.pair.clean.size()) == view.tokens &&
         view.pair.corrupted.size() == view.pair.clean.size() && view.pair.asked >= 0 && view.pair.asked < view.tokens;
}

/// While the grid is incomplete: dots at the exact cells. If both runs are equal there, a dot would say nothing.
Scatter exact_dots(const PatchView& view, const std::vector<int>& rows) {
  Scatter dots{.name = "exact"};
  for (std::size_t r = 0; !view.is_complete && r < rows.size(); ++r) {
    for (int t = 0; t < view.tokens; ++t) {
      const double exact = view.exact[view.cell(static_cast<std::size_t>(rows[r]), t)];
      if (!std::isfinite(exact) || exact == 0) continue;
      dots.points.push_back({.x = t + 0.3, .y = static_cast<double>(r) - 0.3, .radius = 1.2, .ink = Role::text});
    }
  }
  return dots;
}

/// All cells, also of the other grids, in one list for the file.
std::vector<TableColumn> table_of(const PatchView& view, const std::vector<int>& rows) {
  std::vector<std::string> parts, places, hooks, tokens;
  std::vector<double> heads, positions, attributed, exact;
  bool has_heads = false;
  for (const int row : rows) {
    const PatchRow& of = view.rows[static_cast<std::size_t>(row)];
    for (int t = 0; t < view.tokens; ++t) {
      const std::size_t cell = view.cell(static_cast<std::size_t>(row), t);
      parts.push_back(of.label);
      places.push_back(of.place);
      hooks.push_back(of.hook);
      heads.push_back(of.head >= 0 ? of.head : NAN);
      has_heads = has_heads || of.head >= 0;
      positions.push_back(t);
      tokens.push_back(view.pair.clean[static_cast<std::size_t>(t)].label);
      attributed.push_back(view.attributed[cell]);
      exact.push_back(view.exact[cell]);
    }
  }
  std::vector<TableColumn> table{{"part", parts}, {"place", places}, {"hook", hooks}};
  if (has_heads) table.push_back({"head", heads});
  table.insert(table.end(), {{"position", positions}, {"token", tokens}, {"attributed", attributed}, {"exact", exact}});
  return table;
}

HeatMap share_map(const char* name, int rows, int columns) {
  return {.name = name,
          .rows = rows,
          .cols = columns,
          .map = ColourMap::diverging,
          .value = {.label = name, .range = Range{-1, 1}},
          .nan_is_blank = true};
}

Figure grid_figure(const PatchView& view, const Grid& grid, const std::string& subtitle) {
  const std::vector<int> rows = rows_of(view, grid.group);
  Figure figure =
      sheet(std::string(grid.id), std::string(grid.title), subtitle,
            {.label = "token", .ticks = token_ticks(view.pair.clean, view.pair.asked, view.pair.changed)}, {"place"});
  figure.subject = view.pair.clean_label + " or " + view.pair.corrupted_label;
  HeatMap map = share_map("share restored", static_cast<int>(rows.size()), view.tokens);
  std::vector<double> cells;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const PatchRow& row = view.rows[static_cast<std::size_t>(rows[r])];
    map.row_labels.push_back(row.label);
    for (int t = 0; t < view.tokens; ++t)
      cells.push_back(shown_share(view, view.cell(static_cast<std::size_t>(rows[r]), t)));
  }
  map.cells = std::move(cells);
  figure.y.ticks = ticks_of(map.row_labels);
  map.col_labels = mapped(view.pair.clean, &TokenView::label);
  figure.series.emplace_back(std::move(map));
  if (Scatter dots = exact_dots(view, rows); !dots.points.empty()) figure.series.emplace_back(std::move(dots));
  figure.labels = LabelPlacement::none;
  figure.table = table_of(view, rows);
  return figure;
}

/// Three digits after the point, and 0 for smaller values.
std::string share_text(double share) { return number_text(std::abs(share) < 5e-4 ? 0 : share, 3); }

std::string percent(double share) {
  const auto number = std::lround(100 * share);
  return (number < 0 ? "−" : "") + std::to_string(std::abs(number)) + " %";
}

/// "token 8 v16"; noise has no name.
std::string token_name(const PatchView& view, int token) {
  const TokenView& of = view.pair.clean[static_cast<std::size_t>(token)];
  const bool is_quiet = token_ink(of.role).role == Role::faint;
  return "token " + std::to_string(token) + (is_quiet ? "" : " " + of.label);
}

struct Best {
  int row = -1, token = -1;
  double share = -1e300;
};

Best best_of(const PatchView& view, const std::vector<int>& rows) {
  Best best;
  for (const int row : rows) {
    for (int t = 0; t < view.tokens; ++t) {
      const double share = shown_share(view, view.cell(static_cast<std::size_t>(row), t));
      if (std::isfinite(share) && share > best.share) best = {row, t, share};
    }
  }
  return best;
}

/// The first token at which the row restores about as much as at its best one.
int first_as_good(const PatchView& view, const Best& best) {
  constexpr double about = 0.02;
  for (int t = 0; t < best.token; ++t) {
    if (shown_share(view, view.cell(static_cast<std::size_t>(best.row), t)) > best.share - about) return t;
  }
  return best.token;
}

std::string memory_sentence(const PatchView& view, const std::vector<int>& rows) {
  Best best = best_of(view, rows);
  if (best.row >= 0) best.token = first_as_good(view, best);
  if (best.row < 0 || best.share < 0.05)
    return "So far no memory restores the answer: it passes elsewhere, or its cells are not computed yet.";
  constexpr double too_much = 2;  // of the difference between the runs: above it the parts counteract
  if (best.share > too_much) {
    return "Both sequences are answered almost alike (" + share_text(view.pair.clean_measure) + " and " +
           share_text(view.pair.corrupted_measure) +
           "), so shares of the difference mean little: train on, or choose another pair.";
  }
  const PatchRow& row = view.rows[static_cast<std::size_t>(best.row)];
  std::string text = "The answer passes through " + row.label + ": with that of the clean sequence after " +
                     token_name(view, best.token) + ", the corrupted run recovers " + percent(best.share) +
                     " of the clean answer";
  std::string others;
  for (const int other : rows) {
    const PatchRow& one = view.rows[static_cast<std::size_t>(other)];
    const double share = view.exact[view.cell(static_cast<std::size_t>(other), best.token)];
    const bool belongs = one.layer == row.layer && one.head == row.head;
    if (other == best.row || !belongs || !std::isfinite(share)) continue;
    others += (others.empty() ? "; " : ", ") + (one.place == "all" ? std::string("all of it") : one.place) + " alone " +
              percent(share);
  }
  return text + others + ".";
}

bool has_paths(const PatchView& view) {
  const std::size_t count = view.parts.size();
  return count > 0 && view.paths.size() == count * count &&
         std::ranges::any_of(view.paths, [](double share) { return std::isfinite(share); });
}

/// Senders down, receivers to the right; the last row and the first column have no path.
Figure path_figure(const PatchView& view, const std::string& subtitle) {
  Figure figure = sheet(patch_path_id, "Paths from part to part", subtitle, {"to"}, {"from"});
  figure.subject = view.pair.clean_label + " or " + view.pair.corrupted_label;
  const std::size_t count = view.parts.size();
  HeatMap map = share_map("share along the path", static_cast<int>(count) - 1, static_cast<int>(count) - 1);
  std::vector<double> cells, shares;
  std::vector<std::string> from, to;
  for (std::size_t sender = 0; sender + 1 < count; ++sender) {
    map.row_labels.push_back(view.parts[sender]);
    map.col_labels.push_back(view.parts[sender + 1]);
    for (std::size_t receiver = 1; receiver < count; ++receiver) {
      cells.push_back(view.paths[sender * count + receiver]);
      if (receiver <= sender) continue;
      from.push_back(view.parts[sender]);
      to.push_back(view.parts[receiver]);
      shares.push_back(cells.back());
    }
  }
  map.cells = std::move(cells);
  map.shows_numbers = true;
  figure.x.ticks = ticks_of(map.col_labels);
  figure.y.ticks = ticks_of(map.row_labels);
  figure.series.emplace_back(std::move(map));
  figure.table = {{"from", from}, {"to", to}, {"exact", shares}};
  return figure;
}

}  // namespace

std::string patch_path_text(const PatchView& view, int sender, int receiver) {
  const int count = static_cast<int>(view.parts.size());
  if (!has_paths(view) || sender < 0 || receiver <= sender || receiver >= count) return "";
  const double share = view.paths[static_cast<std::size_t>(sender * count + receiver)];
  const std::string path =
      view.parts[static_cast<std::size_t>(sender)] + " → " + view.parts[static_cast<std::size_t>(receiver)];
  return path + ": " + (std::isfinite(share) ? share_text(share) + " on this path alone" : "not computed yet");
}

std::string patch_path_sentence(const PatchView& view) {
  if (!has_paths(view))
    return "The paths are not computed yet, or this model's layers have residual connections inside.";
  const int count = static_cast<int>(view.parts.size());
  std::size_t best = view.paths.size();
  for (std::size_t i = 0; i < view.paths.size(); ++i) {
    if (std::isfinite(view.paths[i]) && (best == view.paths.size() || view.paths[i] > view.paths[best])) best = i;
  }
  const std::size_t sender = best / static_cast<std::size_t>(count), receiver = best % static_cast<std::size_t>(count);
  return "The strongest path leads from " + view.parts[sender] + " to " + view.parts[receiver] + ": what " +
         view.parts[sender] + " adds, patched for this reader alone, restores " + percent(view.paths[best]) +
         " of the clean answer.";
}

std::vector<AxisTick> token_ticks(const std::vector<TokenView>& tokens, int asked, std::vector<int> named) {
  const int distance = std::max(8, static_cast<int>(tokens.size()) / 64 * 8);
  named.push_back(asked);
  std::vector<AxisTick> ticks;
  for (int t = 0; t < static_cast<int>(tokens.size()); t += distance) {
    if (std::ranges::none_of(named, [&](int other) { return std::abs(other - t) < distance * 5 / 8; }))
      ticks.push_back({static_cast<double>(t), std::to_string(t)});
  }
  std::ranges::sort(named);
  for (const int t : named)
    ticks.push_back({static_cast<double>(t), std::to_string(t) + " " + tokens[static_cast<std::size_t>(t)].label});
  std::ranges::sort(ticks, {}, &AxisTick::at);
  return ticks;
}

PatchGroup patch_group(std::string_view figure) {
  const auto grid = std::ranges::find(grids, figure, &Grid::id);
  return grid == grids.end() ? PatchGroup::stream : grid->group;
}

std::pair<int, int> brightest_cell(const PatchView& view, PatchGroup group) {
  if (!is_whole(view)) return {-1, -1};
  std::vector<int> rows = rows_of(view, group);
  // The first and the last stream restore everything by construction: at the changed token, and at the answer.
  if (group == PatchGroup::stream && rows.size() > 2) {
    rows.erase(rows.begin());
    rows.pop_back();
  }
  const Best best = best_of(view, rows);
  return {best.row, best.token};
}

int patch_row(const PatchView& view, PatchGroup group, int row) {
  const std::vector<int> rows = rows_of(view, group);
  return row >= 0 && row < static_cast<int>(rows.size()) ? rows[static_cast<std::size_t>(row)] : -1;
}

std::string patch_cell_text(const PatchView& view, int row, int token) {
  const PatchRow& of = view.rows[static_cast<std::size_t>(row)];
  const std::size_t cell = view.cell(static_cast<std::size_t>(row), token);
  const double exact = view.exact[cell], attributed = view.attributed[cell];
  std::string text = of.label + (of.group == PatchGroup::memory ? " after " : " at ") + token_name(view, token) + ": ";
  text += std::isfinite(exact) ? share_text(exact) + " exact" : "exact share not computed yet";
  const bool has_pass = of.group != PatchGroup::memory;
  if (std::isfinite(attributed))
    text += ", " + share_text(attributed) + (has_pass ? " by one reverse pass" : " to first order");
  return text;
}

std::string patch_sentence(const PatchView& view, PatchGroup group) {
  if (!is_whole(view)) return "";
  if (view.pair.clean_measure == view.pair.corrupted_measure)
    return "The model answers both sequences alike, so nothing can be restored: choose another pair.";
  if (group == PatchGroup::memory) return memory_sentence(view, rows_of(view, group));
  const auto [row, token] = brightest_cell(view, group);
  if (row < 0) return "This model has no value of this kind.";
  const std::size_t cell = view.cell(static_cast<std::size_t>(row), token);
  const bool is_exact = std::isfinite(view.exact[cell]);
  return "The brightest cell is " + view.rows[static_cast<std::size_t>(row)].label + " at " + token_name(view, token) +
         ": the clean value there alone restores " + percent(shown_share(view, cell)) + " of the clean answer" +
         (is_exact ? "." : ", to first order.");
}

std::string patch_subtitle(const Observation& observation, const Selection&) {
  if (!observation.patch) return why_not_yet(observation, "Reading the pair of sequences: starts within seconds.");
  const PatchView& view = *observation.patch;
  if (!is_whole(view)) return "There is nothing to compare.";
  const auto cells = static_cast<std::int64_t>(view.exact.size());
  std::string text = view.pair.clean_label + " or " + view.pair.corrupted_label + " · " +
                     std::string(name_of(view.pair.measure)) + " · ";
  text += view.is_complete ? "all cells exact"
                           : grouped_number(view.exact_cells) + " of " + grouped_number(cells) + " cells exact";
  text += " · control " + number_text(view.control, 3);
  return text + age_text(observation, view.step);
}

std::vector<Figure> patch_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  if (!observation.patch || !is_whole(*observation.patch)) return {};
  std::vector<Figure> figures;
  for (const Grid& grid : grids) {
    if (rows_of(*observation.patch, grid.group).empty()) continue;
    figures.push_back(grid_figure(*observation.patch, grid, patch_subtitle(observation, selection)));
  }
  if (has_paths(*observation.patch))
    figures.push_back(path_figure(*observation.patch, patch_subtitle(observation, selection)));
  return figures;
}

}  // namespace afterglow
