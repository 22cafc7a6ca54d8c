// Identities of interventions: what is put back changes nothing, what is replaced as a whole answers as the other
// sequence does, and first order is the limit of the exact patch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/engine/analyses/patch/patch_measurement.h"
#include "core/engine/analyses/transplant/transplant.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
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
  Causes() : backend_(make_cpu_backend(1)), run_({parse_recipe(recipe_json(), "causes"), std::nullopt}, *backend_) {
    run_.go_to(12);
  }
  Trainer& trainer() { return run_.trainer(); }
  SequencePair pair(const InspectionSetup& setup = {}) {
    return pair_of(setup, inspected_example(setup, trainer()), trainer().task());
  }
  HookPasses passes() { return {trainer().model(), trainer().evaluation_tape(), trainer().dtype()}; }
  static std::vector<double> patched_together(HookPasses& all, const SequencePair& pair, std::size_t branch,
                                              const std::vector<PlaceCell>& cells) {
    return all.run(pair, branch, 1, cells).front();
  }

  std::unique_ptr<Backend> backend_;
  AnalysedRun run_;
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
  InspectionSetup next;
  next.pair.choice = 1;
  EXPECT_NE(pair(next).corrupted.tokens, found.corrupted.tokens);
}

TEST_F(Causes, TheWholeStreamOfOneDepthAnswersAsTheCleanSequence) {
  SequencePair two = pair();
  HookPasses all = passes();
  all.read(two);
  ASSERT_NE(all.clean_logits(), all.corrupted_logits());
  for (std::size_t place = 0; place < all.places().size(); ++place) {
    if (!all.places()[place].name.ends_with(".stream")) continue;
    std::vector<PlaceCell> cells;
    for (int t = 0; t < static_cast<int>(two.clean.tokens.size()); ++t) cells.push_back({place, t});
    EXPECT_EQ(patched_together(all, two, all.places()[place].branch, cells), all.clean_logits())
        << all.places()[place].name;
  }
}

TEST_F(Causes, WhatIsPutBackChangesNoBit) {
  SequencePair two = pair();
  HookPasses all = passes();
  all.read(two);
  for (std::size_t place = 0; place < all.places().size(); ++place) {
    const std::vector<PlaceCell> cells = {
        {place, two.asked, true, -1, 0}, {place, 3, true, -1, 1}, {place, 0, true, -1, 2}};
    const std::size_t branch = all.places()[place].branch;
    const auto logits = all.run(two, branch, cells.size(), cells), without = all.run(two, branch, cells.size(), {});
    EXPECT_EQ(logits, without) << all.places()[place].name;
    for (const auto& one : logits)
      EXPECT_THAT(one, testing::Pointwise(testing::DoubleNear(1e-4), all.corrupted_logits()));
  }
}

