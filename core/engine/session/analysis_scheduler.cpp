// Walks the table of analyses between two steps.
#include "core/engine/session/analysis_scheduler.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"

namespace afterglow {

namespace {
constexpr double share_for_analyses = 0.025;    // of the worker's time for all requested analyses
constexpr double setup_seconds = 1;             // of a first run, which later ones do not pay
constexpr double max_overlapped_seconds = 0.1;  // that an analysis may take of a GPU that trains at the same time
constexpr double share_for_slow = 0.03;         // of all slow analyses together, from their first run on
constexpr double share_while_urgent = 0.8;      // for urgent analyses
constexpr double max_urgent_seconds = 15;       // after which training has priority again
constexpr double share_once_shown = 0.125;      // from then on, to complete a partial result
constexpr double share_for_edits = 0.5;         // while the user drags a mode, so that figures follow
constexpr double min_slice_seconds = 0.015;     // of urgent pieces between two steps
constexpr double max_slice_seconds = 0.2;       // the same if a step is long
constexpr double move_seconds = 0.1;            // after a command, while a control may still move: quick analyses only
constexpr double steering_seconds = 0.5;        // after a command, in which the next one may come
}  // namespace

void AnalysisThrottle::begin(double now) {
  begin_ = now;
  last_ = -1e9;
  made_ = 0;
}

bool AnalysisThrottle::due(double share, double now, double max_cost) const {
  const bool is_cheap = !is_slow() && (cost_ <= max_cost || made_ < 2);
  const bool is_early = waited(now) >= (now - begin_) / 2 && (is_cheap || made_ == 0);
  return waited(now) >= min_interval_ && (waited(now) >= cost_ / share || is_early);
}

bool AnalysisThrottle::is_slow() const { return cost_ > setup_seconds; }

void AnalysisThrottle::record(double from, double until) {
  last_ = from;
  cost_ = until - from;
  ++made_;
}

AnalysisScheduler::AnalysisScheduler(Clock clock, Warn warn, Interrupt has_mail)
    : clock_(std::move(clock)), warn_(std::move(warn)), has_mail_(std::move(has_mail)) {
  for (const AnalysisInfo& row : analysis_table()) throttles_.emplace_back(row.min_interval);
}

double AnalysisScheduler::part_of(Analysis analysis, AnalysisSet requested) {
  double total = 0;
  for (const AnalysisInfo& row : analysis_table()) total += has(requested, row.analysis) ? row.weight : 0;
  return info_of(analysis).weight / total;
}

bool AnalysisScheduler::request(AnalysisSet analyses) {
  if (analyses == requested_) return false;
  begin(analyses & ~requested_);
  requested_ = analyses;
  return true;
}

void AnalysisScheduler::begin(AnalysisSet analyses) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (has(analyses, row.analysis)) of(row.analysis).begin(clock_());
  }
}

AnalysisThrottle& AnalysisScheduler::of(Analysis analysis) { return throttles_[index_of(analysis)]; }

/// The response to an edited intervention is computed whichever page the window shows.
AnalysisSet AnalysisScheduler::wanted(const AnalysedRun& run) const {
  return run.inspection_has_interventions() ? requested_ | Analysis::inspected : requested_;
}

bool AnalysisScheduler::is_steered(bool running) const {
  return !running && clock_() - last_command_ < steering_seconds;
}

double AnalysisScheduler::share_of(Analysis analysis, const AnalysedRun& run, double now) const {
  const auto is_urgent = [&](const AnalysisInfo& row) {
    return is_to_be_measured(row, run) && run.is_urgent(row.analysis);
  };
  if (is_urgent(info_of(analysis))) {
    const bool is_seen =
        run.can_be_shown(analysis) && throttles_[index_of(analysis)].since_begin(now) > max_urgent_seconds;
    return (is_seen ? share_once_shown : share_while_urgent) /
           static_cast<double>(std::ranges::count_if(analysis_table(), is_urgent));
  }
  if (!is_slow(info_of(analysis), run)) return share_for_analyses * part_of(analysis, wanted(run));
  const auto slow = std::ranges::count_if(analysis_table(), [&](const AnalysisInfo& row) { return is_slow(row, run); });
  return share_for_slow / static_cast<double>(slow);
}

bool AnalysisScheduler::is_due(Analysis analysis, const AnalysedRun& run, double now) const {
  const AnalysisThrottle& throttle = throttles_[index_of(analysis)];
  const double share = share_of(analysis, run, now);
  return run.uses_side_stream() ? throttle.due(share, now, max_overlapped_seconds) : throttle.due(share, now);
}

