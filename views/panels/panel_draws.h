// What is particular to single panels; one file each.
#pragma once
#include "views/panel.h"

namespace afterglow {

void draw_spectrum(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
double draw_spectrum_controls(Frame& frame, const Rect& row);

void draw_power_filter(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);

void draw_stepper(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
double draw_stepper_controls(Frame& frame, const Rect& row);

double draw_token_weights_controls(Frame& frame, const Rect& row);

void draw_solver_race(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
double draw_solver_race_controls(Frame& frame, const Rect& row);
double draw_arithmetic_controls(Frame& frame, const Rect& row);
void draw_conditioning(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
double draw_influence_controls(Frame& frame, const Rect& row);
void draw_race(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
double draw_race_controls(Frame& frame, const Rect& row);
double draw_routing_controls(Frame& frame, const Rect& row);
void draw_probe(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
double draw_probe_controls(Frame& frame, const Rect& row);

double draw_training_controls(Frame& frame, const Rect& row);
double draw_forecast_controls(Frame& frame, const Rect& row);

/// Switches "0 1 2 .." for the heads of the selected layer, drawn leftwards from `right`; returns their left edge.
double draw_head_chips(Frame& frame, double right, const Rect& row, int heads, int chosen);

}  // namespace afterglow
