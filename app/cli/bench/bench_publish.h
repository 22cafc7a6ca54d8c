// What `afterglow bench publish` measures: how much of the training's speed it costs to be watched.
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
  AnalysisSet analyses;                   ///< that the reader asks for
  std::vector<std::string> changes = {};  ///< of the recipe, as `--set` takes them
};

/// What the page asks for with which the window opens: spectrum, power filter, stepper, conditioning, token weights.
inline constexpr AnalysisSet first_page_analyses =
    Analysis::spectra | Analysis::trace | Analysis::solvers | Analysis::probe;

inline const std::vector<std::string> long_echo = {"batch=8", "task.length=1024"};

inline const PublishCase publish_cases[] = {
    {"publish tiny, first page", "tiny", first_page_analyses},
    {"publish tiny, every page", "tiny", all_analyses},
    {"publish ssm-ska, first page", "ssm-ska", first_page_analyses},
    {"publish ssm-ska, every page", "ssm-ska", all_analyses},
    {"publish echo-50m B8 T1024, every page", "echo-50m", all_analyses, long_echo},
};

/// Steps a second of one session that trains without end, with a reader that takes its observation at 60 Hz as the
/// window does, and without any, in turns.
class PublishBench {
 public:
  struct Stretch {
    double seconds = 0;
    std::int64_t steps = 0;
    double step_ms() const { return 1e3 * seconds / static_cast<double>(steps); }
  };

  /// Returns when every analysis has been made once. Throws Error for what the session reports as a failure.
  PublishBench(Recipe recipe, AnalysisSet analyses, const SessionOptions& options);
  /// With a reader, who has been there for as long before.
  Stretch watched(double seconds);
  /// Without.
  Stretch alone(double seconds);

 private:
  Stretch stretch(double seconds);

  Session session_;
};

}  // namespace afterglow
