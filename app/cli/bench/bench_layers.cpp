// Fills inputs with fixed numbers and records passes as graphs.
#include "app/cli/bench/bench_layers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <span>

#include "app/cli/interruption.h"
#include "core/backend/measuring_backend.h"
#include "core/figure/palette.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/number_text.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

/// As a graph, with all memory reserved before.
std::unique_ptr<DeviceGraph> recorded_work(Backend& backend, const std::function<void()>& work) {
  for (int i = 0; i < 2; ++i) work();
  return backend.capture(work);
}

/// Normal numbers of this size; with `row` > 0 every so many neighbours are divided by their length.
void fill_with(PinnedArray& array, double size, std::uint64_t seed, std::int64_t row = 0) {
  constexpr std::int64_t drawn = 99991;  // period of the rows, a prime number, so that no two rows are equal
  Random random(seed);
  float* const values = array.host<float>();
  const std::int64_t count = array.device().elements();
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = i < drawn ? static_cast<float>(size * random.normal()) : values[i - drawn];
  for (std::int64_t first = 0; row > 0 && first < count; first += row) {
    const double length = std::sqrt(std::inner_product(values + first, values + first + row, values + first, 0.0));
    for (float& value : std::span(values + first, static_cast<std::size_t>(row))) value /= static_cast<float>(length);
  }
  array.queue_upload();
}

constexpr std::int64_t first_length = 64, last_length = 65536, width = 256, heads = 4;

/// The best of a few runs, after one run that warms up.
double best_seconds(const std::function<void()>& work, Backend& backend) {
  double best = seconds_of(work, backend);
  for (int i = 0; i < 5; ++i) best = std::min(best, seconds_of(work, backend));
  return best;
}

/// The configuration of the mixer's benchmark of this width, else the small one, so that all mixers have the same
/// width. A layer that can compute by chunks does, as in long trainings.
json config_of(const LayerKind& kind) {
  for (const LayerBenchmark& known : kind.benchmarks) {
    json config = json::parse(known.config);
    if (config[kind.width_field] == width) return config;
  }
  json config = kind.small_config({width, heads, width / heads});
  if (config.contains("mode")) config["mode"] = "chunk";
  return config;
}

/// Bytes that a pass would hold; computed before anything is reserved.
std::size_t needed_bytes(const LayerKind& kind, std::int64_t tokens, Backend& backend) {
  MeasuringBackend counter(backend);
  LayerPass pass(kind, config_of(kind), 1, tokens, counter);
  for (int i = 0; i < 3; ++i) pass.run();
  return counter.peak_bytes();
}

/// Whether so many bytes are free.
bool fits(std::size_t bytes, const Backend& backend) {
  try {
    backend.require_free([bytes] { return bytes; }, 0);
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory) throw;
    return false;
  }
}

std::string name_of(const LayerKind& kind, std::int64_t tokens) {
  return "long " + kind.name + " T" + std::to_string(tokens);
}

json stopped_row(const LayerKind& kind, std::int64_t tokens, const Backend& backend, const char* why) {
  return {{"name", name_of(kind, tokens)},
          {"kind", kind.name},
          {"device", backend.name()},
          {"tokens", tokens},
          {"stopped", why}};
}

json measure_length(const LayerKind& kind, std::int64_t tokens, const LongBounds& bounds, const MachineRates& rates,
                    Backend& backend) {
  LayerPass pass(kind, config_of(kind), 1, tokens, backend);
  const std::unique_ptr<DeviceGraph> graph = pass.recorded();
  std::vector<double> times;
  double sum = 0;
  seconds_of([&] { graph->run(); }, backend);
  while (times.empty() || (sum < bounds.seconds && static_cast<int>(times.size()) < bounds.repeats)) {
    const double taken = seconds_of([&] { graph->run(); }, backend);
    times.push_back(1e3 * taken);
    sum += taken;
    Interruption::check("during \"" + name_of(kind, tokens) + "\"");
  }
  const double count = static_cast<double>(tokens);
  const double flops = pass.flops() + kind.pair_products * count * count * static_cast<double>(width);
  // Each value of a pass counts as written and read once, each weight as read twice and its gradient as written.
  const double bytes = 2.0 * static_cast<double>(pass.used_bytes()) + 3.0 * sizeof(float) * pass.weights(),
               floor = 1e3 * std::max(flops / rates.flops, bytes / rates.bytes);
  json row = row_of(name_of(kind, tokens), backend, times, flops, bytes);
  row.update({{"kind", kind.name},
              {"tokens", tokens},
              {"held_bytes", pass.held_bytes()},
              {"floor_ms", floor},
              {"share_of_floor", floor / row["median_ms"].get<double>()}});
  return row;
}

}  // namespace

