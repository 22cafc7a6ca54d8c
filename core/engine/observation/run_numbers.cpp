// One function for each family of numbers.
#include "core/engine/observation/run_numbers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <concepts>
#include <limits>

#include "core/analysis/solvers/arithmetic.h"
#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/figure/axis.h"
#include "core/io/named.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double diverged_from = 1.05;  // times the first loss

/// The larger one; NaN does not count.
double larger(double a, double b) { return std::isnan(a) ? b : std::max(a, b); }

/// Adds numbers under a common prefix.
class Names {
 public:
  Names(std::vector<NamedNumber>& numbers, std::string prefix) : numbers_(&numbers), prefix_(std::move(prefix)) {}
  explicit Names(std::vector<NamedNumber>& numbers) : Names(numbers, "") {}

  Names in(const std::string& name) const { return {*numbers_, prefix_ + name + "."}; }
  Names in(std::integral auto index) const { return in(std::to_string(index)); }
  void add(const std::string& name, double value) const { numbers_->push_back({prefix_ + name, {value}}); }
  void add(const std::string& name, std::string_view word) const {
    numbers_->push_back({prefix_ + name, {0, std::string(word)}});
  }
  /// Each value under its place, counted from `first`.
  void add_each(const std::vector<double>& values, std::size_t first = 0) const {
    for (std::size_t i = 0; i < values.size(); ++i) add(std::to_string(first + i), values[i]);
  }

 private:
  std::vector<NamedNumber>* numbers_;
  std::string prefix_;
};

std::string label_of(const Observation& o, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  return layer >= 0 && index < o.model.layers.size() ? name_word(o.model.layers[index].label) : std::to_string(layer);
}

void list_run(const Observation& o, std::vector<NamedNumber>& numbers) {
  const Names names(numbers);
  names.add("step", static_cast<double>(o.step));
  names.add("seed", static_cast<double>(o.seed));
  names.add("parameters", static_cast<double>(o.model.parameters));
  double bytes = 0;
  for (const LayerSummary& layer : o.model.layers) {
    if (layer.state_bytes == 0) continue;
    bytes += static_cast<double>(layer.state_bytes);
    names.in("state_bytes").add(name_word(layer.label), static_cast<double>(layer.state_bytes));
  }
  names.add("state_bytes", bytes);
  for (const Setting& setting : o.settings) names.add(setting.key, setting.value);
  names.add("kappa_limit", kappa_limit(o.precision));
  if (o.runs.empty()) return;
  const RunCurves& now = o.runs.back();
  names.add("loss", mean_of_last(now.loss, loss_steps));
  names.add("batch_accuracy", mean_of_last(now.accuracy, loss_steps));
  names.add("gradient_norm", now.gradient_norm.empty() ? unknown : now.gradient_norm.back());
  for (const char* name : {"held_out_accuracy", "accuracy"})  // the second is its older name
    names.add(name, now.held_out_accuracy.empty() ? unknown : now.held_out_accuracy.back());
  names.add("steps_to_90", steps_to_ninety_percent(now));
  names.add("diverged", o.stopped_non_finite || has_diverged(now) ? 1 : 0);
  if (o.runs.size() < 2) return;
  const RunCurves& before = o.runs[o.runs.size() - 2];
  names.in("earlier").add("loss", mean_of_last(before.loss, loss_steps));
  names.in("earlier").add("batch_accuracy", mean_of_last(before.accuracy, loss_steps));
  names.in("earlier").add("accuracy", before.held_out_accuracy.empty() ? unknown : before.held_out_accuracy.back());
}

void list_mode(const HeadSpectrum& head, std::size_t mode, const Names& names) {
  const ModeTimes times = mode_times(head.eigenvalues[mode]);
  names.add("modulus", times.modulus);
  names.add("angle", times.angle);
  names.add("half_life", times.half_life);
  names.add("period", times.period);
  names.add("gain", mode_gain(head, mode, head.power));
  if (mode < head.energy.size()) names.add("energy", head.energy[mode]);
}

