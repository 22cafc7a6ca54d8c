// Identities of interventions: what is put back changes nothing, what is replaced as a whole answers as the other
// sequence does, and first order is the limit of the exact patch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/engine/causes/ablation_measurement.h"
#include "core/engine/causes/logit_lens.h"
#include "core/engine/causes/pair_view.h"
#include "core/engine/causes/patch_measurement.h"
#include "core/engine/causes/transplant.h"
#include "core/engine/training/training_run.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

/// A stack of many kinds of layers, trained for some steps.
class Causes : public testing::Test {
 protected:
  static nlohmann::json recipe_json() {
    nlohmann::json recipe = small_recipe_json();
    recipe["model"]["blocks"].push_back(nlohmann::json::parse(
        R"({"mixer": {"kind": "gated_deltanet", "H": 2}, "mlp": {"kind": "swiglu", "d_ff": 24}})"));
    recipe["model"]["blocks"].push_back(nlohmann::json::parse(R"({"mixer": {"kind": "attention", "n_heads": 2}})"));
    return recipe;
  }
  Causes() : backend_(make_cpu_backend(1)), run_(parse_recipe(recipe_json(), "causes"), *backend_) {
    for (int i = 0; i < 12; ++i) run_.train_step();
  }
  Trainer& trainer() { return run_.trainer(); }
  SequencePair pair(const ProbeSetup& setup = {}) {
    return pair_of(setup, probe_example(setup, trainer().task(), trainer().seed(), trainer().model().vocab()),
                   trainer().task());
  }
  PlacePasses passes() { return {trainer().model(), trainer().looking_tape(), trainer().dtype()}; }

  std::unique_ptr<Backend> backend_;
  TrainingRun run_;
};

TEST_F(Causes, TheUsualPairDiffersInTheValueThatIsAskedFor) {
  const SequencePair found = pair();
  std::vector<std::size_t> changed;
  for (std::size_t t = 0; t < found.clean.tokens.size(); ++t) {
    if (found.clean.tokens[t] != found.corrupted.tokens[t]) changed.push_back(t);
  }
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(found.clean.tokens[changed[0]], found.clean_answer);
  EXPECT_EQ(found.corrupted.tokens[changed[0]], found.corrupted_answer);
  EXPECT_EQ(found.clean.tokens[changed[0] - 1], found.clean.tokens[static_cast<std::size_t>(found.asked)]);
  EXPECT_EQ(trainer().task().token_role(found.clean_answer), trainer().task().token_role(found.corrupted_answer));
  ProbeSetup next;
  next.pair.choice = 1;
  EXPECT_NE(pair(next).corrupted.tokens, found.corrupted.tokens);
}

TEST_F(Causes, TheWholeStreamOfOneDepthAnswersAsTheCleanSequence) {
  SequencePair two = pair();
  PlacePasses all = passes();
  all.read(two);
  ASSERT_NE(all.clean_logits(), all.corrupted_logits());
  for (std::size_t place = 0; place < all.places().size(); ++place) {
    if (!all.places()[place].name.ends_with(".stream")) continue;
    std::vector<PlaceCell> cells;
    for (int t = 0; t < static_cast<int>(two.clean.tokens.size()); ++t) cells.push_back({place, t});
    EXPECT_EQ(all.patched_together(two, all.places()[place].branch, cells), all.clean_logits())
        << all.places()[place].name;
  }
}

TEST_F(Causes, WhatIsPutBackChangesNoBit) {
  SequencePair two = pair();
  PlacePasses all = passes();
  all.read(two);
  for (std::size_t place = 0; place < all.places().size(); ++place) {
    const std::vector<PlaceCell> cells = {{place, two.asked, true}, {place, 3, true}, {place, 0, true}};
    const std::size_t branch = all.places()[place].branch;
    const auto logits = all.patched(two, branch, cells), without = all.unpatched(two, branch, cells.size());
    EXPECT_EQ(logits, without) << all.places()[place].name;
    for (const auto& one : logits)
      EXPECT_THAT(one, testing::Pointwise(testing::DoubleNear(1e-4), all.corrupted_logits()));
  }
}

