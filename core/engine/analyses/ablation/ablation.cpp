// How much each part of a model contributes: accuracy and loss of held-out sequences with one block, head, mode or
// memory token switched off at a time, on a copy of the weights, at the model's hook points and by edits of Koopman
// operators.
#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/inspection/intervention_runner.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_tokens = 4096, max_examples = 64;
constexpr std::int64_t tokens_of_a_large_model = 256;  ///< the memory of a pass grows with the model
constexpr std::int64_t max_modes = 64;                 ///< of a layer: the largest of each head
constexpr std::int64_t logits_of_a_pass = 1 << 24;     ///< a large vocabulary is asked in several passes

/// Total over the held-out sequences.
std::int64_t tokens_of_an_ablation(const Trainer& trainer) {
  const std::int64_t length = trainer.task().length(),
                     tokens = trainer.is_large() ? tokens_of_a_large_model : max_tokens;
  return length * std::clamp<std::int64_t>(tokens / length, 1, max_examples);
}

class AblationMeasurement : public CopyMeasurement<AblationView> {
 public:
  using CopyMeasurement::CopyMeasurement;

  /// Copies weights and settings, and evaluates the model with everything on. Modes are named by their numbers in
  /// `numbered`.
  void begin(std::shared_ptr<const Spectra> numbered) {
    copy_.take();
    numbered_ = std::move(numbered);
    if (tokens_.empty()) fill();
    plan();
    now_ = {};
    now_.step = copy_.step();
    now_.examples = examples_;
    for (const AblatedPart& part : parts_) now_.planned.push_back(part.name);
    const Quality whole = ask(nullptr), again = ask(nullptr);
    now_.accuracy = whole.accuracy;
    now_.loss = whole.loss;
    now_.control_accuracy = again.accuracy;
    begin_work(parts_.size());
    publish();
  }

  /// Evaluates it without the next part. False if none is left.
  bool advance() {
    if (!working()) return false;
    AblatedPart part = parts_[done_++];
    const Quality without = ask(&part);
    part.accuracy = without.accuracy;
    part.loss = without.loss;
    const auto need = [](const AblatedPart& one) { return std::make_tuple(one.accuracy, -one.loss); };
    now_.parts.insert(std::ranges::upper_bound(now_.parts, need(part), {}, need), part);
    now_.is_complete = !working();
    publish();
    return working();
  }

 private:
  struct Quality {
    double accuracy = 0, loss = 0;
  };

