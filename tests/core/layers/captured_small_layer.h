// A small layer in float64 at its start values, captured over one random sequence.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"

namespace afterglow {

struct CapturedSmallLayer {
  CapturedSmallLayer(std::string_view kind, const nlohmann::json& config, int tokens_, int width)
      : tokens(tokens_),
        backend(make_cpu_backend(1)),
        arena(*backend),
        tape(*backend, arena),
        layer(make_layer(kind, config, ParameterScope(store, "layer"))),
        read(tape, *backend) {
    store.allocate_values(*backend, DType::f64);
    store.initialise(5);
    std::vector<double> x;
    Random random(3);
    for (int i = 0; i < tokens * width; ++i) x.push_back(random.normal());
    tape.begin(false);
    const Capturing capturing(tape);
    const Tape::Scope scope(tape, "layer");
    layer->forward(tape, tape.constant(to_device(tape, {1, tokens, width}, DType::f64, x)), {});
  }
  CapturedLayer captured() const { return {*layer, read, "layer", tokens}; }

  int tokens;
  std::unique_ptr<Backend> backend;
  ParameterStore store;
  Arena arena;
  Tape tape;
  std::unique_ptr<Layer> layer;
  CaptureReader read;
};

}  // namespace afterglow