double radius_of(const std::vector<std::complex<double>>& eigenvalues) {
  double radius = unknown;
  for (const std::complex<double>& lambda : eigenvalues) radius = larger(radius, std::abs(lambda));
  return radius;
}

double longest_half_life(const std::vector<std::complex<double>>& eigenvalues, double scale = 1) {
  double longest = unknown;
  for (const std::complex<double>& lambda : eigenvalues)
    longest = larger(longest, mode_times(scale * lambda).half_life);
  return longest;
}

void list_head(const HeadSpectrum& head, const Names& names) {
  names.add("radius", radius_of(head.eigenvalues));
  names.add("half_life", longest_half_life(head.eigenvalues, head.scale));
  names.add("kappa", head.kappa);
  names.add("lambda_min", head.lambda_min);
  names.add("ridge", head.ridge);
  names.add("sigma", head.sigma);
  names.add("gamma", head.gamma);
  names.add("eta", head.eta);
  names.add("scale", head.scale);
  names.add("power", head.power);
  for (std::size_t mode = 0; mode < head.eigenvalues.size(); ++mode) list_mode(head, mode, names.in("mode").in(mode));
  for (std::size_t mode = 0; mode < head.identity.size(); ++mode)
    list_mode(head, mode, names.in("mode_number").in(head.identity[mode]));
}

void list_spectra(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.spectra) return;
  const Names names(numbers);
  double radius = unknown;
  for (const HeadSpectrum& head : o.spectra->heads) {
    radius = larger(radius, radius_of(head.eigenvalues));
    list_head(head, names.in("head").in(label_of(o, head.layer)).in(head.head));
  }
  for (const StateSpectrum& state : o.spectra->states) {
    const Names head = names.in("state").in(label_of(o, state.layer)).in(state.head);
    head.add("radius", radius_of(state.eigenvalues));
    head.add("half_life", longest_half_life(state.eigenvalues));
  }
  for (const MlpSpectrum& mlp : o.spectra->mlps)
    names.in("head").in(label_of(o, mlp.layer)).add("radius", radius_of(mlp.eigenvalues));
  names.add("spectral_radius", radius);
  names.add("half_life", longest_half_life(*o.spectra));
  names.add("kappa", largest_kappa(*o.spectra));
}

/// The most probable next token as text, and the probabilities of the shown tokens.
void list_answer(const InspectedView& inspected, const InspectedAnswer& answer, const Names& names) {
  const std::vector<double>& shares = inspected.is_edited() ? answer.after : answer.before;
  if (!inspected.labels || shares.empty()) return;
  const auto label = [&](std::size_t i) { return name_word(label_among(*inspected.labels, answer.tokens[i])); };
  names.add("answer", label(static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin())));
  for (std::size_t i = 0; i < shares.size(); ++i) names.in("answer").add(label(i), shares[i]);
}

void list_inspected(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.inspected) return;
  const Names names = Names(numbers).in("probe");
  const bool is_old = o.inspected->accuracy_is_old;  // a condition must not hold by what was before the edit
  names.add("accuracy", is_old                     ? unknown
                        : o.inspected->is_edited() ? o.inspected->accuracy_after
                                                   : o.inspected->accuracy_before);
  names.in("accuracy").add("plain", o.inspected->accuracy_before);
  for (std::size_t i = o.inspected->answers.size(); i-- > 0;) {
    const InspectedAnswer& answer = o.inspected->answers[i];
    if (answer.target_before < 0) continue;
    names.add("probability", o.inspected->is_edited() ? answer.target_after : answer.target_before);
    names.in("probability").add("plain", answer.target_before);
    names.add("token", static_cast<double>(i));
    list_answer(*o.inspected, answer, names);
    break;
  }
  for (const InspectedHead& head : o.inspected->heads)
    list_head(head.spectrum, names.in("head").in(label_of(o, head.spectrum.layer)).in(head.spectrum.head));
  for (const InspectedMlp& mlp : o.inspected->mlps)
    names.in("head").in(label_of(o, mlp.spectrum.layer)).add("radius", radius_of(mlp.spectrum.eigenvalues));
}

