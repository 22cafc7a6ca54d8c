// Figures before anything is drawn on them.
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

}  // namespace afterglow
