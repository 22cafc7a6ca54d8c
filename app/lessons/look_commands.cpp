// Reads the values of `select` and `race`.
#include "app/lessons/look_commands.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/solvers/solver_view.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

using nlohmann::json;

const std::string where = "the command's value";

}  // namespace

std::vector<Command> change_selection(Selection& selection, const json& value) {
  refuse_unknown_keys(value,
                      {"layer", "head", "mode", "token", "power", "all_heads", "scaled", "change", "arithmetic", "band",
                       "earlier", "smoothing", "window"},
                      where);
  constexpr std::int64_t most = 1 << 20;
  const auto integer = [&](const char* key, int now, std::int64_t low, std::int64_t high) {
    return static_cast<int>(get_integer(value, key, now, low, high, where));
  };
  Selection s = selection;
  s.layer = integer("layer", s.layer, -1, most);
  s.head = integer("head", s.head, 0, most);
  s.mode = integer("mode", s.mode, -1, most);
  s.token = integer("token", s.token, -1, most);
  s.power = integer("power", s.power, -1, 64);
  s.all_heads = get_bool(value, "all_heads", s.all_heads, where);
  s.scaled = get_bool(value, "scaled", s.scaled, where);
  s.change = get_bool(value, "change", s.change, where);
  if (value.contains("arithmetic")) {
    const std::string name = get_choice(value, "arithmetic", {"run", "bf16", "tf32", "fp32", "fp64"}, "run", where);
    s.arithmetic = -1;
    for (std::size_t i = 0; i < all_arithmetics.size(); ++i) {
      if (name == name_of(all_arithmetics[i])) s.arithmetic = static_cast<int>(i);
    }
  }
  s.band = get_bool(value, "band", s.band, where);
  if (value.contains("earlier")) {
    const std::vector<std::string> names(earlier_runs_names.begin(), earlier_runs_names.end());
    const std::string name = get_choice(value, "earlier", names, "grey", where);
    s.earlier = static_cast<EarlierRuns>(std::ranges::find(names, name) - names.begin());
  }
  s.smoothing = get_number(value, "smoothing", s.smoothing, 0, 0.9999, where);
  s.window = integer("window", value.contains("smoothing") ? 0 : s.window, 0, most);
  const bool is_other_head = s.layer != selection.layer || s.head != selection.head;
  selection = s;
  if (!is_other_head) return {};
  return {{"theory", json{{"layer", s.layer}, {"head", s.head}}.dump()}};
}

std::vector<Command> race_commands(const json& value) {
  if (value.empty()) return {};
  return {{"influence", json{{"race", value}}.dump()}};
}

}  // namespace afterglow