void list_problem(const RacedProblem& problem, const Names& names) {
  names.add("kappa", problem.kappa());
  names.add("ridge", problem.ridge);
  names.add("mu", problem.mu);
  names.add("L", problem.L);
  for (std::size_t s = 0; s < all_solvers.size(); ++s) {
    const Names solver = names.in(name_word(name_of(all_solvers[s])));
    for (std::size_t a = 0; a < all_arithmetics.size(); ++a) {
      const std::vector<double>& residuals = problem.races[a][s];
      if (residuals.empty()) continue;
      const Names race = solver.in(std::string(name_of(all_arithmetics[a])));
      race.add("residual", residuals.back());
      race.in("residual").add_each(residuals);
    }
    const std::size_t iterations = problem.races.back()[s].size();
    for (std::size_t i = 0; i < iterations; ++i)
      solver.in("bound").add(std::to_string(i),
                             residual_bound(all_solvers[s], problem.mu, problem.L, static_cast<int>(i)));
  }
}

void list_solvers(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.solvers) return;
  const std::vector<RacedProblem>& problems = o.solvers->problems;
  const auto worst = std::ranges::max_element(problems, {}, &RacedProblem::kappa);
  if (worst != problems.end()) list_problem(*worst, Names(numbers).in("solvers"));
  if (o.solvers->made) list_problem(*o.solvers->made, Names(numbers).in("made"));
}

void list_tail(const InfluenceTail& tail, const Names& names) {
  const InfluenceLaw law = tail.fit.law;
  names.add("law", law == InfluenceLaw::power ? "power" : law == InfluenceLaw::exponential ? "exponential" : "none");
  names.add("slope", tail.fit.power.slope);
  names.add("rate", -tail.fit.exponential.slope);
  names.add("half_life", tail.fit.half_life);
  names.add("preference", tail.fit.preference);
  names.add("one_percent_lag", tail.one_percent_lag);
  if (tail.values.empty()) return;
  names.add("first", tail.values.front());
  names.add("last", tail.values.back());
}

void list_influence(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.influence) return;
  const Names names = Names(numbers).in("influence");
  for (const InfluenceTail& tail : o.influence->blocks) list_tail(tail, names.in(name_word(tail.label)));
  for (const InfluenceTail& tail : o.influence->fixed) list_tail(tail, names.in("fixed").in(name_word(tail.label)));
  for (const RoutingView& routing : o.influence->routing) {
    const Names layer = names.in("routing").in(label_of(o, routing.layer));
    if (!routing.effective.empty()) layer.add("tokens_read", routing.effective.back());
    if (!routing.decay.empty()) layer.add("rate", routing.mean_rate);
    double gain = 0;
    for (const double one : routing.gain) gain = std::max(gain, std::abs(one));
    if (!routing.gain.empty()) layer.add("beta", 1 - gain * routing.c2);
  }
  if (!o.influence->deep) return;
  for (const DeepProfile& profile : *o.influence->deep) {
    const Names deep = names.in("deep").in(profile.blocks);
    deep.add("slope", profile.fit.power.slope);
    deep.add("theory", profile.theory);
  }
}

void list_race(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.race) return;
  for (const RaceEntry& entry : o.race->entries) {
    const Names names = Names(numbers).in("race").in(name_word(entry.tail.kind));
    list_tail(entry.tail, names);
    names.add("state_bytes", static_cast<double>(entry.state_bytes));
    for (std::size_t i = 0; i < std::min(entry.recall.size(), entry.recall_lags.size()); ++i)
      names.in("recall").add(std::to_string(std::lround(entry.recall_lags[i])), entry.recall[i]);
    if (!entry.recall.empty()) names.add("recall", entry.recall.back());
  }
}

