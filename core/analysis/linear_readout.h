// What a linear map can read out of samples: ridge regression on some of them, asked of the others.
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// For each list of labels the share of right answers on the samples after the first `fitted` ones. `features` are
/// [samples * width], row-major; each of `labels` has one number in 0 .. choices - 1 for every sample; what is read is
/// the choice with the largest answer. The ridge is `ridge` times the mean square of the centred features. Empty where
/// sizes do not fit; NaN for all where features are not finite.
std::vector<double> readout_accuracies(std::span<const double> features, int samples, int fitted,
                                       std::span<const std::vector<int>> labels, int choices, double ridge);

}  // namespace afterglow
