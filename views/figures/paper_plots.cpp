// Gated KalmaNet's figures 1, 6 and 8.
#include "views/figures/paper_plots.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/figure/axis.h"
#include "core/io/error.h"
#include "views/figures/curve_store.h"
#include "views/figures/solver_inks.h"

namespace afterglow {

namespace {

constexpr double usual_strength = 0.02;

std::string size_text(const StudySize& size, bool is_network) {
  std::string text = is_network ? std::to_string(size.layers) + " layers" : "B " + std::to_string(size.batch);
  return text + " · T " + std::to_string(size.tokens) + " · H " + std::to_string(size.heads) + " · D " +
         std::to_string(size.width);
}

Figure iteration_figure(std::string id, std::string title, const PaperSettings& settings, const StudySize& size,
                        bool is_network, std::string label) {
  Figure figure;
  figure.id = std::move(id);
  figure.title = std::move(title);
  figure.subtitle = size_text(size, is_network) + " · " + std::string(name_of(settings.arithmetic));
  figure.x.label = "iteration";
  figure.x.integer_ticks = true;
  figure.x.range = Range{0, static_cast<double>(size.iterations)};
  figure.y.label = std::move(label);
  figure.y.scale = Scale::log;
  figure.provenance = "afterglow · " + figure.id + " · seed " + std::to_string(settings.seed) + " · " + figure.subtitle;
  return figure;
}

StudySize size_of(const PaperSettings& settings, bool is_network) {
  return settings.is_full_size ? full_size(is_network) : StudySize{};
}

void add_residuals(Figure& figure, std::string name, Ink ink, std::vector<double> residuals) {
  Line line;
  line.name = std::move(name);
  line.ink = ink;
  std::vector<double> x;
  for (std::size_t i = 0; i < residuals.size(); ++i) x.push_back(static_cast<double>(i));
  line.curve = {std::move(x), std::move(residuals), nullptr};
  figure.series.emplace_back(std::move(line));
}

Figure residuals(const PaperSettings& settings, const StudyProgress& progress) {
  const StudySize size = size_of(settings, false);
  Figure figure =
      iteration_figure("gka_figure1a", "Forward convergence", settings, size, false, "largest residual |r|");
  constexpr std::array solvers{SolverKind::chebyshev, SolverKind::gradient_descent, SolverKind::nesterov,
                               SolverKind::conjugate_gradient};
  for (std::size_t s = 0; s < solvers.size(); ++s) {
    add_residuals(figure, std::string(name_of(solvers[s])), solver_ink(solvers[s]),
                  worst_residuals(size, solvers[s], usual_strength, settings.arithmetic, settings.seed,
                                  [&](double share) { progress((static_cast<double>(s) + share) / solvers.size()); }));
  }
  return figure;
}

Figure gradients(std::size_t number, const PaperSettings& settings, const StudyProgress& progress) {
  const bool is_network = number == 2 || number == 4;
  const SolverKind solver = number <= 2 ? SolverKind::conjugate_gradient : SolverKind::chebyshev;
  StudySize size = size_of(settings, is_network);
  size.batch = 1;
  const std::string place = is_network ? "gradients of the weights" : "gradients of q and k";
  Figure figure = iteration_figure("gka_figure1" + std::string(1, static_cast<char>('a' + number)),
                                   std::string(name_of(solver)) + ", " + place, settings, size, is_network,
                                   "relative difference from exact");
  const auto study = is_network ? network_gradient_study : layer_gradient_study;
  for (StudyCurve& curve : study(size, solver, usual_strength, settings.arithmetic, settings.seed, progress)) {
    Line line;
    line.name = curve.is_dashed ? "unrolled" : "implicit";
    line.ink = curve.is_dashed ? Ink(Role::dim) : solver_ink(solver);
    line.dash = curve.is_dashed ? Dash::dashed : Dash::solid;
    line.marker = Marker::circle;
    line.curve = {std::move(curve.x), std::move(curve.y), nullptr};
    figure.series.emplace_back(std::move(line));
  }
  return figure;
}

Figure figure1(std::size_t number, const PaperSettings& settings, const StudyProgress& progress) {
  return number == 0 ? residuals(settings, progress) : gradients(number, settings, progress);
}

Figure figure8(std::size_t, const PaperSettings& settings, const StudyProgress& progress) {
  const StudySize size = size_of(settings, false);
  Figure figure = iteration_figure("gka_figure8", "Chebyshev and the strength of the ridge", settings, size, false,
                                   "largest residual |r|");
  constexpr std::array strengths{0.01, 0.02, 0.05, 0.1};
  for (std::size_t s = 0; s < strengths.size(); ++s) {
    add_residuals(
        figure, "a = " + number_text(strengths[s], 2), Ink(static_cast<int>(s)),
        worst_residuals(size, SolverKind::chebyshev, strengths[s], settings.arithmetic, settings.seed,
                        [&](double share) { progress((static_cast<double>(s) + share) / strengths.size()); }));
  }
  return figure;
}

constexpr std::array<std::string_view, 2> regularisations{"gka-adaptive", "gka-constant"};
constexpr std::array<const char*, 2> regularisation_names{"adaptive, λ_t = 0.02 |H_t|", "constant, λ = 0.25"};
constexpr double smoothing_of_losses = 0.95;

Line training_line(const PaperSettings& settings, std::size_t r, const PublishedCurve& values, double smoothing) {
  const CurveSource source{values, static_cast<double>(settings.runs[r].first_step), {}};
  CurveStore curves;
  Line line;
  line.name = regularisation_names[r];
  line.ink = Ink(static_cast<int>(r));
  line.dash = r == 0 ? Dash::solid : Dash::dashed;
  line.curve = curves.smoothed("smoothed", source, smoothing);
  if (smoothing > 0) line.raw = curves.raw("raw", source);
  return line;
}

Figure figure6(std::size_t number, const PaperSettings& settings, const StudyProgress&) {
  Figure figure;
  figure.id = number == 0 ? "gka_figure6a" : "gka_figure6b";
  figure.title = number == 0 ? "Training loss" : "Gradient norm";
  figure.x.label = "step";
  figure.x.integer_ticks = true;
  figure.y.label = number == 0 ? "cross-entropy" : "gradient norm |∂L/∂θ|";
  figure.y.unit = number == 0 ? "nats" : "";
  figure.y.scale = Scale::log;
  for (std::size_t r = 0; r < std::min(settings.runs.size(), regularisation_names.size()); ++r) {
    const RunCurves& run = settings.runs[r];
    figure.series.emplace_back(number == 0 ? training_line(settings, r, run.loss, smoothing_of_losses)
                                           : training_line(settings, r, run.gradient_norm, 0));
  }
  const std::size_t steps = settings.runs.empty() ? 0 : settings.runs.front().loss.size;
  figure.subtitle = std::to_string(steps) + " steps · seed " + std::to_string(settings.seed);
  figure.provenance = "afterglow · " + figure.id + " · " + figure.subtitle;
  return figure;
}

constexpr std::array plots{
    PaperPlot{
        "gka_figure1", "Gated KalmaNet, figure 1",
        "residuals of four solvers (a); gradients by conjugate gradient (b, c) and Chebyshev (d, e) against exact", 5,
        figure1},
    PaperPlot{"gka_figure6", "Gated KalmaNet, figure 6",
              "adaptive against constant regularisation: training loss (a) and gradient norm (b) of two presets", 2,
              figure6, regularisations},
    PaperPlot{"gka_figure8", "Gated KalmaNet, figure 8", "residuals of Chebyshev for four strengths of the ridge", 1,
              figure8},
};

}  // namespace

PaperSettings parse_paper_settings(std::span<const std::string> assignments) {
  PaperSettings settings;
  for (const std::string& assignment : assignments) {
    const std::size_t sign = assignment.find('=');
    const std::string key = assignment.substr(0, sign),
                      value = sign == std::string::npos ? "" : assignment.substr(sign + 1);
    bool is_known = false;
    if (key == "size" && (value == "full" || value == "reduced")) {
      settings.is_full_size = value == "full";
      is_known = true;
    }
    for (const Arithmetic arithmetic : all_arithmetics) {
      if (key != "arithmetic" || value != name_of(arithmetic)) continue;
      settings.arithmetic = arithmetic;
      is_known = true;
    }
    if (key == "seed") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), settings.seed);
      is_known = error == std::errc() && end == value.data() + value.size() && !value.empty();
    }
    if (!is_known) {
      throw Error(ExitCode::bad_input, "--set " + assignment +
                                           ": a figure of a paper takes size=full or size=reduced, "
                                           "arithmetic=bf16, tf32, fp32 or fp64, and seed=NUMBER");
    }
  }
  return settings;
}

std::span<const PaperPlot> paper_plots() { return plots; }

const PaperPlot* find_paper_plot(std::string_view id) {
  for (const PaperPlot& plot : plots) {
    if (plot.id == id) return &plot;
  }
  return nullptr;
}

}  // namespace afterglow
