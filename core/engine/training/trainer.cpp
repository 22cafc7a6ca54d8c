// One training step: data in, forward, backward, clipping, AdamW, results out; always at the same addresses.
#include "core/engine/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/backend/measuring_backend.h"
#include "core/engine/training/forecast_objective.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/number_text.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/ops/ops.h"
#include "core/ranks/shard_sum.h"

namespace afterglow {
namespace {

[[noreturn]] void refuse_unknown_setting(std::string_view key) {
  throw BadInput(key, ": there is no such setting in this model; `afterglow info` lists them");
}

/// Above this many bytes gradients reuse the memory of values that are no longer needed; below, synchronising with
/// the side stream costs more than the memory is worth.
constexpr std::size_t worth_recycling = std::size_t{256} << 20;

void check_shards(int shards, std::int64_t batch) {
  if (batch % shards == 0) return;
  throw BadInput("training.batch: ", batch, " sequences cannot be split into ", shards,
                 " equal parts; take a multiple of ", shards);
}

/// Checks the memory of the weights alone before any is taken, and says what helps.
void require_room_for(const ParameterStore& declared, const Backend& backend, DType dtype) {
  const std::int64_t count = declared.count(), bytes = declared.value_bytes(dtype);
  try {
    backend.require_free([&] { return static_cast<std::size_t>(bytes); }, 0);
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory) throw;
    const std::string what = error.what();
    throw Error(error.code(), what.substr(0, what.find(';')), "; the model's ", count, " weights take ",
                bytes_text(bytes), dtype == DType::bf16 ? " in bfloat16" : " in float32", ", without training; ",
                (backend.name() == "cpu" ? "close other programs or take a machine with more memory"
                                         : "close other programs on the GPU or use --device cpu"));
  }
}

std::vector<Setting> settings_in(const Recipe& recipe, const Objective& objective) {
  std::vector<Setting> all;
  for (const SettingSpec& spec : training_settings())
    all.push_back({spec.key, spec.label, "", spec.meaning, get_setting(recipe.training, spec.key), spec.minimum,
                   spec.maximum, 0, spec.logarithmic, spec.is_integer()});
  const std::vector<Setting> own = objective.settings();
  all.insert(all.end(), own.begin(), own.end());
  for (Setting& setting : all) setting.initial = setting.value;
  return all;
}

}  // namespace

std::vector<Setting> settings_of(const Recipe& recipe) {
  ParameterStore declared;
  const std::unique_ptr<Objective> objective = make_objective(recipe, declared);
  if (!recipe.checkpoint.is_null()) open_origin(recipe.checkpoint).check(declared);
  check_shards(recipe.shards, recipe.training.batch);
  return settings_in(recipe, *objective);
}

// Transfers of every step other than its examples, in device memory and in pinned host memory.
struct Trainer::Batch {
  Batch(Backend& backend, std::size_t parts, DType dtype)
      : hyperparameters(backend, {6}, DType::f64),
        step(backend, {1}, DType::i32),
        offsets(backend, {static_cast<std::int64_t>(parts) + 1}, DType::f64),
        one(backend, {1}, dtype),
        loss(backend, {1}, dtype),
        norms(backend, {static_cast<std::int64_t>(parts) + 1}, dtype) {
    backend.fill(one.device(), 1.0);
  }
  PinnedArray hyperparameters, step, offsets, one, loss;
  PinnedArray norms;  // of each part, then of all
};

Trainer::Trainer(const Recipe& recipe, Backend& backend, DType dtype, Bare)
    : backend_(&backend),
      dtype_(dtype),
      recipe_(recipe),
      objective_(make_objective(recipe, parameters_)),
      arena_(backend),
      tape_(backend, arena_),
      evaluation_arena_(std::make_unique<Arena>(backend)),
      evaluation_tape_(std::make_unique<Tape>(backend, *evaluation_arena_)) {
  backend.set_precision(recipe.precision);
}

Trainer::Trainer(const Recipe& recipe, Backend& backend, DType dtype, const CheckWeights& check,
                 const Checkpoint* origin)
    : Trainer(recipe, backend, dtype, Bare{}) {
  std::optional<Checkpoint> opened;
  if (check) {
    check(parameters_);
  } else if (!recipe.checkpoint.is_null()) {
    if (!origin) origin = &opened.emplace(open_origin(recipe.checkpoint));
    origin->check(parameters_);
  }
  if (origin && !check) origin->choose_storage(parameters_, backend);
  require_room_for(parameters_, backend, dtype);
  parameters_.allocate_values(backend, dtype);  // the first training step reserves the rest
  if (origin && !check) {
    origin->load(parameters_);
  } else if (!check) {
    parameters_.initialise(recipe_.seed);
  }
  parts_ = objective_->parts(parameters_);
  make_batch();
  initial_settings_ = settings();
}

