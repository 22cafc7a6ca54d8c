// Moves sequences to the right by the blank positions.
#include "core/tasks/prefixed_task.h"

#include <algorithm>

namespace afterglow {

void PrefixedTask::generate(Random& random, std::uint64_t turn, Split split, Example& out) const {
  const auto size = static_cast<std::size_t>(inner_->length());
  Example own{
      std::vector<std::int32_t>(size, 0), std::vector<std::int32_t>(size, -1), std::vector<std::uint8_t>(size, 0), {}};
  inner_->generate(random, turn, split, own);
  std::ranges::copy(own.tokens, out.tokens.begin() + places_);
  std::ranges::copy(own.targets, out.targets.begin() + places_);
  std::fill(out.context.begin(), out.context.begin() + places_, std::uint8_t{1});
  std::ranges::copy(own.context, out.context.begin() + places_);
  for (const std::int32_t source : own.sources) out.sources.push_back(source + places_);
}

}  // namespace afterglow