TEST_F(Causes, EveryPlaceOfEveryLayerIsThere) {
  SequencePair two = pair();
  PlacePasses all = passes();
  all.read(two);
  std::vector<std::string> names;
  for (const PlaceValues& place : all.places()) names.push_back(place.name);
  for (const char* layer : {"layers.0.mamba2", "layers.1.ska", "layers.2.gated_deltanet", "layers.3.attention"}) {
    for (const char* place : {".stream", ".queries", ".keys", ".values", ".readout", ".output"})
      EXPECT_THAT(names, testing::Contains(std::string(layer) + place));
  }
  EXPECT_EQ(names.back(), "head.stream");
}

/// A corrupted sequence cannot be a little corrupted, but the values at a place can be moved a little.
TEST_F(Causes, AttributionIsTheSlopeOfTheExactPatch) {
  const nlohmann::json model = recipe_json()["model"];
  Recipe recipe = parse_recipe(recipe_json(), "causes");
  Trainer precise(recipe, *backend_, DType::f64);
  for (int i = 0; i < 12; ++i) precise.step();
  SequencePair two = pair_of({}, precise.task().example(precise.seed(), 0, Split::held_out), precise.task());
  PlacePasses all(precise.model(), precise.looking_tape(), precise.dtype());
  all.read(two);
  const double corrupted = measured(two, all.corrupted_logits());
  int compared = 0;
  for (std::size_t place = 0; place < all.places().size(); ++place) {
    const PlaceValues& of = all.places()[place];
    for (int t = 0; t < static_cast<int>(two.clean.tokens.size()); t += 3) {
      if (of.is_equal(t)) continue;
      const double eps = 1e-5;
      const auto moved = [&](double by) { return measured(two, all.moved(two, {place, t}, by)); };
      const double slope = (moved(eps) - moved(-eps)) / (2 * eps);
      EXPECT_NEAR(slope, of.attributed(t), 1e-6 + 1e-4 * std::abs(slope)) << of.name << " token " << t;
      ++compared;
    }
  }
  EXPECT_TRUE(std::isfinite(corrupted));
  EXPECT_GT(compared, 40);
}

TEST_F(Causes, TheGridIsCompleteAndItsControlIsZero) {
  PatchMeasurement patch(recipe_json()["model"], trainer());
  patch.begin({});
  const auto first = patch.newest();
  EXPECT_FALSE(first->is_complete);
  while (patch.advance()) {
  }
  const auto whole = patch.newest();
  EXPECT_TRUE(whole->is_complete);
  EXPECT_EQ(whole->control, 0.0);
  EXPECT_EQ(whole->exact_cells, static_cast<int>(whole->exact.size()));
  for (const double share : whole->exact) EXPECT_TRUE(std::isfinite(share));
  // Before the changed token both sequences are the same; at it the embedding carries all of the difference.
  const int changed = whole->pair.changed.front();
  EXPECT_EQ(whole->exact[whole->cell(0, 0)], 0.0);
  EXPECT_NEAR(whole->exact[whole->cell(0, changed)], 1.0, 1e-4);
  EXPECT_EQ(whole->rows[0].hook, "blocks.0.hook_resid_pre");
  const auto has_hook = [&](const char* hook) {
    return std::ranges::any_of(whole->rows, [&](const PatchRow& row) { return row.hook == hook; });
  };
  for (const char* hook : {"blocks.1.attn.hook_k", "blocks.1.hook_attn_out", "blocks.1.hook_resid_mid",
                           "blocks.1.hook_mlp_out", "blocks.3.hook_resid_post", "blocks.1.attn.hook_state_C"})
    EXPECT_TRUE(has_hook(hook)) << hook;
}

