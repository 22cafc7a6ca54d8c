// The one list of panels: each plot with the way it is drawn.
#include <array>

#include "views/panel.h"
#include "views/panels/panel_draws.h"

namespace afterglow {

namespace {

const std::array list{
    Panel{find_plot_kind("training"), draw_figure_grid, draw_training_controls},
    Panel{find_plot_kind("spectrum"), draw_spectrum, draw_spectrum_controls, 150, 150, true},
    Panel{find_plot_kind("power_filter"), draw_power_filter},
    Panel{find_plot_kind("stepper"), draw_stepper, draw_stepper_controls, 190, 150},
    Panel{find_plot_kind("conditioning"), draw_conditioning, draw_arithmetic_controls, 280, 210},
    Panel{find_plot_kind("token_weights"), draw_figure_grid, draw_token_weights_controls},
    Panel{find_plot_kind("solver_race"), draw_solver_race, draw_solver_race_controls, 240, 150},
    Panel{find_plot_kind("gate"), draw_figure_grid, nullptr, 250, 150},
    Panel{find_plot_kind("gradient_check"), draw_figure_grid, draw_arithmetic_controls, 250, 150},
    Panel{find_plot_kind("influence"), draw_figure_grid, draw_influence_controls, 330, 250},
    Panel{find_plot_kind("race"), draw_race, draw_race_controls, 250, 170},
    Panel{find_plot_kind("routing"), draw_figure_grid, draw_routing_controls, 230, 170},
    Panel{find_plot_kind("position_code"), draw_figure_grid},
    Panel{find_plot_kind("deep_profiles"), draw_figure_grid},
    Panel{find_plot_kind("probe"), draw_probe, draw_probe_controls, 240, 150},
    Panel{find_plot_kind("perturbation"), draw_figure_grid, nullptr, 260, 170},
    Panel{find_plot_kind("filter_theory"), draw_figure_grid, nullptr, 240, 170},
    Panel{find_plot_kind("linear_gap"), draw_figure_grid, nullptr, 240, 170},
    Panel{find_plot_kind("query_jacobian"), draw_figure_grid, nullptr, 240, 170},
    Panel{find_plot_kind("gradient_depth"), draw_figure_grid, nullptr, 240, 120},
    Panel{find_plot_kind("memory"), draw_figure_grid, nullptr, 240, 170},
    Panel{find_plot_kind("trajectory"), draw_figure_grid, nullptr, 250, 190},
    Panel{find_plot_kind("kl_spectrum"), draw_figure_grid, nullptr, 170, 150},
    Panel{find_plot_kind("temporal_modes"), draw_figure_grid, nullptr, 250, 150},
    Panel{find_plot_kind("forecast"), draw_figure_grid, draw_forecast_controls, 215, 130},
    Panel{find_plot_kind("memory_tokens"), draw_figure_grid, nullptr, 195, 140},
};

}  // namespace

std::span<const Panel> panels() { return list; }

const Panel* find_panel(std::string_view id) {
  for (const Panel& panel : list) {
    if (panel.kind->id == id) return &panel;
  }
  return nullptr;
}

}  // namespace afterglow