bool AnalysisScheduler::is_slow(const AnalysisInfo& row, const AnalysedRun& run) const {
  return has(wanted(run), row.analysis) && throttles_[index_of(row.analysis)].is_slow();
}

bool AnalysisScheduler::is_to_be_measured(const AnalysisInfo& row, const AnalysedRun& run) const {
  return row.cost == AnalysisCost::piecewise && has(wanted(run) & ~failed_, row.analysis) && run.has_work(row.analysis);
}

bool AnalysisScheduler::has_pieces(const AnalysedRun& run, bool running) const {
  if (running) return false;
  for (const AnalysisInfo& row : analysis_table()) {
    if (is_to_be_measured(row, run)) return true;
  }
  return false;
}

bool AnalysisScheduler::advance_pieces(AnalysedRun& run) {
  for (std::size_t i = 0; i < analysis_table().size(); ++i) {
    const AnalysisInfo& row = analysis_table()[next_piece_++ % analysis_table().size()];
    if (is_to_be_measured(row, run)) return advance_piece(row, run);
  }
  return false;
}

void AnalysisScheduler::give_up(const AnalysisInfo& row, const std::exception& error) {
  failed_ = failed_ | row.analysis;
  warn_("the " + std::string(row.name) + " cannot be measured: " + error.what());
}

bool AnalysisScheduler::advance_piece(const AnalysisInfo& row, AnalysedRun& run) {
  try {
    run.advance(row.analysis);
  } catch (const std::exception& error) {
    give_up(row, error);
  }
  return run.has_news(row.analysis);
}

/// If a step takes longer than the pieces of a short slice, the slice grows with it. A command ends the slice.
void AnalysisScheduler::advance_for_a_slice(const AnalysisInfo& row, AnalysedRun& run) {
  AnalysisThrottle& throttle = of(row.analysis);
  const double from = clock_(), share = share_of(row.analysis, run, from);
  const double slice = std::clamp(share * throttle.waited(from), min_slice_seconds, max_slice_seconds);
  do {
    advance_piece(row, run);
  } while (is_to_be_measured(row, run) && run.is_urgent(row.analysis) && !has_mail_() && clock_() - from < slice);
  throttle.record(from, clock_());
}

void AnalysisScheduler::advance_urgent(AnalysedRun& run) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (is_to_be_measured(row, run) && run.is_urgent(row.analysis) && is_due(row.analysis, run, clock_()))
      advance_for_a_slice(row, run);
  }
}

/// While the user moves a control, only the quick response follows; during training an edit has priority.
bool AnalysisScheduler::update_one(const AnalysisInfo& row, AnalysedRun& run, bool running) {
  if (!has(wanted(run) & ~failed_, row.analysis) || !run.has_work(row.analysis)) return false;
  const bool is_interactive = row.cost == AnalysisCost::interactive;
  const bool moves = is_interactive && !running && clock_() - last_command_ < move_seconds;
  if (moves && run.is_answered(row.analysis)) return false;
  const bool is_edit = is_interactive && !moves && inspected_is_edited_;
  AnalysisThrottle& throttle = is_edit ? edits_ : of(row.analysis);
  const double from = clock_();
  if (running && !(is_edit ? throttle.due(share_for_edits, from) : is_due(row.analysis, run, from))) return false;
  try {
    if (moves) {
      run.advance(row.analysis);
    } else {
      run.update(row.analysis);
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_input) throw;  // an error of the model or device, which the session reports
    give_up(row, error);
  }
  throttle.record(from, clock_());
  if (is_edit) inspected_is_edited_ = false;
  return true;
}

bool AnalysisScheduler::update_due(AnalysedRun& run, bool running) {
  const bool steered = is_steered(running);
  bool recorded = false;
  for (const AnalysisInfo& row : analysis_table()) {
    if (row.cost > AnalysisCost::interactive && steered) break;
    if (row.cost > AnalysisCost::quick && !running && recorded) break;  // one for each observation
    if (row.cost != AnalysisCost::piecewise) {
      recorded = update_one(row, run, running) || recorded;
    } else if (running && is_to_be_measured(row, run) && !run.is_urgent(row.analysis) &&
               is_due(row.analysis, run, clock_())) {
      const double from = clock_();
      advance_piece(row, run);
      of(row.analysis).record(from, clock_());
    }
  }
  return steered || (!running && recorded);
}

}  // namespace afterglow
