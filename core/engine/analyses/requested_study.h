// The form of analyses that repeat a training after a command requests them.
#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "core/engine/session/analysis_table.h"

namespace afterglow {

/// The request, a value of the subject (AnalysisSubject::chosen).
template <class Study>
struct RequestedStudy {
  std::optional<typename Study::Config> config;  ///< nothing: not requested
  std::unique_ptr<Study> study;                  ///< of `config`; created when the scheduler has time
};

/// Repetitions of a training, one step at a time, and what they have shown so far.
template <class Settings, class View>
class Study : Immovable {
 public:
  using Config = Settings;
  const Config& config() const { return config_; }
  std::shared_ptr<const View> view() const { return view_; }

 protected:
  explicit Study(Config config) : config_(std::move(config)) {}
  /// Shows a changed copy of the view; `change` may throw and then nothing has changed.
  template <class Change>
  void change_view(const Change& change) {
    auto view = std::make_shared<View>(*view_);
    change(*view);
    view_ = std::move(view);
  }

  Config config_;
  std::shared_ptr<const View> view_ = std::make_shared<const View>();
};

/// The state of a study in progress or complete.
template <class Study>
AnalysisState study_state(const Study& study, bool has_news) {
  const bool is_complete = study.is_complete();
  return {is_complete ? AnalysisPhase::current : AnalysisPhase::computing,
          -1,
          is_complete,
          false,
          has_news,
          study.share_done()};
}

/// After a request the study is created from `config` as soon as the run has reached its steps. It belongs to a range
/// of the past, not to a step, and is dropped when that past changes.
template <class Study, auto result>
class RequestedAnalysis final : public UntiedAnalysis {
 public:
  using UntiedAnalysis::UntiedAnalysis;
  AnalysisState state() const override {
    if (belongs()) return study_state(*asked().study, has_news_);
    const bool can_begin = asked().config && of_->run->latest_step() >= needed_step(*asked().config);
    return {.phase = can_begin ? AnalysisPhase::waiting : AnalysisPhase::idle, .has_news = has_news_};
  }
  void advance(Budget) override {
    const auto before = belongs() ? asked().study->view() : nullptr;
    if (before) {
      asked().study->advance(of_->run->trainer().backend());
    } else {
      begin();
    }
    has_news_ = asked().study->view() != before;
  }
  void publish(AnalysisResults& results) const override {
    if (belongs()) results.*result = asked().study->view();
  }
  void invalidate() override { belongs_.reset(); }

 private:
  /// That the run must have reached.
  static std::int64_t needed_step(const typename Study::Config& config) {
    if constexpr (requires { config.needed_step(); }) return config.needed_step();
    return 0;
  }
  RequestedStudy<Study>& asked() const { return of_->template chosen<RequestedStudy<Study>>(); }
  /// Whether the run still has the past that is studied. Compares whole recipes, hence only once after each change.
  bool belongs() const {
    if (!belongs_) belongs_ = asked().study && asked().study->is_of(of_->run->recipe());
    return *belongs_;
  }
  /// A request that cannot be carried out is dropped.
  void begin() {
    const auto config = *std::exchange(asked().config, std::nullopt);
    asked().study = std::make_unique<Study>(*of_->run, config);
    asked().config = asked().study->config();
    invalidate();
  }

  mutable std::optional<bool> belongs_;  // nothing: not compared since the last change
};

/// The row of a study. A command that needs the same repetitions as the last changes only what is shown. `read` reads
/// the command's value after the last one.
template <class Study, auto result, Analysis analysis, auto read = read_fields<typename Study::Config>>
AnalysisInfo request_row(std::string_view name, ModelWork (*work)(const AnalysisSubject&)) {
  using Config = typename Study::Config;
  AnalysisSettings settings{Config::command};
  settings.choose = [](AnalysisSubject& subject, const nlohmann::json& value) {
    auto& [config, study] = subject.chosen<RequestedStudy<Study>>();
    const Config asked = read(value, config.value_or(Config()));
    bool is_shown = false;
    if constexpr (requires { study->has_runs_of(asked); }) {
      is_shown = study && study->is_of(subject.run->recipe()) && study->has_runs_of(asked);
      if (is_shown) study->show(asked);
    }
    if (!is_shown) study = std::make_unique<Study>(*subject.run, asked);
    config = study->config();
    return set_of(analysis);
  };
  settings.replay = [](AnalysisSubject& subject, const nlohmann::json& value) {
    subject.chosen<RequestedStudy<Study>>().config = read(value, Config());
  };
  settings.written = [](const AnalysisSubject& subject) {
    return to_json(*subject.chosen<RequestedStudy<Study>>().config);
  };
  settings.is_request = true;
  return {{}, analysis, name, make_of_any<RequestedAnalysis<Study, result>>, work, settings};
}

}  // namespace afterglow
