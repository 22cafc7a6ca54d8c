// Gated KalmaNet's figures 1, 5, 6 and 8, and the limit of Spectral Memory's kernel.
#include "views/figures/studies/paper_figures.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/figure/axis.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

std::string size_text(const StudySize& size, bool is_network) {
  std::string text = is_network ? std::to_string(size.layers) + " layers" : "B " + std::to_string(size.batch);
  return text + " · T " + std::to_string(size.tokens) + " · H " + std::to_string(size.heads) + " · D " +
         std::to_string(size.width);
}

Figure iteration_figure(std::string id, std::string title, const StudyView& study, std::string label) {
  Figure figure = sheet(
      std::move(id), std::move(title),
      size_text(study.size, study.is_network) + " · " + std::string(name_of(study.arithmetic)),
      {.label = "iteration", .range = Range{0, static_cast<double>(study.size.iterations)}, .integer_ticks = true},
      {.label = std::move(label), .scale = Scale::log});
  figure.provenance = "afterglow · " + figure.id + " · seed " + std::to_string(study.seed) + " · " + figure.subtitle;
  return figure;
}

Line study_line(const StudyCurve& curve, std::string name, Ink ink) {
  return Line{.name = std::move(name), .curve = {curve.x, curve.y, nullptr}, .ink = ink};
}

Dash dash_of(const StudyCurve& curve) { return curve.is_dashed ? Dash::dashed : Dash::solid; }

/// A line for each curve; `ink` takes its index.
void add_curves(Figure& figure, const std::vector<StudyCurve>& curves, const auto& ink) {
  for (std::size_t c = 0; c < curves.size(); ++c)
    figure.series.push_back(styled(study_line(curves[c], curves[c].name, ink(c)), {.dash = dash_of(curves[c])}));
}

/// The n-th curve in the palette's n-th colour.
Ink own_ink(std::size_t c) { return static_cast<int>(c); }

constexpr std::array<const char*, 2> regularisation_names{"adaptive, λ_t = 0.02 |H_t|", "constant, λ = 0.25"};
constexpr double smoothing_of_losses = 0.95;

Line training_line(const RunCurves& run, std::size_t r, const Values& values, double smoothing) {
  const CurveSource source{values, static_cast<double>(run.first_step), {}};
  CurveStore curves;
  Line line{.name = regularisation_names[r],
            .curve = curves.smoothed("smoothed", source, smoothing),
            .ink = Ink(static_cast<int>(r)),
            .dash = r == 0 ? Dash::solid : Dash::dashed};
  if (smoothing > 0) line.raw = curves.raw("raw", source);
  return line;
}

}  // namespace

Figure forward_figure(const StudyView& study) {
  Figure figure = iteration_figure("gka_figure1a", "Forward convergence", study, "largest residual |r|");
  for (const StudyCurve& curve : study.curves)
    figure.series.emplace_back(study_line(curve, std::string(name_of(curve.solver)), solver_ink(curve.solver)));
  return figure;
}

Figure backward_figure(char letter, const StudyView& study) {
  const SolverKind solver = study.curves.empty() ? SolverKind::chebyshev : study.curves.front().solver;
  const std::string place = study.is_network ? "gradients of the weights" : "gradients of q and k";
  Figure figure = iteration_figure("gka_figure1" + std::string(1, letter), std::string(name_of(solver)) + ", " + place,
                                   study, "relative difference from exact");
  for (const StudyCurve& curve : study.curves) {
    figure.series.push_back(styled(study_line(curve, curve.is_dashed ? "unrolled" : "implicit",
                                              curve.is_dashed ? Ink(Role::dim) : solver_ink(solver)),
                                   {.dash = dash_of(curve), .marker = Marker::circle}));
  }
  return figure;
}

Figure strength_figure(const StudyView& study) {
  Figure figure =
      iteration_figure("gka_figure8", "Chebyshev and the strength of the ridge", study, "largest residual |r|");
  add_curves(figure, study.curves, own_ink);
  return figure;
}

Figure strength_price_figure(const StudyView& study) {
  Figure figure = iteration_figure("gka_figure8b", "What the ridge costs", study, "mean relative error");
  figure.x = {.label = "strength a", .scale = Scale::log};
  add_curves(figure, study.curves, [](std::size_t c) { return own_ink(c / 2); });
  return figure;
}

Figure capacity_figure(const StudyView& study) {
  Figure figure = iteration_figure("gka_capacity", "Recall and capacity", study, "mean error |Sᵀk − v| / |v|");
  figure.subtitle = std::to_string(study.size.batch * study.size.heads) +
                    " memories of random unit keys and values, D " + std::to_string(study.size.width);
  figure.x = {.label = "pairs / D", .scale = Scale::log};
  figure.y.scale = Scale::linear;
  add_curves(figure, study.curves, own_ink);
  return figure;
}

Figure divisor_figure(const StudyView& study) {
  Figure figure = iteration_figure("gka_figure5", "What a step backwards divides by", study, "divisor");
  figure.x = {.label = "bound of the condition number κ", .scale = Scale::log};
  add_curves(figure, study.curves, [&](std::size_t c) { return solver_ink(study.curves[c].solver); });
  return figure;
}

Figure limits_figure(std::size_t number, const std::vector<StudyCurve>& curves) {
  Figure figure = number == 0
                      ? sheet("echo_phase", "What random phases hide", "content c_t is slow; M and G over 4,096 tokens",
                              {.label = "largest step of the phase", .unit = "rad"}, {"|A| = |M|/G"})
                      : sheet("echo_head", "What the LM head lets through", "a random head, 256 tokens",
                              {.label = "width D", .scale = Scale::log}, {"share of the gradient |G|²"});
  add_curves(figure, curves, own_ink);
  return figure;
}

