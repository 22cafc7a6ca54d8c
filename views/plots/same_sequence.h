// One inspected sequence for two runs.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/observation/observation.h"
#include "core/recipe/command.h"

namespace afterglow {

/// Lets a second run inspect the tokens of the first; nothing where it does already, or one of them is not known yet.
inline std::optional<Command> same_sequence(const Observation& first, const Observation& second) {
  const auto ids = [](const Observation& o) {
    std::vector<int> tokens;
    const std::vector<TokenView> none;
    for (const TokenView& token : o.inspected ? o.inspected->tokens : o.trace ? o.trace->tokens : none)
      tokens.push_back(token.id);
    return tokens;
  };
  const std::vector<int> wanted = ids(first), present = ids(second);
  if (wanted.empty() || present.empty() || wanted == present) return std::nullopt;
  return Command{"probe_sequence", {{"tokens", wanted}}};
}

}  // namespace afterglow