/// Of memory tokens, the trajectory of training, and forecasts.
void list_traced(const Observation& o, std::vector<NamedNumber>& numbers) {
  const Names names(numbers);
  const std::shared_ptr<const MemoryView> memory = o.forecast && o.forecast->memory ? o.forecast->memory : o.memory;
  if (memory) {
    names.in("memory").add("accuracy", memory->accuracy);
    names.in("memory").add("without", memory->without);
    names.in("memory").add("rows", static_cast<double>(memory->history_rows));
    names.in("memory").in("explained").add_each(memory->explained, 1);
  }
  if (o.trajectory) names.in("trajectory").in("explained").add_each(o.trajectory->explained, 1);
  if (o.trajectory && !o.trajectory->steps.empty())
    names.in("trajectory").add("rows", static_cast<double>(o.trajectory->steps.size()));
  if (o.forecast && !o.forecast->windows.empty()) {
    const ForecastWindow& window = o.forecast->windows.front();
    names.in("forecast").add("mse", window.mse);
    names.in("forecast").add("mae", window.mae);
    names.in("forecast").add("mse_without_memory", window.mse_without_memory);
  }
  if (!o.trace || o.trace->steps.empty()) return;
  const TokenStep& last = o.trace->steps.back();
  const Names trace = names.in("trace");
  for (std::size_t head = 0; head < last.state_norm.size(); ++head)
    trace.in(head).add("state_norm", last.state_norm[head]);
  for (std::size_t head = 0; head < last.state_rank.size(); ++head)
    trace.in(head).add("state_rank", last.state_rank[head]);
  for (std::size_t head = 0; head < last.heads.size(); ++head) {
    trace.in(head).add("kappa", last.heads[head].kappa);
    trace.in(head).add("sigma", last.heads[head].sigma);
  }
}

void list_theory(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (o.theory) {
    const Names names = Names(numbers).in("theory");
    names.add("kappa", o.theory->kappa);
    names.add("eigenvector_condition", o.theory->eigenvector_condition);
    names.add("state_bytes", o.theory->state_bytes);
    names.add("cache_bytes", o.theory->cache_bytes);
    names.add("crossing", o.theory->crossing);
    names.add("persistent", o.theory->regime.persistent);
    names.add("transient", o.theory->regime.transient);
    names.in("norm").add_each(o.theory->powers.norms);
    names.in("bound").add_each(o.theory->powers.bounds);
  }
  if (!o.depth || o.depth->gradient.empty()) return;
  const Names names = Names(numbers).in("depth").in("gradient");
  names.add("first", o.depth->gradient.front());
  names.add("last", o.depth->gradient.back());
}

/// "patch.1_ska_c.20": a part's hook point and a token; exact, and to first order.
void list_patch(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.patch) return;
  const PatchView& view = *o.patch;
  const std::size_t cells = view.rows.size() * static_cast<std::size_t>(std::max(0, view.tokens));
  if (view.exact.size() != cells || view.attributed.size() != cells) return;
  const Names names = Names(numbers).in("patch");
  names.add("control", view.control);
  names.add("clean", view.pair.clean_measure);
  names.add("corrupted", view.pair.corrupted_measure);
  for (std::size_t row = 0; row < view.rows.size(); ++row) {
    const Names place = names.in(name_word(view.rows[row].label));
    for (int t = 0; t < view.tokens; ++t) {
      place.add(std::to_string(t), view.exact[view.cell(row, t)]);
      place.in(t).add("attributed", view.attributed[view.cell(row, t)]);
    }
  }
  const std::size_t parts = view.parts.size();
  for (std::size_t path = 0; path < view.paths.size(); ++path) {
    const std::size_t from = path / parts, to = path % parts;
    if (from < to) names.in("path").in(name_word(view.parts[from])).add(name_word(view.parts[to]), view.paths[path]);
  }
}

