// The version line of --version, `info` and exported files.
#pragma once
#include <string>

namespace afterglow {

/// "afterglow 0.1.0".
std::string version_line();

}  // namespace afterglow
