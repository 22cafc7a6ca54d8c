// What the state contains: after every token, how well a ridge read-out of one layer's state finds the value of each
// key of the inspected sequence. It steps sequences with the same keys and other values in one batch.
#include <algorithm>
#include <limits>
#include <memory>

#include "core/analysis/linear_readout.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/causes/state_passes.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr int max_sequences = 256, sequences_of_a_large_model = 64;
constexpr std::size_t max_choices = 8, max_free_places = 4;
constexpr const char* free_place = "token ";
constexpr int max_read_tokens = 256;  ///< of a longer sequence the first
constexpr double read_ridge = 1e-3;
constexpr std::int64_t max_bytes = std::int64_t{256} << 20;      ///< of the states that are read at once
constexpr std::int64_t max_bytes_below = std::int64_t{3} << 29;  ///< including those of all layers below

/// Alternative values: the first of the vocabulary with this role, including the sequence's own.
std::vector<int> choices_of(const Task& task, TokenRole role) {
  std::vector<int> choices;
  for (int token = 0; token < task.vocab() && choices.size() < max_choices; ++token) {
    if (task.token_role(token) == role) choices.push_back(token);
  }
  return choices;
}

int below(Random& random, std::size_t count) { return static_cast<int>(random.uniform_int(count)); }

class ReadoutMeasurement : public CopyMeasurement<ReadoutView> {
 public:
  using CopyMeasurement::CopyMeasurement;

  /// Copies weights and settings, and draws the sequences. `layer` is an index into Trainer::parts; if that part has no
  /// state, the last one with a state is used.
  void begin(const InspectionSetup& setup, int layer) {
    copy_.take();
    Trainer& trainer = copy_.trainer();
    const Example clean = inspected_example(setup, trainer);
    now_ = {};
    now_.step = copy_.step();
    now_.layer = layer_with_memory(trainer, layer);
    now_.tokens = token_views(clean, trainer.task());
    find_keys(clean);
    const bool has_work = now_.layer >= 0 && !now_.keys.empty();
    begin_work(has_work ? std::min(now_.tokens.size(), static_cast<std::size_t>(max_read_tokens)) : 0);
    now_.is_complete = !working();
    if (working()) {
      branch_ = static_cast<std::size_t>(trainer.parts()[now_.layer].branch);
      draw_sequences(clean);
      reserve_states(static_cast<std::int64_t>(clean.tokens.size()));
      now_.accuracy.assign(now_.keys.size() * now_.tokens.size(), std::numeric_limits<double>::quiet_NaN());
      now_.shuffled.assign(now_.tokens.size(), std::numeric_limits<double>::quiet_NaN());
    }
    publish();
  }

  /// One token for all sequences. False if none is left.
  bool advance() {
    if (!working()) return false;
    const std::size_t t = done_;
    std::vector<std::int32_t> tokens;
    for (const std::vector<std::int32_t>& sequence : sequences_) tokens.push_back(sequence[t]);
    tape_.begin(false);
    copy_.model().advance(tape_, uploaded(tape_, {now_.examples, 1}, DType::i32, tokens.data()), *state_);
    const std::vector<double> features = memory();
    copy_.trainer().analysis_threads().yield();
    const std::vector<double> found =
        readout_accuracies(features, now_.examples, fitted(), labels_, now_.choices, read_ridge);
    const std::size_t keys = now_.keys.size();
    double shuffled = 0;
    for (std::size_t key = 0; key < keys && found.size() == 2 * keys; ++key) {
      now_.accuracy[key * now_.tokens.size() + t] = found[key];
      shuffled += found[keys + key] / static_cast<double>(keys);
    }
    now_.shuffled[t] = shuffled;
    ++done_;
    now_.is_complete = !working();
    if (!working()) state_.reset();
    publish();
    return working();
  }

 private:
  /// Values after a key, each key once; without any, some of the first tokens.
  void find_keys(const Example& clean) {
    const Task& task = copy_.trainer().task();
    for (std::size_t t = 1; t < clean.tokens.size(); ++t) {
      const bool is_bound = task.token_role(clean.tokens[t]) == TokenRole::value &&
                            task.token_role(clean.tokens[t - 1]) == TokenRole::key;
      if (is_bound) add_place(t, task.token_label(clean.tokens[t - 1]));
    }
    const bool has_keys = !now_.keys.empty();
    const std::size_t first = static_cast<std::size_t>(copy_.model().places()), rest = clean.tokens.size() - first;
    for (std::size_t i = 0; !has_keys && i < max_free_places; ++i) {
      const std::size_t place = first + i * rest / (2 * max_free_places);
      add_place(place, free_place + std::to_string(place));
    }
  }

  void add_place(std::size_t place, std::string name) {
    if (std::ranges::find(now_.keys, name) != now_.keys.end()) return;
    now_.keys.push_back(std::move(name));
    now_.places.push_back(static_cast<int>(place));
  }