void list_ablation(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.ablation) return;
  const AblationView& view = *o.ablation;
  for (const std::string& name : view.planned) {
    const Names part = Names(numbers).in("ablation").in(name_word(name));
    const AblatedPart* found = find_by(view.parts, name, &AblatedPart::name);
    part.add("lost", found ? view.accuracy - found->accuracy : unknown);
    part.add("accuracy", found ? found->accuracy : unknown);
    part.add("loss", found ? found->loss : unknown);
  }
}

void list_readout(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.readout) return;
  const ReadoutView& view = *o.readout;
  if (view.shuffled.size() != view.tokens.size() || view.accuracy.size() != view.keys.size() * view.tokens.size())
    return;
  const Names names = Names(numbers).in("readout");
  for (std::size_t t = 0; t < view.shuffled.size(); ++t) {
    for (std::size_t key = 0; key < view.keys.size(); ++key)
      names.in(name_word(view.keys[key])).add(std::to_string(t), view.accuracy[key * view.tokens.size() + t]);
    names.in("shuffled").add(std::to_string(t), view.shuffled[t]);
  }
}

void list_lens(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (!o.logit_lens) return;
  const LogitLensView& view = *o.logit_lens;
  if (view.answer.size() != view.depths.size() * static_cast<std::size_t>(std::max(0, view.tokens))) return;
  for (std::size_t cell = 0; cell < view.answer.size(); ++cell) {
    const auto tokens = static_cast<std::size_t>(view.tokens);
    Names(numbers)
        .in("logit_lens")
        .in(name_word(view.depths[cell / tokens]))
        .add(std::to_string(cell % tokens), view.answer[cell]);
  }
}

void list_transplant(const Observation& o, std::vector<NamedNumber>& numbers) {
  if (o.transplant && o.transplant->layer >= 0) Names(numbers).in("transplant").add("share", o.transplant->share);
}

}  // namespace

std::span<const NumberFamily> number_families() {
  static const std::vector<NumberFamily> families = {
      {{"spectral_radius", "half_life", "kappa", "head", "state"},
       "Eigenvalues of the layers' memory, and the conditioning of their systems",
       set_of(Analysis::spectra),
       list_spectra},
      {{"probe"}, "Answers to the inspected sequence, with interventions", set_of(Analysis::inspected), list_inspected},
      {{"solvers", "made"},
       "Residuals of the solvers on the worst-conditioned system, and on one of your own",
       set_of(Analysis::solvers),
       list_solvers},
      {{"influence"}, "Laws of the influence tails", set_of(Analysis::influence), list_influence},
      {{"race"}, "All layers on one input", set_of(Analysis::race), list_race},
      {{"memory", "trajectory", "forecast", "trace"},
       "Memory tokens, the trajectory of training, forecasts, the recurrent state after the last token",
       set_of(Analysis::trace),
       list_traced},
      {{"theory", "depth"}, "Theorems of one head; gradients by depth", set_of(Analysis::theory), list_theory},
      {{"patch"}, "Cells and paths of the patch grid", set_of(Analysis::patch), list_patch},
      {{"ablation"}, "Accuracy without each part", set_of(Analysis::ablation), list_ablation},
      {{"readout"}, "Values that a read-out finds in the state", set_of(Analysis::readout), list_readout},
      {{"logit_lens"}, "The answer by depth and token", set_of(Analysis::logit_lens), list_lens},
      {{"transplant"},
       "Share of the answer that a transplanted state carries",
       set_of(Analysis::transplant),
       list_transplant},
      {{"layers", "state_bytes", "earlier"}, "The run, and its settings under their keys", 0, list_run},
  };
  return families;
}

std::vector<NamedNumber> numbers_of(const Observation& observation) {
  std::vector<NamedNumber> numbers;
  for (const NumberFamily& family : number_families()) family.list(observation, numbers);
  return numbers;
}

