// Runs the studies of the papers' figures and equations and draws them.
#include "app/cli/paper_plots.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "app/cli/command_line.h"
#include "core/engine/analyses/costs/layer_costs.h"
#include "core/figure/axis.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/recipe/recipe.h"
#include "views/figures/studies/paper_figures.h"

namespace afterglow {
namespace {

constexpr double usual_strength = 0.02;

StudyView study_of(const PaperSettings& settings, bool is_network) {
  StudyView study;
  if (settings.is_full_size) study.size = full_size(is_network);
  study.is_network = is_network;
  study.arithmetic = settings.arithmetic;
  study.seed = settings.seed;
  return study;
}

/// The largest residuals of one solver, as a curve.
StudyCurve residuals(const StudyView& study, SolverKind solver, double strength, const StudyProgress& progress) {
  StudyCurve curve{"a = " + number_text(strength, 2), solver, false, {}, {}};
  curve.y = worst_residuals(study.size, solver, strength, study.arithmetic, study.seed, progress);
  for (std::size_t i = 0; i < curve.y.size(); ++i) curve.x.push_back(static_cast<double>(i));
  return curve;
}

/// The progress of part `part` of several.
StudyProgress part_of(const StudyProgress& progress, std::size_t part, std::size_t parts) {
  return [&progress, part, parts](double share) {
    progress((static_cast<double>(part) + share) / static_cast<double>(parts));
  };
}

Figure figure1(std::size_t number, const PaperSettings& settings, const StudyProgress& progress) {
  StudyView study = study_of(settings, number == 2 || number == 4);
  if (number == 0) {
    constexpr std::array solvers{SolverKind::chebyshev, SolverKind::gradient_descent, SolverKind::nesterov,
                                 SolverKind::conjugate_gradient};
    for (std::size_t s = 0; s < solvers.size(); ++s)
      study.curves.push_back(residuals(study, solvers[s], usual_strength, part_of(progress, s, solvers.size())));
    return forward_figure(study);
  }
  if (study.is_network) study.size.batch = 1;
  const SolverKind solver = number <= 2 ? SolverKind::conjugate_gradient : SolverKind::chebyshev;
  const auto measure = study.is_network ? network_gradient_study : layer_gradient_study;
  study.curves = measure(study.size, solver, usual_strength, study.arithmetic, study.seed, progress);
  return backward_figure(static_cast<char>('a' + number), study);
}

Figure figure5(std::size_t, const PaperSettings& settings, const StudyProgress& progress) {
  StudyView study = study_of(settings, false);
  study.curves = divisor_study(study.size, study.arithmetic, study.seed, progress);
  return divisor_figure(study);
}

Figure kl_limit(std::size_t, const PaperSettings& settings, const StudyProgress&) {
  constexpr double tau = 64;  // as in the paper
  constexpr int modes = 4;
  std::vector<int> rows;
  for (int n = 8; n <= (settings.is_full_size ? 16384 : 4096); n *= 2) rows.push_back(n);
  return kl_limit_figure(kl_limits(tau, modes, rows), tau);
}

Figure echo_table1(std::size_t number, const PaperSettings& settings, const StudyProgress& progress) {
  CostPlan plan;
  if (settings.is_full_size) plan.tokens.insert(plan.tokens.end(), {2048, 4096, 8192});
  plan.measures_passes = number == 0 || number == 3;
  plan.measures_steps = !plan.measures_passes;
  return cost_figure(number, layer_costs(plan, progress));
}

Figure echo_limits(std::size_t number, const PaperSettings& settings, const StudyProgress&) {
  return limits_figure(number, number == 0 ? phase_study(settings.seed) : head_study(settings.seed));
}

Figure figure6(std::size_t number, const PaperSettings& settings, const StudyProgress&) {
  return regularisation_figure(number, settings.runs, settings.seed);
}

Figure figure8(std::size_t number, const PaperSettings& settings, const StudyProgress& progress) {
  StudyView study = study_of(settings, false);
  if (number == 1) {
    study.size.tokens = study.size.width;  // as many pairs as a memory can hold; with more it recalls none
    study.curves = strength_study(study.size, study.arithmetic, study.seed, progress);
    return strength_price_figure(study);
  }
  constexpr std::array strengths{0.01, 0.02, 0.05, 0.1};
  for (std::size_t s = 0; s < strengths.size(); ++s)
    study.curves.push_back(
        residuals(study, SolverKind::chebyshev, strengths[s], part_of(progress, s, strengths.size())));
  return strength_figure(study);
}

Figure capacity(std::size_t, const PaperSettings& settings, const StudyProgress&) {
  StudyView study = study_of(settings, false);
  study.arithmetic = Arithmetic::fp64;
  study.curves = capacity_study(study.size, usual_strength, study.seed);
  return capacity_figure(study);
}

std::vector<PaperPlot> plots_with_texts() {
  std::vector<PaperPlot> plots{{"gka_figure1", 5, figure1},
                               {"gka_figure5", 1, figure5},
                               {"gka_figure6", 2, figure6, {"gka-adaptive", "gka-constant"}},
                               {"gka_figure8", 2, figure8},
                               {"gka_capacity", 1, capacity},
                               {"echo_table1", 4, echo_table1},
                               {"echo_limits", 2, echo_limits},
                               {"kl_limit", 1, kl_limit}};
  const nlohmann::json& texts = help_texts().at("plot").at("papers");
  for (PaperPlot& plot : plots) {
    plot.about = texts.at(plot.id).at("about");
    plot.finding = texts.at(plot.id).value("finding", "");
  }
  return plots;
}

}  // namespace

PaperSettings parse_paper_settings(std::span<const std::string> assignments) {
  PaperSettings settings;
  for (const std::string& assignment : assignments) {
    const std::size_t sign = assignment.find('=');
    const std::string key = assignment.substr(0, sign),
                      value = sign == std::string::npos ? "" : assignment.substr(sign + 1);
    const auto arithmetic = std::ranges::find(study_arithmetics, value, [](Arithmetic one) { return name_of(one); });
    const std::optional<std::int64_t> seed = parse_whole_number(value);
    if (key == "size" && (value == "full" || value == "reduced")) {
      settings.is_full_size = value == "full";
    } else if (key == "arithmetic" && arithmetic != study_arithmetics.end()) {
      settings.arithmetic = *arithmetic;
    } else if (key == "seed" && seed && *seed >= 0 && *seed <= largest_seed) {
      settings.seed = static_cast<std::uint64_t>(*seed);
    } else {
      throw UsageError("--set ", assignment,
                       ": a paper's figure takes size=full or size=reduced, arithmetic=whole-bf16, bf16, tf32, fp32 or "
                       "fp64, and seed=NUMBER");
    }
  }
  return settings;
}

const std::vector<PaperPlot>& paper_plots() {
  static const std::vector<PaperPlot> plots = plots_with_texts();
  return plots;
}

const PaperPlot* find_paper_plot(std::string_view id) { return find_by(paper_plots(), id, &PaperPlot::id); }

}  // namespace afterglow
