// Reads a table from JSON (assets/tables/README.md describes the fields).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "core/engine/studies/table.h"
#include "core/io/embedded_text.h"

namespace afterglow {

/// The table that `json` describes, without its other sizes. Throws Error(bad_input) that names the table and the field
/// for a missing or unknown field, an undefined word, and an unknown measure.
Table read_table(const std::string& name, const nlohmann::json& json);

/// The files of assets/tables.
std::span<const EmbeddedText> table_texts();

}  // namespace afterglow
