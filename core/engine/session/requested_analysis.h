// Studies of a range of past steps that run in spare time after a command requests them.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/engine/session/analysis_table.h"

namespace afterglow {

/// After a request the study is created from `config` as soon as the run has reached its steps. It belongs to a range
/// of the past, not to a step, and is dropped when that past changes.
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

  AnalysisSubject* of_;
  mutable std::optional<bool> belongs_;  // nothing: not compared since the last change
  bool has_news_ = false;
};

}  // namespace afterglow
