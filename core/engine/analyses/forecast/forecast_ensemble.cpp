// Forecasts from one capturing pass over some windows; mean and spread over runs.
#include "core/engine/analyses/forecast/forecast_ensemble.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/analysis/attention/softmax.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/engine/training/trainer.h"
#include "core/io/error.h"
#include "core/layers/capture_reader.h"
#include "core/layers/layer_traits.h"

namespace afterglow {
namespace {

std::string label_of(const Trainer& run) {
  return "seed " + std::to_string(run.seed()) + ", step " + std::to_string(run.finished_steps());
}

/// The fields that determine the windows; not the path of the data file.
nlohmann::json windows_of(const Recipe& recipe) {
  nlohmann::json task = recipe.task;
  if (task.contains("path") && task["path"].is_string())
    task["path"] = std::filesystem::path(task["path"].get<std::string>()).filename().string();
  return task;
}

/// Compares hashes of the data rather than file names if both recipes have them.
bool have_same_windows(const Recipe& one, const Recipe& other) {
  nlohmann::json a = windows_of(one), b = windows_of(other);
  for (nlohmann::json* task : {&a, &b}) {
    if (!one.task.contains("hash") || !other.task.contains("hash")) task->erase("hash");
  }
  return a == b;
}

/// Mean and standard deviation (n - 1) over the runs, value by value.
void spread(const std::vector<const std::vector<double>*>& values, std::vector<double>& mean,
            std::vector<double>& deviation) {
  const auto runs = static_cast<double>(values.size());
  for (std::size_t t = 0; t < values.front()->size(); ++t) {
    double sum = 0, squares = 0;
    for (const std::vector<double>* one : values) sum += (*one)[t];
    for (const std::vector<double>* one : values) squares += std::pow((*one)[t] - sum / runs, 2);
    mean.push_back(sum / runs);
    deviation.push_back(std::sqrt(squares / (runs - 1)));
  }
}

}  // namespace

void ForecastEnsemble::add(const std::string& path, const Recipe& of, Backend& backend) {
  if (std::ranges::find(paths_, path) != paths_.end()) return;
  const SavedRun saved = open_saved_run(path);
  if (!saved.snapshot)
    throw BadInput(path, ": comparing forecasts needs the weights of the other run; give a snapshot (.safetensors)");
  if (!have_same_windows(saved.recipe, of))
    throw BadInput(path, ": its task is ", saved.recipe.task.dump(), ", this run's ", of.task.dump(),
                   "; only forecasts of the same windows can be compared");
  Snapshot snapshot = *saved.snapshot;
  snapshot.recipe.task = of.task;  // the data of this run, wherever the other run found it
  runs_.push_back(std::make_unique<TrainingRun>(snapshot, backend, 0));
  paths_.push_back(path);
}

void ForecastEnsemble::compare(ForecastView& view, const Trainer& own, std::int64_t inspected) {
  if (runs_.empty()) return;
  view.runs.push_back(label_of(own));
  std::vector<std::shared_ptr<const ForecastView>> others;
  for (const std::unique_ptr<TrainingRun>& run : runs_) {
    others.push_back(view_forecast(run->trainer(), inspected));
    view.runs.push_back(label_of(run->trainer()));
  }
  for (std::size_t w = 0; w < view.windows.size(); ++w) {
    for (std::size_t c = 0; c < view.windows[w].channels.size(); ++c) {
      ForecastChannel& channel = view.windows[w].channels[c];
      std::vector<const std::vector<double>*> predictions{&channel.prediction};
      channel.mse_of_runs.push_back(channel.mse);
      for (const auto& other : others) {
        predictions.push_back(&other->windows[w].channels[c].prediction);
        channel.mse_of_runs.push_back(other->windows[w].channels[c].mse);
      }
      spread(predictions, channel.mean, channel.deviation);
    }
  }
}

namespace {

constexpr std::int64_t windows_shown = 4;

/// Channel `c` of window `w` in its own unit; the errors are those of the standardised series.
ForecastChannel read_channel(const SeriesWindows& series, const ForecastedWindows& windows, std::size_t w,
                             std::int64_t c) {
  const std::int64_t length = series.length(), horizon = series.horizon(), channels = series.channels();
  ForecastChannel channel;
  channel.name = series.names()[static_cast<std::size_t>(c)];
  const std::int64_t first_in = static_cast<std::int64_t>(w) * length * channels + c;
  for (std::int64_t t = 0; t < length; ++t)
    channel.input.push_back(series.own_unit(c, windows.inputs[static_cast<std::size_t>(first_in + t * channels)]));
  for (std::int64_t t = 0; t < horizon; ++t) {
    const std::int64_t i = (static_cast<std::int64_t>(w) * horizon + t) * channels + c;
    const double truth = windows.truths[static_cast<std::size_t>(i)], prediction = number_of(windows.prediction, i);
    channel.truth.push_back(series.own_unit(c, truth));
    channel.prediction.push_back(series.own_unit(c, prediction));
    channel.mse += (prediction - truth) * (prediction - truth) / static_cast<double>(horizon);
    channel.mae += std::abs(prediction - truth) / static_cast<double>(horizon);
  }
  return channel;
}

ForecastWindow read_window(const SeriesWindows& series, const ForecastedWindows& windows, std::size_t w,
                           std::int64_t index) {
  ForecastWindow window;
  window.index = index;
  window.first = series.time(SeriesPart::validation, index, 0);
  window.last = series.time(SeriesPart::validation, index, series.length() + series.horizon() - 1);
  for (std::int64_t c = 0; c < series.channels(); ++c) {
    window.channels.push_back(read_channel(series, windows, w, c));
    window.mse += window.channels.back().mse / static_cast<double>(series.channels());
    window.mae += window.channels.back().mae / static_cast<double>(series.channels());
  }
  return window;
}

/// Adds the softmax of q . k / sqrt(width) of one head on the first sequence, times 1 / heads, to `attention`.
void add_head(const std::vector<double>& q, const std::vector<double>& k, int head, int heads, int width,
              MemoryAttention& attention) {
  const int memory = static_cast<int>(attention.reads.size());
  const int tokens = memory + static_cast<int>(attention.is_read.size());
  std::vector<double> weights(static_cast<std::size_t>(tokens));
  for (int i = 0; i < tokens; ++i) {
    for (int j = 0; j < tokens; ++j) {
      double score = 0;
      for (int e = 0; e < width; ++e) score += q[(i * heads + head) * width + e] * k[(j * heads + head) * width + e];
      weights[j] = score / std::sqrt(static_cast<double>(width));
    }
    softmax_in_place(weights);
    for (int j = 0; j < tokens; ++j) {
      const double share = weights[j] / heads;
      if (i < memory && j >= memory) attention.reads[i][j - memory] += share;
      if (i >= memory && j < memory) attention.is_read[i - memory][j] += share;
    }
  }
}

/// From the captures of each encoder layer.
void add_attention(Trainer& trainer, MemoryView& view) {
  const CaptureReader read(trainer.evaluation_tape(), trainer.backend());
  for (const ForecasterPart& part : trainer.forecast()->model().parts()) {
    if (!shows(part.kind, LayerTrait::token_shares)) continue;
    MemoryAttention& attention = view.attention.emplace_back();
    attention.layer = part.label;
    attention.reads.assign(static_cast<std::size_t>(view.tokens),
                           std::vector<double>(static_cast<std::size_t>(view.input_length)));
    attention.is_read.assign(static_cast<std::size_t>(view.input_length),
                             std::vector<double>(static_cast<std::size_t>(view.tokens)));
    const int width = static_cast<int>(read.shape(part.scope + ".q").last());
    for (int head = 0; head < part.heads; ++head)
      add_head(read.values(part.scope + ".q"), read.values(part.scope + ".k"), head, part.heads, width, attention);
  }
}

/// The error of each window, forecast once more.
std::vector<double> errors_of(Trainer& trainer, ForecastedWindows& windows, std::span<const std::int64_t> places) {
  trainer.forecast()->predict(trainer.evaluation_tape(), windows, SeriesPart::validation, places, false);
  const std::size_t numbers = windows.truths.size() / places.size();
  std::vector<double> errors;
  for (std::size_t w = 0; w < places.size(); ++w) {
    double sum = 0;
    for (std::size_t i = w * numbers; i < (w + 1) * numbers; ++i) {
      const double apart = number_of(windows.prediction, static_cast<std::int64_t>(i)) - windows.truths[i];
      sum += apart * apart;
    }
    errors.push_back(sum / static_cast<double>(numbers));
  }
  return errors;
}

/// With zeros for memory tokens, with each mode left out in turn, and with smaller memories.
void add_errors_without_memory(Trainer& trainer, ForecastedWindows& windows, std::span<const std::int64_t> places,
                               ForecastView& view, MemoryView& own) {
  SpectralMemory& memory = *trainer.forecast()->model().memory();
  memory.switch_off(true);
  const std::vector<double> without = errors_of(trainer, windows, places);
  memory.switch_off(false);
  double whole = 0;
  for (std::size_t w = 0; w < places.size(); ++w) {
    view.windows[w].mse_without_memory = without[w];
    whole += view.windows[w].mse;
  }
  own.is_of_error = true;
  for (int mode = 0; mode < memory.decomposition().count; ++mode) {
    memory.leave_out(mode);
    const std::vector<double> errors = errors_of(trainer, windows, places);
    own.change_without.push_back(std::accumulate(errors.begin(), errors.end(), 0.0) / whole - 1);
  }
  memory.leave_out(-1);
  add_shares(memory, own, [&] {
    const std::vector<double> errors = errors_of(trainer, windows, places);
    return std::accumulate(errors.begin(), errors.end(), 0.0);
  });
}

}  // namespace

std::shared_ptr<const ForecastView> view_forecast(Trainer& trainer, std::int64_t inspected) {
  ForecastObjective& forecaster = *trainer.forecast();
  const SeriesWindows& series = forecaster.windows();
  auto view = std::make_shared<ForecastView>();
  view->step = trainer.finished_steps();
  view->input_length = static_cast<int>(series.length());
  view->horizon = static_cast<int>(series.horizon());
  view->time_unit = series.unit();
  const std::int64_t total = series.count(SeriesPart::validation);
  std::vector<std::int64_t> places{inspected % total};
  for (const std::int64_t place : evenly_spaced(total, windows_shown - 1)) places.push_back(place);
  ForecastedWindows windows(trainer.backend(), static_cast<std::int64_t>(places.size()), series, trainer.dtype());
  forecaster.predict(trainer.evaluation_tape(), windows, SeriesPart::validation, places, true);
  for (std::size_t w = 0; w < places.size(); ++w) view->windows.push_back(read_window(series, windows, w, places[w]));
  if (const SpectralMemory* memory = forecaster.model().memory()) {
    auto own = std::make_shared<MemoryView>(view_of_history(*memory, view->step));
    own->input_length = view->input_length;
    add_attention(trainer, *own);
    read_memory_captures(CaptureReader(trainer.evaluation_tape(), trainer.backend()), *own);
    if (memory->usable()) add_errors_without_memory(trainer, windows, places, *view, *own);
    view->memory = std::move(own);
  }
  return view;
}

}  // namespace afterglow
