// One number of a model over the steps at which its run is kept: plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

struct OverTrainingView {
  std::string name;           ///< of the recipe
  std::string number;         ///< "head.1_ska.0.mode_number.1.modulus", as `check --names` lists it
  std::vector<double> step;   ///< ascending
  std::vector<double> value;  ///< NaN where the run had no such number then
  std::size_t missing = 0;    ///< kept states that are still to be measured
};

}  // namespace afterglow
