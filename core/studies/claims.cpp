// Claims of assets/claims with the numbers of tables.
#include <algorithm>
#include <cmath>

#include "core/io/json.h"
#include "core/io/named.h"
#include "core/studies/claims_view.h"
#include "core/studies/table.h"

namespace afterglow {

std::span<const EmbeddedText> claim_files();
std::span<const EmbeddedText> result_files();

namespace {

/// The text of a field; empty for null or without it.
std::string text_in(const json& object, const char* field) {
  const json value = object.value(field, json());
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

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

/// What `afterglow table NAME --json` printed, which assets/tables/results keeps; several commands may have measured
/// one table.
const std::vector<json>& kept_results() {
  static const std::vector<json> all =
      mapped(result_files(), [](const EmbeddedText& file) { return json::parse(file.json); });
  return all;
}

/// Mean and standard deviation (n - 1) of a place's metric over the seeds that one of these runs has: "0.376 ± 0.005";
/// where the table is of the best of several rates, over each seed's best. Empty without a run.
std::string spread_at(const json& results, const json& of, int& seeds) {
  if (results["table"] != of["table"]) return "";
  const bool is_of_best = find_table(of["table"].get<std::string>()).is_of_best;
  std::vector<RunResult> found;
  for (const json& run : results["runs"]) {
    const json value = run.value(of["metric"].get<std::string>(), json());
    if (run["series"] != of["series"] || run["x"] != of["x"] || !value.is_number()) continue;
    const auto seed = run["seed"].get<std::uint64_t>();
    const auto same = is_of_best ? std::ranges::find(found, seed, &RunResult::seed) : found.end();
    RunResult& best = same == found.end() ? found.emplace_back() : *same;
    best.seed = seed;
    best.values = {best.values.empty() ? value.get<double>() : std::max(best.values[0], value.get<double>())};
  }
  if (found.empty()) return "";
  const ResultSummary summary = summary_of(found, 0, 0);
  seeds = summary.runs;
  return spread_text(summary, false);
}

/// Takes the numbers of the places from kept results, with the commands that measured them; false where one is missing.
bool add_measured(PaperClaim& claim, const json& places) {
  claim.number.clear();
  claim.command.clear();
  claim.recorded.clear();
  for (const json& place : places) {
    const auto results = std::ranges::find_if(
        kept_results(), [&](const json& one) { return !spread_at(one, place, claim.seeds).empty(); });
    if (results == kept_results().end()) return false;
    claim.number += (claim.number.empty() ? "" : " against ") + spread_at(*results, place, claim.seeds);
    claim.device = text_in(*results, "device");
    const std::string command = text_in(*results, "command");
    if (claim.command.find(command) == std::string::npos)
      claim.command += (claim.command.empty() ? "" : "; ") + command;
  }
  return true;
}

/// Takes published number, own number, seeds, device and command from tables where the claim names places of them.
void add_numbers(PaperClaim& claim, const json& of) {
  const json places = of.is_array() ? of : json::array({of});
  if (const json published = published_at(places.front()); !published.is_null()) claim.published = published.dump();
  PaperClaim measured = claim;
  if (add_measured(measured, places)) claim = std::move(measured);
}

PaperClaim claim_of(const json& json) {
  PaperClaim claim{text_in(json, "paper"),   text_in(json, "claim"),    text_in(json, "published"),
                   text_in(json, "number"),  text_in(json, "command"),  text_in(json, "device"),
                   text_in(json, "verdict"), text_in(json, "recorded"), json.value("seeds", 0)};
  if (json.contains("of")) add_numbers(claim, json["of"]);
  return claim;
}

}  // namespace

const std::vector<PaperClaim>& paper_claims() {
  static const std::vector<PaperClaim> all = mapped(json::parse(claim_files().front().json), claim_of);
  return all;
}

}  // namespace afterglow
