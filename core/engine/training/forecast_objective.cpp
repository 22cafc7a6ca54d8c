// Windows in, forecasts out: training, scores, and what is shown of them.
#include "core/engine/training/forecast_objective.h"

#include <algorithm>
#include <cmath>

#include "core/analysis/softmax.h"
#include "core/engine/training/pinned_array.h"
#include "core/io/error.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

namespace {

constexpr std::int64_t windows_at_once = 64, windows_shown = 4;

/// `count` numbers from 0 to total - 1, evenly spaced, from 0 on.
std::vector<std::int64_t> spread(std::int64_t total, std::int64_t count) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < std::min(total, count); ++i) places.push_back(i * total / std::min(total, count));
  return places;
}

}  // namespace

struct ForecastObjective::Batch {
  Batch(Backend& backend, std::int64_t batch, const SeriesWindows& windows, std::int64_t width, DType dtype)
      : input(backend, {batch, windows.length(), windows.channels()}, dtype),
        truth(backend, {batch, windows.horizon(), windows.channels()}, dtype),
        counter(backend, {1}, DType::i32),
        loss(backend, {1}, dtype),
        summary(backend, {1, width}, dtype),
        owner(&backend) {}
  PinnedArray input, truth, counter, loss, summary;
  Backend* owner;
};

/// Windows that are forecast without training.
struct ForecastObjective::Windows {
  Windows(Backend& backend, std::int64_t count, const SeriesWindows& windows, DType dtype)
      : input(backend, {count, windows.length(), windows.channels()}, dtype),
        prediction(backend, {count, windows.horizon(), windows.channels()}, dtype),
        inputs(static_cast<std::size_t>(input.device().elements()), 0.0f),
        truths(static_cast<std::size_t>(prediction.device().elements()), 0.0f) {}
  PinnedArray input, prediction;
  std::vector<float> inputs, truths;
};

ForecastObjective::ForecastObjective(const Recipe& recipe, std::unique_ptr<Task> task, ParameterStore& store)
    : task_(std::move(task)),
      windows_(task_->windows()),
      model_(make_forecaster(recipe.model, windows_->length(), windows_->horizon(), windows_->channels(),
                             ParameterScope(store, ""))),
      keeper_(model_->memory()),
      seed_(recipe.seed) {}

ForecastObjective::~ForecastObjective() = default;

std::vector<ModelPart> ForecastObjective::parts(const ParameterStore& store) const {
  std::vector<ModelPart> parts;
  const std::vector<ForecasterPart> own = model_->parts();
  for (const Parameter& parameter : store.all()) {
    if (parts.size() < own.size() && own[parts.size()].first_parameter == parameter.name) {
      const ForecasterPart& next = own[parts.size()];
      parts.push_back({next.label, next.scope, next.kind, next.detail, next.heads, -1, 0, parameter.offset});
    }
    parts.back().parameters += parameter.shape.elements();
  }
  return parts;
}

void ForecastObjective::make_batch(Backend& backend, std::int64_t batch, DType dtype) {
  batch_ = std::make_unique<Batch>(backend, batch, *windows_, model_->width(), dtype);
  inputs_.resize(static_cast<std::size_t>(batch_->input.device().elements()));
  truths_.resize(static_cast<std::size_t>(batch_->truth.device().elements()));
}

void ForecastObjective::draw(std::uint64_t seed, std::int64_t first) {
  const std::int64_t batch = batch_->input.device().shape[0];
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t window = windows_->training_window(seed, static_cast<std::uint64_t>(first + i));
    windows_->write(SeriesPart::train, window, inputs_.data() + i * (inputs_.size() / batch),
                    truths_.data() + i * (truths_.size() / batch));
  }
}

bool ForecastObjective::load(std::int64_t step) {
  batch_->input.put(inputs_);
  batch_->truth.put(truths_);
  batch_->counter.host<std::int32_t>()[0] = static_cast<std::int32_t>(step);
  return keeper_.take_change();
}

void ForecastObjective::queue_uploads() {
  for (PinnedArray* input : {&batch_->input, &batch_->truth, &batch_->counter}) input->queue_upload();
}

Var ForecastObjective::loss(Tape& tape) {
  const DropoutSource dropped{model_->dropout_rate(), seed_, batch_->counter.device()};
  pass_ = model_->forward(tape, tape.constant(batch_->input.device()), dropped);
  const Tape::Scope scope(tape, "loss");
  last_ = squared_error(tape, pass_.y, batch_->truth.device());
  return last_.loss;
}

void ForecastObjective::queue_results(Backend& backend) {
  backend.queue_download(batch_->summary.host<void>(), pass_.summary);
  backend.queue_download(batch_->loss.host<void>(), last_.loss.value);
}