double seconds_of(const std::function<void()>& work, Backend& backend) {
  const auto start = std::chrono::steady_clock::now();
  work();
  backend.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

json row_of(const std::string& name, const Backend& backend, std::vector<double>& times, double flops, double bytes) {
  std::ranges::sort(times);
  return {{"name", name},
          {"device", backend.name()},
          {"median_ms", times[times.size() / 2]},
          {"min_ms", times.front()},
          {"max_ms", times.back()},
          {"repeats", times.size()},
          {"flops", flops},
          {"bytes", bytes}};
}

LayerPass::LayerPass(const LayerKind& kind, const json& config, std::int64_t batch, std::int64_t tokens,
                     Backend& backend)
    : layer_(make_layer(kind.name, config, ParameterScope(store_, "layer"))),
      x_(backend, {batch, tokens, config[kind.width_field].get<std::int64_t>()}, DType::f32),
      dy_(backend, x_.device().shape, DType::f32),
      arena_(backend),
      tape_(backend, arena_) {
  store_.allocate(backend, DType::f32);
  store_.initialise(7);
  for (std::int64_t i = 0; i < x_.device().elements(); ++i) {
    x_.host<float>()[i] = static_cast<float>(static_cast<double>(i * 2654435761u % 2001) / 1000.0 - 1.0);
    dy_.host<float>()[i] = static_cast<float>(static_cast<double>(i * 40503u % 2001) / 1000.0 - 1.0);
  }
  x_.queue_upload();
  dy_.queue_upload();
}

void LayerPass::run() {
  tape_.begin(true);
  tape_.backward(layer_->forward(tape_, tape_.input(x_.device()), {}), dy_.device());
}

std::unique_ptr<DeviceGraph> LayerPass::recorded() {
  return recorded_work(arena_.backend(), [this] { run(); });
}

double LayerPass::weights() const {
  double sum = 0;
  for (const Parameter& parameter : store_.all()) {
    if (parameter.shape.rank() == 2) sum += static_cast<double>(parameter.shape.elements());
  }
  return sum;
}

void RecordedPass::record(const std::function<void()>& pass) { graph_ = recorded_work(arena_.backend(), pass); }

GkaBench::GkaBench(const GkaCase& sizes, Backend& backend)
    : RecordedPass(backend),
      sizes_(sizes),
      q_(backend, {sizes.batch, sizes.tokens, sizes.heads, sizes.width}, DType::f32),
      k_(backend, q_.device().shape, DType::f32),
      v_(backend, q_.device().shape, DType::f32),
      g_(backend, {sizes.batch, sizes.tokens, sizes.heads}, DType::f32),
      alpha_(backend, g_.device().shape, DType::f32),
      dy_(backend, q_.device().shape, DType::f32) {
  fill_with(q_, 1, 1, sizes.width);
  fill_with(k_, 1, 2, sizes.width);
  fill_with(v_, 1, 3);
  fill_with(dy_, 1, 4);
  Random random(5);
  for (std::int64_t i = 0; i < rows(); ++i) {
    g_.host<float>()[i] = static_cast<float>(-0.1 * random.uniform());
    alpha_.host<float>()[i] = static_cast<float>(random.uniform());
  }
  for (PinnedArray* array : {&g_, &alpha_}) array->queue_upload();
  config_.scale = 1.0 / std::sqrt(static_cast<double>(sizes.width));
  record([this] {
    tape_.begin(true);
    const ChebyshevVars in{tape_.input(q_.device()), tape_.input(k_.device()), tape_.input(v_.device()),
                           tape_.input(g_.device()), tape_.input(alpha_.device())};
    tape_.backward(chebyshev_readout(tape_, config_, in), dy_.device());
  });
}

double GkaBench::flops() const {
  const double products = 2.0 * config_.iterations, per_token = 2.0 * static_cast<double>(sizes_.width) *
                                                                static_cast<double>(sizes_.width + 2 * config_.piece());
  return products * per_token * static_cast<double>(rows());
}

double GkaBench::bytes() const {
  const double panels = 4.0 * static_cast<double>(rows() * sizes_.width);
  const double states = 4.0 * static_cast<double>(sizes_.batch * sizes_.heads * config_.chunks(sizes_.tokens) *
                                                  sizes_.width * sizes_.width);
  return 13.0 * panels + 10.0 * states;
}

HeadBench::HeadBench(const HeadCase& sizes, Backend& backend)
    : RecordedPass(backend),
      sizes_(sizes),
      hidden_(backend, {sizes.batch, sizes.tokens, sizes.width}, DType::f32),
      weight_(backend, {sizes.vocabulary, sizes.width}, DType::f32),
      targets_(backend, {sizes.batch, sizes.tokens}, DType::i32),
      one_(backend, {1}, DType::f32) {
  fill_with(hidden_, 1, 1);
  fill_with(weight_, 0.02, 2);
  for (std::int64_t i = 0; i < targets_.device().elements(); ++i)
    targets_.host<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % sizes.vocabulary);
  one_.host<float>()[0] = 1;
  targets_.queue_upload();
  one_.queue_upload();
  record([this] {
    tape_.begin(true);
    const Var hidden = tape_.input(hidden_.device()), weight = tape_.input(weight_.device());
    const CrossEntropy found = sizes_.in_chunks
                                   ? head_cross_entropy(tape_, hidden, weight, targets_.device())
                                   : cross_entropy(tape_, linear(tape_, hidden, weight), targets_.device());
    tape_.backward(found.loss, one_.device());
  });
}

