// Two trainings in lockstep that differ in one thing, as plain values: the distance of their weights after each step,
// and where the difference first appears.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

/// The first number of a pass that differs by more than the threshold in units in the last place.
struct FirstDifference {
  std::int64_t step = -1;    ///< of the weights of the pass; -1: none found
  std::string place;         ///< "layers.1.ska.readout"; for a result without a name, its part
  std::string operation;     ///< operation of the result: "ridge_readout"
  int token = 0, head = -1;  ///< -1: the result has no heads
  double ulps = 0;           ///< |a - b| in units in the last place (float32) of the result's largest number
};

struct MicroscopeView {
  std::string name;                           ///< of the recipe
  std::string change;                         ///< the difference of the second training: "one bit of head.weight[0]"
  std::int64_t from = 0, until = 0;           ///< steps at which the comparison begins and ends
  double ulps = 16;                           ///< differences above this are reported
  std::vector<std::string> parts;             ///< of the model
  std::vector<std::string> kinds;             ///< of the parts, for their colours
  std::vector<double> step;                   ///< from `from` on
  std::vector<std::vector<double>> distance;  ///< [parts][steps]: |w - w'| / |w| of the part's weights
  std::vector<double> whole;                  ///< [steps]: of all weights
  double slope = 0;                           ///< of ln(distance) over steps, 1 / step; NaN without two distances
  FirstDifference first;
  bool is_complete = false;

  bool is_zero() const {
    for (const double d : whole) {
      if (d != 0) return false;
    }
    return true;
  }
};

}  // namespace afterglow
