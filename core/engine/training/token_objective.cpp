// A stack of layers that answers tokens, trained by cross-entropy.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/engine/training/objective.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/layers/spectral_memory.h"
#include "core/models/step_program.h"
#include "core/ops/ops.h"
#include "core/tasks/prefixed_task.h"

namespace afterglow {
namespace {

// The step's input and output, in device memory and in pinned host memory of the same layout. The inputs are
// contiguous, so that one transfer carries them: tokens, targets (both i32), context (u8).
struct TokenBatch {
  TokenBatch(Backend& backend, std::int64_t batch, std::int64_t length, std::int64_t width, DType dtype)
      : inputs(backend, {batch * length * 9}, DType::u8),
        tokens(inputs.device().data, {batch, length}, DType::i32),
        targets(tokens.as<std::int32_t>() + batch * length, {batch, length}, DType::i32),
        context(targets.as<std::int32_t>() + batch * length, {batch, length}, DType::u8),
        summary(backend, {width}, dtype),
        counter(backend, {1}, DType::i32),
        correct(backend, {1}, DType::i32),
        counted(backend, {1}, DType::i32) {}
  PinnedArray inputs;
  Tensor tokens, targets, context;
  PinnedArray summary, counter, correct, counted;
};

class TokenObjective final : public Objective {
 public:
  TokenObjective(const Recipe& recipe, std::unique_ptr<Task> task, ParameterStore& store)
      : task_(std::move(task)), model_(recipe.model, store), seed_(recipe.seed) {
    memory_ = model_.memory();
    if (task_->vocab() > model_.vocab())
      throw BadInput("the task uses ", task_->vocab(), " different tokens, but model.vocab is ", model_.vocab(),
                     "; raise model.vocab");
    model_.recompute(recipe.recompute);
    if (model_.places() > 0) {
      const auto places = static_cast<int>(model_.places());
      task_ = std::make_unique<PrefixedTask>(std::move(task_), places);
    }
  }

  const Task& task() const override { return *task_; }
  Model* model() override { return &model_; }
  std::int64_t width() const override { return model_.width(); }

  // The parts follow the order of the parameters in the flat buffers, so that each part is one slice of the gradient.
  std::vector<ModelPart> parts(const ParameterStore& store) const override {
    std::vector<ModelPart> parts;
    parts.push_back({"embedding", "embedding", "embedding", "d " + std::to_string(model_.width()), 0, -1, 0});
    const auto& branches = model_.branches();
    for (std::size_t i = 0; i < branches.size(); ++i) {
      std::string kind(branches[i].layer->kind());
      parts.push_back(
          {branches[i].label, branches[i].scope, kind, branches[i].detail, branches[i].heads, static_cast<int>(i), 0});
    }
    if (memory_ != nullptr) {
      const SpectralMemoryConfig& memory = memory_->config();
      parts.push_back({"memory", "memory", "spectral_memory",
                       "K " + std::to_string(memory.kl.components) + " · M " + std::to_string(memory.tokens), 0, -1,
                       0});
    }
    parts.push_back({"head", "head", "head", "V " + std::to_string(model_.vocab()), 0, -1, 0});
    std::size_t part = 0;
    for (const Parameter& parameter : store.all()) {
      const bool starts_branch = part < branches.size() && branches[part].first == &parameter;
      const bool starts_memory = memory_ != nullptr && &parameter == &memory_->first_parameter();
      if (starts_branch || starts_memory || parameter.name == "norm.weight") parts[++part].offset = parameter.offset;
      parts[part].parameters += parameter.shape.elements();
    }
    return parts;
  }

  std::vector<Setting> settings() const override {
    std::vector<Setting> all;
    for (const Branch& branch : model_.branches()) {
      for (const LayerSetting& own : branch.layer->settings()) {
        std::string label = own.label;
        label[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(label[0])));
        all.push_back({branch.scope + "." + own.key, branch.label + ": " + label, "", own.meaning, own.field.value,
                       own.minimum, own.maximum, 0, own.logarithmic, own.field.integer});
      }
    }
    const std::vector<Setting> of_memory = Objective::settings();
    all.insert(all.end(), of_memory.begin(), of_memory.end());
    return all;
  }

  bool set(std::string_view key, double value) override {
    if (Objective::set(key, value)) return true;
    for (const Branch& branch : model_.branches()) {
      if (!key.starts_with(branch.scope + '.')) continue;
      branch.layer->set(key.substr(branch.scope.size() + 1), value);
      return true;
    }
    return false;
  }