double ForecastObjective::quality() const {
  const std::int64_t count = batch_->truth.device().elements();
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += number_of(batch_->truth, i) * number_of(batch_->truth, i);
  return 1.0 - number_of(batch_->loss, 0) / std::max(squares / static_cast<double>(count), 1e-12);
}

void ForecastObjective::read_summary(std::span<double> summary) const {
  for (std::size_t i = 0; i < summary.size(); ++i)
    summary[i] = number_of(batch_->summary, static_cast<std::int64_t>(i));
}

void ForecastObjective::keep() {
  if (model_->memory() == nullptr) return;
  std::vector<double> summary(static_cast<std::size_t>(model_->width()));
  read_summary(summary);
  keeper_.keep(*batch_->owner, batch_->input.device().dtype, summary);
}

void ForecastObjective::restore_memory(const TrainingMemory& memory, std::int64_t step) {
  keeper_.restore(*batch_->owner, batch_->input.device().dtype, memory, step);
}

// Forecasts the windows `which`, at most as many as `windows` holds.
void ForecastObjective::predict(Tape& tape, Windows& windows, SeriesPart part, std::span<const std::int64_t> which,
                                bool probing) {
  const std::int64_t held = windows.input.device().shape[0];
  const std::int64_t in = static_cast<std::int64_t>(windows.inputs.size()) / held;
  const std::int64_t out = static_cast<std::int64_t>(windows.truths.size()) / held;
  for (std::size_t i = 0; i < which.size(); ++i)
    windows_->write(part, which[i], windows.inputs.data() + i * in, windows.truths.data() + i * out);
  windows.input.put(windows.inputs);
  windows.input.queue_upload();
  tape.begin(false);
  tape.set_capturing(probing);
  const ForecastPass pass = model_->forward(tape, tape.constant(windows.input.device()), {});
  tape.set_capturing(false);
  tape.backend().download(windows.prediction.host<void>(), pass.y.value);
}

ForecastScore ForecastObjective::score(Tape& tape, DType dtype, SeriesPart part, std::int64_t most) {
  const std::vector<std::int64_t> places = spread(windows_->count(part), most);
  Windows windows(tape.backend(), std::min<std::int64_t>(windows_at_once, static_cast<std::int64_t>(places.size())),
                  *windows_, dtype);
  const auto held = static_cast<std::size_t>(windows.input.device().shape[0]);
  ForecastScore score;
  std::size_t numbers = 0;
  for (std::size_t done = 0; done < places.size(); done += held) {
    const auto which = std::span(places).subspan(done, std::min(held, places.size() - done));
    predict(tape, windows, part, which, false);
    const std::size_t count = windows.truths.size() / held * which.size();
    for (std::size_t i = 0; i < count; ++i) {
      const double truth = windows.truths[i];
      const double apart = number_of(windows.prediction, static_cast<std::int64_t>(i)) - truth;
      score.mse += apart * apart;
      score.mae += std::abs(apart);
      score.variance += truth * truth;
    }
    numbers += count;
    score.windows += static_cast<std::int64_t>(which.size());
  }
  for (double* sum : {&score.mse, &score.mae, &score.variance}) *sum /= static_cast<double>(numbers);
  return score;
}

double ForecastObjective::evaluate(Tape& tape, std::uint64_t, std::int64_t examples, const Task*) {
  const ForecastScore of = score(tape, batch_->input.device().dtype, SeriesPart::validation, examples);
  return 1.0 - of.mse / std::max(of.variance, 1e-12);
}

