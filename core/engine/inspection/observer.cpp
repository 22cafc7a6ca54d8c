// Capturing forward passes and what is read from them.
#include "core/engine/inspection/observer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <numeric>
#include <utility>
#include <vector>

#include "core/analysis/attention/softmax.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/backend/parallel.h"
#include "core/engine/inspection/layer_readings.h"
#include "core/engine/inspection/solver_problems.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/pinned_array.h"
#include "core/layers/layer_kind.h"
#include "core/models/step_program.h"

namespace afterglow {

/// Numbers of one token, copied from the device.
struct TokenNumbers {
  std::vector<double> scores;                  ///< a logit for each possible next token
  std::vector<std::vector<double>> operators;  ///< A_w [r*r] of each head of `ska`; empty if not captured
  int rank = 0;                                ///< r
  std::vector<double> matrices;                ///< state of all heads, if each has a matrix
  int heads = 0, rows = 0;                     ///< of `matrices`
};

namespace {

constexpr std::size_t max_waiting = 64;  // tokens, so that a slow processor does not fill the memory
constexpr std::size_t answers_of_a_token = 5;

void add_answers(std::vector<double> scores, TokenStep& step) {
  softmax_in_place(scores);
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto shown = static_cast<std::ptrdiff_t>(std::min(answers_of_a_token, order.size()));
  std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                    [&](int a, int b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
  step.top_tokens.assign(order.begin(), order.begin() + shown);
  for (const int token : step.top_tokens) step.top_probabilities.push_back(scores[token]);
}

/// Norm and effective rank of `heads` matrices with `rows` rows each.
void measure_matrices(const TokenNumbers& numbers, TokenStep& step) {
  if (numbers.matrices.empty()) return;
  const std::size_t size = numbers.matrices.size() / static_cast<std::size_t>(numbers.heads),
                    height = static_cast<std::size_t>(numbers.rows), width = size / height;
  for (std::size_t head = 0; head < static_cast<std::size_t>(numbers.heads); ++head) {
    const double* S = numbers.matrices.data() + head * size;
    double square = 0, fourth = 0;  // |S|^2 and |S S^T|^2
    for (std::size_t i = 0; i < height; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double product = std::inner_product(S + i * width, S + (i + 1) * width, S + j * width, 0.0);
        fourth += (i == j ? 1 : 2) * product * product;
        if (i == j) square += product;
      }
    }
    step.state_norm.push_back(std::sqrt(square));
    step.state_rank.push_back(square > 0 ? square * square / fourth : 0);
  }
}

void decompose_head(const std::vector<double>& A_w, int rank, HeadStep& head) {
  head.gram = symmetric_spectrum(std::vector<double>(head.G.begin(), head.G.end()), rank);
  const GramRange range = gram_range(head.gram, head.ridge);
  head.lambda_min = range.smallest;
  head.kappa = range.largest / range.smallest;
  head.eigenvalues = eigenvalues(A_w, rank);
}

class TraceDecomposition {
 public:
  /// Uses `pool` exclusively until `finish` has returned.
  explicit TraceDecomposition(ThreadPool& pool) : pool_(pool) {}
  /// Queues a token: fills in the answers and what follows from each head's G and A_w. Returns before that is done;
  /// `step` must stay in place.
  void add(TokenStep& step, TokenNumbers numbers) {
    waiting_.push_back({&step, std::move(numbers)});
    const bool is_idle = !work_.valid() || work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (is_idle || waiting_.size() >= max_waiting) begin();
  }
  /// Waits until all is filled in. Rethrows errors of the work.
  void finish() {
    begin();
    work_.get();
  }

 private:
  struct Token {
    TokenStep* step;
    TokenNumbers numbers;
  };
  void begin() {
    if (work_.valid()) work_.get();
    work_ = std::async(std::launch::async, [this, tokens = std::exchange(waiting_, {})]() mutable {
      std::vector<std::pair<std::size_t, std::size_t>> pieces;  // token, and a head or, after the last head, the rest
      for (std::size_t token = 0; token < tokens.size(); ++token) {
        for (std::size_t head = 0; head <= tokens[token].step->heads.size(); ++head) pieces.emplace_back(token, head);
      }
      pool_.for_each(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i) {
        const auto [token, head] = pieces[static_cast<std::size_t>(i)];
        TokenStep& step = *tokens[token].step;
        TokenNumbers& numbers = tokens[token].numbers;
        if (head < step.heads.size()) return decompose_head(numbers.operators[head], numbers.rank, step.heads[head]);
        add_answers(std::move(numbers.scores), step);
        measure_matrices(numbers, step);
      });
    });
  }

