// Whether memory stays where it is while training goes on and on: a tour of all there is to see, samples over time and
// the verdict about them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/session/session.h"

namespace afterglow {

/// Steps of a training that goes on until it is stopped.
inline constexpr std::int64_t endless_steps = 100'000'000;

/// Throws what stopped the training, with step and exit code; nothing while it goes on.
void require_training(const Observation& now);

/// The memory of the program and of the device at one time.
struct SoakSample {
  double seconds = 0;  ///< since the start
  std::int64_t step = 0;
  std::int64_t host_bytes = 0;    ///< resident memory of the program, the least of some readings
  std::int64_t kept_bytes = 0;    ///< of it what is kept on purpose: states to rewind to, and curves
  std::int64_t device_bytes = 0;  ///< held by the back end
  std::int64_t gpu_bytes = 0;     ///< in use on the whole GPU, by all programs; 0 without one
};

/// What an observation says that its run keeps, in bytes: `history_bytes` and all curves.
std::int64_t kept_bytes_of(const Observation& observation);

struct SoakVerdict {
  bool passed = false;
  std::string text;  ///< one sentence with the numbers
};
/// Compares the last sample with the second one, by which a tour has reached everything once. Memory of the host may
/// grow by 16 MiB beyond what is kept on purpose, that of the back end not at all, and that of the whole GPU, where
/// drivers and other programs have a part, by 64 MiB. Wants three samples.
SoakVerdict judge_soak(const std::vector<SoakSample>& samples);

/// What a user does to see everything that the window offers: stops after the first evaluation, waits until every
/// analysis of that step is there, switches a head off and on again where there is one, and goes on. From then on
/// nothing is new, so memory has no reason to grow.
class SoakTour {
 public:
  /// To be called with every observation; sends what is due. True once the tour has ended, for the first time with an
  /// observation of everything.
  bool advance(Session& session, const Observation& now);

 private:
  enum class Stop { train, analyse, edit, restore, home };
  Stop next_ = Stop::train;
};

}  // namespace afterglow
