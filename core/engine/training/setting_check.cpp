// Ranges of settings, in words.
#include "core/engine/training/setting_check.h"

#include <cmath>
#include <string>

#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {

void check_setting(std::span<const Setting> settings, std::string_view key, double value) {
  for (const Setting& setting : settings) {
    if (setting.key != key) continue;
    const bool is_whole = !setting.integer || value == std::floor(value);
    if (value >= setting.minimum && value <= setting.maximum && is_whole) return;
    throw Error(ExitCode::bad_input, setting.label + " must be " + (setting.integer ? "a whole number " : "") +
                                         "between " + shortest(setting.minimum) + " and " + shortest(setting.maximum) +
                                         "; " + setting.key + " = " + shortest(value));
  }
  throw Error(ExitCode::bad_input,
              std::string(key) + ": there is no such setting in this model; `afterglow info` lists them");
}

}  // namespace afterglow
