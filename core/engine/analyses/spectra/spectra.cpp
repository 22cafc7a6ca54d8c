// When the spectra are read, and their history.
#include <algorithm>
#include <deque>
#include <memory>

#include "core/engine/session/analysis_table.h"

namespace afterglow {
namespace {

constexpr std::size_t spectrum_history_length = 60;

/// The present spectra, and those of the steps at which modes are numbered, whichever page the window shows.
class SpectraAnalysis final : public StepAnalysis<Spectra> {
 public:
  using StepAnalysis::StepAnalysis;
  void advance(Budget) override { view_ = of_->recorder->spectra(of_->run->numbered_modes(of_->step()).get()); }
  void publish(AnalysisResults& results) const override {
    results.spectra = view_;
    const auto end = past_end();
    results.spectrum_history.assign(history_.begin(), end);
    if (view_ && (end == history_.begin() || (*std::prev(end))->step < view_->step))
      results.spectrum_history.push_back(view_);
  }
  void forget(std::int64_t after) override {
    while (!history_.empty() && history_.back()->step > after) history_.pop_back();
    view_.reset();
  }
  void invalidate() override { forget(-1); }
  // Keeps what was recorded before a rewind.
  void after_step() override {
    std::shared_ptr<const Spectra> reached = of_->run->numbered_modes(of_->step());
    if (!reached || reached->step != of_->step()) return;
    const auto end = past_end();
    if (end != history_.begin() && (*std::prev(end))->step == of_->step()) return;
    const InspectionSetup& asked = of_->inspected->now();
    const bool is_own_sequence = asked.index == 0 && asked.task.empty() && asked.tokens.empty();
    if (!is_own_sequence) reached = of_->recorder->spectra(reached.get());
    history_.insert(end, std::move(reached));
    if (history_.size() > spectrum_history_length) history_.pop_front();
  }

 private:
  using Entries = std::deque<std::shared_ptr<const Spectra>>;
  /// After the last entry at or before the present step.
  Entries::const_iterator past_end() const {
    return std::ranges::upper_bound(history_, of_->step(), {}, [](const auto& entry) { return entry->step; });
  }
  Entries history_;
};

}  // namespace

AnalysisInfo spectra_row() {
  return {{AnalysisCost::quick, 1.0 / 30, 1}, Analysis::spectra, "spectra", make_of_tokens<SpectraAnalysis>};
}

}  // namespace afterglow
