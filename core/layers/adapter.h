// A low-rank map next to a projection (LoRA): uses of shared weights differ by it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "core/io/json_file.h"
#include "core/ops/ops.h"

namespace afterglow {

/// A layer's "adapter": {"rank": 8, "use": 1}; rank 0: none. `use` tells the adapters of shared weights apart.
struct AdapterConfig {
  std::int64_t rank = 0, use = 0;
  std::string name(const std::string& part) const { return "adapter." + std::to_string(use) + "." + part + ".weight"; }
};

inline AdapterConfig read_adapter(const nlohmann::json& layer, const std::string& where) {
  if (!layer.contains("adapter")) return {};
  const nlohmann::json& own = layer["adapter"];
  refuse_unknown_keys(own, {"rank", "use"}, where + ".adapter");
  return {get_integer(own, "rank", std::nullopt, 1, 65536, where + ".adapter"),
          get_integer(own, "use", 0, 0, 1024, where + ".adapter")};
}

/// up(down x), added to what the projection makes of x; `up` begins at zero.
struct Adapter {
  const Parameter *down = nullptr, *up = nullptr;  ///< [rank, in], [out, rank]; null: none
  Adapter() = default;
  Adapter(const AdapterConfig& config, const ParameterScope& parameters, const std::string& part, std::int64_t rows,
          std::int64_t columns)
      : down(&parameters.add(config.name(part + "_down"), {config.rank, columns}, fan_in_uniform())),
        up(&parameters.add(config.name(part), {rows, config.rank}, zeros())) {}
  Var added(Tape& tape, const Var& y, const Var& x) const {
    if (down == nullptr) return y;
    return add(tape, y, linear(tape, linear(tape, x, tape.parameter(*down)), tape.parameter(*up)));
  }
};

}  // namespace afterglow