  ThreadPool& pool_;
  std::vector<Token> waiting_;
  std::future<void> work_;  // its destructor waits for the thread
};

constexpr std::size_t max_picture_cells = std::size_t{4} << 20;  ///< of all heads and tokens of a trace, 16 MiB

/// `count` indices spread over 0..tokens-1, including the last.
std::vector<int> spread_tokens(int tokens, int count) {
  std::vector<int> places;
  for (int i = 1; i <= std::min(count, tokens); ++i)
    places.push_back(static_cast<int>(static_cast<std::int64_t>(tokens) * i / std::min(count, tokens)) - 1);
  return places;
}

/// From the weights [tokens, tokens] of each head; memory tokens come first.
MemoryAttention memory_attention(const std::vector<std::vector<float>>& weights, int places, std::size_t tokens) {
  const auto memory = static_cast<std::size_t>(places);
  const auto mean = [&](std::size_t reader, std::size_t read) {
    double sum = 0;
    for (const std::vector<float>& head : weights) sum += head.empty() ? NAN : head[reader * tokens + read];
    return sum / static_cast<double>(weights.size());
  };
  MemoryAttention attention;
  bool sees_input = false;
  attention.reads.assign(memory, {});
  for (std::size_t t = memory; t < tokens; ++t) {
    std::vector<double>& row = attention.is_read.emplace_back();
    for (std::size_t m = 0; m < memory; ++m) {
      row.push_back(mean(t, m));
      attention.reads[m].push_back(mean(m, t));
      // The part of the input that a causal layer cannot see has weight NaN.
      sees_input = sees_input || (std::isfinite(attention.reads[m].back()) && attention.reads[m].back() != 0);
    }
  }
  if (!sees_input) attention.reads.clear();
  return attention;
}

/// The wanted part if `has` accepts it, else the first accepted one; -1 without one.
int first_part(const std::vector<ModelPart>& parts, int wanted, bool (*will_do)(std::string_view)) {
  if (wanted >= 0 && wanted < static_cast<int>(parts.size()) && will_do(parts[static_cast<std::size_t>(wanted)].kind))
    return wanted;
  const auto found = std::ranges::find_if(parts, [&](const ModelPart& p) { return will_do(p.kind); });
  return found == parts.end() ? -1 : static_cast<int>(found - parts.begin());
}

constexpr int max_iterations = 40;

/// At most `most` tokens of a layer, so that the work (width^power for each head and token) stays within `work`, some
/// tenths of a second.
std::vector<int> affordable_tokens(const ModelPart& part, const CaptureReader& read, int tokens, double work, int power,
                                   int most) {
  const Shape keys = read.shape(part.scope + ".keys");
  const double width = static_cast<double>(keys.last()) / (keys.rank() == 3 ? part.heads : 1);
  return spread_tokens(tokens, std::clamp(static_cast<int>(work / (part.heads * std::pow(width, power))), 1, most));
}

/// Runs the solvers on some tokens' systems of `view.layer`; returns the worst conditioned one.
RidgeProblem race_some(Trainer& trainer, const CaptureReader& read, int tokens, SolverView& view) {
  const ModelPart& part = trainer.parts()[static_cast<std::size_t>(view.layer)];
  RidgeProblem hardest;
  double worst = 0;
  const std::vector<int> raced = affordable_tokens(part, read, tokens, 3e5, 2, 12);
  view.strength = for_each_system(trainer, view.layer, read, raced, [&](int head, int token, RidgeProblem p) {
    view.problems.push_back(race(head, token, p, max_iterations));
    if (view.problems.back().kappa() > worst) {
      worst = view.problems.back().kappa();
      hardest = std::move(p);
    }
  });
  return hardest;
}

/// Condition numbers of some tokens' systems of `view.layer`.
void condition_some(Trainer& trainer, const CaptureReader& read, int tokens, SolverView& view) {
  const ModelPart& part = trainer.parts()[static_cast<std::size_t>(view.layer)];
  const std::vector<int> conditioned = affordable_tokens(part, read, tokens, 1e7, 3, 64);
  for_each_system(trainer, view.layer, read, conditioned, [&](int head, int token, const RidgeProblem& p) {
    if (view.conditioning.empty() || view.conditioning.back().head != head)
      view.conditioning.push_back({head, {}, {}, {}, {}, {}});
    HeadConditioning& own = view.conditioning.back();
    const SymmetricRange range = symmetric_range(p.H, p.size());
    own.tokens.push_back(token);
    own.smallest.push_back(std::max(0.0, range.smallest));
    own.largest.push_back(range.largest);
    own.norm.push_back(frobenius_norm(p.H));
    own.ridge.push_back(p.ridge);
  });
}

}  // namespace

