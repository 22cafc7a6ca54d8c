// The trace of a model of tokens; of a forecaster its forecasts. Both with the trajectory of training.
#include <filesystem>
#include <memory>
#include <utility>

#include "core/engine/analyses/forecast/forecast_ensemble.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/session/analysis_table.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {
namespace {

/// The trace, or the forecast in its place, with the trajectory and its memory.
template <class View>
class PathAnalysis : public StepAnalysis<View> {
 public:
  using StepAnalysis<View>::StepAnalysis;
  void publish(AnalysisResults& results) const override {
    results.trajectory = trajectory_;
    results.memory = memory_;
  }
  void forget(std::int64_t) override {
    this->invalidate();
    trajectory_.reset();
    memory_.reset();
  }

 protected:
  void take(const char* points, std::shared_ptr<const MemoryView> memory) {
    trajectory_ = this->of_->run->trajectory().view(points, this->of_->step());
    memory_ = std::move(memory);
  }

 private:
  std::shared_ptr<const TrajectoryView> trajectory_;
  std::shared_ptr<const MemoryView> memory_;
};

/// The recurrent form of the chosen layer with its token weights.
class TraceAnalysis final : public PathAnalysis<Trace> {
 public:
  using PathAnalysis::PathAnalysis;
  void advance(Budget) override {
    view_ = of_->observer->trace(of_->traced_part, of_->inspected->now().scale_kept_behind, of_->numbered().get());
    token_weights_ = of_->observer->token_weights(of_->traced_part);
    const bool has_memory = of_->run->trainer().model().memory() != nullptr;
    take(has_memory ? "pooled summary of a batch" : "mean last state of a batch's answers", of_->observer->memory());
  }
  void publish(AnalysisResults& results) const override {
    PathAnalysis::publish(results);
    results.trace = view_;
    results.token_weights = token_weights_;
  }
  void invalidate() override {
    view_.reset();
    token_weights_.reset();
  }

 private:
  std::shared_ptr<const TokenWeights> token_weights_;
};

/// A forecaster's replacement for the trace: its forecasts and those of compared runs.
class ForecastAnalysis final : public PathAnalysis<ForecastView> {
 public:
  using PathAnalysis::PathAnalysis;
  void advance(Budget) override {
    const auto window = static_cast<std::int64_t>(of_->inspected->now().index);
    auto forecast = std::make_shared<ForecastView>(*view_forecast(of_->run->trainer(), window));
    of_->chosen<ForecastEnsemble>().compare(*forecast, of_->run->trainer(), window);
    take("pooled summary of a batch", forecast->memory);
    view_ = std::move(forecast);
  }
  void publish(AnalysisResults& results) const override {
    PathAnalysis::publish(results);
    results.forecast = view_;
  }
};

std::vector<std::string> paths_in(const nlohmann::json& value, const ForecastEnsemble& before) {
  refuse_unknown_keys(value, {"path", "paths"}, "compare_runs");
  std::vector<std::string> paths = value.contains("paths") ? std::vector<std::string>{} : before.paths();
  if (value.contains("path")) paths.push_back(get_string(value, "path", std::nullopt, "compare_runs"));
  for (const nlohmann::json& path : value.value("paths", nlohmann::json::array())) {
    if (!path.is_string()) throw BadInput("compare_runs.paths: expected names of snapshots, got ", path.dump());
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

/// Draws other runs over a forecast: {"path": "a.safetensors"} adds a snapshot, {"paths": [..]} replaces the list.
AnalysisSet compare_runs(AnalysisSubject& subject, const nlohmann::json& value) {
  ForecastEnsemble& ensemble = subject.chosen<ForecastEnsemble>();
  const std::vector<std::string> paths = paths_in(value, ensemble);
  if (subject.observer && !paths.empty())
    throw BadInput("compare_runs: only forecasts can be compared; open one first");
  ForecastEnsemble chosen;
  for (const std::string& path : paths)
    chosen.add(std::filesystem::absolute(path).string(), subject.run->recipe(), subject.run->trainer().backend());
  ensemble = std::move(chosen);
  return set_of(Analysis::trace);
}

}  // namespace

AnalysisInfo trace_row() {
  const auto make = [](AnalysisSubject& subject) {
    return subject.observer ? make_of_any<TraceAnalysis>(subject) : make_of_any<ForecastAnalysis>(subject);
  };
  AnalysisSettings settings{"compare_runs", compare_runs};
  settings.replay = [](AnalysisSubject& subject, const nlohmann::json& value) { compare_runs(subject, value); };
  settings.written = [](const AnalysisSubject& subject) {
    return nlohmann::json{{"paths", subject.chosen<ForecastEnsemble>().paths()}};
  };
  settings.reset = [](AnalysisSubject& subject) { subject.chosen<ForecastEnsemble>() = {}; };
  return {{AnalysisCost::quick, 0.25, 1}, Analysis::trace, "trace", make, nullptr, settings};
}

}  // namespace afterglow
