// One reverse pass for all memories: what it says of each part of each state is the derivative of the exact patch, in
// float64, whatever the layers are and whatever follows them.
#include "core/engine/analyses/patch/memory_slopes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/patch/patch_measurement.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

/// A stack of these mixers, trained for some steps in float64, with its pair.
class Stack {
 public:
  explicit Stack(const std::vector<const char*>& mixers) : backend_(make_cpu_backend(1)) {
    nlohmann::json recipe = small_recipe_json();
    recipe["model"]["blocks"] = nlohmann::json::array();
    for (const char* mixer : mixers)
      recipe["model"]["blocks"].push_back(
          {{"mixer", nlohmann::json::parse(mixer)}, {"mlp", {{"kind", "swiglu"}, {"d_ff", 16}}}});
    trainer_ = std::make_unique<Trainer>(parse_recipe(recipe, "stack"), *backend_, DType::f64);
    for (int i = 0; i < 12; ++i) trainer_->step();
    pair_ = pair_of({}, trainer_->task().example(trainer_->seed(), 0, Split::held_out), trainer_->task());
    HookPasses(model(), tape(), DType::f64).read(pair_);
  }
  Model& model() { return trainer_->model(); }
  Tape& tape() { return trainer_->evaluation_tape(); }
  Trainer& trainer() { return *trainer_; }
  const SequencePair& pair() const { return pair_; }
  /// Tensors of a branch's state, each by itself.
  std::vector<StateCell> cells_of(std::size_t branch, int token) {
    std::vector<StateCell> cells;
    const Layer& layer = *model().branches()[branch].layer;
    const LayerState state = layer.make_state(*backend_, DType::f64, 1);
    for (const auto& [name, tensor] : state.tensors()) {
      cells.push_back({branch, {name}, token});
      if (holds_heads(tensor, layer.heads())) cells.push_back({branch, {name}, token, 1});
    }
    return cells;
  }
  /// By two runs with a little of the difference.
  double slope(StateCell cell) {
    constexpr double little = 1e-5;
    cell.share = little;
    StateCell other = cell;
    other.share = -little;
    const std::vector<StateCell> cells = {cell, other};
    const auto logits = StatePasses(model(), tape(), DType::f64).run(pair_, cells);
    const double reach = measured(pair_, logits[0]) - measured(pair_, logits[1]);
    return (measured(pair_, logits[2]) - measured(pair_, logits[3])) / (2 * little) / reach;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Trainer> trainer_;
  SequencePair pair_;
};

constexpr const char *mamba2 = R"({"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8})",
                     *grouped = R"({"kind": "mamba2", "d_state": 3, "expand": 2, "headdim": 8, "ngroups": 2,
                                    "d_conv": 3, "conv_bias": false})",
                     *short_of_sight = R"({"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 16, "d_conv": 1})",
                     *mamba3 = R"({"kind": "mamba3", "d_state": 6, "expand": 2, "headdim": 8})",
                     *still = R"({"kind": "mamba3", "d_state": 5, "expand": 2, "headdim": 16, "rope_fraction": 0})",
                     *lifted = R"({"kind": "mamba3", "d_state": 4, "expand": 2, "headdim": 8, "rope_fraction": 1,
                                   "invariant_lift": true, "harmonics": true})",
                     *ska = R"({"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"})",
                     *masked = R"({"kind": "ska", "H": 2, "r": 5, "P": 4, "K": 3, "mode": "masked"})",
                     *chunked = R"({"kind": "ska", "H": 2, "r": 4, "P": 4, "K": 0, "mode": "chunk", "chunk": 8})",
                     *delta = R"({"kind": "gated_deltanet", "H": 2})",
                     *linear = R"({"kind": "linear_attention", "n_heads": 2})",
                     *softmax = R"({"kind": "attention", "n_heads": 2})";

struct StackCase {
  const char* name;
  std::vector<const char*> mixers;
};
void PrintTo(const StackCase& one, std::ostream* out) { *out << one.name; }

class MemorySlopesOf : public testing::TestWithParam<StackCase> {};

