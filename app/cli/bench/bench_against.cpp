// Ratios between two results of benchmarks.
#include "app/cli/bench/bench_against.h"

#include <algorithm>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

using nlohmann::json;

bool is_time(const json& row) {
  return row.is_object() && row.value("name", json()).is_string() && row.value("median_ms", json()).is_number() &&
         row["median_ms"].get<double>() > 0;
}

}  // namespace

EarlierBench::EarlierBench(const std::filesystem::path& file) : file_(file), earlier_(read_json(file)) {
  const bool is_result = earlier_.is_object() && earlier_.value("rows", json()).is_array() &&
                         earlier_.value("device", json()).is_string() &&
                         earlier_.value("precision", json()).is_string();
  if (!is_result || std::ranges::none_of(earlier_["rows"], is_time)) {
    throw Error(ExitCode::bad_input,
                file.string() + " contains no benchmarks; `afterglow bench --json > FILE` writes such a file");
  }
}

void EarlierBench::compare(json& result, const Output& output) const {
  result["against"] = {{"file", file_.string()}, {"device", earlier_["device"]}, {"precision", earlier_["precision"]}};
  output.line("against " + file_.string() + ":");
  for (const char* what : {"device", "precision"}) {
    if (earlier_[what] != result[what])
      output.line("  another " + std::string(what) + ": " + earlier_[what].get<std::string>());
  }
  for (json& row : result["rows"]) {
    if (!is_time(row)) continue;
    const auto known = std::ranges::find_if(
        earlier_["rows"], [&](const json& before) { return is_time(before) && before["name"] == row["name"]; });
    const double now = row["median_ms"].get<double>();
    const std::string name = row["name"];
    if (known == earlier_["rows"].end()) {
      output.print("  %-34s %10.3f ms, new", name.c_str(), now);
      continue;
    }
    const double before = (*known)["median_ms"].get<double>();
    row["before_ms"] = before;
    row["ratio"] = now / before;
    output.print("  %-34s %10.3f ms, before %10.3f: %.2f times as long", name.c_str(), now, before, now / before);
  }
}

}  // namespace afterglow
