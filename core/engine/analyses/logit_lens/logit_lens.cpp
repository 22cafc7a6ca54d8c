// The head applied to the residual stream before every part: the model's answer if it ended there.
#include <algorithm>
#include <limits>
#include <span>

#include "core/analysis/attention/softmax.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/session/analysis_table.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_logits = std::int64_t{4}
                                    << 20;  ///< of one depth; tokens further from the queried one are left out

/// "0 mamba2 in" or "out", and TransformerLens' name.
void name_depths(const Trainer& trainer, const std::vector<std::string>& places, LogitLensView& view) {
  const auto& branches = trainer.model().branches();
  std::string block;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string own = places[i].substr(0, places[i].find('.', places[i].find('.') + 1));
    const bool is_behind = i >= branches.size();
    view.depths.push_back(is_behind ? "out" : branches[i].label + " in");
    view.hooks.push_back(is_behind ? "blocks." + block.substr(block.find('.') + 1) + ".hook_resid_post"
                                   : hook_name(places[i], mixes_tokens(branches[i].layer->kind()), own != block));
    if (!is_behind) block = own;
  }
}

/// The tokens that are shown: all, or as many before the queried one as fit.
struct TokenRange {
  std::int64_t first = 0, count = 0;
};
TokenRange tokens_shown(std::int64_t tokens, std::int64_t vocab, std::int64_t asked) {
  if (vocab * tokens <= max_logits) return {0, tokens};
  const std::int64_t most = std::max<std::int64_t>(1, max_logits / vocab),
                     first = std::max<std::int64_t>(0, asked - most + 1);
  return {first, asked + 1 - first};
}

/// One row of the lens: for each token the probability of the answer, and the likeliest token.
void read_depth(Trainer& trainer, const Tensor& logits, int answer, HostReader& reader, LogitLensView& view) {
  const auto vocab = static_cast<std::size_t>(logits.shape.last()), before = view.best.size();
  const TokenRange tokens = tokens_shown(logits.shape[1], logits.shape.last(), view.pair.asked);
  const std::span<const double> scores =
      reader.read(trainer.backend(), tokens_at(logits, 0, tokens.first, tokens.count));
  const std::size_t after = before + static_cast<std::size_t>(logits.shape[1]);
  view.answer.resize(after, std::numeric_limits<double>::quiet_NaN());
  view.best.resize(after, -1);
  view.best_probability.resize(after, std::numeric_limits<double>::quiet_NaN());
  trainer.analysis_threads().for_each(tokens.count, [&](std::int64_t i) {
    const std::span<const double> logits_of_token = scores.subspan(static_cast<std::size_t>(i) * vocab, vocab);
    std::vector<double> row(logits_of_token.begin(), logits_of_token.end());
    softmax_in_place(row);
    const auto best = std::ranges::max_element(row) - row.begin();
    const std::size_t at = before + static_cast<std::size_t>(tokens.first + i);
    view.answer[at] = row[static_cast<std::size_t>(answer)];
    view.best[at] = static_cast<int>(best);
    view.best_probability[at] = row[static_cast<std::size_t>(best)];
  });
}

/// For the trainer's model without interventions. The last row is the model's own answer.
LogitLensView measure_logit_lens(Trainer& trainer, const InspectionSetup& setup) {
  Model& model = trainer.model();
  Tape& tape = trainer.evaluation_tape();
  LogitLensView view;
  view.step = trainer.finished_steps();
  SequencePair pair = pair_of(setup, inspected_example(setup, trainer), trainer.task());
  HookPasses passes(model, tape, trainer.dtype());
  passes.read_clean(pair);
  view.pair = view_of(pair, passes.clean_logits(), passes.corrupted_logits(), trainer.task());
  view.tokens = static_cast<int>(pair.clean.tokens.size());
  std::vector<std::string> names;
  HostReader reader;
  for (const HookValues& place : passes.places()) {
    if (!place.name.ends_with(".stream")) continue;
    names.push_back(place.name);
    tape.begin(false);
    const Tensor stream = to_device(tape, {1, view.tokens, model.width()}, trainer.dtype(), place.clean);
    const Var logits = model.forward_with(tape, tape.constant(stream), model.branches().size(),
                                          [](std::size_t, const Var& in) { return in; });
    read_depth(trainer, logits.value, pair.clean_answer, reader, view);
    const auto asked = static_cast<std::size_t>((static_cast<int>(names.size()) - 1) * view.tokens + pair.asked);
    view.best_labels.push_back(trainer.task().answer_label(view.best[asked]));
  }
  name_depths(trainer, names, view);
  return view;
}

}  // namespace

AnalysisInfo logit_lens_row() {
  // Both sequences, the backward pass, and the head after each branch.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const Model& model = subject.run->trainer().model();
    const double head = static_cast<double>(model.vocab() * model.width()) /
                        static_cast<double>(subject.run->trainer().parameters().count());
    return {length_of(subject) * (2 + reverse + (branches_of(subject) + 1) * head), 0, 1};
  };
  using Form = PairAnalysis<LogitLensView, measure_logit_lens, &AnalysisResults::logit_lens>;
  return {{AnalysisCost::slow, 0.5, 1}, Analysis::logit_lens, "logit lens", make_of_tokens<Form>, work};
}

}  // namespace afterglow
