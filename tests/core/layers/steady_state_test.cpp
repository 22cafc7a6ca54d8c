// From the third step on a training step asks for no memory and its tensors keep their addresses.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

TEST(SteadyState, AStepAllocatesNothingAndRepeatsItsAddresses) {
  // One thread: which worker meets a kernel first, and then reserves its scratch memory, is a matter of chance.
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  ParameterStore store;
  const ParameterScope root(store, "");
  const std::unique_ptr<Layer> mixer =
      make_layer("attention", {{"d", 32}, {"n_heads", 4}, {"n_kv_heads", 2}}, root.scope("mixer"));
  const std::unique_ptr<Layer> mlp = make_layer("swiglu", {{"d", 32}, {"d_ff", 65}}, root.scope("mlp"));
  const Parameter &table = root.add("table", {37, 32}, normal(1.0)), &norm = root.add("norm", {32}, constant(1.0));
  store.allocate(*backend, DType::f32);
  store.initialise(1);
  HostValues host(*backend);
  std::vector<std::int32_t> ids(3 * 101);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 37);
  const Tensor tokens = host.i32({3, 101}, ids), one = host.f32({1}, {1.0f});
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const void* loss_address = nullptr;
  std::int64_t before = 0;
  for (int step = 0; step < 6; ++step) {
    if (step == 2) before = allocations();
    tape.begin(true);
    const Tape::Scope scope(tape, "a scope whose name is longer than a small string");
    Var x = embedding(tape, tokens, tape.parameter(table));
    x = add(tape, x, mixer->forward(tape, rms_norm(tape, x, tape.parameter(norm), 1e-5), {}));
    x = add(tape, x, mlp->forward(tape, rms_norm(tape, x, tape.parameter(norm), 1e-5), {}));
    const CrossEntropy result = cross_entropy(tape, linear(tape, x, tape.parameter(table)), tokens);
    tape.backward(result.loss, one);
    tape.zero_untouched(store);
    if (step == 2) loss_address = result.loss.value.data;
    if (step > 2) {
      EXPECT_EQ(result.loss.value.data, loss_address);
    }
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace afterglow::testing