  /// Blocks first, then heads and memory tokens, then modes, so that important parts come early.
  void plan() {
    parts_.clear();
    std::vector<AblatedPart> blocks;
    const auto& parts = copy_.trainer().parts();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].branch >= 0) blocks.push_back({parts[i].label, "block", static_cast<int>(i)});
    }
    parts_ = blocks;
    for (const AblatedPart& block : blocks) {
      const int heads = parts[static_cast<std::size_t>(block.layer)].heads;
      for (int head = 0; heads > 1 && head < heads; ++head)
        parts_.push_back({block.name + " head " + std::to_string(head), "head", block.layer, head});
    }
    for (int place = 0; place < static_cast<int>(copy_.model().places()); ++place)
      parts_.push_back({"memory token " + std::to_string(place), "memory token", 0, -1, place});
    for (const AblatedPart& block : blocks) plan_modes(static_cast<std::size_t>(parts[block.layer].branch), block);
  }

  void plan_modes(std::size_t branch, const AblatedPart& block) {
    const Layer& layer = *copy_.model().branches()[branch].layer;
    if (!shows(layer.kind(), LayerTrait::koopman_heads)) return;
    const std::int64_t rank = readers_of(layer.kind()).modes(layer);
    const std::int64_t modes = std::min(rank, std::max<std::int64_t>(1, max_modes / layer.heads()));
    for (int head = 0; head < static_cast<int>(layer.heads()); ++head) {
      const std::vector<int> largest_first = numbered_modes(numbered_.get(), block.layer, head).numbers;
      for (std::size_t i = 0; std::cmp_less(i, modes); ++i) {
        const int mode = i < largest_first.size() ? largest_first[i] : static_cast<int>(i);
        parts_.push_back({block.name + " head " + std::to_string(head) + " mode " + std::to_string(mode), "mode",
                          block.layer, head, mode});
      }
    }
  }

  void fill() {
    const Trainer& trainer = copy_.trainer();
    length_ = trainer.task().length();
    examples_ = tokens_of_an_ablation(trainer) / length_;
    at_once_ = std::clamp<std::int64_t>(logits_of_a_pass / (length_ * trainer.task().vocab()), 1, examples_);
    const auto size = static_cast<std::size_t>(examples_ * length_);
    tokens_.resize(size);
    targets_.resize(size);
    context_.resize(size);
    fill_batch(trainer.task(), trainer.seed(), 0, static_cast<int>(examples_), tokens_.data(), targets_.data(),
               context_.data(), Split::held_out);
  }

  Quality ask(const AblatedPart* without) {
    AnswerCount count;
    double loss = 0;
    for (std::int64_t first = 0; first < examples_; first += at_once_) {
      const std::int64_t before = count.asked;
      const double mean = pass(without, first, count);
      if (count.asked > before)
        loss += (mean - loss) * (static_cast<double>(count.asked - before) / static_cast<double>(count.asked));
    }
    return {count.share(), loss};
  }

  /// Answers the sequences from `first` on; returns their mean loss.
  double pass(const AblatedPart* without, std::int64_t first, AnswerCount& count) {
    tape_.begin(false);
    const auto upload = [&](DType dtype, const auto& values) {
      return uploaded(tape_, {std::min(at_once_, examples_ - first), length_}, dtype, values.data() + first * length_);
    };
    const Tensor mask = upload(DType::u8, context_);
    Model& model = copy_.model();
    const int edited = without && without->sort == "mode"
                           ? copy_.trainer().parts()[static_cast<std::size_t>(without->layer)].branch
                           : -1;
    HeadsOff heads_off;
    if (without && without->sort == "head") {
      const ModelPart& layer = copy_.trainer().parts()[static_cast<std::size_t>(without->layer)];
      heads_off = {layer.scope, layer.heads, {without->head}};
    }
    const TapeObserver observer(tape_, patched_hooks, [&](const Hooked& at) {
      if (without) switch_off(*without, at.name, at.var.value);
      heads_off.see(tape_.backend(), at);
    });
    const Var x = model.embed(tape_, upload(DType::i32, tokens_));
    const Var logits = model.forward_with(tape_, x, 0, [&](std::size_t i, const Var& in) {
      Layer& layer = *model.branches()[i].layer;
      if (static_cast<int>(i) != edited) return layer.forward(tape_, in, mask);
      LayerEdit edit;
      edit.heads.resize(static_cast<std::size_t>(layer.heads()));
      HeadEdit& head = edit.heads[static_cast<std::size_t>(without->head)];
      head.modes = {{without->mode, true, {}, true}};
      head.numbered = numbered_modes(numbered_.get(), without->layer, without->head);
      return readers_of(layer.kind()).edit(layer, tape_, in, mask, edit);
    });
    const CrossEntropy found = cross_entropy(tape_, logits, upload(DType::i32, targets_));
    count.add(tape_.backend(), found);
    return to_host(tape_.backend(), found.loss.value).front();
  }

  /// Called at a hook point during the pass, before its value is used.
  void switch_off(const AblatedPart& part, const std::string& place, const Tensor& value) {
    if (place.ends_with(".stream")) stream_ = value;
    const bool is_first = place == copy_.model().branches().front().scope + ".stream";
    if (part.sort == "memory token" && is_first) {
      for (std::int64_t b = 0; b < value.shape[0]; ++b) tape_.backend().fill(tokens_at(value, b, part.mode, 1), 0.0);
      return;
    }
    const ModelPart& layer = copy_.trainer().parts()[static_cast<std::size_t>(part.layer)];
    if (part.sort != "block" || place != layer.scope + ".output") return;
    const bool is_whole = copy_.model().branches()[static_cast<std::size_t>(layer.branch)].norm == nullptr;
    if (is_whole) return tape_.backend().copy(value, stream_);  // its branch adds the residual itself
    tape_.backend().fill(value, 0.0);
  }

  std::int64_t examples_ = 0, length_ = 0, at_once_ = 0;  ///< the last: sequences of a pass
  std::vector<std::int32_t> tokens_, targets_;
  std::vector<std::uint8_t> context_;
  std::shared_ptr<const Spectra> numbered_;
  std::vector<AblatedPart> parts_;
  Tensor stream_;  // input of the branch that runs now
};

}  // namespace

AnalysisInfo ablation_row() {
  constexpr auto begin = [](auto& measurement, const AnalysisSubject& of) { measurement.begin(of.numbered()); };
  // One pass over the held-out sequences for each block and head.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    double asked = 2;
    for (const ModelPart& part : subject.run->trainer().parts())
      asked += part.branch < 0 ? 0 : 1 + (part.heads > 1 ? part.heads : 0);
    return {asked * static_cast<double>(tokens_of_an_ablation(subject.run->trainer())), 0, 2 / asked};
  };
  using Form = SpareTimeAnalysis<AblationMeasurement, Analysis::ablation, begin, &AnalysisResults::ablation>;
  return {{}, Analysis::ablation, "ablation", make_of_tokens<Form, false>, work};
}

}  // namespace afterglow
