// The benchmark of a head and its loss.
#include "app/cli/bench/bench_head.h"

#include "core/random/random.h"

namespace afterglow {

namespace {

void fill_with(PinnedArray& array, double size, std::uint64_t seed) {
  constexpr std::int64_t drawn = 99991;  // period of the rows, a prime number, so that no two rows are equal
  Random random(seed);
  float* const values = array.host<float>();
  const std::int64_t count = array.device().elements();
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = i < drawn ? static_cast<float>(size * random.normal()) : values[i - drawn];
  array.queue_upload();
}

}  // namespace

HeadBench::HeadBench(const HeadCase& sizes, Backend& backend)
    : sizes_(sizes),
      hidden_(backend, {sizes.batch, sizes.tokens, sizes.width}, DType::f32),
      weight_(backend, {sizes.vocabulary, sizes.width}, DType::f32),
      targets_(backend, {sizes.batch, sizes.tokens}, DType::i32),
      one_(backend, {1}, DType::f32),
      arena_(backend),
      tape_(backend, arena_) {
  fill_with(hidden_, 1, 1);
  fill_with(weight_, 0.02, 2);
  for (std::int64_t i = 0; i < targets_.device().elements(); ++i)
    targets_.host<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % sizes.vocabulary);
  one_.host<float>()[0] = 1;
  targets_.queue_upload();
  one_.queue_upload();
  const auto work = [this] {
    tape_.begin(true);
    const Var hidden = tape_.input(hidden_.device()), weight = tape_.input(weight_.device());
    const CrossEntropy found = sizes_.in_chunks
                                   ? head_cross_entropy(tape_, hidden, weight, targets_.device())
                                   : cross_entropy(tape_, linear(tape_, hidden, weight), targets_.device());
    tape_.backward(found.loss, one_.device());
  };
  for (int i = 0; i < 2; ++i) work();
  graph_ = backend.capture(work);
}

double HeadBench::flops() const {
  return 6.0 * static_cast<double>(sizes_.batch * sizes_.tokens) * static_cast<double>(sizes_.width) *
         static_cast<double>(sizes_.vocabulary);
}

}  // namespace afterglow
