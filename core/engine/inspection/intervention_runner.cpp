// Evaluation passes with some layers edited, and what is read from them.
#include "core/engine/inspection/intervention_runner.h"

#include <algorithm>
#include <numeric>

#include "core/analysis/attention/softmax.h"
#include "core/engine/inspection/generation.h"
#include "core/engine/inspection/layer_readings.h"
#include "core/engine/inspection/sequence_pair.h"
#include "core/engine/inspection/theory.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/training/pinned_array.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr std::int64_t batch_tokens = 4096, max_examples = 64;
constexpr std::int64_t max_probabilities = 1 << 20;  // fetched for the answers; other tokens get none
constexpr std::size_t shown_answers = 6;

/// The most probable tokens, by the larger of both probabilities.
InspectedAnswer answer_of(const double* before, const double* after, std::size_t vocab, int target) {
  InspectedAnswer answer;
  std::vector<int> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](int i) { return std::max(before[i], after[i]); };
  const auto shown = static_cast<std::ptrdiff_t>(std::min(shown_answers, vocab));
  std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                    [&](int a, int b) { return larger(a) > larger(b) || (larger(a) == larger(b) && a < b); });
  order.resize(static_cast<std::size_t>(shown));
  for (const int token : order) {
    answer.tokens.push_back(token);
    answer.before.push_back(before[token]);
    answer.after.push_back(after[token]);
  }
  if (target >= 0 && static_cast<std::size_t>(target) < vocab) {
    answer.target_before = before[target];
    answer.target_after = after[target];
  }
  return answer;
}

/// Tokens whose answers are read, ascending: all, or as many as fit: the last one, then those with targets, then the
/// others, late ones first.
std::vector<std::int64_t> answered_tokens(const Example& example, std::int64_t most) {
  const auto last = static_cast<std::int64_t>(example.targets.size()) - 1;
  std::vector<std::int64_t> chosen{last};
  for (const bool asked : {true, false}) {
    for (std::int64_t t = last - 1; t >= 0 && static_cast<std::int64_t>(chosen.size()) < most; --t) {
      if ((example.targets[static_cast<std::size_t>(t)] >= 0) == asked) chosen.push_back(t);
    }
  }
  std::ranges::sort(chosen);
  return chosen;
}

/// Copies rows of a matrix to the host, neighbours together.
std::vector<double> rows_to_host(Backend& backend, const Tensor& matrix, const std::vector<std::int64_t>& rows) {
  std::vector<double> numbers;
  const std::int64_t width = matrix.shape.last();
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
    Tensor part = matrix;
    part.data =
        static_cast<std::byte*>(matrix.data) + static_cast<std::size_t>(rows[begin] * width) * size_of(matrix.dtype);
    part.shape = {static_cast<std::int64_t>(end - begin), width};
    std::vector<double> read = to_host(backend, part);
    if (begin == 0) {
      numbers = std::move(read);  // most often everything at once
    } else {
      numbers.insert(numbers.end(), read.begin(), read.end());
    }
  }
  return numbers;
}

LayerEdit edit_of(const LayerIntervention& layer, const InterventionTarget& target, const Spectra* numbered) {
  LayerEdit edit{layer.power, layer.ridge, {}, layer.weights};
  if (layer.heads.empty()) return edit;
  edit.heads.resize(static_cast<std::size_t>(target.heads));
  for (const auto& [head, override] : layer.heads) {
    HeadEdit& own = edit.heads[static_cast<std::size_t>(head)];
    own = {override.is_off, override.gamma, override.eta, {}, numbered_modes(numbered, target.layer, head)};
    for (const auto& [mode, change] : override.modes) own.modes.push_back(change);
  }
  return edit;
}

/// Of the edited layers without an operator.
std::vector<HeadsOff> heads_off(const std::vector<Branch>& branches, const std::map<std::size_t, LayerEdit>& edits) {
  std::vector<HeadsOff> all;
  for (const auto& [i, edit] : edits) {
    const Layer& layer = *branches[i].layer;
    if (readers_of(layer.kind()).edit) continue;
    all.push_back({branches[i].scope, static_cast<int>(layer.heads()), {}});
    for (std::size_t head = 0; head < edit.heads.size(); ++head) {
      if (edit.heads[head].is_off) all.back().off.push_back(static_cast<int>(head));
    }
  }
  return all;
}

}  // namespace

