// Times of the fused cores on the GPU at the sizes of the reference models: captured graphs, launched back to back.
#include <benchmark/benchmark.h>

#include <cmath>
#include <functional>

#include "core/autograd/tape.h"
#include "core/backend/arena.h"
#include "core/ops/ops.h"
#include "core/random/random.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

Backend* gpu() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend(0, nullptr);
  return backend.get();
}

/// Random inputs that stay, and a tape to run on them.
class Bench {
 public:
  Bench() : arena_(*gpu()), tape_(*gpu(), arena_) {}
  ~Bench() {
    for (void* address : owned_) gpu()->release(address);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Tensor tensor(const Shape& shape, double low = -1.0, double high = 1.0) {
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (float& value : values) value = static_cast<float>(low + (high - low) * random_.uniform());
    owned_.push_back(gpu()->allocate(values.size() * sizeof(float)));
    const Tensor result(owned_.back(), shape, DType::f32);
    gpu()->upload(result, values.data());
    return result;
  }

  /// Repeats forward, and backward when asked; the time of one pass is what is reported.
  void run(benchmark::State& state, const std::vector<Tensor>& inputs, bool backward,
           const std::function<Var(Tape&, const std::vector<Var>&)>& forward) {
    constexpr int repeats = 20;
    const auto pass = [&] {
      tape_.begin(backward);
      std::vector<Var> vars;
      for (const Tensor& input : inputs) vars.push_back(tape_.input(input));
      const Var y = forward(tape_, vars);
      if (backward) tape_.backward(y, y.value);
    };
    pass();
    pass();
    const std::unique_ptr<DeviceGraph> graph = gpu()->capture(pass);
    graph->run();
    gpu()->synchronize();
    while (state.KeepRunningBatch(repeats)) {
      for (int i = 0; i < repeats; ++i) graph->run();
      gpu()->synchronize();
    }
  }

 private:
  Random random_{1};
  std::vector<void*> owned_;
  Arena arena_;
  Tape tape_;
};

bool missing(benchmark::State& state) {
  if (gpu() == nullptr) state.SkipWithError("no GPU");
  return gpu() == nullptr;
}

void ridge(benchmark::State& state, RidgeConfig::Mode mode, std::int64_t batch, std::int64_t length, std::int64_t heads,
           std::int64_t rank, std::int64_t width) {
  if (missing(state)) return;
  Bench bench;
  RidgeConfig config;
  config.mode = mode;
  const std::vector<Tensor> inputs{
      bench.tensor({batch, length, heads, rank}), bench.tensor({batch, length, heads, rank}),
      bench.tensor({batch, length, heads, width}), bench.tensor({heads}), bench.tensor({heads})};
  bench.run(state, inputs, state.range(0) != 0, [&](Tape& tape, const std::vector<Var>& in) {
    return ridge_readout(tape, config, {in[0], in[1], in[2], in[3], in[4], {}});
  });
}

void scan(benchmark::State& state, std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t states) {
  if (missing(state)) return;
  Bench bench;
  gpu()->set_precision(state.range(1) == 0 ? Precision::fp32 : Precision::tf32);
  const std::vector<Tensor> inputs{
      bench.tensor({batch, length, heads, 64}), bench.tensor({batch, length, heads}, 0.1, 0.8), bench.tensor({heads}),
      bench.tensor({batch, length, 1, states}), bench.tensor({batch, length, 1, states}),       bench.tensor({heads})};
  bench.run(state, inputs, state.range(0) != 0, [&](Tape& tape, const std::vector<Var>& in) {
    ScanVars vars{in[0], in[1], in[2], in[3], in[4], in[5], {}, {}};
    vars.heads = heads;
    return ssd_scan(tape, vars);
  });
  gpu()->set_precision(Precision::fp32);
}

void delta_rule(benchmark::State& state, std::int64_t batch, std::int64_t length, std::int64_t heads,
                std::int64_t width) {
  if (missing(state)) return;
  Bench bench;
  gpu()->set_precision(state.range(1) == 0 ? Precision::fp32 : Precision::tf32);
  const Shape shape{batch, length, heads, width}, steps{batch, length, heads};
  const double reach = 1.0 / std::sqrt(static_cast<double>(width));
  bench.run(state,
            {bench.tensor(shape), bench.tensor(shape, -reach, reach), bench.tensor(shape),
             bench.tensor(steps, 0.1, 0.9), bench.tensor(steps, -0.2, 0.0)},
            state.range(0) != 0, [&](Tape& tape, const std::vector<Var>& in) {
              return delta_scan(tape, {in[0], in[1], in[2], in[3], in[4], reach});
            });
  gpu()->set_precision(Precision::fp32);
}

void attention(benchmark::State& state, std::int64_t batch, std::int64_t length, std::int64_t heads,
               std::int64_t width) {
  if (missing(state)) return;
  Bench bench;
  gpu()->set_precision(state.range(1) == 0 ? Precision::fp32 : Precision::tf32);
  const Shape shape{batch, length, heads, width};
  bench.run(state, {bench.tensor(shape), bench.tensor(shape), bench.tensor(shape)}, state.range(0) != 0,
            [&](Tape& tape, const std::vector<Var>& in) { return causal_attention(tape, in[0], in[1], in[2], 0.1); });
  gpu()->set_precision(Precision::fp32);
}

void product(benchmark::State& state, std::int64_t rows, std::int64_t in, std::int64_t out) {
  if (missing(state)) return;
  Bench bench;
  gpu()->set_precision(state.range(1) == 0 ? Precision::fp32 : Precision::tf32);
  bench.run(state, {bench.tensor({1, rows, in}), bench.tensor({out, in})}, state.range(0) != 0,
            [&](Tape& tape, const std::vector<Var>& v) { return linear(tape, v[0], v[1]); });
  gpu()->set_precision(Precision::fp32);
}

void norm(benchmark::State& state, std::int64_t rows, std::int64_t width) {
  if (missing(state)) return;
  Bench bench;
  bench.run(state, {bench.tensor({1, rows, width}), bench.tensor({1, rows, width}), bench.tensor({width})},
            state.range(0) != 0,
            [&](Tape& tape, const std::vector<Var>& in) { return gated_rms_norm(tape, in[0], in[1], in[2], 1e-5); });
}

void convolution(benchmark::State& state, std::int64_t batch, std::int64_t length, std::int64_t channels) {
  if (missing(state)) return;
  Bench bench;
  bench.run(state, {bench.tensor({batch, length, channels}), bench.tensor({channels, 1, 4}), bench.tensor({channels})},
            state.range(0) != 0,
            [&](Tape& tape, const std::vector<Var>& in) { return causal_conv(tape, in[0], in[1], in[2]); });
}

using Mode = RidgeConfig::Mode;
void both(benchmark::internal::Benchmark* b) { b->ArgName("backward")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond); }
void both_precisions(benchmark::internal::Benchmark* b) {
  b->ArgNames({"backward", "tf32"})->ArgsProduct({{0, 1}, {0, 1}})->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(ridge, chunk_8x2048x7_r56_P64, Mode::chunk, 8, 2048, 7, 56, 64)->Apply(both);
BENCHMARK_CAPTURE(ridge, prefix_16x128x4_r24_P32, Mode::prefix, 16, 128, 4, 24, 32)->Apply(both);
BENCHMARK_CAPTURE(ridge, prefix_16x64x4_r24_P32, Mode::prefix, 16, 64, 4, 24, 32)->Apply(both);
BENCHMARK_CAPTURE(scan, mamba2_8x2048x14_N64, 8, 2048, 14, 64)->Apply(both_precisions);
BENCHMARK_CAPTURE(scan, mamba2_8x2048x14_N16, 8, 2048, 14, 16)->Apply(both_precisions);
BENCHMARK_CAPTURE(scan, mamba2_16x64x4_N16, 16, 64, 4, 16)->Apply(both_precisions);
BENCHMARK_CAPTURE(delta_rule, gated_8x2048x7_K64, 8, 2048, 7, 64)->Apply(both_precisions);
BENCHMARK_CAPTURE(attention, reference_8x2048x7_D64, 8, 2048, 7, 64)->Apply(both_precisions);
BENCHMARK_CAPTURE(attention, reference_16x64x4_D32, 16, 64, 4, 32)->Apply(both_precisions);
BENCHMARK_CAPTURE(attention, long_4x8192x8_D128, 4, 8192, 8, 128)->Apply(both_precisions);
BENCHMARK_CAPTURE(norm, gated_16384x896, 16384, 896)->Apply(both);
BENCHMARK_CAPTURE(norm, gated_1024x256, 1024, 256)->Apply(both);
BENCHMARK_CAPTURE(convolution, mamba2_8x2048x928, 8, 2048, 928)->Apply(both);
BENCHMARK_CAPTURE(convolution, mamba2_16x64x288, 16, 64, 288)->Apply(both);
BENCHMARK_CAPTURE(product, ska_16384x448x1232, 16384, 448, 1232)->Apply(both_precisions);
BENCHMARK_CAPTURE(product, reference_1024x128x384, 1024, 128, 384)->Apply(both_precisions);

}  // namespace
}  // namespace afterglow

BENCHMARK_MAIN();