TEST_P(MemorySlopesOf, AreTheDerivativeOfTheExactPatch) {
  Stack stack(GetParam().mixers);
  MemorySlopes slopes(stack.model(), stack.tape(), DType::f64);
  slopes.read(stack.pair());
  const int first =
      static_cast<int>(std::ranges::mismatch(stack.pair().clean.tokens, stack.pair().corrupted.tokens).in1 -
                       stack.pair().clean.tokens.begin());
  int compared = 0;
  double largest = 0;
  for (std::size_t b = 0; b < stack.model().branches().size(); b += 2) {
    const std::string_view kind = stack.model().branches()[b].layer->kind();
    ASSERT_EQ(slopes.knows(b), kind == "mamba2" || kind == "mamba3" || kind == "ska" || kind == "linear_attention")
        << kind;
    if (!slopes.knows(b)) continue;
    for (const int t : {first, first + 1, (first + stack.pair().asked) / 2, stack.pair().asked - 1}) {
      for (const StateCell& cell : stack.cells_of(b, t)) {
        const double exact = stack.slope(cell);
        EXPECT_NEAR(slopes.attributed(cell), exact, 1e-7 + 1e-4 * std::abs(exact))
            << kind << " " << b << " " << cell.tensors.front() << " head " << cell.head << " token " << t;
        largest = std::max(largest, std::abs(exact));
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 8);
  EXPECT_GT(largest, 1e-4) << "nothing was compared but zeros";
}

INSTANTIATE_TEST_SUITE_P(Kinds, MemorySlopesOf,
                         testing::Values(StackCase{"mamba2", {mamba2, ska}}, StackCase{"grouped", {grouped, softmax}},
                                         StackCase{"cache", {softmax, ska}},
                                         StackCase{"no_convolution", {short_of_sight, delta}},
                                         StackCase{"mamba3", {mamba3, ska}}, StackCase{"still", {still, masked}},
                                         StackCase{"lifted", {lifted, mamba2}}, StackCase{"ska", {mamba2, ska, ska}},
                                         StackCase{"linear", {linear, ska, linear}},
                                         StackCase{"masked", {masked, mamba3}},
                                         StackCase{"chunked", {chunked, ska, mamba2}}),
                         [](const auto& of) { return of.param.name; });

/// All heads together are the whole tensor, and all tensors the whole memory.
TEST(MemorySlopes, AddUp) {
  Stack stack({mamba2, ska});
  MemorySlopes slopes(stack.model(), stack.tape(), DType::f64);
  slopes.read(stack.pair());
  const int token = stack.pair().asked - 1;
  const double whole = slopes.attributed({2, {"G", "M", "C", "previous_key", "m"}, token});
  double sum = 0;
  for (const char* name : {"G", "M", "C", "previous_key", "m"}) {
    for (const int head : {0, 1}) sum += slopes.attributed({2, {name}, token, head});
  }
  EXPECT_NEAR(sum, whole, 1e-12 + 1e-9 * std::abs(whole));
}

TEST(MemorySlopes, AreThereAtOnceInTheGridAndAsTwoRunsACellHadThem) {
  Stack stack({mamba2, delta, ska});
  nlohmann::json model = small_recipe_json()["model"];
  model["blocks"] = nlohmann::json::array();
  for (const char* mixer : {mamba2, delta, ska})
    model["blocks"].push_back({{"mixer", nlohmann::json::parse(mixer)}, {"mlp", {{"kind", "swiglu"}, {"d_ff", 16}}}});
  PatchMeasurement patch(model, stack.trainer());
  patch.begin({});
  const PatchView begun = *patch.newest();
  while (patch.advance()) {
  }
  const PatchView& whole = *patch.newest();
  EXPECT_EQ(whole.control, 0.0);
  for (std::size_t row = 0; row < begun.rows.size(); ++row) {
    if (begun.rows[row].group != PatchGroup::memory) continue;
    const bool is_delta = begun.rows[row].label.find("gated_deltanet") != std::string::npos;
    const int token = stack.pair().asked - 1;
    EXPECT_EQ(std::isfinite(begun.attributed[begun.cell(row, token)]), !is_delta) << begun.rows[row].label;
    EXPECT_TRUE(std::isfinite(whole.attributed[whole.cell(row, token)]));
  }
}

}  // namespace
}  // namespace afterglow
