// The page in words for screen readers: a name and a summary for each visible panel.
#pragma once
#include <memory>
#include <vector>

#include "app/window/accessibility/accessible_window.h"
#include "views/frame/frame.h"

namespace afterglow {

/// The open lesson's text first, then the panels in reading order.
std::vector<SpokenPanel> spoken_panels(const PageState& page, const std::shared_ptr<const Observation>& observation,
                                       FigureCache& figures);

}  // namespace afterglow
