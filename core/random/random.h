// Random: the sequence of random numbers of one (seed, stream, index), drawn one after the other.
#pragma once
#include <cstdint>

#include "core/random/philox.h"

namespace afterglow {

/// The purposes that random numbers serve. Each has its own stream, so that a new draw for one purpose never
/// changes the numbers of another; a new purpose is a new number here.
enum RandomStream : std::uint32_t {
  weights_stream = 1,
  training_data_stream = 2,
  held_out_data_stream = 3,
  task_design_stream = 4,   ///< the definition of a task, the same in every run
  perturbation_stream = 5,  ///< noise added to statistics, to measure its effect
  cotangent_stream = 16,    ///< directions of reverse mode
  race_input_stream = 17,   ///< the one input that all layers of a race see
  recall_stream = 18,       ///< noise and tokens with which the race measures recall
  readout_stream = 19,      ///< values of the sequences on which a read-out of the state is fitted
  dropout_stream = 7,       ///< which activations a training step drops
  generation_stream = 20,   ///< tokens that a model generates
};

/// A sequence of random numbers that depends on (seed, stream, index) and nothing else: two objects with the same
/// three numbers give the same sequence on every machine and in every thread; different ones never share a block.
/// Use one `stream` per purpose (RandomStream) and one `index` per item in it.
/// A sequence holds 2^34 32-bit words, then repeats.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint32_t stream = 0, std::uint64_t index = 0)
      : seed_(seed), index_(index), stream_(stream) {}

  /// Discards the next `words` 32-bit words.
  void skip(std::uint64_t words);
  /// 32 uniform bits.
  std::uint32_t next_u32();
  /// 64 uniform bits: two words, the first one lower.
  std::uint64_t next_u64();
  /// Uniform in [0, 1) with 53 bits.
  double uniform();
  /// Uniform in {0, ..., n - 1}, without bias (Lemire's method with rejection). Requires n >= 1; n = 0 gives 0.
  std::uint64_t uniform_int(std::uint64_t n);
  /// Standard normal by Box-Muller. Each call draws two uniforms and drops the second normal, so its result
  /// depends only on how many words were drawn before it. The last bit of the double is the mathematics library's;
  /// rounded to float the value is the same on every machine for all practical purposes.
  double normal();

 private:
  std::uint64_t seed_;
  std::uint64_t index_;
  std::uint32_t stream_;
  std::uint32_t position_ = 0;  ///< next block
  std::uint32_t used_ = 4;      ///< words of block_ already drawn
  PhiloxBlock block_;
};

}  // namespace afterglow
