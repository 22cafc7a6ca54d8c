// Windows in, forecasts out: training and scores.
#include "core/engine/training/forecast_objective.h"

#include <algorithm>
#include <cmath>

#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr std::int64_t windows_at_once = 64;

}  // namespace

std::vector<std::int64_t> evenly_spaced(std::int64_t total, std::int64_t count) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < std::min(total, count); ++i) places.push_back(i * total / std::min(total, count));
  return places;
}

struct ForecastObjective::Batch {
  Batch(Backend& backend, std::int64_t batch, const SeriesWindows& windows, std::int64_t width, DType dtype)
      : input(backend, {batch, windows.length(), windows.channels()}, dtype),
        truth(backend, {batch, windows.horizon(), windows.channels()}, dtype),
        counter(backend, {1}, DType::i32),
        loss(backend, {1}, dtype),
        summary(backend, {1, width}, dtype) {}
  PinnedArray input, truth, counter, loss, summary;
};

ForecastedWindows::ForecastedWindows(Backend& backend, std::int64_t count, const SeriesWindows& windows, DType dtype)
    : input(backend, {count, windows.length(), windows.channels()}, dtype),
      prediction(backend, {count, windows.horizon(), windows.channels()}, dtype),
      inputs(static_cast<std::size_t>(input.device().elements()), 0.0f),
      truths(static_cast<std::size_t>(prediction.device().elements()), 0.0f) {}

ForecastObjective::ForecastObjective(const Recipe& recipe, std::unique_ptr<Task> task, ParameterStore& store)
    : task_(std::move(task)),
      windows_(task_->windows()),
      model_(make_forecaster(recipe.model, windows_->length(), windows_->horizon(), windows_->channels(),
                             ParameterScope(store, ""))),
      seed_(recipe.seed) {
  memory_ = model_->memory();
}

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

void ForecastObjective::load(std::int64_t step) {
  batch_->input.put(inputs_);
  batch_->truth.put(truths_);
  batch_->counter.host<std::int32_t>()[0] = static_cast<std::int32_t>(step);
}

void ForecastObjective::add_inputs(std::vector<Transfer>& transfers) {
  for (const PinnedArray* input : {&batch_->input, &batch_->truth, &batch_->counter})
    transfers.push_back(input->to_device());
}

Var ForecastObjective::loss(Tape& tape) {
  const DropoutSource dropped{model_->dropout_rate(), seed_, batch_->counter.device()};
  pass_ = model_->forward(tape, tape.constant(batch_->input.device()), dropped);
  const Tape::Scope scope(tape, "loss");
  last_ = squared_error(tape, pass_.y, batch_->truth.device());
  return last_.loss;
}

void ForecastObjective::add_results(Backend&, std::vector<Transfer>& transfers) {
  transfers.push_back(batch_->summary.to_host(pass_.summary));
  transfers.push_back(batch_->loss.to_host(last_.loss.value));
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

void ForecastObjective::predict(Tape& tape, ForecastedWindows& windows, SeriesPart part,
                                std::span<const std::int64_t> which, bool capturing) {
  const std::int64_t held = windows.input.device().shape[0];
  const std::int64_t in = static_cast<std::int64_t>(windows.inputs.size()) / held;
  const std::int64_t out = static_cast<std::int64_t>(windows.truths.size()) / held;
  for (std::size_t i = 0; i < which.size(); ++i)
    windows_->write(part, which[i], windows.inputs.data() + i * in, windows.truths.data() + i * out);
  windows.input.put(windows.inputs);
  windows.input.queue_upload();
  tape.begin(false);
  std::optional<Capturing> captures;
  if (capturing) captures.emplace(tape);
  SpectralMemory* memory = model_->memory();
  const bool is_emptied = memory != nullptr && memory->config().epoch > 0;
  if (is_emptied) memory->switch_off(true);
  const ForecastPass pass = model_->forward(tape, tape.constant(windows.input.device()), {});
  if (is_emptied) memory->switch_off(false);
  tape.backend().download(windows.prediction.host<void>(), pass.y.value);
}

ForecastScore ForecastObjective::score(Tape& tape, DType dtype, SeriesPart part, std::int64_t most) {
  const std::vector<std::int64_t> places = evenly_spaced(windows_->count(part), most);
  ForecastedWindows windows(tape.backend(),
                            std::min<std::int64_t>(windows_at_once, static_cast<std::int64_t>(places.size())),
                            *windows_, dtype);
  const auto held = static_cast<std::size_t>(windows.input.device().shape[0]);
  ForecastScore score;
  std::size_t numbers = 0;
  for (std::size_t done = 0; done < places.size(); done += held) {
    check_evaluation();
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

double ForecastObjective::evaluate_recurrent(Tape&, std::uint64_t, std::int64_t, const Task*, const DecodeForm&) {
  throw BadInput("a forecaster sees its whole window at once and has no recurrent form");
}

double ForecastObjective::evaluate(Tape& tape, std::uint64_t, std::int64_t examples, const Task*) {
  const ForecastScore of = score(tape, batch_->input.device().dtype, SeriesPart::validation, examples);
  return 1.0 - of.mse / std::max(of.variance, 1e-12);
}

}  // namespace afterglow