Observer::Observer(Trainer& trainer) : trainer_(&trainer), tape_(trainer.evaluation_tape()) { choose(0); }

int Observer::first_ska() const {
  return first_part(trainer_->parts(), -1,
                    [](std::string_view kind) { return shows(kind, LayerTrait::koopman_heads); });
}

void Observer::inspected_sequence() {
  tape_.begin(false);
  const auto [tokens, context] = uploaded(tape_, example_);
  const Capturing capturing(tape_);
  trainer_->model().forward(tape_, tokens, context);
  trainer_->backend().synchronize();
}

std::shared_ptr<const Spectra> Observer::spectra(const Spectra* numbered) {
  inspected_sequence();
  auto result = std::make_shared<Spectra>();
  result->step = trainer_->finished_steps();
  result->numbered_at = numbered ? numbered->numbered_at : result->step;
  const CaptureReader read(tape_, trainer_->backend());
  const auto& parts = trainer_->parts();
  std::vector<HeadReading> readings;
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
    const LayerReaders& readers = readers_of(parts[part].kind);
    if (readers.spectrum)
      result->mlps.push_back({part, readers.spectrum(trainer_->layer_of(parts[part]), trainer_->backend(), 0)});
    for (int head = 0; readers.state_modes && head < parts[part].heads; ++head)
      result->states.push_back({part, head, readers.state_modes(captured_layer(*trainer_, part, read), head)});
    if (!shows(parts[part].kind, LayerTrait::koopman_heads)) continue;
    for (int head = 0; head < parts[part].heads; ++head) readings.push_back(read_head(*trainer_, part, head, read));
  }
  result->heads.resize(readings.size());
  trainer_->analysis_threads().for_each(static_cast<std::int64_t>(readings.size()), [&](std::int64_t i) {
    HeadSpectrum& spectrum = result->heads[static_cast<std::size_t>(i)];
    spectrum = decompose(readings[static_cast<std::size_t>(i)]);
    spectrum.identity = track_modes(numbered_modes(numbered, spectrum.layer, spectrum.head), spectrum.eigenvalues);
  });
  return result;
}

std::shared_ptr<const TokenWeights> Observer::token_weights(int part) {
  if (has_token_weights(*trainer_, part)) inspected_sequence();
  return std::make_shared<const TokenWeights>(
      read_token_weights(*trainer_, part, CaptureReader(tape_, trainer_->backend()), example_.context));
}

std::shared_ptr<const MemoryView> Observer::memory() {
  constexpr int examples = 32;
  SpectralMemory* memory = trainer_->model().memory();
  if (memory == nullptr) return nullptr;
  auto view = std::make_shared<MemoryView>(view_of_history(*memory, trainer_->finished_steps()));
  view->input_length = std::min(max_weighted_tokens, static_cast<int>(example_.tokens.size())) - view->tokens;
  inspected_sequence();
  const CaptureReader read(tape_, trainer_->backend());
  const auto& parts = trainer_->parts();
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
    if (!has_token_weights(*trainer_, part)) continue;
    const TokenWeights of_part = read_token_weights(*trainer_, part, read, example_.context);
    view->attention.push_back(
        memory_attention(of_part.weights, view->tokens, static_cast<std::size_t>(of_part.tokens)));
    view->attention.back().layer = parts[part].label;
  }
  {
    const Capturing capturing(tape_);
    trainer_->model().memory_summary(tape_);
  }
  read_memory_captures(CaptureReader(tape_, trainer_->backend()), *view);
  if (!memory->usable()) return view;
  view->examples = examples;
  view->accuracy = trainer_->evaluate(examples);
  memory->switch_off(true);
  view->without = trainer_->evaluate(examples);
  memory->switch_off(false);
  for (int mode = 0; mode < memory->decomposition().count; ++mode) {
    memory->leave_out(mode);
    view->change_without.push_back(trainer_->evaluate(examples) - view->accuracy);
  }
  memory->leave_out(-1);
  add_shares(*memory, *view, [&] { return trainer_->evaluate(examples); });
  return view;
}

