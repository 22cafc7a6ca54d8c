// Sequences, runs and the decoder.
#include "core/engine/analyses/race/planted_recall.h"

#include <algorithm>
#include <numbers>

#include "core/engine/training/inspected_example.h"
#include "core/layers/host_values.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

std::vector<double> normal_numbers(std::uint64_t seed, std::uint64_t index, std::size_t count) {
  Random random(seed, recall_stream, index);
  std::vector<double> values(count);
  for (double& value : values) value = random.normal();
  return values;
}

/// The decoder's fit without one context: means [classes, width] and spreads [width].
struct Decoder {
  std::vector<double> means, spreads;
};

Decoder learn(std::span<const double> outputs, int contexts, int classes, int width, int left_out) {
  const auto row = static_cast<std::size_t>(classes * width);
  Decoder decoder{std::vector<double>(row, 0.0), std::vector<double>(static_cast<std::size_t>(width), 0.0)};
  for (int m = 0; m < contexts; ++m) {
    if (m == left_out) continue;
    for (std::size_t i = 0; i < row; ++i)
      decoder.means[i] += outputs[static_cast<std::size_t>(m) * row + i] / (contexts - 1);
  }
  for (int m = 0; m < contexts; ++m) {
    if (m == left_out) continue;
    for (std::size_t i = 0; i < row; ++i) {
      const double rest = outputs[static_cast<std::size_t>(m) * row + i] - decoder.means[i];
      decoder.spreads[i % static_cast<std::size_t>(width)] += rest * rest;
    }
  }
  return decoder;
}

int nearest_class(const Decoder& decoder, std::span<const double> output, int classes) {
  int best = 0;
  double least = 0;
  for (int k = 0; k < classes; ++k) {
    double distance = 0;
    for (std::size_t c = 0; c < output.size(); ++c) {
      const double rest = output[c] - decoder.means[static_cast<std::size_t>(k) * output.size() + c];
      if (rest != 0) distance += rest * rest / std::max(decoder.spreads[c], 1e-300);
    }
    if (k == 0 || distance < least) {
      least = distance;
      best = k;
    }
  }
  return best;
}

}  // namespace

double decoded_share(std::span<const double> outputs, int contexts, int classes, int width) {
  int right = 0;
  for (int m = 0; m < contexts; ++m) {
    const Decoder decoder = learn(outputs, contexts, classes, width, m);
    for (int k = 0; k < classes; ++k) {
      const auto at = static_cast<std::size_t>((m * classes + k) * width);
      right += nearest_class(decoder, outputs.subspan(at, static_cast<std::size_t>(width)), classes) == k;
    }
  }
  return static_cast<double>(right) / (contexts * classes);
}

RecallNoise::RecallNoise(std::uint64_t seed, int width, int tokens)
    : seed_(seed),
      size_(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(width)),
      cue_(normal_numbers(seed, recall_contexts, static_cast<std::size_t>(width))) {
  for (int k = 0; k < planted_tokens; ++k)
    values_.push_back(normal_numbers(seed, static_cast<std::uint64_t>(recall_contexts + 1 + k), cue_.size()));
}

bool RecallNoise::draw() {
  if (contexts_.size() == recall_contexts) return false;
  contexts_.push_back(normal_numbers(seed_, contexts_.size(), size_));
  return true;
}

PlantedRecall::PlantedRecall(Tape& tape, DType dtype, RecallNoise& noise, SequenceMap map, RecallPlan plan)
    : tape_(&tape),
      dtype_(dtype),
      noise_(&noise),
      map_(std::move(map)),
      plan_(std::move(plan)),
      size_(plan_.tokens_at_once) {}

std::vector<double> PlantedRecall::lags() const {
  return {plan_.lags.begin(), plan_.lags.begin() + static_cast<std::ptrdiff_t>(shares_.size())};
}

/// The sequences of all planted tokens, one after the other.
std::vector<double> PlantedRecall::sequences(int context, int lag) const {
  const auto width = static_cast<std::size_t>(noise_->width()),
             length = static_cast<std::size_t>(plan_.source + lag + 1);
  const std::span<const double> noise = noise_->context(context).first(length * width), cue = noise_->cue();
  std::vector<double> all;
  all.reserve(planted_tokens * noise.size());
  for (int k = 0; k < planted_tokens; ++k) {
    const std::span<const double> value = noise_->value(k);
    const std::size_t begin = all.size();
    all.insert(all.end(), noise.begin(), noise.end());
    const auto at = [&](std::size_t token) { return begin + token * width; };
    for (std::size_t i = 0; i < phrase_tokens; ++i) {
      const std::size_t planted = at(static_cast<std::size_t>(plan_.source) - i), question = at(length - 1 - i);
      for (std::size_t c = 0; c < width; ++c) {
        all[planted + c] = (cue[c] + value[c]) / std::numbers::sqrt2;
        all[question + c] = cue[c];
      }
    }
  }
  return all;
}

bool PlantedRecall::advance() {
  if (next_lag_ == plan_.lags.size()) return false;
  if (noise_->draw()) return true;
  const int lag = plan_.lags[next_lag_];
  const std::int64_t length = plan_.source + lag + 1, width = noise_->width();
  const int most = std::max(1, static_cast<int>(size_.tokens() / (planted_tokens * length)));
  const int contexts = std::min(most, recall_contexts - next_context_), rows = contexts * planted_tokens;
  tape_->begin(false);
  const Tensor all = tape_->scratch({contexts, planted_tokens, length, width}, dtype_);
  for (int i = 0; i < contexts; ++i)
    tape_->backend().copy(all.at(i), to_device(*tape_, all.at(i).shape, dtype_, sequences(next_context_ + i, lag)));
  const Var x = tape_->constant(all.reshaped({rows, length, width}));
  const std::vector<std::uint8_t> ones(static_cast<std::size_t>(rows * length), 1);
  const Tensor y = map_(*tape_, x, uploaded(*tape_, {rows, length}, DType::u8, ones.data())).value;
  Tensor answers(y.as<std::byte>() + static_cast<std::size_t>((length - 1) * width) * size_of(dtype_), {rows, width},
                 dtype_);
  answers.row_stride = length * width;
  const std::vector<double> found = to_host(tape_->backend(), answers);
  size_.note(rows * length, tape_->arena().used());
  outputs_.insert(outputs_.end(), found.begin(), found.end());
  next_context_ += contexts;
  if (next_context_ < recall_contexts) return true;
  shares_.push_back(decoded_share(outputs_, recall_contexts, planted_tokens, static_cast<int>(width)));
  outputs_.clear();
  next_context_ = 0;
  return ++next_lag_ < plan_.lags.size();
}

}  // namespace afterglow
