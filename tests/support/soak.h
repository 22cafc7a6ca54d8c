// Checks that memory does not grow during a long training: samples over time, and a verdict.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// The memory of the program and of the device at one time.
struct SoakSample {
  double seconds = 0;  ///< since the start
  std::int64_t step = 0;
  std::int64_t host_bytes = 0;    ///< resident memory of the program, the minimum of several readings
  std::int64_t kept_bytes = 0;    ///< kept on purpose: saved states and curves
  std::int64_t device_bytes = 0;  ///< held by the back end
  std::int64_t gpu_bytes = 0;     ///< in use on the whole GPU by all programs; 0 without a GPU
};

/// Bytes that the run keeps on purpose: `history_bytes` and all curves.
std::int64_t kept_bytes_of(const Observation& observation);

struct SoakVerdict {
  bool passed = false;
  std::string text;  ///< one sentence with the numbers
};
/// Compares the last sample with the second one, which the tour reaches after showing everything once. Host memory may
/// grow by 16 MiB beyond what is kept on purpose, that of the back end not at all, that of the whole GPU, which
/// includes drivers and other programs, by 64 MiB. Needs three samples.
SoakVerdict judge_soak(const std::vector<SoakSample>& samples);

}  // namespace afterglow
