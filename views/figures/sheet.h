// Figures before anything is drawn on them, and plain lines.
#pragma once
#include <string>
#include <utility>

#include "core/figure/figure.h"

namespace afterglow {

/// A figure with its axes and without series.
inline Figure sheet(std::string id, std::string title, std::string subtitle, Axis x, Axis y,
                    LabelPlacement labels = LabelPlacement::automatic) {
  Figure figure;
  figure.id = std::move(id);
  figure.title = std::move(title);
  figure.subtitle = std::move(subtitle);
  figure.x = std::move(x);
  figure.y = std::move(y);
  figure.labels = labels;
  return figure;
}

inline Line line_through(std::string name, Values x, Values y, Ink ink, Dash dash = Dash::automatic, double width = 2) {
  Line line;
  line.name = std::move(name);
  line.curve = {std::move(x), std::move(y), nullptr};
  line.ink = ink;
  line.dash = dash;
  line.width = width;
  return line;
}

}  // namespace afterglow
