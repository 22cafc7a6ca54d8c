// One pass that notes the stream, and the head on each note.
#include "core/engine/causes/logit_lens.h"

#include <algorithm>
#include <limits>

#include "core/analysis/attention/softmax.h"
#include "core/engine/causes/pair_view.h"
#include "core/engine/causes/place_passes.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr std::int64_t most_logits = std::int64_t{4} << 20;  ///< of one depth; further from the asked token none

/// "0 mamba2 in" or "out", and the name of TransformerLens.
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

/// One row of the lens: for each token the probability of the answer, and the likeliest token.
void read_depth(Backend& backend, const Tensor& logits, int answer, LogitLensView& view) {
  const std::int64_t vocab = logits.shape.last(), most = std::max<std::int64_t>(1, most_logits / vocab);
  for (std::int64_t t = 0; t < logits.shape[1]; ++t) {
    const bool is_far = t > view.pair.asked || t <= view.pair.asked - most;
    if (is_far && vocab * logits.shape[1] > most_logits) {
      view.answer.push_back(std::numeric_limits<double>::quiet_NaN());
      view.best.push_back(-1);
      view.best_probability.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    std::vector<double> row = to_host(backend, tokens_at(logits, 0, t, 1));
    softmax_in_place(row);
    const auto best = std::ranges::max_element(row) - row.begin();
    view.answer.push_back(row[static_cast<std::size_t>(answer)]);
    view.best.push_back(static_cast<int>(best));
    view.best_probability.push_back(row[static_cast<std::size_t>(best)]);
  }
}

}  // namespace

LogitLensView measure_logit_lens(Trainer& trainer, const ProbeSetup& setup) {
  Model& model = trainer.model();
  Tape& tape = trainer.looking_tape();
  LogitLensView view;
  view.step = trainer.finished_steps();
  SequencePair pair =
      pair_of(setup, probe_example(setup, trainer.task(), trainer.seed(), model.vocab()), trainer.task());
  PlacePasses passes(model, tape, trainer.dtype());
  passes.read(pair);
  view.pair = view_of(pair, passes.clean_logits(), passes.corrupted_logits(), trainer.task());
  view.tokens = static_cast<int>(pair.clean.tokens.size());
  std::vector<std::string> names;
  for (const PlaceValues& place : passes.places()) {
    if (!place.name.ends_with(".stream")) continue;
    names.push_back(place.name);
    tape.begin(false);
    const Tensor stream = to_device(tape, {1, view.tokens, model.width()}, trainer.dtype(), place.clean);
    const Var logits = model.forward_with(tape, tape.constant(stream), model.branches().size(),
                                          [](std::size_t, const Var& in) { return in; });
    read_depth(tape.backend(), logits.value, pair.clean_answer, view);
    const auto asked = static_cast<std::size_t>((static_cast<int>(names.size()) - 1) * view.tokens + pair.asked);
    view.best_labels.push_back(trainer.task().token_label(view.best[asked]));
  }
  name_depths(trainer, names, view);
  return view;
}

}  // namespace afterglow
