// JSON values, under their short name.
#pragma once
#include <nlohmann/json.hpp>

namespace afterglow {
using nlohmann::json;
}
