// Appends what is new, and starts over only where the past itself has changed (a rewind).
#include "views/figures/training/curve_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace afterglow {
namespace {

/// Whether `now` starts with all former values. Storage that is still the same object was only appended to.
bool continues(const Values& seen, const Values& now) {
  if (now.size() < seen.size()) return false;
  if (seen.span().data() == now.span().data() || seen.empty()) return true;
  return std::memcmp(seen.span().data(), now.span().data(), seen.span().size_bytes()) == 0;
}

}  // namespace

Curve CurveStore::raw(const std::string& key, const CurveSource& source) { return grown(key, source, {}); }

Curve CurveStore::smoothed(const std::string& key, const CurveSource& source, double smoothing) {
  return grown(key + " smoothed", source, {smoothing, 0});
}

Curve CurveStore::averaged(const std::string& key, const CurveSource& source, int window) {
  return grown(key + " averaged", source, {0, static_cast<std::size_t>(std::max(1, window))});
}

double CurveStore::Kept::window_mean(const Values& values, std::size_t i) {
  const auto add = [&](double value, double sign) {
    if (!std::isfinite(value)) return;
    sum += sign * value;
    count = sign > 0 ? count + 1 : count - 1;
  };
  if (i % filter.window == 0) {  // starts anew, so that rounding does not add up
    sum = 0;
    count = 0;
    for (std::size_t j = i + 1 - std::min(filter.window, i + 1); j <= i; ++j) add(values[j], 1);
  } else {
    add(values[i], 1);
    if (i >= filter.window) add(values[i - filter.window], -1);
  }
  return std::isfinite(values[i]) ? sum / static_cast<double>(count) : values[i];
}

double CurveStore::Kept::filtered(const Values& values, std::size_t i) {
  if (filter.window > 0) return window_mean(values, i);
  const double value = values[i];
  if (filter.smoothing <= 0 || !std::isfinite(value)) return value;
  average = filter.smoothing * average + (1 - filter.smoothing) * value;
  weight *= filter.smoothing;
  return average / (1 - weight);
}

Curve CurveStore::grown(const std::string& key, const CurveSource& source, const Filter& filter) {
  Kept& kept = kept_[key];
  if (kept.first_x != source.first_x || kept.filter != filter || !continues(kept.seen, source.values)) kept = Kept{};
  kept.first_x = source.first_x;
  kept.filter = filter;
  const std::size_t size =
      source.abscissa.empty() ? source.values.size() : std::min(source.values.size(), source.abscissa.size());
  for (std::size_t i = kept.pyramid.size(); i < size; ++i) {
    kept.pyramid.append(source.abscissa.empty() ? source.first_x + static_cast<double>(i) : source.abscissa[i],
                        kept.filtered(source.values, i));
  }
  if (!kept.shared || kept.shared->size() != kept.pyramid.size())
    kept.shared = std::make_shared<const CurvePyramid>(kept.pyramid);
  kept.seen = source.values;
  return Curve{.pyramid = kept.shared};
}

}  // namespace afterglow
