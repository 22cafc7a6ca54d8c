// Reads the values of `select`.
#include "app/lessons/look_commands.h"

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
  std::vector<std::string> arithmetics{"run"};  // -1, then the indices of the others
  for (const Arithmetic one : all_arithmetics) arithmetics.emplace_back(name_of(one));
  s.arithmetic = get_enum(value, "arithmetic", arithmetics, s.arithmetic + 1, where) - 1;
  s.band = get_bool(value, "band", s.band, where);
  const std::vector<std::string> earlier(earlier_runs_names.begin(), earlier_runs_names.end());
  s.earlier = get_enum(value, "earlier", earlier, s.earlier, where);
  s.smoothing = get_number(value, "smoothing", s.smoothing, 0, 0.9999, where);
  s.window = integer("window", value.contains("smoothing") ? 0 : s.window, 0, most);
  const bool is_other_head = s.layer != selection.layer || s.head != selection.head;
  selection = s;
  if (!is_other_head) return {};
  return {{"theory", json{{"layer", s.layer}, {"head", s.head}}.dump()}};
}

}  // namespace afterglow