std::shared_ptr<const SolverView> Observer::solvers(int layer) {
  auto view = std::make_shared<SolverView>();
  view->step = trainer_->finished_steps();
  view->iterations = max_iterations;
  const auto& parts = trainer_->parts();
  view->layer = first_part(parts, layer, solves_systems);
  view->gate_layer = first_part(parts, layer, has_gate);
  view->pair_layer = first_part(parts, layer, has_pairs);
  if (view->layer >= 0 || view->gate_layer >= 0 || view->pair_layer >= 0) inspected_sequence();
  const CaptureReader read(tape_, trainer_->backend());
  if (view->gate_layer >= 0) view->gates = read_gates(*trainer_, view->gate_layer, read);
  if (view->gate_layer >= 0) view->half_lives = read_half_lives(*trainer_, read);
  if (view->pair_layer >= 0) view->filters = compare_filters(*trainer_, view->pair_layer, read);
  RidgeProblem hardest;
  if (view->layer >= 0) {
    const auto own = readers_of(parts[static_cast<std::size_t>(view->layer)].kind).iterations;
    if (own) view->own_iterations = own(captured_layer(*trainer_, view->layer, read));
    const int tokens = static_cast<int>(example_.tokens.size());
    hardest = race_some(*trainer_, read, tokens, *view);
    condition_some(*trainer_, read, tokens, *view);
  }
  view->gradients = check_gradients(hardest, view->strength, max_iterations);
  view->reversals = check_reversals(hardest, max_iterations);
  return view;
}

namespace {

/// Numbers the modes of every head after the last token and tracks them to the first.
void follow_modes(Trace& trace, const Spectra* numbered, ThreadPool& pool) {
  if (trace.steps.empty()) return;
  pool.for_each(static_cast<std::int64_t>(trace.steps.back().heads.size()), [&](std::int64_t head) {
    NumberedModes later = numbered_modes(numbered, trace.layer, static_cast<int>(head));
    for (auto step = trace.steps.rbegin(); step != trace.steps.rend(); ++step) {
      HeadStep& now = step->heads[static_cast<std::size_t>(head)];
      now.identity = track_modes(later, now.eigenvalues);
      if (!now.eigenvalues.empty()) later = {now.eigenvalues, now.identity};
    }
  });
}

}  // namespace

std::shared_ptr<const Trace> Observer::trace(int part, int scale_kept_behind, const Spectra* numbered) {
  Backend& backend = trainer_->backend();
  const auto& parts = trainer_->parts();
  if (part >= static_cast<int>(parts.size()) || (part >= 0 && parts[part].branch < 0)) part = -1;
  auto result = std::make_shared<Trace>();
  result->step = trainer_->finished_steps();
  result->layer = part;
  result->scale_kept_behind = scale_kept_behind;
  const Task& task = trainer_->task();
  ModelState state = trainer_->model().make_state(backend, trainer_->dtype(), 1);
  PinnedArray token(backend, {1, 1}, DType::i32);
  result->tokens = token_views(example_, task);
  result->steps.resize(example_.tokens.size());
  TraceDecomposition decomposition(trainer_->analysis_threads());
  Var logits;
  StepProgram step(tape_, state, [&] {
    token.queue_upload();
    tape_.begin(false);
    std::optional<Capturing> capturing;
    if (part >= 0) capturing.emplace(tape_, parts[part].scope + ".");
    logits = trainer_->model().step(tape_, token.device(), state);
  });
  for (std::size_t t = 0; t < example_.tokens.size(); ++t) {
    token.host<std::int32_t>()[0] = example_.tokens[t];
    step.run();
    backend.synchronize();
    const LayerState* traced = part >= 0 ? &state.layers[static_cast<std::size_t>(parts[part].branch)] : nullptr;
    TokenNumbers numbers;
    read_token(part, logits.value, traced, *result, result->steps[t], numbers);
    if (traced) result->steps[t].pictures = step_pictures(part, t, *result);
    decomposition.add(result->steps[t], std::move(numbers));
    if (static_cast<int>(t) == scale_kept_behind) state.keep_scales();
  }
  decomposition.finish();
  for (const TokenStep& one : result->steps) {
    for (const int answer : one.top_tokens) {
      if (const auto at = static_cast<std::size_t>(answer); at >= result->labels.size()) result->labels.resize(at + 1);
      result->labels[static_cast<std::size_t>(answer)] = task.answer_label(answer);
    }
  }
  follow_modes(*result, numbered, trainer_->analysis_threads());
  if (part >= 0)
    result->state_bytes = static_cast<std::int64_t>(state.layers[static_cast<std::size_t>(parts[part].branch)].bytes());
  return result;
}