Trainer::Trainer(const Trainer& other, Backend& backend) : Trainer(other.recipe_, backend, other.dtype_, Bare{}) {
  parameters_.allocate_values(backend, dtype_);
  parts_ = objective_->parts(parameters_);
  make_batch();
  initial_settings_ = settings();
}

Trainer::~Trainer() = default;

void Trainer::make_batch() {
  is_known_to_fit_ = false;
  recorded_.forget();
  drawn_for_ = -1;
  check_shards(recipe_.shards, recipe_.training.batch);
  objective_->make_batch(*backend_, recipe_.training.batch / recipe_.shards, dtype_);
  batch_ = std::make_unique<Batch>(*backend_, parts_.size(), dtype_);
  summary_.resize(static_cast<std::size_t>(objective_->width()));
  auto* offsets = batch_->offsets.host<double>();
  for (std::size_t part = 0; part < parts_.size(); ++part) offsets[part] = static_cast<double>(parts_[part].offset);
  offsets[parts_.size()] = static_cast<double>(parameters_.values().elements());
  backend_->upload(batch_->offsets.device(), offsets);
}

std::vector<Setting> Trainer::settings() const {
  std::vector<Setting> all = settings_in(recipe_, *objective_);
  for (std::size_t i = 0; i < initial_settings_.size(); ++i) all[i].initial = initial_settings_[i].value;
  return all;
}

double Trainer::get(std::string_view key) const {
  for (const Setting& setting : settings()) {
    if (setting.key == key) return setting.value;
  }
  refuse_unknown_setting(key);
}

void Trainer::set(std::string_view key, double value) {
  check_setting(settings(), key, value);
  if (objective_->set(key, value)) {
    recorded_.forget();  // the captured graph holds the old value
    return;
  }
  if (key == "batch") check_shards(recipe_.shards, static_cast<std::int64_t>(value));
  change_setting(recipe_.training, key, value);
  if (key == "batch") make_batch();
}

void Trainer::reset_settings() {
  for (const Setting& setting : initial_settings_) {
    if (get(setting.key) != setting.value) set(setting.key, setting.value);
  }
}

void Trainer::join(Ranks& ranks) {
  if (recipe_.shards != shard_count)
    throw Error(
        ExitCode::usage,
        "several processes can train only a run whose batch is split into parts; give --set shards=", shard_count);
  shared_ = std::make_unique<ShardSum>(*backend_, &ranks);
}

// Everything between the pinned inputs and the pinned outputs; captured once as a graph and replayed.
void Trainer::run_step() {
  {
    const HeldWeights held(parameters_);
    const Var loss = run_forward();
    tape_.backward(loss, batch_->one.device(), worth_recycling);
  }
  tape_.zero_untouched(parameters_);
  queue_update();
}

/// One pass over a part of the batch, with an event when each bucket of its gradient is complete.
void Trainer::run_part() {
  const HeldWeights held(parameters_);
  const Var loss = run_forward();
  std::size_t next = 0;
  tape_.backward(loss, batch_->one.device(), worth_recycling, [&](int first) {
    for (; next < buckets_.size() && first <= buckets_[next].first; ++next) {
      tape_.zero_untouched(parameters_, buckets_[next].first, buckets_[next].end);
      buckets_[next].complete->set();
    }
  });
}

Var Trainer::run_forward() {
  Batch& batch = *batch_;
  transfers_.clear();
  objective_->add_inputs(transfers_);
  transfers_.push_back(batch.hyperparameters.to_device());
  transfers_.push_back(batch.step.to_device());
  backend_->queue_uploads(transfers_);
  tape_.begin(true);
  const Var loss = objective_->loss(tape_);
  {
    const SideStream side_stream(*backend_);  // runs next to the backward pass
    transfers_.clear();
    objective_->add_results(*backend_, transfers_);
    transfers_.push_back(batch.loss.to_host(loss.value));
    backend_->queue_downloads(transfers_);
  }
  return loss;
}