std::shared_ptr<const ForecastView> ForecastObjective::view(Tape& tape, DType dtype, std::int64_t step,
                                                            std::int64_t probe) {
  auto view = std::make_shared<ForecastView>();
  view->step = step;
  view->input_length = static_cast<int>(windows_->length());
  view->horizon = static_cast<int>(windows_->horizon());
  view->time_unit = windows_->time(SeriesPart::validation, 0, 0).empty() ? "row" : "h";
  const std::int64_t total = windows_->count(SeriesPart::validation), channels = windows_->channels();
  std::vector<std::int64_t> places{probe % total};
  for (const std::int64_t place : spread(total, windows_shown - 1)) places.push_back(place);
  Windows windows(tape.backend(), static_cast<std::int64_t>(places.size()), *windows_, dtype);
  predict(tape, windows, SeriesPart::validation, places, true);
  for (std::size_t w = 0; w < places.size(); ++w) {
    ForecastWindow& window = view->windows.emplace_back();
    window.index = places[w];
    window.first = windows_->time(SeriesPart::validation, places[w], 0);
    window.last = windows_->time(SeriesPart::validation, places[w], view->input_length + view->horizon - 1);
    for (std::int64_t c = 0; c < channels; ++c) {
      ForecastChannel& channel = window.channels.emplace_back();
      channel.name = windows_->names()[static_cast<std::size_t>(c)];
      const std::int64_t first_in = static_cast<std::int64_t>(w) * view->input_length * channels + c;
      for (std::int64_t t = 0; t < view->input_length; ++t)
        channel.input.push_back(
            windows_->own_unit(c, windows.inputs[static_cast<std::size_t>(first_in + t * channels)]));
      for (std::int64_t t = 0; t < view->horizon; ++t) {
        const std::int64_t i = (static_cast<std::int64_t>(w) * view->horizon + t) * channels + c;
        const double truth = windows.truths[static_cast<std::size_t>(i)], prediction = number_of(windows.prediction, i);
        channel.truth.push_back(windows_->own_unit(c, truth));
        channel.prediction.push_back(windows_->own_unit(c, prediction));
        channel.mse += (prediction - truth) * (prediction - truth) / view->horizon;
        channel.mae += std::abs(prediction - truth) / view->horizon;
      }
      window.mse += channel.mse / static_cast<double>(channels);
      window.mae += channel.mae / static_cast<double>(channels);
    }
  }
  if (const SpectralMemory* memory = model_->memory()) {
    auto own = std::make_shared<MemoryView>(view_of_history(*memory, step));
    own->input_length = view->input_length;
    add_attention(tape, *own);
    view->memory = std::move(own);
    if (memory->usable()) add_errors_without_memory(tape, windows, places, *view);
  }
  return view;
}

// The same windows once more, with zeros for memory tokens.
void ForecastObjective::add_errors_without_memory(Tape& tape, Windows& windows, std::span<const std::int64_t> places,
                                                  ForecastView& view) {
  model_->memory()->switch_off(true);
  predict(tape, windows, SeriesPart::validation, places, false);
  model_->memory()->switch_off(false);
  const std::size_t numbers = windows.truths.size() / places.size();
  for (std::size_t w = 0; w < places.size(); ++w) {
    double sum = 0;
    for (std::size_t i = w * numbers; i < (w + 1) * numbers; ++i) {
      const double apart = number_of(windows.prediction, static_cast<std::int64_t>(i)) - windows.truths[i];
      sum += apart * apart;
    }
    view.windows[w].mse_without_memory = sum / static_cast<double>(numbers);
  }
}

// Softmax of q . k / sqrt(width) of the first sequence, from the probes of each encoder layer.
void ForecastObjective::add_attention(Tape& tape, MemoryView& view) const {
  const CaptureReader read(tape, tape.backend());
  const int memory = view.tokens, tokens = memory + view.input_length;
  for (const ForecasterPart& part : model_->parts()) {
    if (!shows(part.kind, LayerTrait::token_shares)) continue;
    const std::vector<double>&q = read.values(part.scope + ".q"), &k = read.values(part.scope + ".k");
    const int heads = part.heads, width = static_cast<int>(read.shape(part.scope + ".q").last());
    MemoryAttention& attention = view.attention.emplace_back();
    attention.layer = part.label;
    attention.reads.assign(static_cast<std::size_t>(memory),
                           std::vector<double>(static_cast<std::size_t>(view.input_length)));
    attention.is_read.assign(static_cast<std::size_t>(view.input_length),
                             std::vector<double>(static_cast<std::size_t>(memory)));
    std::vector<double> weights(static_cast<std::size_t>(tokens));
    for (int head = 0; head < heads; ++head) {
      for (int i = 0; i < tokens; ++i) {
        for (int j = 0; j < tokens; ++j) {
          double score = 0;
          for (int e = 0; e < width; ++e)
            score += q[(i * heads + head) * width + e] * k[(j * heads + head) * width + e];
          weights[j] = score / std::sqrt(static_cast<double>(width));
        }
        softmax_in_place(weights);
        for (int j = 0; j < tokens; ++j) {
          const double share = weights[j] / heads;
          if (i < memory && j >= memory) attention.reads[i][j - memory] += share;
          if (i >= memory && j < memory) attention.is_read[i - memory][j] += share;
        }
      }
    }
  }
}

std::unique_ptr<Objective> make_objective(const Recipe& recipe, ParameterStore& store) {
  std::unique_ptr<Task> task = make_task(recipe.task);
  const bool of_numbers = task->windows() != nullptr;
  if (of_numbers != is_forecaster(recipe.model)) {
    throw Error(
        ExitCode::bad_input,
        of_numbers
            ? "the task forecast needs a model that forecasts; set model.kind to spectral_memory or dlinear"
            : "this model forecasts series, but the task " + task->name() + " has tokens; take the task forecast");
  }
  if (of_numbers) return std::make_unique<ForecastObjective>(recipe, std::move(task), store);
  return make_token_objective(recipe, std::move(task), store);
}

}  // namespace afterglow
