// `afterglow claims`: what the papers say, what was measured here and by which command, and whether it holds.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/cli/command_line.h"
#include "core/engine/studies/table.h"
#include "core/io/embedded_text.h"

namespace afterglow {

std::span<const EmbeddedText> claim_files();
std::span<const EmbeddedText> result_files();

namespace {

using nlohmann::json;

/// The number that a table has as published for a place; null without one.
json published_at(const json& of) {
  const Table& table = find_table(of["table"].get<std::string>());
  const auto metric = std::ranges::find(table.metrics, of["metric"].get<std::string>(), &RunMetric::name);
  for (const PublishedSeries& one : table.published) {
    const double value = one.values[static_cast<std::size_t>(metric - table.metrics.begin())];
    const bool is_place = one.x == 0 || of["x"] == one.x;
    if (one.series == of["series"].get<std::string>() && is_place && std::isfinite(value)) return value;
  }
  return nullptr;
}

/// What `afterglow table NAME --json` printed, which assets/tables/results keeps; null without it.
json results_of(const std::string& table) {
  for (const EmbeddedText& file : result_files()) {
    if (table == file.name) return json::parse(file.json);
  }
  return nullptr;
}

/// Mean and standard deviation (n - 1) of a place's metric over its seeds: "0.376 ± 0.005"; empty without a run.
std::string spread_at(const json& results, const json& of, std::size_t& seeds) {
  double sum = 0, squares = 0;
  seeds = 0;
  for (const json& run : results.value("runs", json::array())) {
    if (run["series"] != of["series"] || run["x"] != of["x"] || !run[of["metric"].get<std::string>()].is_number())
      continue;
    const auto value = run[of["metric"].get<std::string>()].get<double>();
    sum += value;
    squares += value * value;
    ++seeds;
  }
  if (seeds == 0) return "";
  const auto count = static_cast<double>(seeds);
  const double mean = sum / count,
               deviation = std::sqrt(std::max(0.0, squares - sum * mean) / std::max(count - 1, 1.0));
  const auto rounded = [](double value) { return json(std::round(value * 1000) / 1000).dump(); };
  return rounded(mean) + (seeds > 1 ? " ± " + rounded(deviation) : "");
}

/// Takes published number, own number, seeds, device and command from tables where the claim names places of them.
void add_numbers(json& claim) {
  if (!claim.contains("of")) return;
  const json places = claim["of"].is_array() ? claim["of"] : json::array({claim["of"]});
  if (const json published = published_at(places.front()); !published.is_null()) claim["published"] = published;
  const json results = results_of(places.front()["table"].get<std::string>());
  std::string all;
  std::size_t seeds = 0;
  for (const json& place : places) {
    const std::string one = results.is_null() ? "" : spread_at(results, place, seeds);
    if (one.empty()) return;
    all += (all.empty() ? "" : " against ") + one;
  }
  claim["number"] = all;
  claim["seeds"] = seeds;
  claim["command"] = results["command"];
  claim["device"] = results["device"];
}

}  // namespace

json claims(const Output& output) {
  json all = json::parse(claim_files().front().json);
  const auto text = [](const json& value) {
    return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
  };
  for (json& claim : all) {
    add_numbers(claim);
    output.line(text(claim["verdict"]), ": ", text(claim["paper"]), ". ", text(claim["claim"]));
    output.line("  published ", text(claim["published"]), "; here ", text(claim["number"]), ", seeds ",
                text(claim["seeds"]), "; ", text(claim["command"]));
  }
  return {{"claims", std::move(all)}};
}

}  // namespace afterglow