TEST_F(Causes, EveryPlaceOfEveryLayerIsThere) {
  SequencePair two = pair();
  HookPasses all = passes();
  all.read(two);
  std::vector<std::string> names;
  for (const HookValues& place : all.places()) names.push_back(place.name);
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
  HookPasses all(precise.model(), precise.evaluation_tape(), precise.dtype());
  all.read(two);
  const double corrupted = measured(two, all.corrupted_logits());
  int compared = 0;
  for (std::size_t place = 0; place < all.places().size(); ++place) {
    const HookValues& of = all.places()[place];
    for (int t = 0; t < static_cast<int>(two.clean.tokens.size()); t += 3) {
      if (of.is_equal(t)) continue;
      const double eps = 1e-5;
      const auto moved = [&](double by) {
        return measured(two, patched_together(all, two, of.branch, {{place, t, false, -1, 0, by}}));
      };
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
  const std::size_t parts = whole->parts.size();
  for (std::size_t i = 0; i < parts * parts; ++i) EXPECT_EQ(std::isfinite(whole->paths[i]), i / parts < i % parts) << i;
  EXPECT_EQ(whole->rows[0].hook, "blocks.0.hook_resid_pre");
  const auto has_hook = [&](const char* hook) {
    return std::ranges::any_of(whole->rows, [&](const PatchRow& row) { return row.hook == hook; });
  };
  for (const char* hook : {"blocks.1.attn.hook_k", "blocks.1.hook_attn_out", "blocks.1.hook_resid_mid",
                           "blocks.1.hook_mlp_out", "blocks.3.hook_resid_post", "blocks.1.attn.hook_state_C"})
    EXPECT_TRUE(has_hook(hook)) << hook;
}

/// From the last layer there is one path, and from the embedding to the head nothing but the sum.
TEST_F(Causes, APathFromTheLastLayerIsThatLayersOutput) {
  SequencePair two = pair();
  HookPasses all = passes();
  all.read(two);
  Model& model = trainer().model();
  const PathPasses paths(model, trainer().evaluation_tape(), trainer().dtype(), all);
  ASSERT_TRUE(paths.has_paths());
  const std::size_t last = model.branches().size(), head = last + 1;
  const auto to_head = paths.run(two, std::vector<std::size_t>{0, last}, head, 1.0);
  const std::size_t place = static_cast<std::size_t>(
      std::ranges::find(all.places(), model.branches().back().scope + ".output", &HookValues::name) -
      all.places().begin());
  std::vector<PlaceCell> cells;
  for (int t = 0; t < static_cast<int>(two.clean.tokens.size()); ++t) cells.push_back({place, t});
  EXPECT_THAT(to_head[1], testing::Pointwise(testing::DoubleNear(1e-4), patched_together(all, two, last - 1, cells)));
  EXPECT_THAT(to_head[0], testing::Pointwise(testing::DoubleNear(1e-4), all.corrupted_logits()))
      << "the asked token is the same in both sequences, and its embedding says nothing of the other ones";
  // Where nothing is sent nothing changes, to the bit, whichever part reads it.
  for (std::size_t receiver = 1; receiver <= head; ++receiver) {
    const auto none = paths.run(two, std::vector<std::size_t>{0}, receiver, 0.0);
    EXPECT_THAT(none[0], testing::Pointwise(testing::DoubleNear(1e-4), all.corrupted_logits())) << receiver;
    EXPECT_EQ(none, paths.run(two, std::vector<std::size_t>{0}, receiver, 0.0));
  }
}

TEST_F(Causes, AMemoryPutWhereItIsChangesNoBit) {
  SequencePair two = pair();
  const StatePasses passes(trainer().model(), trainer().evaluation_tape(), trainer().dtype());
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
  InspectionSetup setup;
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

/// The slope of the exact share, as two runs with a little of the difference have it.
TEST_F(Causes, AttributionOfAMemoryIsTheSlopeOfTheExactPatch) {
  Trainer precise(parse_recipe(recipe_json(), "causes"), *backend_, DType::f64);
  for (int i = 0; i < 12; ++i) precise.step();
  PatchMeasurement patch(recipe_json()["model"], precise);
  patch.begin({});
  while (patch.advance()) {
  }
  const PatchView& view = *patch.newest();
  SequencePair two = pair_of({}, precise.task().example(precise.seed(), 0, Split::held_out), precise.task());
  HookPasses(precise.model(), precise.evaluation_tape(), precise.dtype()).read(two);
  const StatePasses states(precise.model(), precise.evaluation_tape(), precise.dtype());
  int compared = 0;
  for (std::size_t row = 0; row < view.rows.size(); ++row) {
    if (view.rows[row].group != PatchGroup::memory) continue;
    const auto branch =
        static_cast<std::size_t>(precise.parts()[static_cast<std::size_t>(view.rows[row].layer)].branch);
    const auto parts = state_parts(precise, view.rows[row].layer);
    const auto part = std::ranges::find(parts, view.rows[row].place, &StateParts::name);
    for (int t = view.pair.changed.front(); t < two.asked; t += 4) {
      constexpr double eps = 1e-4;
      const std::vector<StateCell> cells = {{branch, part->tensors, t, -1, false, eps},
                                            {branch, part->tensors, t, -1, false, -eps}};
      const auto logits = states.run(two, cells);
      const double reach = measured(two, logits[0]) - measured(two, logits[1]);
      const double slope = (measured(two, logits[2]) - measured(two, logits[3])) / (2 * eps) / reach;
      EXPECT_NEAR(slope, view.attributed[view.cell(row, t)], 1e-3 + 0.05 * std::abs(slope)) << view.rows[row].label;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
}

TEST_F(Causes, HeadsShareWhatThePlaceHas) {
  SequencePair two = pair();
  HookPasses all = passes();
  all.read(two);
  const auto place = std::ranges::find(all.places(), "layers.1.ska.values", &HookValues::name);
  ASSERT_NE(place, all.places().end());
  ASSERT_GT(place->heads, 1U);
  const auto at = static_cast<std::size_t>(place - all.places().begin());
  for (int t = 0; t < static_cast<int>(two.clean.tokens.size()); ++t) {
    double sum = 0;
    for (int head = 0; head < static_cast<int>(place->heads); ++head) sum += place->attributed(t, head);
    EXPECT_NEAR(sum, place->attributed(t), 1e-9 + 1e-9 * std::abs(sum));
  }
  // All heads one by one are the whole place, to the bit.
  const int token = two.asked;
  std::vector<PlaceCell> heads;
  for (int head = 0; head < static_cast<int>(place->heads); ++head) heads.push_back({at, token, false, head});
  const std::vector<PlaceCell> whole = {{at, token}};
  EXPECT_EQ(patched_together(all, two, place->branch, heads), patched_together(all, two, place->branch, whole));
}

TEST_F(Causes, TheGridHasARowForEachHead) {
  PatchMeasurement patch(recipe_json()["model"], trainer());
  InspectionSetup setup;
  setup.pair.heads = true;
  patch.begin(setup);
  while (patch.advance()) {
  }
  const PatchView& view = *patch.newest();
  EXPECT_EQ(view.control, 0.0);
  std::vector<std::string> labels;
  for (const PatchRow& row : view.rows) labels.push_back(row.label);
  for (const char* label :
       {"1 ska keys head 1", "1 ska readout head 0", "1 ska G head 1", "0 mamba2 state head 0", "0 mamba2 convolution",
        "1 ska residual", "0 mamba2 values head 1", "0 mamba2 steps head 0", "0 mamba2 gate head 1", "0 mamba2 keys"})
    EXPECT_THAT(labels, testing::Contains(label));
  for (const double share : view.exact) EXPECT_TRUE(std::isfinite(share));
  for (const double share : view.attributed) EXPECT_TRUE(std::isfinite(share));
}

TEST_F(Causes, TheLensEndsWithTheModelsOwnAnswer) {
  const LogitLensView lens = *run_.observe(set_of(Analysis::logit_lens)).logit_lens;
  ASSERT_EQ(lens.depths.back(), "out");
  ASSERT_EQ(lens.answer.size(), lens.depths.size() * static_cast<std::size_t>(lens.tokens));
  const std::size_t last = (lens.depths.size() - 1) * static_cast<std::size_t>(lens.tokens);
  EXPECT_DOUBLE_EQ(lens.answer[last + static_cast<std::size_t>(lens.pair.asked)], lens.pair.clean_probability);
}

TEST_F(Causes, NothingSwitchedOffChangesNothingAndABlockCounts) {
  const auto found = run_.observe(set_of(Analysis::ablation)).ablation;
  const double whole = trainer().evaluate(found->examples);
  EXPECT_DOUBLE_EQ(found->accuracy, whole);
  EXPECT_EQ(found->accuracy, found->control_accuracy);
  EXPECT_EQ(found->parts.size(), found->planned.size());
  for (const char* sort : {"block", "head", "mode"})
    EXPECT_TRUE(std::ranges::any_of(found->parts, [&](const AblatedPart& part) { return part.sort == sort; })) << sort;
  EXPECT_TRUE(std::ranges::is_sorted(found->parts, {}, &AblatedPart::accuracy));
  EXPECT_TRUE(std::ranges::any_of(found->parts, [&](const AblatedPart& part) { return part.loss != found->loss; }));
}

TEST(CausesMemory, AnAblationOfALargeVocabularyHoldsFewLogitsAtOnce) {
  const auto backend = make_cpu_backend(1);
  const Recipe recipe = parse_recipe(R"({"name": "wide", "seed": 7, "model": {"d_model": 8, "vocab": 9000, "blocks": [
    {"mixer": {"kind": "attention", "n_heads": 1}}]}, "task": {"kind": "ids", "vocab": 9000, "length": 64},
    "training": {"steps": 4, "batch": 2, "warmup": 1, "evaluate_every": 0}})"_json,
                                     "wide");
  AnalysedRun run({recipe, std::nullopt}, *backend);
  const auto found = run.observe(set_of(Analysis::ablation)).ablation;
  ASSERT_EQ(found->examples, 64);
  EXPECT_DOUBLE_EQ(found->accuracy, run.trainer().evaluate(64));
  EXPECT_LT(backend->held_bytes(), std::size_t{400} << 20) << "all logits are 140 MiB, and are held several times";
}

TEST_F(Causes, LookingDoesNotChangeTheTraining) {
  const std::string before = trainer().checksum();
  for (int piece = 0; piece < 2; ++piece) run_.advance(Analysis::patch);
  run_.observe(Analysis::transplant | Analysis::logit_lens);
  EXPECT_EQ(trainer().checksum(), before);
  TrainingRun undisturbed(parse_recipe(recipe_json(), "causes"), *backend_);
  for (int i = 0; i < 13; ++i) undisturbed.train_step();
  run_.train_step();
  EXPECT_EQ(trainer().checksum(), undisturbed.trainer().checksum());
}

/// Window, script and recipe say it by the same commands, and take it back.
TEST(CausesCommands, PairAndTransplantAreUndoneAndCarriedByTheRecipe) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  const auto pair = [](const Observation& o) { return o.transplant->pair.corrupted_label; };
  const AnalysisSet asked = set_of(Analysis::transplant);
  const std::string first = pair(run.observe(asked));
  run.change_inspection({"pair", R"({"next": true})"_json});
  const Observation second = run.observe(asked);
  EXPECT_NE(pair(second), first);
  run.change_inspection({"transplant", R"({"layer": 3, "part": "G", "token": 7})"_json});
  const Observation changed = run.observe(asked);
  EXPECT_EQ(changed.transplant->choice.part, "G");
  EXPECT_EQ(changed.transplant->token, 7);
  AnalysedRun again({parse_recipe(nlohmann::json::parse(changed.recipe), "again"), std::nullopt}, *backend);
  EXPECT_EQ(again.observe(asked).transplant->transplanted, changed.transplant->transplanted);
  ASSERT_TRUE(run.undo());
  EXPECT_EQ(run.observe(asked).transplant->choice.part, "all");
  ASSERT_TRUE(run.undo());
  EXPECT_EQ(pair(run.observe(asked)), first);
  ASSERT_TRUE(run.redo());
  EXPECT_EQ(pair(run.observe(asked)), pair(second));
}

