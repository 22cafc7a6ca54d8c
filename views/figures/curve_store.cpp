// Appends what is new, and starts over only where the past itself has changed (a rewind).
#include "views/figures/curve_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace afterglow {

namespace {

/// Whether `now` starts with everything that was seen. Storage that is still the same object was only appended to.
bool continues(const Values& seen, const Values& now) {
  if (now.size() < seen.size()) return false;
  if (seen.span().data() == now.span().data() || seen.empty()) return true;
  return std::memcmp(seen.span().data(), now.span().data(), seen.span().size_bytes()) == 0;
}

}  // namespace

Curve CurveStore::raw(const std::string& key, const CurveSource& source) { return grown(key, source, 0); }

Curve CurveStore::smoothed(const std::string& key, const CurveSource& source, double smoothing) {
  return grown(key + " smoothed", source, smoothing);
}

Curve CurveStore::grown(const std::string& key, const CurveSource& source, double smoothing) {
  Kept& kept = kept_[key];
  if (kept.first_x != source.first_x || kept.smoothing != smoothing || !continues(kept.seen, source.values))
    kept = Kept{};
  kept.first_x = source.first_x;
  kept.smoothing = smoothing;
  const std::size_t size =
      source.abscissa.empty() ? source.values.size() : std::min(source.values.size(), source.abscissa.size());
  for (std::size_t i = kept.pyramid.size(); i < size; ++i) {
    double value = source.values[i];
    if (smoothing > 0 && std::isfinite(value)) {
      kept.average = smoothing * kept.average + (1 - smoothing) * value;
      kept.weight *= smoothing;
      value = kept.average / (1 - kept.weight);
    }
    kept.pyramid.append(source.abscissa.empty() ? source.first_x + static_cast<double>(i) : source.abscissa[i], value);
  }
  if (!kept.shared || kept.shared->size() != kept.pyramid.size()) {
    kept.shared = std::make_shared<const CurvePyramid>(kept.pyramid);
  }
  kept.seen = source.values;
  Curve curve;
  curve.pyramid = kept.shared;
  return curve;
}

}  // namespace afterglow
