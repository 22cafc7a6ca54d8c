// What is seen of a run, and when.
#include "core/engine/watched_run.h"

#include <algorithm>

namespace afterglow {

namespace {
constexpr std::int64_t closest_trail = 10;  // steps
constexpr std::size_t trail_length = 60;
}  // namespace

WatchedRun::WatchedRun(const Moment& moment, Backend& backend)
    : run_(make_run(moment, backend)),
      observer_(std::make_unique<Observer>(run_->trainer())),
      traced_part_(observer_->first_ska()) {
  // The trail spans the whole run, and looking stays cheap beside the steps between.
  trail_interval_ = std::max(closest_trail, run_->recipe().training.steps / static_cast<std::int64_t>(trail_length));
  if (traced_part_ < 0 && run_->trainer().parts().size() > 2) traced_part_ = 1;
}

bool WatchedRun::train_step() {
  const bool finite = run_->train_step();
  if (finite && run_->step() % trail_interval_ == 0) record_trail();
  return finite;
}

// Identities of modes follow from one frame of the trail to the next.
void WatchedRun::record_trail() {
  while (!trail_.empty() && trail_.back()->step >= run_->step()) trail_.pop_back();
  trail_.push_back(observer_->spectra(trail_.empty() ? nullptr : trail_.back().get()));
  if (trail_.size() > trail_length) trail_.pop_front();
  spectra_ = trail_.back();
}

void WatchedRun::go_to(std::int64_t step) {
  if (step < run_->step()) {
    run_->go_to(step);
    while (!trail_.empty() && trail_.back()->step > step) trail_.pop_back();
    spectra_.reset();
    trace_.reset();
    token_weights_.reset();
    trajectory_.reset();
    return;
  }
  while (run_->step() < step && train_step()) {
  }
}

void WatchedRun::choose_probe(std::uint64_t index) {
  observer_->choose(index);
  forget_looks();
}

void WatchedRun::choose_trace(int part) {
  traced_part_ = part;
  trace_.reset();
  token_weights_.reset();
}

void WatchedRun::forget_looks() {
  trail_.clear();
  spectra_.reset();
  trace_.reset();
  token_weights_.reset();
  trajectory_.reset();
}

bool WatchedRun::spectra_are_current() const { return spectra_ && spectra_->step == run_->step(); }
bool WatchedRun::trace_is_current() const { return trace_ && trace_->step == run_->step(); }
void WatchedRun::update_spectra() { spectra_ = observer_->spectra(trail_.empty() ? nullptr : trail_.back().get()); }
void WatchedRun::update_trace() {
  trace_ = observer_->trace(traced_part_);
  token_weights_ = observer_->token_weights(traced_part_);
  trajectory_ = run_->trajectory().view("mean last hidden state of a batch");
}

Observation WatchedRun::describe() const {
  const Trainer& trainer = run_->trainer();
  const Recipe recipe = run_->recipe();
  Observation now;
  now.preset = recipe.name;
  now.title = recipe.title;
  now.seed = recipe.seed;
  now.step = run_->step();
  now.final_step = trainer.config().steps;
  now.finished = run_->finished();
  now.stopped_non_finite = !run_->failure().empty();
  now.device = trainer.backend().description();
  now.precision = name_of(trainer.backend().precision());
  const std::size_t counted = trainer.backend().held_bytes();
  now.device_bytes = static_cast<std::int64_t>(
      counted > 0 ? counted : trainer.arena_bytes() + 4 * trainer.parameters().values().bytes());
  now.history_bytes = static_cast<std::int64_t>(run_->history().bytes());
  now.model.name = recipe.name;
  now.model.parameters = trainer.parameters().count();
  for (const ModelPart& part : trainer.parts()) {
    LayerSummary summary{part.label, part.scope, part.kind, part.detail, part.parameters, part.heads, 0};
    if (part.branch >= 0) {
      const Layer& layer = *trainer.model().branches()[static_cast<std::size_t>(part.branch)].layer;
      summary.state_bytes = layer.state_bytes(trainer.dtype(), trainer.task().length());
    }
    now.model.layers.push_back(std::move(summary));
  }
  now.task = trainer.task().describe();
  now.settings = trainer.settings();
  now.runs.push_back(run_->curves());
  now.spectra = spectra_;
  now.spectra_trail.assign(trail_.begin(), trail_.end());
  if (spectra_ && (trail_.empty() || trail_.back()->step < spectra_->step)) now.spectra_trail.push_back(spectra_);
  now.trace = trace_;
  now.token_weights = token_weights_;
  now.trajectory = trajectory_;
  now.recipe = to_json(recipe).dump();
  return now;
}

}  // namespace afterglow