  void make_batch(Backend& backend, std::int64_t batch, DType dtype) override {
    batch_ = std::make_unique<TokenBatch>(backend, batch, task_->length(), model_.width(), dtype);
    const auto count = static_cast<std::size_t>(batch * task_->length());
    tokens_.resize(count);
    targets_.resize(count);
    context_.resize(count);
  }

  void draw(std::uint64_t seed, std::int64_t first) override {
    fill_batch(*task_, seed, static_cast<std::uint64_t>(first), static_cast<int>(batch_->tokens.shape[0]),
               tokens_.data(), targets_.data(), context_.data());
  }

  bool change_token(std::int64_t sequence, std::int64_t at, std::int32_t to) override {
    tokens_[static_cast<std::size_t>(sequence * task_->length() + at)] = to;
    return true;
  }

  void load(std::int64_t step) override {
    batch_->counter.host<std::int32_t>()[0] = static_cast<std::int32_t>(step);
    auto* numbers = batch_->inputs.host<std::int32_t>();
    numbers = std::ranges::copy(tokens_, numbers).out;
    numbers = std::ranges::copy(targets_, numbers).out;
    std::ranges::copy(context_, reinterpret_cast<std::uint8_t*>(numbers));
  }

  void add_inputs(std::vector<Transfer>& transfers) override {
    transfers.push_back(batch_->inputs.to_device());
    transfers.push_back(batch_->counter.to_device());
  }

  Var loss(Tape& tape) override {
    const DropoutSource dropped{model_.memory_dropout(), seed_, batch_->counter.device()};
    last_ = model_.forward_loss(tape, batch_->tokens, batch_->context, batch_->targets,
                                batch_->tokens.shape[0] * task_->max_answers(), dropped);
    answers_only_ = model_.last_hidden().rows() < batch_->tokens.elements();
    if (memory_ != nullptr) pooled_ = model_.memory_summary(tape);
    return last_.loss;
  }

  void add_results(Backend& backend, std::vector<Transfer>& transfers) override {
    if (memory_ == nullptr) {
      pooled_ = batch_->summary.device();
      const Tensor& hidden = model_.last_hidden();
      backend.sum_rows(hidden.reshaped({hidden.rows(), hidden.columns()}), {pooled_, false});
    }
    transfers.push_back(batch_->correct.to_host(last_.correct));
    transfers.push_back(batch_->counted.to_host(last_.counted));
    transfers.push_back(batch_->summary.to_host(pooled_));
  }

  double quality() const override {
    const auto counted = batch_->counted.host<std::int32_t>()[0];
    return counted > 0 ? static_cast<double>(batch_->correct.host<std::int32_t>()[0]) / counted : 0.0;
  }

  std::int64_t loaded_answers() const override {
    if (memory_ != nullptr) return 0;  // its history needs the summary of the whole batch
    return std::ranges::count_if(targets_, [](std::int32_t target) { return target >= 0; });
  }
  std::int64_t right_answers() const override { return batch_->correct.host<std::int32_t>()[0]; }

  void read_summary(std::span<double> summary) const override {
    const double summed = rows_in_summary();
    for (std::size_t i = 0; i < summary.size(); ++i)
      summary[i] = number_of(batch_->summary, static_cast<std::int64_t>(i)) / summed;
  }

  double evaluate(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) override;
  double evaluate_recurrent(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other,
                            const DecodeForm& form) override;
  AnswerScore answers(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) override;

 private:
  /// The number of states that the summary sums.
  double rows_in_summary() const {
    if (memory_ != nullptr) return 1.0;  // it is already a mean
    return answers_only_ ? std::max(1, batch_->counted.host<std::int32_t>()[0]) : static_cast<double>(tokens_.size());
  }
  /// Another task or the run's own, with the model's prefix tokens.
  PrefixedTask source_of(const Task* other) const;
  /// Draws held-out examples of a task, uploads them in batches, and calls `answer(batch)` for each.
  struct HeldOutBatch {
    PinnedArray &tokens, &targets, &context;
  };
  template <class Answer>
  void draw_held_out(Backend& backend, std::uint64_t seed, std::int64_t examples, const Task& source,
                     const Answer& answer);
  /// Computes probabilities for held-out batches and calls `take(result, targets)` for each.
  template <class Take>
  void ask(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task& source, const Take& take);

