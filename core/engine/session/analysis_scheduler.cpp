// Walks the table of analyses between two steps.
#include "core/engine/session/analysis_scheduler.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"

namespace afterglow {
namespace {
// The budget: shares of the worker's time while training goes on.
constexpr double usual_share = 0.025;        // of all requested analyses together
constexpr double share_while_urgent = 0.8;   // for urgent analyses
constexpr double share_once_shown = 0.125;   // for the same once a partial result can be shown, after:
constexpr double max_urgent_seconds = 15;    // from which on training has priority again
constexpr double share_for_edits = 0.5;      // while the user drags a mode, so that figures follow
constexpr double felt_seconds = 1;           // of a run, several of which in a row would delay training
constexpr double felt_overlapped = 0.1;      // the same of a GPU that trains at the same time
constexpr double felt_in_answer = 0.005;     // of a run before the picture that follows a drag
constexpr double min_slice_seconds = 0.015;  // of urgent pieces between two steps
constexpr double max_slice_seconds = 0.2;    // the same if a step is long
// At rest they have all of it, except after a command.
constexpr double move_seconds = 0.1;      // while a control may still move: quick analyses only
constexpr double steering_seconds = 0.5;  // in which the next command may come
}  // namespace

void AnalysisThrottle::begin(double now) {
  begin_ = now;
  last_ = -1e9;
  made_ = 0;
}

double AnalysisThrottle::due_at(double share, double max_cost) const {
  const bool is_cheap = !takes(felt_seconds) && (cost_ <= max_cost || made_ < 2);
  const double by_share = last_ + cost_ / share, early = is_cheap || made_ == 0 ? 2 * last_ - begin_ : by_share;
  return std::max(last_ + min_interval_, std::min(by_share, early));
}

void AnalysisThrottle::record(double from, double until) {
  last_ = from;
  cost_ = until - from;
  ++made_;
}

void AnalysisThrottle::record_piece(double seconds, bool is_first, bool is_last) {
  spent_ = (is_first ? 0 : spent_) + seconds;
  if (is_last) whole_ = spent_;
}

double AnalysisThrottle::seconds_left(double share_done) const {
  if (share_done > 0 && spent_ > 0) return spent_ * (1 - share_done) / share_done;
  return whole_;
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

/// The response to an edited intervention is computed whichever page the window shows.
AnalysisSet AnalysisScheduler::wanted(const AnalysedRun& run) const {
  return run.inspection_has_interventions() ? requested_ | Analysis::inspected : requested_;
}

bool AnalysisScheduler::is_steered(bool running) const {
  return !running && clock_() - last_command_ < steering_seconds;
}

double AnalysisScheduler::share_of(Analysis analysis, const AnalysedRun& run, double now) const {
  const auto is_urgent = [&](const AnalysisInfo& row) {
    return is_to_be_measured(row, run) && run.state(row.analysis).is_urgent;
  };
  if (is_urgent(info_of(analysis))) {
    const bool is_seen =
        run.state(analysis).made_at >= 0 && throttles_[index_of(analysis)].since_begin(now) > max_urgent_seconds;
    return (is_seen ? share_once_shown : share_while_urgent) /
           static_cast<double>(std::ranges::count_if(analysis_table(), is_urgent));
  }
  if (!is_slow(info_of(analysis), run)) return usual_share * part_of(analysis, wanted(run));
  const auto slow = std::ranges::count_if(analysis_table(), [&](const AnalysisInfo& row) { return is_slow(row, run); });
  return usual_share / static_cast<double>(slow);
}

double AnalysisScheduler::due_at(Analysis analysis, const AnalysedRun& run, double now) const {
  const double felt = run.uses_side_stream() ? felt_overlapped : felt_seconds;
  return throttles_[index_of(analysis)].due_at(share_of(analysis, run, now), felt);
}

bool AnalysisScheduler::is_due(Analysis analysis, const AnalysedRun& run) const {
  const double now = clock_();
  return now >= due_at(analysis, run, now);
}

bool AnalysisScheduler::is_slow(const AnalysisInfo& row, const AnalysedRun& run) const {
  return has(wanted(run), row.analysis) && throttles_[index_of(row.analysis)].takes(felt_seconds);
}

bool AnalysisScheduler::is_to_be_measured(const AnalysisInfo& row, const AnalysedRun& run) const {
  return row.cost == AnalysisCost::piecewise && has(wanted(run) & ~failed_, row.analysis) && run.has_work(row.analysis);
}

bool AnalysisScheduler::has_pieces(const AnalysedRun& run, bool running) const {
  return !running &&
         std::ranges::any_of(analysis_table(), [&](const AnalysisInfo& row) { return is_to_be_measured(row, run); });
}

bool AnalysisScheduler::advance_pieces(AnalysedRun& run) {
  const double from = clock_();
  const AnalysisInfo* next = nullptr;
  double earliest = std::numeric_limits<double>::infinity();
  for (const AnalysisInfo& row : analysis_table()) {
    const double deadline = is_to_be_measured(row, run) ? due_at(row.analysis, run, from) : earliest;
    if (deadline < earliest) next = &row;
    earliest = std::min(earliest, deadline);
  }
  if (!next) return false;
  const bool has_news = advance_piece(*next, run);
  of(next->analysis).record(from, clock_());
  return has_news;
}

void AnalysisScheduler::give_up(const AnalysisInfo& row, const std::exception& error) {
  failed_ = failed_ | row.analysis;
  warn_("the " + std::string(row.name) + " cannot be measured: " + error.what());
}

bool AnalysisScheduler::advance_piece(const AnalysisInfo& row, AnalysedRun& run) {
  const double from = clock_();
  const bool is_first = run.state(row.analysis).phase == AnalysisPhase::waiting;
  try {
    run.advance(row.analysis);
  } catch (const std::exception& error) {
    give_up(row, error);
  }
  const AnalysisState now = run.state(row.analysis);
  of(row.analysis).record_piece(clock_() - from, is_first, now.is_current());
  return now.has_news;
}

/// If a step takes longer than the pieces of a short slice, the slice grows with it. A command ends the slice.
void AnalysisScheduler::advance_for_a_slice(const AnalysisInfo& row, AnalysedRun& run) {
  AnalysisThrottle& throttle = of(row.analysis);
  const double from = clock_(), share = share_of(row.analysis, run, from);
  const double slice = std::clamp(share * throttle.waited(from), min_slice_seconds, max_slice_seconds);
  do {
    advance_piece(row, run);
  } while (is_to_be_measured(row, run) && run.state(row.analysis).is_urgent && !has_mail_() && clock_() - from < slice);
  throttle.record(from, clock_());
}

void AnalysisScheduler::advance_urgent(AnalysedRun& run) {
  for (const AnalysisInfo& row : analysis_table()) {
    if (is_to_be_measured(row, run) && run.state(row.analysis).is_urgent && is_due(row.analysis, run))
      advance_for_a_slice(row, run);
  }
}

/// While the user moves a control, only the quick response follows; during training one to each edit, with priority.
bool AnalysisScheduler::update_one(const AnalysisInfo& row, AnalysedRun& run, bool running) {
  if (!has(wanted(run) & ~failed_, row.analysis) || !run.has_work(row.analysis)) return false;
  const bool is_edit = row.analysis == Analysis::inspected && inspected_is_edited_;
  AnalysisThrottle& throttle = is_edit ? edits_ : of(row.analysis);
  const double from = clock_(), quiet = from - last_command_;
  const bool moves =
      running ? is_edit && quiet < steering_seconds : row.cost == AnalysisCost::interactive && quiet < move_seconds;
  if (moves && (run.state(row.analysis).is_answered || (running && edits_.waited(from) < quiet))) return false;
  if (running && from < (is_edit ? throttle.due_at(share_for_edits) : due_at(row.analysis, run, from))) return false;
  try {
    run.advance(row.analysis, moves ? Budget::piece : Budget::whole);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_input) throw;  // an error of the model or device, which the session reports
    give_up(row, error);
  }
  const double until = clock_();
  throttle.record(from, until);
  of(row.analysis).record_piece(until - from, true, true);
  if (is_edit && !moves) inspected_is_edited_ = false;
  return true;
}

bool AnalysisScheduler::update_due(AnalysedRun& run, bool running, bool answers) {
  const bool steered = is_steered(running) || answers;
  const bool follows_edit = answers && running && inspected_is_edited_;
  bool recorded = false;
  for (const AnalysisInfo& row : analysis_table()) {
    if (row.cost > AnalysisCost::interactive && steered) break;
    if (row.cost < AnalysisCost::interactive && follows_edit && of(row.analysis).takes(felt_in_answer)) continue;
    if (row.cost > AnalysisCost::quick && !running && recorded) break;  // one for each observation
    if (row.cost != AnalysisCost::piecewise) {
      recorded = update_one(row, run, running) || recorded;
    } else if (running && is_to_be_measured(row, run) && !run.state(row.analysis).is_urgent &&
               is_due(row.analysis, run)) {
      const double from = clock_();
      advance_piece(row, run);
      of(row.analysis).record(from, clock_());
    }
  }
  return steered || (!running && recorded);
}

void AnalysisScheduler::estimate(const AnalysedRun& run, bool running, AnalysisResults& results) const {
  const double now = clock_();
  const auto measured = std::ranges::count_if(
      analysis_table(), [&](const AnalysisInfo& row) { return is_to_be_measured(row, run); });  // in turn
  for (const AnalysisInfo& row : analysis_table()) {
    AnalysisWork& work = results.work[place_of(row.analysis)];
    const bool is_requested = has(wanted(run) & ~failed_, row.analysis);
    if (!is_requested && work.phase != AnalysisPhase::current) work.phase = AnalysisPhase::idle;
    if (work.phase == AnalysisPhase::idle || work.phase == AnalysisPhase::current) continue;
    double left = throttles_[index_of(row.analysis)].seconds_left(work.share_done);
    if (left < 0) left = work.seconds > 0 ? work.seconds * work.part : -1;
    if (left < 0) continue;
    const bool is_piecewise = row.cost == AnalysisCost::piecewise;
    const double pause = running ? std::max(0.0, due_at(row.analysis, run, now) - now) : 0;
    const double share = running ? share_of(row.analysis, run, now) : 1 / static_cast<double>(measured);
    work.due_in = pause + (is_piecewise ? left / share : left);
  }
}

}  // namespace afterglow