Figure kl_limit_figure(const std::vector<KlLimit>& modes, double tau) {
  Figure figure =
      sheet("kl_limit", "Eigenvalues as the grid grows finer",
            "exponential kernel, τ = " + number_text(tau, 3) +
                " · solid: eq. 27, dashed: the continuous operator, dotted: eq. 30",
            {.label = "rows of the history T", .scale = Scale::log}, {.label = "eigenvalue", .scale = Scale::log});
  figure.provenance = "afterglow · kl_limit · " + figure.subtitle;
  for (std::size_t k = 0; k < modes.size(); ++k) {
    const KlLimit& mode = modes[k];
    const std::string name = "mode " + std::to_string(mode.mode);
    const auto add = [&](const std::string& which, const std::vector<double>& values, Dash dash) {
      const Line line = line_through(name + which, mode.rows, values, static_cast<int>(k), dash);
      // Named only in the table: the subtitle explains the dashes.
      figure.series.push_back(styled(line, {.is_quiet = !which.empty()}));
    };
    add("", mode.weighted, Dash::solid);
    add(", continuous", std::vector<double>(mode.rows.size(), mode.continuous), Dash::dashed);
    add(", eq. 30", mode.shrinking, Dash::dotted);
  }
  return figure;
}

Figure regularisation_figure(std::size_t number, std::span<const RunCurves> runs, std::uint64_t seed) {
  Figure figure = sheet(number == 0 ? "gka_figure6a" : "gka_figure6b", number == 0 ? "Training loss" : "Gradient norm",
                        "", {.label = "step", .integer_ticks = true},
                        {.label = number == 0 ? "cross-entropy" : "gradient norm |∂L/∂θ|",
                         .unit = number == 0 ? "nats" : "",
                         .scale = Scale::log});
  for (std::size_t r = 0; r < std::min(runs.size(), regularisation_names.size()); ++r) {
    figure.series.emplace_back(number == 0 ? training_line(runs[r], r, runs[r].loss, smoothing_of_losses)
                                           : training_line(runs[r], r, runs[r].gradient_norm, 0));
  }
  const std::size_t steps = runs.empty() ? 0 : runs.front().loss.size();
  figure.subtitle = std::to_string(steps) + " steps · seed " + std::to_string(seed);
  figure.provenance = "afterglow · " + figure.id + " · " + figure.subtitle;
  return figure;
}

namespace {

struct CostPart {
  const char *title, *label, *unit;
  const std::vector<double> LayerCost::*values;
  const double LayerCost::*growth;  ///< nullptr: the table names none
};
constexpr double LayerCost::*no_growth = nullptr;
const CostPart cost_parts[] = {
    {"Training pass", "time of a pass", "ms", &LayerCost::pass_ms, &LayerCost::pass_growth},
    {"One more token", "time of a token", "ms", &LayerCost::step_ms, &LayerCost::step_growth},
    {"State", "state of a sequence", "bytes", &LayerCost::state_bytes, &LayerCost::step_growth},
    {"Memory of a training pass", "memory of a pass", "bytes", &LayerCost::pass_bytes, no_growth}};

}  // namespace

Figure cost_figure(std::size_t number, const CostView& costs) {
  const CostPart& part = cost_parts[std::min(number, std::size(cost_parts) - 1)];
  Figure figure =
      sheet("echo_table1_" + std::string(1, static_cast<char>('a' + number)), part.title,
            "one sequence, d " + std::to_string(costs.width) + ", float32, one thread",
            {.label = "tokens T", .scale = Scale::log}, {.label = part.label, .unit = part.unit, .scale = Scale::log});
  if (part.growth != nullptr) figure.subtitle += " · dashed: as Echo's table 1 says";
  figure.provenance = "afterglow · echo_table1 · " + figure.subtitle;
  for (const LayerCost& layer : costs.layers) {
    const std::vector<double>& values = layer.*part.values;
    if (values.empty()) continue;
    const std::vector<double> lengths(layer.tokens.begin(), layer.tokens.begin() + static_cast<long>(values.size()));
    Line line = line_through(layer.name, lengths, values, layer_ink(layer.kind), Dash::solid);
    figure.series.emplace_back(line);
    if (part.growth == nullptr) continue;
    const double growth = layer.*part.growth;
    line.name += growth == 0 ? ", ∝ 1" : growth == 1 ? ", ∝ T" : ", ∝ T²";
    line.is_quiet = true;  // named only in the table: the subtitle explains the dashes
    line.dash = Dash::dashed;
    std::vector<double> expected;
    for (const double tokens : lengths) expected.push_back(values.back() * std::pow(tokens / lengths.back(), growth));
    line.curve = {lengths, expected, nullptr};
    figure.series.emplace_back(std::move(line));
  }
  return figure;
}

std::string costs_subtitle(const Observation& observation, const Selection&) {
  const CostView* costs = observation.costs.get();
  if (!costs || costs->layers.empty() || costs->layers.front().pass_ms.empty())
    return why_not_yet(observation, "Measuring each layer on this machine, from short sequences to long ones.");
  return "on this machine, one thread of the processor · d " + std::to_string(costs->width) +
         " · dashed: as Echo's table 1 says";
}

std::vector<Figure> costs_figures(const Observation& observation, const Selection&, CurveStore&) {
  std::vector<Figure> figures;
  const CostView* costs = observation.costs.get();
  if (!costs || costs->layers.empty() || costs->layers.front().pass_ms.empty()) return {};
  for (std::size_t number = 0; number < std::size(cost_parts); ++number) {
    figures.push_back(cost_figure(number, *costs));
    figures.back().id = "costs_" + std::string(1, static_cast<char>('a' + number));
    figures.back().subtitle.clear();  // the panel's subtitle holds for all four
  }
  return figures;
}

}  // namespace afterglow
