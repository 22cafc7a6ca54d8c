// One number of a model over the saved steps of its run: plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace afterglow {

struct OverTrainingView {
  std::string name;           ///< of the recipe
  std::string number;         ///< "head.1_ska.0.mode_number.1.modulus", as `check --names` lists it
  std::vector<double> step;   ///< ascending
  std::vector<double> value;  ///< NaN if the run had no such number at that step
  std::size_t missing = 0;    ///< saved states without a value yet
};

}  // namespace afterglow
