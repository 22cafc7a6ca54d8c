// Runs the receiver first, then the rest of the stack with its output.
#include <algorithm>

#include "core/engine/analyses/patch/patch_measurement.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"

namespace afterglow {

bool PathPasses::has_paths() const {
  return std::ranges::all_of(model_->branches(), [](const Branch& branch) { return branch.norm != nullptr; });
}

const HookValues& PathPasses::place(const std::string& name) const {
  const auto found = std::ranges::find(places_->places(), name, &HookValues::name);
  if (found == places_->places().end()) throw Error(ExitCode::failure, "the pair has not been read at " + name);
  return *found;
}

/// The sender's contribution to the stream.
const HookValues& PathPasses::sent_by(std::size_t sender) const {
  const auto& branches = model_->branches();
  if (sender == 0) return branches.empty() ? place("head.stream") : place(branches.front().scope + ".stream");
  return place(branches[sender - 1].scope + ".output");
}

Tensor PathPasses::stream_before(std::size_t branch, std::span<const std::size_t> senders, double share) const {
  const auto& branches = model_->branches();
  const HookValues& stream = place(branch < branches.size() ? branches[branch].scope + ".stream" : "head.stream");
  std::vector<double> numbers;
  for (const std::size_t sender : senders) {
    const HookValues& sent = sent_by(sender);
    for (std::size_t i = 0; i < stream.corrupted.size(); ++i)
      numbers.push_back(stream.corrupted[i] + share * (sent.clean[i] - sent.corrupted[i]));
  }
  const auto width = static_cast<std::int64_t>(stream.columns);
  const auto length = static_cast<std::int64_t>(stream.corrupted.size() / stream.columns);
  return to_device(*tape_, {static_cast<std::int64_t>(senders.size()), length, width}, dtype_, numbers);
}

std::vector<std::vector<double>> PathPasses::run(const SequencePair& pair, std::span<const std::size_t> senders,
                                                 std::size_t receiver, double share) const {
  const auto& branches = model_->branches();
  const std::size_t branch = receiver - 1;
  const auto finish = [&](const Tensor& stream) {
    const Tensor mask = repeated_context(*tape_, pair.corrupted, senders.size());
    const Var logits = model_->forward_with(*tape_, tape_->constant(stream), branch, [&](std::size_t i, const Var& in) {
      return branches[i].layer->forward(*tape_, in, mask);
    });
    return rows_of_logits(*tape_, logits.value, pair.asked);
  };
  tape_->begin(false);
  const Tensor read = stream_before(branch, senders, share);
  if (branch == branches.size()) {
    const TapeObserver unfused(*tape_, {.form = PassForm::unfused}, {});
    return finish(read);
  }
  const Hooks hooks{.values = true, .names = branches[branch].scope + ".output", .form = PassForm::unfused};
  std::vector<double> answered;
  {
    const TapeObserver observer(*tape_, hooks,
                                [&](const Hooked& at) { answered = to_host(tape_->backend(), at.var.value); });
    model_->forward_branches(*tape_, tape_->constant(read), repeated_context(*tape_, pair.corrupted, senders.size()),
                             branch, branch + 1);
  }
  tape_->begin(false);
  const TapeObserver observer(*tape_, hooks, [&](const Hooked& at) {
    tape_->backend().copy(at.var.value, to_device(*tape_, at.var.shape(), dtype_, answered));
  });
  return finish(stream_before(branch, senders, 0.0));
}

}  // namespace afterglow