  void draw_sequences(const Example& clean) {
    const Task& task = copy_.trainer().task();
    Random random(copy_.trainer().seed(), readout_stream, 0);
    const std::size_t keys = now_.keys.size();
    std::vector<std::vector<int>> choices_of_key;
    for (const int place : now_.places)
      choices_of_key.push_back(choices_of(task, task.token_role(clean.tokens[static_cast<std::size_t>(place)])));
    labels_.assign(2 * keys, {});
    sequences_.clear();
    now_.examples = copy_.trainer().is_large() ? sequences_of_a_large_model : max_sequences;
    for (int i = 0; i < now_.examples; ++i) {
      std::vector<std::int32_t> tokens = clean.tokens;
      for (std::size_t key = 0; key < keys; ++key) {
        const auto place = static_cast<std::size_t>(now_.places[key]);
        const std::vector<int>& choices = choices_of_key[key];
        const int label = below(random, choices.size());
        now_.choices = std::max(now_.choices, static_cast<int>(choices.size()));
        labels_[key].push_back(label);
        // If the sequence repeats a value, the drawn value is repeated as well.
        const bool is_value = task.token_role(clean.tokens[place]) == TokenRole::value;
        for (std::size_t t = place; t < (is_value ? tokens.size() : place + 1); ++t) {
          if (clean.tokens[t] == clean.tokens[place]) tokens[t] = choices[static_cast<std::size_t>(label)];
        }
      }
      sequences_.push_back(std::move(tokens));
    }
    for (std::size_t key = 0; key < keys; ++key) {
      std::vector<int>& shuffled = labels_[keys + key] = labels_[key];
      for (std::size_t i = static_cast<std::size_t>(fitted()); i-- > 1;)
        std::swap(shuffled[i], shuffled[static_cast<std::size_t>(below(random, i + 1))]);
    }
  }

  /// Layers above the one that is read do not run.
  void reserve_states(std::int64_t tokens) {
    Trainer& trainer = copy_.trainer();
    const auto& branches = copy_.model().branches();
    std::int64_t below = 0, own = 0;
    for (std::size_t i = 0; i <= branch_; ++i) below += own = branches[i].layer->state_bytes(trainer.dtype(), tokens);
    const auto refuse = [&](const std::string& whose, std::int64_t bytes, const std::string& advice) {
      throw BadInput(whose, " of one sequence takes ", bytes, " bytes, too many for read-outs of ", now_.examples,
                     " sequences; ", advice);
    };
    if (own * now_.examples > max_bytes) refuse("the state", own, "choose a layer with a smaller one");
    if (below * now_.examples > max_bytes_below)
      refuse("the state of all layers up to this one", below, "choose an earlier layer");
    state_ = std::make_unique<ModelState>(
        copy_.model().make_state(trainer.backend(), trainer.dtype(), now_.examples, branch_ + 1));
  }

  /// [sequences * numbers] of the layer's state, including its convolutions.
  std::vector<double> memory() const {
    std::vector<std::vector<double>> tensors;
    std::size_t width = 0;
    for (const auto& [name, tensor] : state_->layers[branch_].tensors()) {
      tensors.push_back(to_host(tape_.backend(), tensor));
      width += tensors.back().size() / sequences_.size();
    }
    std::vector<double> features;
    features.reserve(width * sequences_.size());
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      for (const std::vector<double>& tensor : tensors) {
        const std::size_t own = tensor.size() / sequences_.size();
        const auto begin = tensor.begin() + static_cast<std::ptrdiff_t>(i * own);
        features.insert(features.end(), begin, begin + static_cast<std::ptrdiff_t>(own));
      }
    }
    return features;
  }

  /// Number of sequences for the fit; the others test it.
  int fitted() const { return now_.examples * 3 / 4; }

  std::size_t branch_ = 0;
  std::unique_ptr<ModelState> state_;
  std::vector<std::vector<std::int32_t>> sequences_;
  std::vector<std::vector<int>> labels_;  ///< of every key, then the same shuffled among the sequences of the fit
};

}  // namespace

AnalysisInfo readout_row() {
  constexpr auto begin = [](auto& measurement, const AnalysisSubject& of) {
    measurement.begin(of.inspected->now(), of.traced_part);
  };
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    const double length = std::min(length_of(subject), 256.0), steps = length * depth_of_trace(subject);
    constexpr double sequences = 64, reading = 20;  // `reading`: the ridge fit on the host, in tokens
    return {sequences * steps + reading * length, steps, 1 / std::max(1.0, length)};
  };
  using Form = SpareTimeAnalysis<ReadoutMeasurement, Analysis::readout, begin, &AnalysisResults::readout>;
  return {{}, Analysis::readout, "read-out", make_of_tokens<Form, false>, work};
}

}  // namespace afterglow