void HeadsOff::see(Backend& backend, const Hooked& at) {
  if (!at.name.starts_with(scope + ".") || at.last != "readout") return;
  const Tensor& value = at.var.value;
  const bool has_axis = value.shape.rank() == 4;  // else a token's columns belong to the heads in equal parts
  const std::int64_t count = has_axis ? value.shape[2] : heads - next,
                     width = has_axis ? value.shape.last() : value.shape.last() / count;
  const Tensor tokens = has_axis ? value.reshaped({value.rows() / count, count * width}) : value;
  for (const int head : off) {
    if (head >= next && head < next + count) backend.fill(tokens.column_range((head - next) * width, width), 0.0);
  }
  next = (next + static_cast<int>(count)) % heads;
}

std::int64_t held_out_sequences(const Trainer& trainer) {
  constexpr std::int64_t of_a_large_one = batch_tokens / 4;
  const std::int64_t parameters = trainer.parameters().count();
  const std::int64_t tokens = trainer.is_large() ? of_a_large_one * many_parameters / parameters : batch_tokens;
  return std::clamp<std::int64_t>(tokens / trainer.task().length(), 1, max_examples);
}

struct InterventionRunner::Sequences {
  Sequences(Backend& backend, std::int64_t count, std::int64_t length)
      : tokens(backend, {count, length}, DType::i32),
        targets(backend, {count, length}, DType::i32),
        context(backend, {count, length}, DType::u8) {}
  void upload() {
    for (PinnedArray* array : {&tokens, &targets, &context}) array->queue_upload();
  }
  std::int64_t count() const { return tokens.device().shape[0]; }
  std::int64_t length() const { return tokens.device().shape[1]; }
  PinnedArray tokens, targets, context;
};

InterventionRunner::InterventionRunner(Trainer& trainer)
    : trainer_(&trainer),
      tape_(trainer.evaluation_tape()),
      intervention_targets_(afterglow::intervention_targets(trainer)) {}

InterventionRunner::~InterventionRunner() = default;

