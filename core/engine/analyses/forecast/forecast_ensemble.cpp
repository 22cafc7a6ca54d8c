// Mean and spread over runs.
#include "core/engine/analyses/forecast/forecast_ensemble.h"

#include <algorithm>
#include <cmath>

#include "core/engine/analyses/forecast/forecast_observer.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/error.h"

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
  if (std::find(paths_.begin(), paths_.end(), path) != paths_.end()) return;
  const SavedRun saved = open_saved_run(path);
  if (!saved.snapshot)
    throw Error(ExitCode::bad_input,
                path + ": comparing forecasts needs the weights of the other run; give a snapshot (.safetensors)");
  if (!have_same_windows(saved.recipe, of)) {
    throw Error(ExitCode::bad_input, path + ": its task is " + saved.recipe.task.dump() + ", this run's " +
                                         of.task.dump() + "; only forecasts of the same windows can be compared");
  }
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

}  // namespace afterglow
