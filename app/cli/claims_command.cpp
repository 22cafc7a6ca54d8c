// `afterglow claims`: what the papers say, what was measured here and by which command, and whether it holds.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/cli/command_line.h"
#include "core/engine/studies/table.h"
#include "core/io/embedded_text.h"

namespace afterglow {

std::span<const EmbeddedText> claim_files();

namespace {

/// Adds the number that a table has as published where the claim names a place of one.
void add_published(nlohmann::json& claim) {
  if (!claim.contains("of")) return;
  const nlohmann::json& of = claim["of"];
  const Table& table = find_table(of["table"].get<std::string>());
  const auto metric = std::ranges::find(table.metrics, of["metric"].get<std::string>(), &RunMetric::name);
  for (const PublishedSeries& one : table.published) {
    const double value = one.values[static_cast<std::size_t>(metric - table.metrics.begin())];
    const bool is_place = one.x == 0 || of["x"] == one.x;
    if (one.series == of["series"].get<std::string>() && is_place && std::isfinite(value)) claim["published"] = value;
  }
}

}  // namespace

nlohmann::json claims(const Output& output) {
  nlohmann::json all = nlohmann::json::parse(claim_files().front().json);
  const auto text = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
  };
  for (nlohmann::json& claim : all) {
    add_published(claim);
    output.line(text(claim["verdict"]), ": ", text(claim["paper"]), ". ", text(claim["claim"]));
    output.line("  published ", text(claim["published"]), "; here ", text(claim["number"]), ", seeds ",
                text(claim["seeds"]), "; ", text(claim["command"]));
  }
  return {{"claims", std::move(all)}};
}

}  // namespace afterglow