TEST_F(Causes, AMemoryPutWhereItIsChangesNoBit) {
  SequencePair two = pair();
  const StatePasses passes(trainer().model(), trainer().looking_tape(), trainer().dtype());
  std::vector<StateCell> cells;
  const auto& branches = trainer().model().branches();
  const int token = two.asked - 1;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    for (const StateParts& part : state_parts(*branches[b].layer, *backend_, trainer().dtype())) {
      cells.push_back({b, part.tensors, token, -1, true});
      cells.push_back({b, part.tensors, token, 0, true});
    }
  }
  const auto logits = passes.run(two, cells);
  ASSERT_NE(logits[0], logits[1]);
  EXPECT_EQ(logits, passes.run(two, std::vector<StateCell>(cells.size())));
  for (std::size_t i = 2; i < logits.size(); ++i)
    EXPECT_THAT(logits[i], testing::Pointwise(testing::DoubleNear(1e-4), logits[1])) << i;
}

TEST_F(Causes, MemoriesAreTakenOverByPart) {
  ProbeSetup setup;
  const TransplantView nothing = [&] {
    setup.transplant.part = "none";
    return measure_transplant(trainer(), setup);
  }();
  EXPECT_EQ(nothing.share, 0.0);
  EXPECT_EQ(nothing.transplanted, nothing.corrupted);
  setup.transplant = {.layer = 3, .part = "C"};  // embedding, mamba2, swiglu, ska
  const TransplantView content = measure_transplant(trainer(), setup);
  EXPECT_EQ(content.layer, 3);
  EXPECT_EQ(content.choice.part, "C");
  EXPECT_NE(content.transplanted, content.corrupted);
  ASSERT_EQ(content.parts.size(), 3U);
  EXPECT_EQ(content.parts[2].clean.size(), static_cast<std::size_t>(content.parts[2].rows * content.parts[2].columns));
  EXPECT_NE(content.parts[2].clean, content.parts[2].corrupted);
}

TEST_F(Causes, TheLensEndsWithTheModelsOwnAnswer) {
  const LogitLensView lens = measure_logit_lens(trainer(), {});
  ASSERT_EQ(lens.depths.back(), "out");
  ASSERT_EQ(lens.answer.size(), lens.depths.size() * static_cast<std::size_t>(lens.tokens));
  const std::size_t last = (lens.depths.size() - 1) * static_cast<std::size_t>(lens.tokens);
  EXPECT_DOUBLE_EQ(lens.answer[last + static_cast<std::size_t>(lens.pair.asked)], lens.pair.clean_probability);
}

TEST_F(Causes, NothingSwitchedOffChangesNothingAndABlockCounts) {
  AblationMeasurement ablation(recipe_json()["model"], trainer());
  ablation.begin();
  const double whole = trainer().evaluate(ablation.newest()->examples);
  while (ablation.advance()) {
  }
  const auto found = ablation.newest();
  EXPECT_DOUBLE_EQ(found->accuracy, whole);
  EXPECT_EQ(found->accuracy, found->control_accuracy);
  EXPECT_EQ(static_cast<int>(found->parts.size()), found->planned);
  for (const char* sort : {"block", "head", "mode"})
    EXPECT_TRUE(std::ranges::any_of(found->parts, [&](const AblatedPart& part) { return part.sort == sort; })) << sort;
  EXPECT_TRUE(std::ranges::is_sorted(found->parts, {}, &AblatedPart::accuracy));
  EXPECT_TRUE(std::ranges::any_of(found->parts, [&](const AblatedPart& part) { return part.loss != found->loss; }));
}

TEST_F(Causes, LookingDoesNotChangeTheTraining) {
  const std::string before = trainer().checksum();
  PatchMeasurement patch(recipe_json()["model"], trainer());
  patch.begin({});
  patch.advance();
  measure_transplant(trainer(), {});
  EXPECT_EQ(trainer().checksum(), before);
  TrainingRun undisturbed(parse_recipe(recipe_json(), "causes"), *backend_);
  for (int i = 0; i < 13; ++i) undisturbed.train_step();
  run_.train_step();
  EXPECT_EQ(trainer().checksum(), undisturbed.trainer().checksum());
}

}  // namespace
}  // namespace afterglow