std::vector<int> InterventionRunner::continued(const InspectionSetup& setup, int count) const {
  const Example example = sequence_of(setup);
  std::vector<int> tokens(example.tokens.begin(), example.tokens.end());
  generate(*trainer_, std::vector<int>(tokens), {.count = count, .temperature = 0}, [&](int token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

std::vector<int> InterventionRunner::with_next_token(const InspectionSetup& setup, const Spectra* numbered) {
  const Example example = sequence_of(setup);
  load(setup);
  const Answers read = answers(edits_of(setup.interventions, numbered), example);
  const auto last = std::span(read.probabilities).last(static_cast<std::size_t>(trainer_->model().vocab()));
  std::vector<int> tokens(example.tokens.begin(), example.tokens.end());
  tokens.push_back(static_cast<int>(std::ranges::max_element(last) - last.begin()));
  return tokens;
}

void InterventionRunner::forget() {
  plain_.reset();
  plain_accuracy_.reset();
  stream_branch_ = 0;
}

InterventionRunner::Edits InterventionRunner::edits_of(const Interventions& interventions,
                                                       const Spectra* numbered) const {
  Edits edits;
  for (const InterventionTarget& layer : intervention_targets_) {
    const auto found = interventions.layers.find(layer.layer);
    if (found == interventions.layers.end()) continue;
    const auto branch = static_cast<std::size_t>(trainer_->parts()[static_cast<std::size_t>(layer.layer)].branch);
    edits[branch] = edit_of(found->second, layer, numbered);
  }
  return edits;
}

Var InterventionRunner::forward(const Sequences& input, const Edits& edits, bool capturing) {
  tape_.begin(false);
  std::optional<Capturing> captures;
  if (capturing) captures.emplace(tape_);
  const Tensor context = input.context.device();
  const auto& branches = trainer_->model().branches();
  std::vector<HeadsOff> off = heads_off(branches, edits);
  std::optional<TapeObserver> observer;
  if (!off.empty()) {
    observer.emplace(tape_, Hooks{.values = true, .form = PassForm::unfused}, [&](const Hooked& at) {
      for (HeadsOff& layer : off) layer.see(trainer_->backend(), at);
    });
  }
  // Reuses the stream before the first edit for the batch; the single sequence needs a full pass for its captures.
  const std::size_t first = capturing || edits.empty() ? 0 : edits.begin()->first;
  const Var logits =
      trainer_->model().forward_with(tape_, stream_before(input, first), first, [&](std::size_t i, const Var& x) {
        Layer& layer = *branches[i].layer;
        const auto found = edits.find(i);
        const auto edit = readers_of(layer.kind()).edit;
        if (found == edits.end() || !edit) return layer.forward(tape_, x, context);
        return edit(layer, tape_, x, context, found->second);
      });
  trainer_->backend().synchronize();
  return logits;
}

Var InterventionRunner::stream_before(const Sequences& input, std::size_t branch) {
  Model& model = trainer_->model();
  if (branch > 0 && stream_branch_ == branch) return tape_.constant(stream_->device());
  const Var x =
      model.forward_branches(tape_, model.embed(tape_, input.tokens.device()), input.context.device(), 0, branch);
  if (branch == 0) return x;
  if (!stream_) stream_ = std::make_unique<PinnedArray>(trainer_->backend(), x.shape(), x.value.dtype);
  trainer_->backend().copy(stream_->device(), x.value);
  stream_branch_ = branch;
  return x;
}

InterventionRunner::Answers InterventionRunner::answers(const Edits& edits, const Example& example) {
  const Var logits = forward(*sequence_, edits, !edits.empty());
  const auto vocab = static_cast<std::size_t>(logits.shape().last());
  Answers result;
  result.tokens = answered_tokens(example, std::max<std::int64_t>(1, max_probabilities / logits.shape().last()));
  result.probabilities = rows_to_host(trainer_->backend(), logits.value.at(0), result.tokens);
  for (std::size_t row = 0; row < result.tokens.size(); ++row) {
    softmax_in_place(std::span(result.probabilities).subspan(row * vocab, vocab));
    trainer_->analysis_threads().yield();
  }
  return result;
}

double InterventionRunner::accuracy(const Edits& edits) {
  AnswerCount count;
  count.add(trainer_->backend(), cross_entropy(tape_, forward(*batch_, edits, false), batch_->targets.device()));
  return count.share();
}

/// Creates the batch once, and loads the sequence.
void InterventionRunner::load(const InspectionSetup& setup) {
  const Example example = sequence_of(setup);
  const auto length = static_cast<std::int64_t>(example.tokens.size());
  if (step_ != trainer_->finished_steps()) forget();
  step_ = trainer_->finished_steps();
  if (!batch_) {
    const std::int64_t own = trainer_->task().length();
    const std::int64_t count = held_out_sequences(*trainer_);
    batch_ = std::make_unique<Sequences>(trainer_->backend(), count, own);
    fill_batch(trainer_->task(), trainer_->seed(), 0, static_cast<int>(count), batch_->tokens.host<std::int32_t>(),
               batch_->targets.host<std::int32_t>(), batch_->context.host<std::uint8_t>(), Split::held_out);
    batch_->upload();
  }
  if (!sequence_ || sequence_->length() != length)
    sequence_ = std::make_unique<Sequences>(trainer_->backend(), 1, length);
  if (plain_tokens_ != example.tokens) plain_.reset();
  plain_tokens_ = example.tokens;
  std::ranges::copy(example.tokens, sequence_->tokens.host<std::int32_t>());
  std::ranges::copy(example.context, sequence_->context.host<std::uint8_t>());
  sequence_->upload();
}

std::shared_ptr<const TheoryView> InterventionRunner::theory(const InspectionSetup& setup, int layer, int head) {
  const InterventionTarget* meant = nullptr;
  for (const InterventionTarget& known : intervention_targets_) {
    if (known.rank > 0 && !known.has_learned_modes && (!meant || known.layer == layer)) meant = &known;
  }
  if (!meant) return nullptr;
  const InterventionTarget& of = *meant;
  load(setup);
  forward(*sequence_, {}, true);
  return std::make_shared<const TheoryView>(read_theory(*trainer_, of.layer, std::clamp(head, 0, of.heads - 1),
                                                        CaptureReader(tape_, trainer_->backend()),
                                                        sequence_of(setup).context));
}

std::shared_ptr<const DepthView> InterventionRunner::depth(const InspectionSetup& setup) {
  return std::make_shared<const DepthView>(measure_depth(*trainer_, tape_, sequence_of(setup)));
}

std::shared_ptr<const InspectedView> InterventionRunner::inspect(const InspectionSetup& setup, int traced,
                                                                 const Spectra* numbered,
                                                                 const InspectedView* counted) {
  const Task& task = trainer_->task();
  const Example example = sequence_of(setup);
  load(setup);
  if (!counted && !plain_accuracy_) plain_accuracy_ = accuracy({});
  if (!plain_) plain_ = answers({}, example);

  if (!labels_) {
    std::vector<std::string> labels;
    for (int token = 0; token < task.vocab(); ++token) labels.push_back(task.token_label(token));
    labels_ = std::make_shared<const std::vector<std::string>>(std::move(labels));
  }

  const Edits edits = edits_of(setup.interventions, numbered);
  auto view = std::make_shared<InspectedView>();
  view->step = step_;
  view->setup = setup;
  view->task = name_of_task(setup);
  view->labels = labels_;
  view->examples = batch_->count();
  view->accuracy_before = counted ? counted->accuracy_before : *plain_accuracy_;
  view->accuracy_after = edits.empty() ? view->accuracy_before : counted ? counted->accuracy_after : accuracy(edits);
  view->accuracy_is_old = counted && !edits.empty();
  // The sequence runs last, because its captures are read from the tape.
  const Answers edited = edits.empty() ? *plain_ : answers(edits, example);
  const auto vocab = static_cast<std::size_t>(trainer_->model().vocab());
  view->tokens = token_views(example, task);
  view->answers.resize(example.tokens.size());
  for (std::size_t row = 0; row < edited.tokens.size(); ++row) {
    const auto t = static_cast<std::size_t>(edited.tokens[row]);
    view->answers[t] = answer_of(plain_->probabilities.data() + row * vocab, edited.probabilities.data() + row * vocab,
                                 vocab, example.targets[t]);
    trainer_->analysis_threads().yield();
  }
  const ModelPart& shown = trainer_->parts().at(static_cast<std::size_t>(std::max(traced, 0)));
  if (const auto sums_of = readers_of(shown.kind).sums) {
    const auto own = setup.interventions.layers.find(traced);
    view->summed_layer = traced;
    view->sum_weights = sums_of(trainer_->layer_of(shown), example.context,
                                own == setup.interventions.layers.end() ? SumWeights{} : own->second.weights);
  }
  if (!edits.empty()) {
    read_heads(setup, edits, numbered, *view);
    const CaptureReader read(tape_, trainer_->backend());
    view->weights = read_token_weights(*trainer_, traced, read, example.context);
  }
  return view;
}

void InterventionRunner::read_heads(const InspectionSetup& setup, const Edits& edits, const Spectra* numbered,
                                    InspectedView& view) {
  const CaptureReader read(tape_, trainer_->backend());
  for (const auto& [part, layer] : setup.interventions.layers) {
    const ModelPart& info = trainer_->parts()[static_cast<std::size_t>(part)];
    const LayerEdit& edit = edits.at(static_cast<std::size_t>(info.branch));
    if (const auto spectrum_of = readers_of(info.kind).spectrum) {
      EditedModes modes =
          edit_pairs(spectrum_of(trainer_->layer_of(info), trainer_->backend(), 0), edit.heads.front().modes);
      view.mlps.push_back({{part, std::move(modes.eigenvalues)}, std::move(modes.is_off)});
      continue;
    }
    if (!readers_of(info.kind).edit) continue;  // its heads have no modes to read
    for (int head = 0; head < info.heads; ++head) {
      HeadReading reading = read_head(*trainer_, part, head, read);
      reading.numbers.power = layer.power.value_or(reading.numbers.power);
      reading.numbers.ridge = layer.ridge.value_or(reading.numbers.ridge);
      InspectedHead inspected;
      HeadSpectrum& spectrum = inspected.spectrum;
      spectrum = decompose(reading);
      spectrum.identity = track_modes(numbered_modes(numbered, part, head), spectrum.eigenvalues);
      inspected.is_off.assign(spectrum.eigenvalues.size(), false);
      if (!edit.heads.empty()) {
        const HeadEdit& own = edit.heads[static_cast<std::size_t>(head)];
        inspected.head_is_off = own.is_off;
        spectrum.gamma = own.gamma.value_or(spectrum.gamma);
        spectrum.eta = own.eta.value_or(spectrum.eta);
        spectrum.scale = spectrum.gamma / std::max(spectrum.sigma, 1.0);
        const EditedModes modes = edit_modes(spectrum.eigenvalues, own.modes, own.numbered);
        spectrum.eigenvalues = modes.eigenvalues;
        inspected.is_off = modes.is_off;
      }
      view.heads.push_back(std::move(inspected));
    }
  }
}

}  // namespace afterglow