const NumberFamily* family_of(std::string_view name) {
  return find_where(number_families(), [word = first_word(name)](const NumberFamily& family) {
    return std::ranges::count(family.words, word) > 0;
  });
}

std::optional<Quantity> number_in(const std::vector<NamedNumber>& numbers, std::string_view name) {
  const NamedNumber* found = find_by(numbers, name, &NamedNumber::name);
  return found ? std::optional(found->value) : std::nullopt;
}

PendingWork pending_work(const Observation& observation) {
  constexpr double moment = 2;  // seconds
  std::vector<std::string> entries;
  for (const AnalysisWork& work : observation.work) {
    const bool computes = work.phase == AnalysisPhase::computing;
    if (!computes && (work.phase != AnalysisPhase::waiting || work.due_in < moment)) continue;
    std::string entry(work.name);
    entry += computes ? " " + number_text(std::floor(100 * work.share_done), 3) + " %" : " waits";
    if (work.due_in >= 0) entry += ", about " + rough_duration_text(std::max(1.0, work.due_in));
    entries.insert(computes ? entries.begin() : entries.end(), std::move(entry));
  }
  PendingWork pending{"", joined(entries, "; ")};
  if (!entries.empty()) pending.shown = entries.front();
  if (entries.size() > 1) pending.shown += " · " + std::to_string(entries.size() - 1) + " more";
  return pending;
}

std::string_view first_word(std::string_view name) { return name.substr(0, name.find('.')); }

std::string name_word(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || byte >= 0x80) {
      word += static_cast<char>(byte < 0x80 ? std::tolower(byte) : byte);
    } else if (!word.empty() && word.back() != '_') {
      word += '_';
    }
  }
  while (word.ends_with('_')) word.pop_back();
  return word;
}

namespace {

/// Replaces the head if this one has a longer half-life.
void take_slower(int layer, int head, const std::vector<std::complex<double>>& eigenvalues, double scale,
                 SlowestHead& slowest) {
  const double own = longest_half_life(eigenvalues, scale);
  if (std::isnan(own) || own <= slowest.half_life) return;
  slowest = {layer, head, own, eigenvalues};
  for (std::complex<double>& lambda : slowest.eigenvalues) lambda *= scale;
}

}  // namespace

SlowestHead slowest_head(const Spectra& spectra) {
  SlowestHead slowest{-1, 0, unknown, {}};
  for (const HeadSpectrum& head : spectra.heads)
    take_slower(head.layer, head.head, head.eigenvalues, head.scale, slowest);
  if (!spectra.heads.empty()) return slowest;
  for (const StateSpectrum& state : spectra.states) take_slower(state.layer, state.head, state.eigenvalues, 1, slowest);
  return slowest;
}

double longest_half_life(const Spectra& spectra) { return slowest_head(spectra).half_life; }

double largest_kappa(const Spectra& spectra) {
  double largest = unknown;
  for (const HeadSpectrum& head : spectra.heads) largest = larger(largest, head.kappa);
  return largest;
}

double kappa_limit(std::string_view precision) { return inverse_unit(arithmetic_named(precision)); }

double mean_of_last(const Values& curve, std::size_t most) {
  const std::size_t count = std::min(most, curve.size());
  double sum = 0;
  for (std::size_t i = curve.size() - count; i < curve.size(); ++i) sum += curve[i];
  return sum / static_cast<double>(count);
}

double steps_to_ninety_percent(const RunCurves& curves) {
  for (std::size_t i = 0; i < curves.held_out_step.size(); ++i) {
    if (curves.held_out_accuracy[i] >= 0.9) return curves.held_out_step[i];
  }
  return unknown;
}

bool has_diverged(const RunCurves& curves) {
  return !curves.loss.empty() && !(mean_of_last(curves.loss, loss_steps) <= diverged_from * curves.loss[0]);
}

}  // namespace afterglow
