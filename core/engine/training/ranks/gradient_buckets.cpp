// Cuts from the end to the beginning, between parameters.
#include "core/engine/training/ranks/gradient_buckets.h"

namespace afterglow {

std::vector<GradientBucket> gradient_buckets(const ParameterStore& store) {
  constexpr std::int64_t max_buckets = 8;
  const Tensor all = store.gradients();
  const std::int64_t enough = (all.elements() + max_buckets - 1) / max_buckets;
  std::vector<GradientBucket> buckets;
  std::int64_t end = all.elements();
  int end_parameter = static_cast<int>(store.all().size());
  for (int i = end_parameter - 1; i >= 0; --i) {
    const std::int64_t offset = store.all()[static_cast<std::size_t>(i)].offset;
    if (i > 0 && end - offset < enough) continue;
    auto* address = all.as<std::byte>() + offset * static_cast<std::int64_t>(size_of(all.dtype));
    buckets.push_back(
        {i, end_parameter, offset, Tensor(address, {end - offset}, all.dtype), store.backend().make_event()});
    end = offset;
    end_parameter = i;
  }
  return buckets;
}

}  // namespace afterglow
