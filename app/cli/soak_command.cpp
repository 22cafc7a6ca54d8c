// `afterglow soak`: trains and analyses as the window does for a given time, and samples the memory.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/ranks/started_ranks.h"
#include "core/backend/host_memory.h"
#include "core/engine/session/soak.h"
#include "core/io/number_text.h"
#include "gpu/cuda.h"

namespace afterglow {

namespace {

constexpr double longest_interval = 60;  // seconds between samples
constexpr int min_intervals = 5;

/// The smallest of some readings: a temporary copy, for example of a state to keep, is not growth.
std::int64_t settled_bytes() {
  constexpr int readings = 20;
  std::int64_t least = resident_bytes();
  for (int i = 1; i < readings; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    least = std::min(least, resident_bytes());
  }
  return least;
}

SoakSample sample_of(const Observation& now, double seconds, bool is_on_gpu) {
  const CudaMemory gpu = is_on_gpu ? cuda_device_memory(own_gpu()) : CudaMemory{};
  return {seconds,          now.step,
          settled_bytes(),  kept_bytes_of(now),
          now.device_bytes, static_cast<std::int64_t>(gpu.total - gpu.free)};
}

void print_sample(const SoakSample& sample, const Output& output) {
  const std::string gpu = sample.gpu_bytes > 0 ? "  GPU " + bytes_text(sample.gpu_bytes) : "";
  output.print("%7.1f s  step %-9lld host %11s (kept %11s)  back end %11s%s", sample.seconds,
               static_cast<long long>(sample.step), bytes_text(sample.host_bytes).c_str(),
               bytes_text(sample.kept_bytes).c_str(), bytes_text(sample.device_bytes).c_str(), gpu.c_str());
}

nlohmann::json json_of(const SoakSample& sample) {
  return {{"seconds", sample.seconds},           {"step", sample.step},
          {"host_bytes", sample.host_bytes},     {"kept_bytes", sample.kept_bytes},
          {"device_bytes", sample.device_bytes}, {"gpu_bytes", sample.gpu_bytes}};
}

}  // namespace

nlohmann::json soak(const SoakOptions& options, const CommonOptions& common, Output& output) {
  using Clock = std::chrono::steady_clock;
  Recipe recipe = starting_run(options.start, common, "tiny").recipe;
  recipe.training.steps = endless_steps;
  const SessionOptions started = session_options(common);
  const bool is_on_gpu = started.device == "cuda";
  const Interruption interruption;
  Session session(to_json(recipe).dump(), started);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const double interval = std::min(longest_interval, options.seconds / min_intervals);
  std::vector<SoakSample> samples;
  SoakTour tour;
  for (double due = 0; !interruption.wanted();) {
    const std::shared_ptr<const Observation> now = session.observe();
    require_training(*now);
    const bool is_toured = tour.advance(session, *now), is_base = is_toured && samples.size() == 1;
    if (is_base || (now->step > 0 && seconds() >= due && (samples.empty() || is_toured))) {
      if (samples.empty()) output.message(recipe.name, ": ", recipe.title, " · ", now->device);
      samples.push_back(sample_of(*now, seconds(), is_on_gpu));
      print_sample(samples.back(), output);
      if (seconds() >= options.seconds) break;
      due = std::min(std::max(due, seconds()) + interval, options.seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const SoakVerdict verdict = judge_soak(samples);
  if (interruption.wanted()) throw Error(ExitCode::interrupted, "interrupted; so far: ", verdict.text);
  if (!verdict.passed) throw Error(ExitCode::check_failed, verdict.text);
  output.line(verdict.text);
  nlohmann::json rows = nlohmann::json::array();
  for (const SoakSample& sample : samples) rows.push_back(json_of(sample));
  return {{"preset", recipe.name}, {"device", session.observe()->device}, {"verdict", verdict.text}, {"samples", rows}};
}

}  // namespace afterglow
