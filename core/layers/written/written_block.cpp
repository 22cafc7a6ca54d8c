// Copies written weights into parameters, and runs stacks of written blocks.
#include "core/layers/written/written_block.h"

#include <algorithm>

#include "core/io/error.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

void write_weights(ParameterStore& store, const std::string& prefix, const WrittenBlock& block) {
  for (const auto& [name, weights] : block.weights) {
    Parameter* parameter = store.find(prefix + "." + name);
    if (parameter == nullptr || parameter->shape.elements() != static_cast<std::int64_t>(weights.size())) {
      throw Error(ExitCode::bad_input, prefix + "." + name + ": the block that " + block.role + " has " +
                                           std::to_string(weights.size()) +
                                           " weights for it, and the layer has no parameter of that name and size");
    }
    parameter->initialise = {[weights = weights](Random&, const Shape&, std::span<double> values) {
      std::ranges::copy(weights, values.begin());
    }};
  }
}

WrittenStack::WrittenStack(const std::vector<WrittenBlock>& blocks, Backend& backend) {
  for (const WrittenBlock& block : blocks) {
    const std::string prefix = std::to_string(parts_.size());
    parts_.push_back({make_layer(block.kind, block.mixer, ParameterScope(store_, prefix)),
                      find_layer_kind(block.kind)->whole_block});
    write_weights(store_, prefix, block);
  }
  store_.allocate_values(backend, DType::f64);
  store_.initialise(0);
}

Var WrittenStack::stream_before(Tape& tape, const Var& x, std::size_t block) {
  Var stream = x;
  for (std::size_t i = 0; i < std::min(block, parts_.size()); ++i) {
    const Var answer = parts_[i].layer->forward(tape, stream, {});
    stream = parts_[i].is_whole_block ? answer : add(tape, stream, answer);
  }
  return stream;
}

Var WrittenStack::forward(Tape& tape, const Var& x) { return stream_before(tape, x, parts_.size()); }

}  // namespace afterglow
