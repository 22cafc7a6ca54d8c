// An observation as a broken or hostile session would send it: well-formed bytes in which one value is not what it was.
#pragma once
#include <cstdint>
#include <string>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// The number of values that can be changed: numbers, choices, texts, and lengths of lists; of a long list its first,
/// middle and last element.
std::int64_t changeable_values(const Observation& now);

/// The message that shows `now` with value `place` changed in one of many ways.
std::string changed_sight(const Observation& now, std::int64_t place, std::uint64_t way);

}  // namespace afterglow
