// Marching squares: each square between four cells joins the crossings of its edges; squares share edges.
#include "core/figure/contour.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace afterglow {
namespace {

class Squares {
 public:
  Squares(std::span<const double> cells, int rows, int cols, double level)
      : cells_(cells), rows_(rows), cols_(cols), level_(level) {
    for (int row = 0; row + 1 < rows; ++row) {
      for (int col = 0; col + 1 < cols; ++col) enter(row, col);
    }
  }

  std::vector<ContourLine> lines() {
    std::vector<ContourLine> found;
    // First pass: lines that end at the border or at a gap, from an end. Second pass: closed loops.
    for (const bool from_ends : {true, false}) {
      for (const auto& [edge, next] : neighbours_) {
        if (!used_.contains(edge) && (!from_ends || next.size() == 1)) found.push_back(walk(edge));
      }
    }
    return found;
  }

 private:
  /// The side of a cell towards the next one in its row (`is_across`) or in its column.
  struct Edge {
    int row, col;
    bool is_across;
    auto operator<=>(const Edge&) const = default;
  };

  double at(int row, int col) const { return cells_[static_cast<std::size_t>(row * cols_ + col)]; }
  bool is_above(int row, int col) const { return at(row, col) >= level_; }

  void join(const Edge& a, const Edge& b) {
    neighbours_[a].push_back(b);
    neighbours_[b].push_back(a);
  }

  void enter(int row, int col) {
    const double sum = at(row, col) + at(row, col + 1) + at(row + 1, col) + at(row + 1, col + 1);
    if (!std::isfinite(sum)) return;
    const bool above[] = {is_above(row, col), is_above(row, col + 1), is_above(row + 1, col + 1),
                          is_above(row + 1, col)};
    // In clockwise order like the corners: top, right, bottom, left.
    const Edge edges[] = {{row, col, true}, {row, col + 1, false}, {row + 1, col, true}, {row, col, false}};
    std::vector<int> crossed;
    for (int i = 0; i < 4; ++i) {
      if (above[i] != above[(i + 1) % 4]) crossed.push_back(i);
    }
    if (crossed.size() == 2) join(edges[crossed[0]], edges[crossed[1]]);
    if (crossed.size() != 4) return;
    // A saddle: the mean of the corners decides which of them are connected.
    const bool is_first_alone = (sum / 4 >= level_) != above[0];
    join(edges[0], edges[is_first_alone ? 3 : 1]);
    join(edges[2], edges[is_first_alone ? 1 : 3]);
  }

  void add(ContourLine& line, const Edge& edge) {
    used_.insert(edge);
    const double from = at(edge.row, edge.col),
                 to = edge.is_across ? at(edge.row, edge.col + 1) : at(edge.row + 1, edge.col);
    const double share = (level_ - from) / (to - from);
    line.x.push_back(edge.col + (edge.is_across ? share : 0.0));
    line.y.push_back(edge.row + (edge.is_across ? 0.0 : share));
  }

  ContourLine walk(const Edge& first) {
    ContourLine line;
    add(line, first);
    Edge here = first;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (const Edge& next : neighbours_.at(here)) {
        if (used_.contains(next)) continue;
        add(line, next);
        here = next;
        goes_on = true;
        break;
      }
    }
    const std::vector<Edge>& last = neighbours_.at(here);
    if (line.x.size() > 2 && last.size() == 2 && std::ranges::find(last, first) != last.end()) add(line, first);
    return line;
  }

  std::span<const double> cells_;
  int rows_, cols_;
  double level_;
  std::map<Edge, std::vector<Edge>> neighbours_;
  std::set<Edge> used_;
};

}  // namespace

std::vector<ContourLine> contour_lines(std::span<const double> cells, int rows, int cols, double level) {
  return Squares(cells, rows, cols, level).lines();
}

}  // namespace afterglow
