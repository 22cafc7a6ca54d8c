// Studies of a stretch of the run's past that are made where they are asked for, in spare time.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/engine/session/analysis_table.h"

namespace afterglow {

/// Where it was asked for, the study is made of `config` when there is time and its steps are there; it belongs to a
/// past, not to a step, and is dropped when that past is changed.
template <class Study, auto of_subject, auto result>
class RequestedAnalysis final : public RunAnalysis {
 public:
  explicit RequestedAnalysis(AnalysisSubject& of) : of_(&of) {}
  bool is_current() const override { return belongs() && asked().study->is_complete(); }
  bool has_work() const override {
    if (belongs()) return !asked().study->is_complete();
    return asked().config && of_->run->latest_step() >= asked().config->needed_step();
  }
  std::int64_t made_at() const override { return -1; }
  bool has_news() const override { return has_news_; }
  void advance(const AnalysisResults&) override {
    const auto before = belongs() ? asked().study->view() : nullptr;
    if (before) {
      asked().study->advance(of_->run->trainer().backend());
    } else {
      begin();
    }
    has_news_ = asked().study->view() != before;
  }
  void update(const AnalysisResults& found) override {
    while (has_work()) advance(found);
  }
  void publish(AnalysisResults& results) const override {
    if (belongs()) results.*result = asked().study->view();
  }
  void forget(std::int64_t) override { invalidate(); }
  void invalidate() override { belongs_.reset(); }

 private:
  auto& asked() const { return of_->*of_subject; }
  /// Whether the run still has the past that is studied. Judged once after each change, as it compares whole recipes.
  bool belongs() const {
    if (!belongs_) belongs_ = asked().study && asked().study->is_of(of_->run->recipe());
    return *belongs_;
  }
  /// What cannot be asked is not asked again.
  void begin() {
    const auto config = *std::exchange(asked().config, std::nullopt);
    asked().study = std::make_unique<Study>(*of_->run, config);
    asked().config = asked().study->config();
    invalidate();
  }

  AnalysisSubject* of_;
  mutable std::optional<bool> belongs_;  // nothing: not judged since the last change
  bool has_news_ = false;
};

}  // namespace afterglow