TEST(CausesCommands, WordsThatTheTaskDoesNotKnowAreShownAsNumbers) {
  nlohmann::json recipe = small_recipe_json();
  recipe["model"]["vocab"] = 5000;  // the task has 128
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  AnalysedRun analysed({parse_recipe(recipe, "test"), std::nullopt}, *backend);
  const Observation seen = analysed.observe(set_of(Analysis::transplant) | Analysis::logit_lens);
  std::vector<std::string> labels = seen.transplant->labels;
  labels.insert(labels.end(), seen.logit_lens->best_labels.begin(), seen.logit_lens->best_labels.end());
  EXPECT_THAT(labels, testing::Not(testing::Contains("?!")));
  EXPECT_THAT(labels, testing::Contains(testing::StartsWith("#")));
}

TEST(CausesCommands, APairComesFromAFileAndStaysInTheRecipe) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  const AnalysisSet asked = set_of(Analysis::transplant);
  const Task& task = run.trainer().task();
  const Example example = task.example(11, 3, Split::train);
  const auto path = std::filesystem::temp_directory_path() / "afterglow_pair_test.txt";
  std::vector<int> tokens(example.tokens.begin(), example.tokens.end());
  const int last = last_bound_token(tokens, task);
  const auto write = [&](const std::vector<std::vector<int>>& lines) {
    std::ofstream file(path);
    for (const std::vector<int>& line : lines) {
      for (const int token : line) file << token << ' ';
      file << '\n';
    }
    file.close();
    return nlohmann::json{{"path", path.string()}};
  };
  std::vector<int> corrupted = tokens;
  const auto changed =
      static_cast<std::size_t>(std::ranges::find(tokens, tokens[static_cast<std::size_t>(last)]) - tokens.begin() + 1);
  for (int token = 0; token < task.vocab(); ++token) {
    if (token != tokens[changed] && task.token_role(token) == TokenRole::value) corrupted[changed] = token;
  }
  run.change_inspection({"pair", write({tokens, corrupted})});
  const Observation now = run.observe(asked);
  const PairView& pair = now.transplant->pair;
  EXPECT_THAT(pair.changed, testing::ElementsAre(static_cast<int>(changed)));
  EXPECT_EQ(pair.asked, last);
  EXPECT_EQ(pair.clean_answer, tokens[changed]);
  EXPECT_EQ(pair.corrupted_answer, corrupted[changed]);
  std::filesystem::remove(path);
  AnalysedRun again({parse_recipe(nlohmann::json::parse(now.recipe), "again"), std::nullopt}, *backend);
  EXPECT_EQ(again.observe(asked).transplant->transplanted, now.transplant->transplanted) << "without the file";

  const auto refused = [&](const nlohmann::json& value) {
    try {
      run.change_inspection({"pair", value});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refused({{"path", "nowhere.txt"}}), testing::HasSubstr("nowhere.txt"));
  EXPECT_THAT(refused(write({tokens})), testing::HasSubstr("1 sequence(s)"));
  EXPECT_THAT(refused(write({tokens, tokens})), testing::HasSubstr("are the same"));
  EXPECT_THAT(refused(write({{1, 2}, {1, 3}})), testing::HasSubstr("of 2 tokens"));
  corrupted[0] = 100000;
  EXPECT_THAT(refused(write({tokens, corrupted})), testing::HasSubstr("100000"));
}

TEST(CausesCommands, ATokenOfTheCorruptedSequenceIsChosenByItsLabel) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  const Observation before = run.observe(set_of(Analysis::transplant));
  const int at = before.transplant->pair.changed.front();
  const TokenView& clean = before.transplant->pair.clean[static_cast<std::size_t>(at)];
  run.change_inspection({"pair", {{"at", at}, {"label", clean.label}}});
  const Observation same = run.observe(set_of(Analysis::transplant));
  EXPECT_TRUE(same.transplant->pair.changed.empty());
  EXPECT_TRUE(std::isnan(same.transplant->share)) << "equal sequences have nothing to restore";
  EXPECT_THROW(run.change_inspection({"pair", R"({"at": 1000, "token": 1})"_json}), Error);
  EXPECT_THROW(run.change_inspection({"pair", R"({"tokens": [1]})"_json}), Error);
  EXPECT_THROW(run.change_inspection({"pair", R"({"mesure": "loss"})"_json}), Error);
}

}  // namespace
}  // namespace afterglow
