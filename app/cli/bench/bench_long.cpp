// Time and memory of every mixer over the length of the sequence.
#include "app/cli/bench/bench_long.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/cli/bench/bench_layers.h"
#include "app/cli/interruption.h"
#include "core/backend/measuring_backend.h"
#include "core/figure/palette.h"
#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {

namespace {

using nlohmann::json;

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

/// Counts each value of a pass as written and read once, each weight as read twice and its gradient as written.
double moved_bytes(const LayerPass& pass) {
  return 2.0 * static_cast<double>(pass.used_bytes()) + 3.0 * sizeof(float) * pass.weights();
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
    times.push_back(seconds_of([&] { graph->run(); }, backend));
    sum += times.back();
    Interruption::check("during \"" + name_of(kind, tokens) + "\"");
  }
  std::sort(times.begin(), times.end());
  const double count = static_cast<double>(tokens), median = 1e3 * times[times.size() / 2];
  const double flops = pass.flops() + kind.pair_products * count * count * static_cast<double>(width);
  const double bytes = moved_bytes(pass), floor = 1e3 * std::max(flops / rates.flops, bytes / rates.bytes);
  return {{"name", name_of(kind, tokens)},
          {"kind", kind.name},
          {"device", backend.name()},
          {"tokens", tokens},
          {"median_ms", median},
          {"min_ms", 1e3 * times.front()},
          {"max_ms", 1e3 * times.back()},
          {"repeats", times.size()},
          {"held_bytes", pass.held_bytes()},
          {"flops", flops},
          {"bytes", bytes},
          {"floor_ms", floor},
          {"share_of_floor", floor / median}};
}

}  // namespace

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
      output.line(name + " left out: " + reason);
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