  std::unique_ptr<Task> task_;  // with the model's prefix tokens
  Model model_;
  std::uint64_t seed_;
  std::unique_ptr<TokenBatch> batch_;
  std::vector<std::int32_t> tokens_, targets_;  // drawn ahead of time
  std::vector<std::uint8_t> context_;
  CrossEntropy last_;
  bool answers_only_ = false;  // the head reads the states of answered tokens only
  Tensor pooled_;              // summary of the step, if there is a memory
};

template <class Answer>
void TokenObjective::draw_held_out(Backend& backend, std::uint64_t seed, std::int64_t examples, const Task& source,
                                   const Answer& answer) {
  // Narrow models take larger batches, because kernel launches would dominate the time on a GPU.
  constexpr std::int64_t fewest = 4096, many = 16384, max_numbers = std::int64_t{1} << 20;
  constexpr std::int64_t max_logits = std::int64_t{1} << 27;
  const std::int64_t tokens_at_once = std::clamp(max_numbers / model_.width(), fewest, many);
  const std::int64_t at_once = std::min(tokens_at_once, max_logits / model_.vocab());
  const std::int64_t most = std::min<std::int64_t>(examples, std::max<std::int64_t>(1, at_once / source.length()));
  PinnedArray tokens(backend, {most, source.length()}, DType::i32),
      targets(backend, {most, source.length()}, DType::i32), context(backend, {most, source.length()}, DType::u8);
  for (std::int64_t done = 0; done < examples; done += most) {
    check_evaluation();
    fill_batch(source, seed, static_cast<std::uint64_t>(done), static_cast<int>(most), tokens.host<std::int32_t>(),
               targets.host<std::int32_t>(), context.host<std::uint8_t>(), Split::held_out);
    // The last batch may be longer than what is left; surplus answers are not counted.
    const std::int64_t wanted = std::min(most, examples - done);
    std::fill(targets.host<std::int32_t>() + wanted * source.length(),
              targets.host<std::int32_t>() + most * source.length(), -1);
    for (PinnedArray* input : {&tokens, &targets, &context}) input->queue_upload();
    answer(HeldOutBatch{tokens, targets, context});
  }
}

template <class Take>
void TokenObjective::ask(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task& source, const Take& take) {
  draw_held_out(tape.backend(), seed, examples, source, [&](const HeldOutBatch& batch) {
    tape.begin(false);
    const Var logits = model_.forward(tape, batch.tokens.device(), batch.context.device());
    const auto count = static_cast<std::size_t>(batch.targets.device().elements());
    take(cross_entropy(tape, logits, batch.targets.device()),
         std::span<const std::int32_t>(batch.targets.host<std::int32_t>(), count));
  });
}

PrefixedTask TokenObjective::source_of(const Task* other) const {
  const std::shared_ptr<const Task> borrowed(std::shared_ptr<const Task>(), other ? other : task_.get());
  return PrefixedTask(borrowed, other ? static_cast<int>(model_.places()) : 0);
}

namespace {

/// Copies column t of rows [B,T] of a host array into one of [B].
void take_column(PinnedArray& rows, std::int64_t t, PinnedArray& column) {
  const std::int64_t count = column.device().elements(), length = rows.device().elements() / count;
  for (std::int64_t b = 0; b < count; ++b) column.host<std::int32_t>()[b] = rows.host<std::int32_t>()[b * length + t];
}

/// The first tokens of every sequence of a batch; valid until the tape starts again.
struct Beginning {
  Tensor tokens, targets, context;

  template <class Batch>
  Beginning(Tape& tape, const Batch& batch, std::int64_t count)
      : tokens(first<std::int32_t>(tape, batch.tokens, count)),
        targets(first<std::int32_t>(tape, batch.targets, count)),
        context(first<std::uint8_t>(tape, batch.context, count)) {}

