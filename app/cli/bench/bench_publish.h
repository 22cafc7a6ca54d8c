// `afterglow bench publish` measures how much training speed it costs to publish observations.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/recipe/recipe.h"
#include "core/engine/session/session.h"

namespace afterglow {

struct PublishCase {
  const char* name;
  const char* preset;
  AnalysisSet analyses;                   ///< analyses that the reader wants
  std::vector<std::string> changes = {};  ///< fields of the recipe, as `--set` takes them
};

/// The analyses of the page that the window opens with: spectrum, power filter, stepper, conditioning, token weights.
inline constexpr AnalysisSet first_page_analyses =
    Analysis::spectra | Analysis::trace | Analysis::solvers | Analysis::inspected;

inline const std::vector<std::string> long_echo = {"batch=8", "task.length=1024"};

inline const PublishCase publish_cases[] = {
    {"publish tiny, first page", "tiny", first_page_analyses},
    {"publish tiny, every page", "tiny", all_analyses},
    {"publish ssm-ska, first page", "ssm-ska", first_page_analyses},
    {"publish ssm-ska, every page", "ssm-ska", all_analyses},
    {"publish echo-50m B8 T1024, every page", "echo-50m", all_analyses, long_echo},
};

/// Steps per second of one session that trains without end, in turns with a reader, which takes its observation at 60
/// Hz as the window does, and without one.
class PublishBench {
 public:
  struct Stretch {
    double seconds = 0;
    std::int64_t steps = 0;
    double step_ms() const { return 1e3 * seconds / static_cast<double>(steps); }
  };

  /// Returns when every analysis has been made once. Throws Error for what the session reports as a failure.
  PublishBench(Recipe recipe, AnalysisSet analyses, const SessionOptions& options);
  /// With a reader, after it has been connected for as long.
  Stretch watched(double seconds);
  /// Without a reader.
  Stretch alone(double seconds);

 private:
  Stretch stretch(double seconds);

  Session session_;
};

}  // namespace afterglow
