// One training step: data in, forward, backward, clipping, AdamW, numbers out; the same addresses every time.
#include "core/engine/trainer.h"

#include <algorithm>
#include <cmath>

#include "core/engine/device_array.h"
#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/ops/ops.h"

namespace afterglow {

// The step's input and output, in the back end's memory and in pinned host memory of the same layout.
struct Trainer::Batch {
  Batch(Backend& backend, std::int64_t batch, std::int64_t length, std::int64_t width, std::size_t parts, DType dtype)
      : tokens(backend, {batch, length}, DType::i32),
        targets(backend, {batch, length}, DType::i32),
        context(backend, {batch, length}, DType::u8),
        hyperparameters(backend, {6}, DType::f64),
        step(backend, {1}, DType::i32),
        offsets(backend, {static_cast<std::int64_t>(parts) + 1}, DType::f64),
        one(backend, {1}, dtype),
        loss(backend, {1}, dtype),
        norms(backend, {static_cast<std::int64_t>(parts)}, dtype),
        total_norm(backend, {1}, dtype),
        summary(backend, {width}, dtype),
        correct(backend, {1}, DType::i32),
        counted(backend, {1}, DType::i32) {
    backend.fill(one.device(), 1.0);
  }
  PinnedArray tokens, targets, context, hyperparameters, step, offsets, one, loss, norms, total_norm, summary, correct,
      counted;
};

// The examples of one step, drawn on the host ahead of time.
struct Trainer::Examples {
  Examples(std::int64_t batch, std::int64_t length)
      : tokens(static_cast<std::size_t>(batch * length)), targets(tokens.size()), context(tokens.size()) {}
  std::int64_t step = -1;  // finished steps when they are used; -1: nothing drawn
  std::vector<std::int32_t> tokens, targets;
  std::vector<std::uint8_t> context;
};

namespace {

double number_of(const PinnedArray& array, std::int64_t i) {
  return array.device().dtype == DType::f64 ? array.host<double>()[i] : array.host<float>()[i];
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.size() > prefix.size() && text.compare(0, prefix.size(), prefix) == 0 && text[prefix.size()] == '.';
}

}  // namespace

Trainer::Trainer(const Recipe& recipe, Backend& backend, DType dtype,
                 const std::function<void(const ParameterStore&)>& check)
    : backend_(&backend),
      dtype_(dtype),
      seed_(recipe.seed),
      config_(recipe.training),
      task_(make_task(recipe.task)),
      model_(std::make_unique<Model>(recipe.model, parameters_)),
      arena_(backend),
      tape_(backend, arena_),
      evaluation_arena_(std::make_unique<Arena>(backend)),
      evaluation_tape_(std::make_unique<Tape>(backend, *evaluation_arena_)) {
  if (task_->vocab() > model_->vocab()) {
    throw Error(ExitCode::bad_input, "the task uses " + std::to_string(task_->vocab()) +
                                         " different tokens but model.vocab is " + std::to_string(model_->vocab()) +
                                         "; raise model.vocab");
  }
  backend.set_precision(recipe.precision);
  if (check) check(parameters_);
  parameters_.allocate(backend, dtype);
  parameters_.initialise(seed_);
  build_parts();
  make_batch();
  initial_settings_ = settings();
}

Trainer::~Trainer() = default;

// The parts follow the order of the parameters in the flat buffers, so that each part is one slice of the gradient.
void Trainer::build_parts() {
  parts_.push_back({"embedding", "embedding", "embedding", "d " + std::to_string(model_->width()), 0, -1, 0});
  const auto& branches = model_->branches();
  for (std::size_t i = 0; i < branches.size(); ++i) {
    std::string kind(branches[i].layer->kind());
    parts_.push_back(
        {branches[i].label, branches[i].scope, kind, branches[i].detail, branches[i].heads, static_cast<int>(i), 0});
  }
  parts_.push_back({"head", "head", "head", "V " + std::to_string(model_->vocab()), 0, -1, 0});
  std::size_t part = 0;
  for (const Parameter& parameter : parameters_.all()) {
    const bool starts_branch = part < branches.size() && branches[part].first == &parameter;
    if (starts_branch || parameter.name == "norm.weight") parts_[++part].offset = parameter.offset;
    parts_[part].parameters += parameter.shape.elements();
  }
}

void Trainer::make_batch() {
  program_.reset();
  plain_steps_ = 0;
  batch_ = std::make_unique<Batch>(*backend_, config_.batch, task_->length(), model_->width(), parts_.size(), dtype_);
  examples_ = std::make_unique<Examples>(config_.batch, task_->length());
  summary_.resize(static_cast<std::size_t>(model_->width()));
  auto* offsets = batch_->offsets.host<double>();
  for (std::size_t part = 0; part < parts_.size(); ++part) offsets[part] = static_cast<double>(parts_[part].offset);
  offsets[parts_.size()] = static_cast<double>(parameters_.values().elements());
  backend_->upload(batch_->offsets.device(), offsets);
}

std::vector<Setting> Trainer::settings() const {
  std::vector<Setting> all;
  for (const SettingSpec& spec : training_settings()) {
    all.push_back({spec.key, spec.label, "", spec.meaning, get_setting(config_, spec.key), spec.minimum, spec.maximum,
                   0, spec.logarithmic, spec.integer});
  }
  for (const Branch& branch : model_->branches()) {
    for (const LayerSetting& own : branch.layer->settings()) {
      all.push_back({branch.scope + "." + own.key, branch.label + " " + own.label, "", own.meaning, own.value,
                     own.minimum, own.maximum, 0, own.logarithmic, own.integer});
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].initial = i < initial_settings_.size() ? initial_settings_[i].value : all[i].value;
  return all;
}

double Trainer::get(std::string_view key) const {
  for (const Setting& setting : settings()) {
    if (setting.key == key) return setting.value;
  }
  throw Error(ExitCode::bad_input,
              std::string(key) + ": there is no such setting in this model; `afterglow info` lists them");
}

void Trainer::set(std::string_view key, double value) {
  for (const Setting& setting : settings()) {
    if (setting.key != key) continue;
    if (!(value >= setting.minimum && value <= setting.maximum) || (setting.integer && value != std::floor(value))) {
      throw Error(ExitCode::bad_input, setting.key + ": " + std::to_string(value) + " is outside " +
                                           std::to_string(setting.minimum) + " to " + std::to_string(setting.maximum) +
                                           (setting.integer ? ", whole numbers only" : ""));
    }
    for (const Branch& branch : model_->branches()) {
      if (!starts_with(setting.key, branch.scope)) continue;
      branch.layer->set(setting.key.substr(branch.scope.size() + 1), value);
      program_.reset();  // the captured step holds the old value
      plain_steps_ = 0;
      return;
    }
    change_setting(config_, key, value);
    if (key == "batch") make_batch();
    return;
  }
  get(key);
}

void Trainer::reset_settings() {
  for (const Setting& setting : initial_settings_) {
    if (get(setting.key) != setting.value) set(setting.key, setting.value);
  }
}

Var Trainer::forward_loss(Tensor* correct, Tensor* counted) {
  const Var logits = model_->forward(tape_, batch_->tokens.device(), batch_->context.device());
  const Tape::Scope scope(tape_, "loss");
  const CrossEntropy result = cross_entropy(tape_, logits, batch_->targets.device());
  *correct = result.correct;
  *counted = result.counted;
  return result.loss;
}

// What a step reports of its forward pass, beside the way back.
void Trainer::download_summary(const Tensor& loss, const Tensor& correct, const Tensor& counted) {
  const Beside beside(*backend_);
  backend_->queue_download(batch_->loss.host<void>(), loss);
  backend_->queue_download(batch_->correct.host<void>(), correct);
  backend_->queue_download(batch_->counted.host<void>(), counted);
  const Tensor& hidden = model_->last_hidden();
  backend_->sum_rows(hidden.reshaped({hidden.rows(), hidden.columns()}), {batch_->summary.device(), false});
  batch_->summary.queue_download();
}

// Everything between the pinned inputs and the pinned outputs; captured once and replayed.
void Trainer::run_step() {
  Batch& batch = *batch_;
  for (PinnedArray* input : {&batch.tokens, &batch.targets, &batch.context}) input->queue_upload();
  {
    const Beside beside(*backend_);  // needed at the end only
    batch.hyperparameters.queue_upload();
    batch.step.queue_upload();
  }
  tape_.begin(true);
  Tensor correct, counted;
  const Var loss = forward_loss(&correct, &counted);
  download_summary(loss.value, correct, counted);
  tape_.backward(loss, batch.one.device());
  tape_.zero_untouched(parameters_);
  backend_->gradient_norms(parameters_.gradients(), batch.offsets.device(), batch.norms.device(),
                           batch.total_norm.device());
  backend_->adamw({parameters_.values(), parameters_.gradients(), parameters_.first_moments(),
                   parameters_.second_moments(), parameters_.decay_mask(), batch.hyperparameters.device(),
                   batch.step.device(), batch.total_norm.device()});
  batch.norms.queue_download();
  batch.total_norm.queue_download();
}

void Trainer::prepare_batch() {
  Examples& next = *examples_;
  if (next.step == step_) return;
  fill_batch(*task_, seed_, static_cast<std::uint64_t>(step_ * config_.batch), static_cast<int>(config_.batch),
             next.tokens.data(), next.targets.data(), next.context.data());
  next.step = step_;
}

void Trainer::begin_step() {
  prepare_batch();
  Batch& batch = *batch_;
  std::copy(examples_->tokens.begin(), examples_->tokens.end(), batch.tokens.host<std::int32_t>());
  std::copy(examples_->targets.begin(), examples_->targets.end(), batch.targets.host<std::int32_t>());
  std::copy(examples_->context.begin(), examples_->context.end(), batch.context.host<std::uint8_t>());
  const double hyperparameters[] = {config_.rate_at(step_ + 1), config_.beta1, config_.beta2, config_.epsilon,
                                    config_.weight_decay,       config_.clip};
  std::copy(std::begin(hyperparameters), std::end(hyperparameters), batch.hyperparameters.host<double>());
  batch.step.host<std::int32_t>()[0] = static_cast<std::int32_t>(step_);
  // The arena reaches its final shape in the first two steps; from then on every address repeats.
  if (program_) {
    program_->run();
  } else if (plain_steps_ < 2) {
    run_step();
    ++plain_steps_;
  } else {
    program_ = backend_->capture([this] { run_step(); });
  }
  ++step_;
}

StepResult Trainer::step() {
  begin_step();
  prepare_batch();  // while the device computes
  return end_step();
}

StepResult Trainer::end_step() {
  backend_->synchronize();
  Batch& batch = *batch_;
  StepResult result;
  result.step = step_;
  result.loss = number_of(batch.loss, 0);
  result.gradient_norm = number_of(batch.total_norm, 0);
  result.learning_rate = config_.rate_at(step_);
  const auto counted = batch.counted.host<std::int32_t>()[0];
  result.accuracy = counted > 0 ? static_cast<double>(batch.correct.host<std::int32_t>()[0]) / counted : 0.0;
  result.finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  const double tokens = static_cast<double>(config_.batch * task_->length());
  for (std::size_t i = 0; i < summary_.size(); ++i)
    summary_[i] = number_of(batch.summary, static_cast<std::int64_t>(i)) / tokens;
  result.summary = summary_;
  if (dtype_ == DType::f32) result.layer_gradient_norms = {batch.norms.host<float>(), parts_.size()};
  if (!result.finite) --step_;
  return result;
}

double Trainer::evaluate(std::int64_t examples, const Task* task) {
  const Task& source = task ? *task : *task_;
  const std::int64_t most = std::min<std::int64_t>(examples, std::max<std::int64_t>(1, 4096 / source.length()));
  PinnedArray tokens(*backend_, {most, source.length()}, DType::i32),
      targets(*backend_, {most, source.length()}, DType::i32), context(*backend_, {most, source.length()}, DType::u8);
  std::int64_t right = 0, asked = 0;
  for (std::int64_t done = 0; done < examples; done += most) {
    fill_batch(source, seed_, static_cast<std::uint64_t>(done), static_cast<int>(most), tokens.host<std::int32_t>(),
               targets.host<std::int32_t>(), context.host<std::uint8_t>(), Split::held_out);
    // The last batch may be longer than what is left; what is too many does not count.
    const std::int64_t wanted = std::min(most, examples - done);
    std::fill(targets.host<std::int32_t>() + wanted * source.length(),
              targets.host<std::int32_t>() + most * source.length(), -1);
    for (PinnedArray* input : {&tokens, &targets, &context}) input->queue_upload();
    evaluation_tape_->begin(false);
    const Var logits = model_->forward(*evaluation_tape_, tokens.device(), context.device());
    const CrossEntropy result = cross_entropy(*evaluation_tape_, logits, targets.device());
    std::int32_t correct = 0, counted = 0;
    backend_->download(&correct, result.correct);
    backend_->download(&counted, result.counted);
    right += correct;
    asked += counted;
  }
  return asked > 0 ? static_cast<double>(right) / static_cast<double>(asked) : 0.0;
}

std::string Trainer::diagnose() {
  tape_.set_checking(true);
  tape_.begin(true);
  Tensor correct, counted;
  const Var loss = forward_loss(&correct, &counted);
  std::string where;
  if (const NonFinite* found = tape_.first_non_finite()) {
    where =
        found->scope + ", " + found->operation + " " + found->shape.text() + ", index " + std::to_string(found->index);
    // Activations of a head are [batch, time, head, width].
    if (found->shape.rank() == 4) where += ", head " + std::to_string(found->index / found->shape[3] % found->shape[2]);
  } else {
    tape_.backward(loss, batch_->one.device());
    tape_.zero_untouched(parameters_);
    for (const Parameter& parameter : parameters_.all()) {
      const std::int64_t index = backend_->first_non_finite(parameter.gradient);
      if (index < 0) continue;
      where = "gradient of " + parameter.name + " " + parameter.shape.text() + ", index " + std::to_string(index);
      break;
    }
  }
  tape_.set_checking(false);
  for (const Parameter& parameter : parameters_.all()) {
    const std::int64_t index = backend_->first_non_finite(parameter.value);
    if (index >= 0)
      return "weight " + parameter.name + " " + parameter.shape.text() + ", index " + std::to_string(index);
  }
  return where.empty() ? "the global gradient norm overflowed" : where;
}

TrainerState Trainer::save() const {
  const auto bytes_of = [&](const Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.bytes());
    backend_->download(bytes.data(), tensor);
    return bytes;
  };
  return {step_, bytes_of(parameters_.values()), bytes_of(parameters_.first_moments()),
          bytes_of(parameters_.second_moments())};
}

void Trainer::restore(const TrainerState& state) {
  backend_->upload(parameters_.values(), state.weights.data());
  backend_->upload(parameters_.first_moments(), state.first_moments.data());
  backend_->upload(parameters_.second_moments(), state.second_moments.data());
  step_ = state.step;
}

std::string Trainer::checksum() const {
  std::vector<std::byte> bytes(parameters_.values().bytes());
  backend_->download(bytes.data(), parameters_.values());
  return hex16(afterglow::checksum(bytes));
}

}  // namespace afterglow