double HeadBench::flops() const {
  return 6.0 * static_cast<double>(sizes_.batch * sizes_.tokens) * static_cast<double>(sizes_.width) *
         static_cast<double>(sizes_.vocabulary);
}

MachineRates measure_rates(Backend& backend) {
  const bool is_fast = backend.name() == "cuda";
  const std::int64_t n = is_fast ? 4096 : 768, numbers = std::int64_t{1} << (is_fast ? 26 : 23);
  Arena arena(backend);
  const Tensor a = arena.allocate({n, n}, DType::f32), b = arena.allocate({n, n}, DType::f32),
               c = arena.allocate({n, n}, DType::f32), from = arena.allocate({numbers}, DType::f32),
               to = arena.allocate({numbers}, DType::f32);
  for (const Tensor& each : {a, b, c, from, to}) backend.fill(each, 0.5);
  const double product = best_seconds([&] { backend.gemm(false, true, 1, a, b, 0, c); }, backend);
  const double copy = best_seconds([&] { backend.copy(to, from); }, backend);
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return {2.0 * cube / product, 2.0 * sizeof(float) * static_cast<double>(numbers) / copy};
}

void bench_long(const LayerKind& kind, const LongBounds& bounds, const MachineRates& rates, Backend& backend,
                const Output& output, json& rows) {
  double last = 0, growth = 2;
  for (std::int64_t tokens = first_length; tokens <= last_length; tokens *= 2) {
    const std::string name = name_of(kind, tokens);
    if (last * growth > bounds.seconds) {
      rows.push_back(stopped_row(kind, tokens, backend, "time"));
      rows.back()["expected_ms"] = 1e3 * last * growth;
      return output.print("%-34s %-5s left out: a pass would take about %.1f s (--seconds %g)", name.c_str(),
                          backend.name().c_str(), last * growth, bounds.seconds);
    }
    const auto stop_for_memory = [&](const std::string& reason) {
      rows.push_back(stopped_row(kind, tokens, backend, "memory"));
      rows.back()["reason"] = reason;
      output.line(name, " left out: ", reason);
    };
    const std::size_t needed = needed_bytes(kind, tokens, backend);
    if (!fits(needed, backend))
      return stop_for_memory("it would hold " + bytes_text(static_cast<std::int64_t>(needed)));
    try {
      rows.push_back(measure_length(kind, tokens, bounds, rates, backend));
    } catch (const Error& error) {  // memory of other programs is not counted
      if (error.code() != ExitCode::out_of_memory) throw;
      return stop_for_memory(error.what());
    }
    const json& row = rows.back();
    const double now = 1e-3 * row["median_ms"].get<double>();
    // The next length is twice as long; its time grows at least as from the last length to this one and at most
    // quadratically.
    growth = last > 0 ? std::clamp(now / last, 2.0, 4.0) : 2.0;
    last = now;
    output.print("%-34s %-5s %10.3f ms  %9s  %5.1f %% of the roofline", name.c_str(), backend.name().c_str(), 1e3 * now,
                 bytes_text(row["held_bytes"].get<std::int64_t>()).c_str(), 100 * row["share_of_floor"].get<double>());
  }
}

Figure long_figure(const json& rows, LongQuantity quantity) {
  const bool is_time = quantity == LongQuantity::time;
  Figure figure{
      .id = is_time ? "long_time" : "long_memory",
      .title = is_time ? "Time of a pass against its length" : "Memory of a pass against its length",
      .subtitle = "forward and backward pass of one layer, one sequence, " + std::to_string(width) + " channels",
      .x = {.label = "tokens", .scale = Scale::log}};
  figure.y = is_time ? Axis{.label = "time", .unit = "ms", .scale = Scale::log}
                     : Axis{.label = "memory", .unit = "MB", .scale = Scale::log};
  std::vector<std::string> kinds;
  std::int64_t longest = first_length;
  for (const json& row : rows) {
    if (!row.contains("tokens")) continue;
    if (!row.contains("stopped")) longest = std::max(longest, row["tokens"].get<std::int64_t>());
    const std::string kind = row["kind"].get<std::string>();
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  for (std::int64_t tokens = first_length; tokens <= longest; tokens *= 4)
    figure.x.ticks.push_back({static_cast<double>(tokens), std::to_string(tokens)});
  figure.x.range = {first_length / 1.1, static_cast<double>(longest) * 1.1};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    std::vector<double> x, y;
    for (const json& row : rows) {
      if (row.value("kind", "") != kinds[i] || row.contains("stopped")) continue;
      x.push_back(row["tokens"].get<double>());
      y.push_back(is_time ? row["median_ms"].get<double>() : 1e-6 * row["held_bytes"].get<double>());
    }
    figure.series.push_back(
        Line{.name = kinds[i],
             .curve = {Values(std::move(x)), Values(std::move(y))},
             .ink = Ink(static_cast<int>(i)),
             .marker = i < static_cast<std::size_t>(palette_size) ? Marker::circle : Marker::square});
  }
  return figure;
}

}  // namespace afterglow
