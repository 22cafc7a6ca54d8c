// The sources of the project as the tests of its architecture read them.
#pragma once
#include <vector>

#include "tests/core/architecture/rules.h"

namespace afterglow {

/// Every header, source, kernel and CMakeLists.txt of app, core, gpu, views and tests.
std::vector<Source> all_sources();

}  // namespace afterglow
