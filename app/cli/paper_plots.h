// Reproduces figures of the papers from random problems, or from the training of a few presets.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/figure/figure.h"
#include "core/studies/solver_studies.h"

namespace afterglow {

struct PaperSettings {
  bool is_full_size = false;  ///< the paper's sizes instead of sizes that take seconds
  Arithmetic arithmetic = Arithmetic::fp32;
  std::uint64_t seed = 7;
  std::vector<RunCurves> runs;  ///< runs of the plot's presets, trained to their ends, in order
};
/// "size=full", "size=reduced", "arithmetic=bf16", "seed=3". Throws Error(bad_input) for anything else.
PaperSettings parse_paper_settings(std::span<const std::string> assignments);

struct PaperPlot {
  std::string id;  ///< name for `afterglow plot`, such as gka_figure1
  std::size_t figures;
  /// Figure `number` of this plot, from 0.
  Figure (*make)(std::size_t number, const PaperSettings& settings, const StudyProgress& progress);
  std::vector<std::string> presets{};  ///< presets to train before
  std::string about{}, finding{};      ///< assets/help; the second: differences from the paper's figure, or empty
};
const std::vector<PaperPlot>& paper_plots();
/// nullptr if there is no such plot.
const PaperPlot* find_paper_plot(std::string_view id);

}  // namespace afterglow