void Trainer::queue_update() {
  Batch& batch = *batch_;
  const auto parts = static_cast<std::int64_t>(parts_.size());
  const Tensor all = batch.norms.device(), norms(all.data, {parts}, dtype_);
  const Tensor total(all.as<std::byte>() + norms.bytes(), {1}, dtype_);
  backend_->gradient_norms(parameters_.gradients(), batch.offsets.device(), norms, total);
  {
    const SideStream side_stream(*backend_);
    batch.norms.queue_download();
  }
  backend_->adamw({parameters_.values(), parameters_.gradients(), parameters_.first_moments(),
                   parameters_.second_moments(), parameters_.decay_mask(), batch.hyperparameters.device(),
                   batch.step.device(), total});
}

void Trainer::prepare_batch() {
  if (drawn_for_ == step_ || recipe_.shards > 1) return;
  objective_->draw(recipe_.seed, step_ * recipe_.training.batch);
  drawn_for_ = step_;
}

bool Trainer::change_token(std::int64_t at, std::int32_t to) {
  if (recipe_.shards > 1) return false;
  prepare_batch();
  return objective_->change_token(0, at, to);
}

void Trainer::run_program(void (Trainer::*work)()) {
  recorded_.run(*backend_, [this, work] { (this->*work)(); });
}

/// One pass for each part of the batch; loss and gradient are weighted by the part's number of answers.
void Trainer::run_shards() {
  if (!shared_) shared_ = std::make_unique<ShardSum>(*backend_, nullptr);
  if (buckets_.empty()) buckets_ = gradient_buckets(parameters_);
  const std::int64_t size = recipe_.training.batch / recipe_.shards;
  const Tensor gradient = parameters_.gradients();
  std::vector<std::vector<double>> numbers;
  shared_->begin();
  for (int i = 0; i < shared_->count(); ++i) {
    const int shard = shared_->first() + i;
    objective_->draw(recipe_.seed, step_ * recipe_.training.batch + shard * size);
    objective_->load(step_ * recipe_.shards + shard);
    const auto answers = static_cast<double>(objective_->loaded_answers());
    if (!(answers > 0))
      throw BadInput("shards: a batch of this model or task cannot be split into parts; leave the field out");
    run_program(&Trainer::run_part);
    if (i + 1 == shared_->count()) finish_gradient(answers);
    backend_->synchronize();
    numbers.push_back(numbers_of_part(answers));
    if (i + 1 == shared_->count()) break;
    backend_->scale(gradient, answers, {gradient, false});
    shared_->add(gradient);
  }
  const std::vector<double> sum = shared_->sum(std::move(numbers));
  backend_->scale(gradient, 1 / sum[0], {gradient, false});
  loss_ = sum[1] / sum[0];
  accuracy_ = sum[2] / sum[0];
  for (std::size_t i = 0; i < summary_.size(); ++i) summary_[i] = sum[i + 3] / recipe_.shards;
  const Transfer inputs[] = {batch_->hyperparameters.to_device(), batch_->step.to_device()};
  backend_->queue_uploads(inputs);
  queue_update();
}

std::vector<double> Trainer::numbers_of_part(double answers) {
  std::vector<double> numbers{answers, answers * number_of(batch_->loss, 0),
                              static_cast<double>(objective_->right_answers())};
  objective_->read_summary(summary_);
  numbers.insert(numbers.end(), summary_.begin(), summary_.end());
  return numbers;
}

/// Sums the parts' gradients bucket by bucket while the last part's backward pass runs.
void Trainer::finish_gradient(double answers) {
  const TransferStream transfers(*backend_);
  for (const GradientBucket& bucket : buckets_) {
    bucket.complete->wait();
    backend_->scale(bucket.gradient, answers, {bucket.gradient, false});
    shared_->finish(bucket.gradient, bucket.offset);
  }
}

/// Checks the memory of the coming steps before the arena takes it. A trainer that only evaluates needs none.
void Trainer::require_memory() {
  if (is_known_to_fit_) return;
  if (is_surely_small(parameters_, recipe_.training.batch * objective_->task().length())) return;
  const bool trains = parameters_.gradients().defined();
  const auto needed = [&] {
    const TrainingMemoryNeed need = training_memory_need(recipe_, *backend_);
    const std::size_t reserved = need.reserved + (trains ? need.training : 0) + arena_.capacity();
    return need.peak - std::min(need.peak, reserved);
  };
  backend_->require_free(needed, trains ? parameters_.gradients().bytes() : 0);
  is_known_to_fit_ = true;
}

