// Sequences, runs and the decoder.
#include "core/engine/planted_recall.h"

#include <algorithm>
#include <numbers>

#include "core/layers/host_probe.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

std::vector<double> normal_numbers(std::uint64_t seed, std::uint64_t index, std::size_t count) {
  Random random(seed, recall_stream, index);
  std::vector<double> values(count);
  for (double& value : values) value = random.normal();
  return values;
}

/// What the decoder has learned without one context: means [classes, width] and spreads [width].
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

PlantedRecall::PlantedRecall(Tape& tape, DType dtype, int width, SequenceMap map, RecallPlan plan)
    : tape_(&tape), dtype_(dtype), width_(width), map_(std::move(map)), plan_(std::move(plan)) {}

std::vector<double> PlantedRecall::sequences(int context, int lag) const {
  const auto width = static_cast<std::size_t>(width_), length = static_cast<std::size_t>(plan_.source + lag + 1);
  const std::vector<double> noise = normal_numbers(plan_.seed, static_cast<std::uint64_t>(context), length * width);
  const std::vector<double> cue = normal_numbers(plan_.seed, recall_contexts, width);
  std::vector<double> all;
  for (int k = 0; k < planted_tokens; ++k) {
    const std::vector<double> value =
        normal_numbers(plan_.seed, static_cast<std::uint64_t>(recall_contexts + 1 + k), width);
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
  if (next_ == recall_contexts) return false;
  for (const int lag : plan_.lags) {
    const std::int64_t length = plan_.source + lag + 1;
    tape_->begin(false);
    const Var x = tape_->constant(to_device(*tape_, {planted_tokens, length, width_}, dtype_, sequences(next_, lag)));
    const Tensor mask = tape_->scratch({planted_tokens, length}, DType::u8);
    const std::vector<std::uint8_t> ones(static_cast<std::size_t>(planted_tokens * length), 1);
    tape_->backend().upload(mask, ones.data());
    const std::vector<double> y = to_host(tape_->backend(), map_(*tape_, x, mask).value);
    for (int k = 0; k < planted_tokens; ++k) {
      const auto at = static_cast<std::ptrdiff_t>(((k + 1) * length - 1) * width_);
      outputs_.insert(outputs_.end(), y.begin() + at, y.begin() + at + width_);
    }
  }
  return ++next_ < recall_contexts;
}

std::vector<double> PlantedRecall::shares() const {
  std::vector<double> shares;
  const auto row = static_cast<std::size_t>(planted_tokens * width_), stride = plan_.lags.size() * row;
  for (std::size_t lag = 0; lag < plan_.lags.size(); ++lag) {
    std::vector<double> at_lag;
    for (std::size_t context = 0; context < static_cast<std::size_t>(next_); ++context) {
      const auto from = outputs_.begin() + static_cast<std::ptrdiff_t>(context * stride + lag * row);
      at_lag.insert(at_lag.end(), from, from + static_cast<std::ptrdiff_t>(row));
    }
    shares.push_back(decoded_share(at_lag, next_, planted_tokens, width_));
  }
  return shares;
}

}  // namespace afterglow