 private:
  template <class T>
  static Tensor first(Tape& tape, PinnedArray& rows, std::int64_t count) {
    const std::int64_t sequences = rows.device().shape[0], length = rows.device().shape[1];
    std::vector<T> kept;
    for (std::int64_t b = 0; b < sequences; ++b) {
      const T* row = rows.host<T>() + b * length;
      kept.insert(kept.end(), row, row + count);
    }
    const Tensor tensor = tape.scratch({sequences, count}, rows.device().dtype);
    tape.backend().upload(tensor, kept.data());
    return tensor;
  }
};

}  // namespace

double TokenObjective::evaluate(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) {
  AnswerCount count;
  const PrefixedTask source = source_of(other);
  draw_held_out(tape.backend(), seed, examples, source, [&](const HeldOutBatch& batch) {
    tape.begin(false);
    const Tensor tokens = batch.tokens.device();
    count.add(tape.backend(), model_.forward_loss(tape, tokens, batch.context.device(), batch.targets.device(),
                                                  tokens.shape[0] * source.max_answers()));
  });
  return count.share();
}

double TokenObjective::evaluate_recurrent(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other,
                                          const DecodeForm& form) {
  Backend& backend = tape.backend();
  const PrefixedTask source = source_of(other);
  AnswerCount count;
  draw_held_out(backend, seed, examples, source, [&](const HeldOutBatch& batch) {
    const std::int64_t sequences = batch.tokens.device().shape[0];
    ModelState state = model_.make_state(backend, batch_->summary.device().dtype, sequences);
    PinnedArray token(backend, {sequences, 1}, DType::i32), target(backend, {sequences, 1}, DType::i32);
    const std::int64_t prompt = form.decoded < 0 ? 0 : std::max<std::int64_t>(0, source.length() - form.decoded);
    if (prompt > 0) {
      tape.begin(false);
      const Beginning beginning(tape, batch, prompt);
      const Var logits = model_.prefill(tape, beginning.tokens, beginning.context, state);
      count.add(backend, cross_entropy(tape, logits, beginning.targets));
      backend.synchronize();
    }
    if (form.keeps_scale) state.keep_scales();
    CrossEntropy result;
    StepProgram step(tape, state, [&] {
      const Transfer inputs[] = {token.to_device(), target.to_device()};
      backend.queue_uploads(inputs);
      tape.begin(false);
      result = cross_entropy(tape, model_.step(tape, token.device(), state), target.device());
    });
    for (std::int64_t t = prompt; t < source.length(); ++t) {
      take_column(batch.tokens, t, token);
      take_column(batch.targets, t, target);
      step.run();
      const std::span<const std::int32_t> wanted(target.host<std::int32_t>(), static_cast<std::size_t>(sequences));
      const bool is_asked = std::ranges::any_of(wanted, [](std::int32_t one) { return one >= 0; });
      if (is_asked) count.add(backend, result);
      backend.synchronize();  // before the next token overwrites this one
    }
  });
  return count.share();
}

namespace {

/// Collects for every answer its probability and the number of likelier words.
class AnswerRanks {
 public:
  template <class T>
  void add(std::span<const T> probabilities, std::span<const std::int32_t> targets) {
    const std::size_t words = probabilities.size() / targets.size();
    for (std::size_t place = 0; place < targets.size(); ++place) {
      if (targets[place] < 0) continue;
      const std::span<const T> row = probabilities.subspan(place * words, words);
      const T own = row[static_cast<std::size_t>(targets[place])];
      std::int32_t above = 0;
      for (const T other : row) above += other > own ? 1 : 0;
      loss_ -= std::log(std::max(static_cast<double>(own), least));
      right_ += above < 1 ? 1 : 0;
      near_ += above < 5 ? 1 : 0;
      ++questions_;
    }
  }
  AnswerScore score() const {
    if (questions_ == 0) return {};
    return {right_ / questions_, near_ / questions_, std::exp(loss_ / questions_)};
  }

 private:
  static constexpr double least = 1e-37;  // about the smallest float32
  double loss_ = 0, right_ = 0, near_ = 0, questions_ = 0;
};

}  // namespace

AnswerScore TokenObjective::answers(Tape& tape, std::uint64_t seed, std::int64_t examples, const Task* other) {
  AnswerRanks ranks;
  std::vector<float> singles;  // large (half a gigabyte with a large vocabulary), so kept from batch to batch
  std::vector<double> doubles;
  ask(tape, seed, examples, source_of(other), [&](const CrossEntropy& result, std::span<const std::int32_t> targets) {
    const auto add = [&]<class T>(std::vector<T>& values) {
      values.resize(static_cast<std::size_t>(result.probabilities.elements()));
      tape.backend().download(values.data(), result.probabilities);
      ranks.add(std::span<const T>(values), targets);
    };
    result.probabilities.dtype == DType::f64 ? add(doubles) : add(singles);
  });
  return ranks.score();
}

}  // namespace

std::unique_ptr<Objective> make_token_objective(const Recipe& recipe, std::unique_ptr<Task> task,
                                                ParameterStore& store) {
  return std::make_unique<TokenObjective>(recipe, std::move(task), store);
}

}  // namespace afterglow