void Trainer::begin_step() {
  require_memory();
  if (!parameters_.gradients().defined()) parameters_.allocate(*backend_, dtype_);
  prepare_batch();
  has_moments_ = true;
  Batch& batch = *batch_;
  const double hyperparameters[] = {
      recipe_.training.rate_at(step_ + 1), recipe_.training.beta1, recipe_.training.beta2, recipe_.training.epsilon,
      recipe_.training.weight_decay,       recipe_.training.clip};
  std::copy(std::begin(hyperparameters), std::end(hyperparameters), batch.hyperparameters.host<double>());
  batch.step.host<std::int32_t>()[0] = static_cast<std::int32_t>(step_);
  if (recipe_.shards > 1) {
    run_shards();
  } else {
    objective_->load(step_);
    if (objective_->take_change()) recorded_.forget();
    run_program(&Trainer::run_step);
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
  if (recipe_.shards > 1) return measured(loss_, accuracy_);
  objective_->read_summary(summary_);
  return measured(number_of(batch_->loss, 0), objective_->quality());
}

StepResult Trainer::measured(double loss, double accuracy) {
  Batch& batch = *batch_;
  StepResult result;
  result.step = step_;
  result.loss = loss;
  result.gradient_norm = number_of(batch.norms, static_cast<std::int64_t>(parts_.size()));
  result.learning_rate = recipe_.training.rate_at(step_);
  result.accuracy = accuracy;
  result.finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  result.summary = summary_;
  if (dtype_ == DType::f32) result.layer_gradient_norms = {batch.norms.host<float>(), parts_.size()};
  if (!result.finite) {
    --step_;
  } else if (recipe_.shards == 1) {
    objective_->keep(*backend_, dtype_, summary_);
  }
  return result;
}

ThreadPool& Trainer::analysis_threads() {
  constexpr int most = 8;  // as many heads as most layers have
  if (!analysis_threads_) analysis_threads_ = std::make_unique<ThreadPool>(std::min(processors(), most));
  return *analysis_threads_;
}

void Trainer::set_evaluation_check(std::function<void()> check) { objective_->set_evaluation_check(std::move(check)); }

double Trainer::evaluate(std::int64_t examples, const Task* task) {
  return objective_->evaluate(*evaluation_tape_, recipe_.seed, examples, task);
}

double Trainer::evaluate_recurrent(std::int64_t examples, const Task* task, const DecodeForm& form) {
  return objective_->evaluate_recurrent(*evaluation_tape_, recipe_.seed, examples, task, form);
}

AnswerScore Trainer::answers(std::int64_t examples, const Task* task) {
  return objective_->answers(*evaluation_tape_, recipe_.seed, examples, task);
}

ForecastScore Trainer::score(std::int64_t most) {
  constexpr std::int64_t all = std::int64_t{1} << 40;
  return forecast()->score(*evaluation_tape_, dtype_, SeriesPart::test, most > 0 ? most : all);
}

std::string Trainer::diagnose() {
  std::string where;
  for (int shard = 0; shard < recipe_.shards && where.empty(); ++shard) {
    if (recipe_.shards > 1) {
      objective_->draw(recipe_.seed,
                       step_ * recipe_.training.batch + shard * (recipe_.training.batch / recipe_.shards));
      objective_->load(step_ * recipe_.shards + shard);
      transfers_.clear();
      objective_->add_inputs(transfers_);
      backend_->queue_uploads(transfers_);
    }
    where = diagnose_pass();
  }
  for (const Parameter& parameter : parameters_.all()) {
    const std::int64_t index = backend_->first_non_finite(parameter.value);
    if (index >= 0)
      return "weight " + parameter.name + " " + parameter.shape.text() + ", index " + std::to_string(index);
  }
  return where.empty() ? "the global gradient norm overflowed" : where;
}

std::string Trainer::diagnose_pass() {
  std::string where;
  const TapeObserver search(tape_, {.operations = true, .form = PassForm::wide}, [&](const Hooked& at) {
    const std::int64_t index = where.empty() ? backend_->first_non_finite(at.var.value) : -1;
    if (index < 0) return;
    const Shape& shape = at.var.shape();
    where = tape_.scope() + ", " + std::string(at.last) + " " + shape.text() + ", index " + std::to_string(index);
    // Activations of a head are [batch, time, head, width].
    if (shape.rank() == 4) where += ", head " + std::to_string(index / shape[3] % shape[2]);
  });
  tape_.begin(true);
  const Var loss = objective_->loss(tape_);
  if (!where.empty()) return where;
  tape_.backward(loss, batch_->one.device());
  tape_.zero_untouched(parameters_);
  for (const Parameter& parameter : parameters_.all()) {
    const std::int64_t index = backend_->first_non_finite(parameter.gradient);
    if (index >= 0)
      return "gradient of " + parameter.name + " " + parameter.shape.text() + ", index " + std::to_string(index);
  }
  return where;
}

Model& Trainer::model() const {
  if (Model* model = objective_->model()) return *model;
  throw BadInput("this needs a model of tokens, and the run forecasts a series; choose a preset with tokens");
}

// Waits for the copy, because later work on the other back end may overwrite its source.
void Trainer::follow(const Trainer& other) {
  step_ = other.step_;
  backend_->copy(parameters_.values(), other.parameters_.values());
  model().follow(other.model(), *backend_, dtype_);
  backend_->synchronize();
}

TrainerState Trainer::save(TrainerState into) const {
  const auto fetch = [&](std::vector<std::byte>& bytes, const Tensor& tensor) {
    bytes.resize(tensor.bytes());
    backend_->download(bytes.data(), tensor);
  };
  into.step = step_;
  fetch(into.weights, parameters_.values());
  into.first_moments.clear();
  into.second_moments.clear();
  if (has_moments_) {
    fetch(into.first_moments, parameters_.first_moments());
    fetch(into.second_moments, parameters_.second_moments());
  }
  into.memory = objective_->memory();
  return into;
}

void Trainer::restore(const TrainerState& state) {
  backend_->upload(parameters_.values(), state.weights.data());
  const auto put = [&](const Tensor& moments, const std::vector<std::byte>& bytes) {
    if (!bytes.empty()) return backend_->upload(moments, bytes.data());
    if (has_moments_) backend_->fill(moments, 0.0);
  };
  if (!state.first_moments.empty() && !parameters_.gradients().defined()) parameters_.allocate(*backend_, dtype_);
  put(parameters_.first_moments(), state.first_moments);
  put(parameters_.second_moments(), state.second_moments);
  has_moments_ = !state.first_moments.empty();
  objective_->restore_memory(*backend_, dtype_, state.memory, state.step);
  step_ = state.step;
}

std::string Trainer::checksum() const {
  constexpr std::int64_t piece = std::int64_t{1} << 22;  // weights
  const Tensor values = parameters_.values();
  const auto size = static_cast<std::int64_t>(size_of(values.dtype));
  Checksum sum;
  for (std::int64_t first = 0; first < values.elements(); first += piece) {
    const Tensor part(values.as<std::byte>() + first * size, {std::min(piece, values.elements() - first)},
                      values.dtype);
    checked_.resize(part.bytes());
    backend_->download(checked_.data(), part);
    sum.update(checked_);
  }
  const TrainingMemory memory = objective_->memory();
  sum.update(std::as_bytes(std::span(memory.rows)));
  return hex16(sum.digest());
}

std::string checksum_of(const TrainerState& state) {
  Checksum sum;
  sum.update(state.weights);
  sum.update(std::as_bytes(std::span(state.memory.rows)));
  return hex16(sum.digest());
}

void check_setting(std::span<const Setting> settings, std::string_view key, double value) {
  for (const Setting& setting : settings) {
    if (setting.key != key) continue;
    const bool is_whole = !setting.integer || value == std::floor(value);
    if (value >= setting.minimum && value <= setting.maximum && is_whole) return;
    throw BadInput(setting.label, " must be ", (setting.integer ? "a whole number " : ""), "between ",
                   shortest(setting.minimum), " and ", shortest(setting.maximum), "; ", setting.key, " = ",
                   shortest(value));
  }
  refuse_unknown_setting(key);
}

TrainingMemoryNeed training_memory_need(const Recipe& recipe, Backend& device) {
  MeasuringBackend counter(device);
  Trainer trainer(recipe, counter, DType::f32, [](const ParameterStore&) {});
  const std::size_t reserved = counter.held_bytes();
  trainer.parameters().allocate(counter, DType::f32);
  const std::size_t training = counter.held_bytes() - reserved;
  for (int i = 0; i < RecordedWork::runs_until_recorded; ++i) trainer.step();
  return {reserved, training, counter.peak_bytes()};
}

bool is_surely_small(const ParameterStore& store, std::int64_t tokens) {
  const auto tensors = static_cast<std::int64_t>(store.all().size());
  return store.count() < (std::int64_t{1} << 23) && tokens * tensors < (std::int64_t{1} << 19);
}

}  // namespace afterglow