std::vector<std::vector<StepPicture>> Observer::step_pictures(int part, std::size_t t, const Trace& trace) const {
  const auto reader = readers_of(trainer_->parts()[part].kind).step_pictures;
  if (!reader) return {};
  const bool is_last = t + 1 == example_.tokens.size();
  std::size_t cells = 0;  // of the previous token; sizes of the others are equal or grow with the tokens
  for (const auto& head : t == 0 ? trace.steps.front().pictures : trace.steps[t - 1].pictures) {
    for (const StepPicture& picture : head) cells += picture.cells.size();
  }
  const bool has_room = t == 0 || (cells > 0 && cells * example_.tokens.size() <= max_picture_cells);
  if (!has_room && !is_last) return {};
  const CaptureReader read(tape_, trainer_->backend());
  const CapturedLayer layer = captured_layer(*trainer_, part, read, 1);
  std::vector<std::vector<StepPicture>> pictures;
  for (int head = 0; head < layer.heads(); ++head) pictures.push_back(reader(layer, head));
  return pictures;
}

void Observer::read_token(int part, const Tensor& logits, const LayerState* state, Trace& trace, TokenStep& step,
                          TokenNumbers& numbers) const {
  const CaptureReader read(tape_, trainer_->backend());
  numbers.scores = read.download(logits);
  if (!state || state->tensors().empty()) return;

  const ModelPart& info = trainer_->parts()[part];
  if (!shows(info.kind, LayerTrait::koopman_heads)) {
    const auto& [front, tensor] = state->tensors().front();
    const Tensor memory = state->find("state"), first = memory.defined() ? memory : tensor;
    std::vector<double> values = read.download(first);
    step.state.assign(values.begin(), values.end());
    trace.state_columns = static_cast<int>(first.shape.last());
    trace.state_rows = static_cast<int>(first.shape.rows());
    if (!shows(info.kind, LayerTrait::state_modes)) return;
    numbers.heads = static_cast<int>(first.shape[1]);
    // In a layer of several mixers the heads of attention, whose keys come first, are in front of these.
    if (front != "state") step.state_norm = step.state_rank = std::vector(info.heads - numbers.heads, std::nan(""));
    numbers.rows = static_cast<int>(first.shape[2]);
    numbers.matrices = std::move(values);
    return;
  }
  const int heads = info.heads;
  const double ridge = readers_of(info.kind).head(trainer_->layer_of(info), trainer_->backend(), 0).ridge;
  trace.rank = numbers.rank = static_cast<int>(state->get("G").shape.last());
  trace.value_width = static_cast<int>(state->get("C").shape[2]);
  const auto slice = [&](const std::vector<double>& all, int head) {
    const std::size_t size = all.size() / static_cast<std::size_t>(heads);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(size) * head;
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(size));
  };
  const std::vector<double> G = read.download(state->get("G")), M = read.download(state->get("M")),
                            C = read.download(state->get("C")), m = read.download(state->get("m"));
  for (int head = 0; head < heads; ++head) {
    HeadStep own;
    own.G = slice(G, head);
    own.M = slice(M, head);
    own.C = slice(C, head);
    own.m = m[static_cast<std::size_t>(head)];
    const auto scalar = [&](const char* name, double fallback) {
      const std::vector<double> value = read.tail(info.scope + "." + name, head, heads, 1);
      return value.empty() ? fallback : value.front();
    };
    own.sigma = scalar("sigma", 0);
    own.jitter = static_cast<int>(scalar("jitter", 0));
    own.ridge = added_to_gram(ridge, own.jitter);
    numbers.operators.push_back(read.tail(info.scope + ".A_w", head, heads, std::int64_t{trace.rank} * trace.rank));
    step.heads.push_back(std::move(own));
  }
}

}  // namespace afterglow
