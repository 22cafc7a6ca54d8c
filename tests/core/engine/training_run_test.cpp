// Runs: the same recipe gives the same bits, forwards, backwards, resumed, with any number of threads.
#include "core/engine/training/training_run.h"

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/random/random.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/engine/train_to.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

std::string checksum_at(const Recipe& recipe, std::int64_t step, int threads) {
  const auto backend = make_cpu_backend(threads);
  TrainingRun run(recipe, *backend);
  train_to(run, step);
  return run.trainer().checksum();
}

TEST(TrainingRun, SameRecipeSameBitsForAnyNumberOfThreads) {
  const std::string one = checksum_at(small_recipe(), 20, 1);
  EXPECT_EQ(checksum_at(small_recipe(), 20, 1), one);
  EXPECT_EQ(checksum_at(small_recipe(), 20, 2), one);
  EXPECT_EQ(checksum_at(small_recipe(), 20, 3), one);
  Recipe other = small_recipe();
  other.seed = 4;
  EXPECT_NE(checksum_at(other, 20, 1), one);
}

TEST(TrainingRun, LossFallsOnTheTask) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 40);
  const RunCurves curves = run.curves();
  ASSERT_EQ(curves.loss.size(), 40u);
  EXPECT_LT(curves.loss[39], 0.95 * curves.loss[0]);
  EXPECT_EQ(curves.held_out_step.size(), 4u);
  EXPECT_EQ(curves.layer_gradient_norms.size(), run.trainer().parts().size());
  double squares = 0;
  for (const NamedCurve& layer : curves.layer_gradient_norms) squares += layer.values[5] * layer.values[5];
  EXPECT_NEAR(std::sqrt(squares), curves.gradient_norm[5], 1e-3 * curves.gradient_norm[5])
      << "the parts are all of the gradient";
}

TEST(TrainingRun, RewindsExactlyOverManyRandomMoves) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(small_recipe(), *backend);
  std::map<std::int64_t, std::string> checksums;
  for (std::int64_t step = 0; step <= 40; ++step) {
    train_to(run, step);
    checksums[step] = run.trainer().checksum();
  }
  Random random(5);
  for (int move = 0; move < 60; ++move) {
    const auto step = static_cast<std::int64_t>(random.uniform_int(41));
    run.go_to(step);
    ASSERT_EQ(run.step(), step);
    ASSERT_EQ(run.trainer().checksum(), checksums[step]) << "step " << step << ", move " << move;
    ASSERT_EQ(run.curves().loss.size(), static_cast<std::size_t>(step));
  }
}

TEST(TrainingRun, ChangesAreReplayedFromTheRecipe) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 8);
  run.set("learning_rate", 0.01);
  run.set("layers.1.ska.K", 1);
  train_to(run, 16);
  run.set("batch", 6);
  train_to(run, 24);
  const std::string there = run.trainer().checksum();
  const Recipe recipe = run.recipe();
  EXPECT_EQ(recipe.commands.size(), 3u);
  EXPECT_EQ(run.curves().marks.size(), 3u);
  EXPECT_EQ(checksum_at(parse_recipe(to_json(recipe).dump(), "again"), 24, 1), there);
  run.go_to(4);
  EXPECT_DOUBLE_EQ(run.trainer().get("learning_rate"), 0.003) << "the change comes later";
  run.go_to(24);
  EXPECT_EQ(run.trainer().checksum(), there);
}

TEST(TrainingRun, ADifferentFutureForgetsTheOldOne) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 10);
  run.set("learning_rate", 0.01);
  train_to(run, 20);
  run.go_to(5);
  run.set("learning_rate", 0.0005);
  train_to(run, 20);
  Recipe fresh = small_recipe();
  fresh.commands.push_back({5, {"set", R"({"key":"learning_rate","to":0.0005})"_json}});
  EXPECT_EQ(run.trainer().checksum(), checksum_at(fresh, 20, 1));
}

TEST(TrainingRun, UndoAndRedo) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 5);
  const std::string before = to_json(run.recipe()).dump();
  EXPECT_FALSE(run.journal().undo());
  run.set("clip", 3);
  EXPECT_TRUE(run.journal().undo());
  EXPECT_DOUBLE_EQ(run.trainer().get("clip"), 1.0);
  EXPECT_EQ(to_json(run.recipe()).dump(), before) << "nothing stays of what was undone at once";
  EXPECT_TRUE(run.journal().redo());
  EXPECT_DOUBLE_EQ(run.trainer().get("clip"), 3.0);
  EXPECT_FALSE(run.journal().redo());
  train_to(run, 6);
  EXPECT_TRUE(run.journal().undo());
  EXPECT_DOUBLE_EQ(run.trainer().get("clip"), 1.0);
  EXPECT_EQ(run.recipe().commands.size(), 2u) << "training has passed the change, so taking it back is a change too";
}

TEST(TrainingRun, ARepeatedDragIsUndoneToWhereItBegan) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 5);
  const std::string before = to_json(run.recipe()).dump();
  run.set("clip", 2, true);
  run.set("clip", 3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(run.journal().undo());
    EXPECT_DOUBLE_EQ(run.trainer().get("clip"), 1.0);
    EXPECT_EQ(to_json(run.recipe()).dump(), before);
    EXPECT_TRUE(run.journal().redo());
    EXPECT_DOUBLE_EQ(run.trainer().get("clip"), 3.0);
  }
}

TEST(TrainingRun, RefusesUnknownAndImpossibleSettings) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  EXPECT_THROW(run.set("no_such", 1), Error);
  EXPECT_THROW(run.set("batch", 2.5), Error);
  EXPECT_THROW(run.set("learning_rate", std::nan("")), Error);
  EXPECT_THROW(run.set("layers.1.ska.K", -1), Error);
  EXPECT_TRUE(run.recipe().commands.empty());
}

TEST(Settings, AreToldWithoutATrainerAsTheTrainerTellsThem) {
  const auto backend = make_cpu_backend(1);
  for (const char* name : {"few-modes", "tiny-echo", "tiny-memory", "forecast"}) {
    const Recipe recipe = parse_recipe(find_preset(name).text, name);
    const std::vector<Setting> told = settings_of(recipe), held = Trainer(recipe, *backend).settings();
    ASSERT_EQ(told.size(), held.size()) << name;
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].key, held[i].key) << name;
      EXPECT_EQ(told[i].value, held[i].value) << name << ", " << told[i].key;
      EXPECT_EQ(told[i].initial, held[i].initial) << name << ", " << told[i].key;
      EXPECT_EQ(told[i].maximum, held[i].maximum) << name << ", " << told[i].key;
    }
  }
}

TEST(Settings, OfAModelThatNoTrainerCouldTakeAreRefusedAsByIt) {
  Recipe uncut = small_recipe();
  uncut.shards = 8;
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { settings_of(uncut); }), testing::HasSubstr("cannot be split"));
  Recipe of_nothing = small_recipe();
  of_nothing.checkpoint = {{"path", "/no/such/folder"}};
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { settings_of(of_nothing); }), testing::HasSubstr("/no/such"));
}

TEST(TrainingRun, StopsAtTheFirstNonFiniteNumberAndNamesIt) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  train_to(run, 3);
  ParameterStore& store = run.trainer().parameters();
  const Parameter* weight = store.find("layers.1.ska.q_proj.weight");
  ASSERT_NE(weight, nullptr);
  std::vector<double> values = store.download(weight->value);
  values[7] = std::numeric_limits<double>::quiet_NaN();
  store.upload(*weight, values);
  EXPECT_FALSE(run.train_step());
  EXPECT_EQ(run.step(), 3);
  EXPECT_THAT(run.failure(), testing::HasSubstr("step 4"));
  EXPECT_THAT(run.failure(), testing::HasSubstr("layers.1.ska.q_proj.weight"));
  EXPECT_THAT(run.failure(), testing::HasSubstr("index 7"));
  run.go_to(2);
  EXPECT_TRUE(run.failure().empty());
  train_to(run, 4);
}

TEST(TrainingRun, AnOverflowInTheForwardPassNamesLayerOperationAndIndex) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  ParameterStore& store = run.trainer().parameters();
  const Parameter* weight = store.find("layers.0.swiglu.w_down.weight");
  ASSERT_NE(weight, nullptr);
  std::vector<double> values(static_cast<std::size_t>(weight->shape.elements()), 3e38);
  store.upload(*weight, values);
  EXPECT_FALSE(run.train_step());
  EXPECT_THAT(run.failure(), testing::HasSubstr("layers.0.swiglu"));
  EXPECT_THAT(run.failure(), testing::HasSubstr("index"));
}

TEST(Snapshot, ResumedHalfWayEqualsTheUnbrokenRun) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_resume_test.safetensors";
  const std::string unbroken = checksum_at(small_recipe(), 40, 2);
  const auto backend = make_cpu_backend(2);
  {
    TrainingRun run(small_recipe(), *backend);
    train_to(run, 20);
    write_snapshot(path, run.snapshot());
  }
  const Snapshot snapshot = read_snapshot(path);
  EXPECT_EQ(snapshot.step, 20);
  TrainingRun resumed(snapshot, *backend);
  EXPECT_EQ(resumed.trainer().checksum(), snapshot.checksum);
  train_to(resumed, 40);
  EXPECT_EQ(resumed.trainer().checksum(), unbroken);
  EXPECT_THROW(resumed.go_to(10), Error) << "a resumed run does not remember what came before";
  std::filesystem::remove(path);
}

/// Changes of the training and of a layer, at the start and later, two of them at one step.
Recipe recipe_with_commands() {
  Recipe recipe = small_recipe();
  const auto add = [&](std::int64_t step, const char* key, double to) {
    recipe.commands.push_back({step, {"set", nlohmann::json{{"key", key}, {"to", to}}}});
  };
  add(0, "clip", 0.25);
  add(7, "learning_rate", 0.02);
  add(7, "layers.1.ska.K", 1);
  add(9, "batch", 6);
  add(12, "learning_rate", 0.001);
  return recipe;
}

Snapshot through_a_file(const Snapshot& snapshot) {
  const auto path = std::filesystem::temp_directory_path() / "afterglow_commands_to_come_test.safetensors";
  write_snapshot(path, snapshot);
  Snapshot read = read_snapshot(path);
  std::filesystem::remove(path);
  return read;
}

TEST(Snapshot, ResumedAnywhereEqualsTheUnbrokenRunOfARecipeWithCommands) {
  const Recipe recipe = recipe_with_commands();
  const std::string unbroken = checksum_at(recipe, 20, 1);
  Recipe without_the_last = recipe;
  without_the_last.commands.pop_back();
  ASSERT_NE(checksum_at(without_the_last, 20, 1), unbroken) << "every command counts";
  const auto backend = make_cpu_backend(1);
  for (const std::int64_t stop : {0, 1, 6, 7, 8, 11, 12, 15}) {
    TrainingRun first(recipe, *backend);
    train_to(first, stop);
    TrainingRun second(through_a_file(first.snapshot()), *backend);
    train_to(second, stop + 3);
    TrainingRun third(through_a_file(second.snapshot()), *backend);
    train_to(second, 20);
    EXPECT_EQ(second.trainer().checksum(), unbroken) << "resumed at " << stop;
    train_to(third, 20);
    EXPECT_EQ(third.trainer().checksum(), unbroken) << "resumed at " << stop << " and again at " << stop + 3;
  }
}

TEST(TrainingRun, TheRecipeOfAnyStepMakesTheWholeRun) {
  const Recipe recipe = recipe_with_commands();
  const std::string unbroken = checksum_at(recipe, 20, 1);
  const auto backend = make_cpu_backend(1);
  for (const std::int64_t stop : {0, 1, 7, 10, 12}) {
    AnalysedRun analysed({recipe, std::nullopt}, *backend);
    train_to(analysed, stop);
    const Recipe carried = parse_recipe(analysed.describe().recipe, "a figure");
    EXPECT_EQ(carried.shown_step, stop);
    EXPECT_EQ(checksum_at(carried, 20, 1), unbroken) << "of step " << stop;
  }
}

TEST(TrainingRun, AStepHasItsCommandsHoweverItIsReached) {
  const Recipe recipe = recipe_with_commands();
  const auto backend = make_cpu_backend(1);
  TrainingRun run(recipe, *backend);
  run.go_to(6);
  EXPECT_DOUBLE_EQ(run.trainer().get("learning_rate"), 0.003);
  run.go_to(7);
  EXPECT_DOUBLE_EQ(run.trainer().get("learning_rate"), 0.02) << "trained";
  EXPECT_DOUBLE_EQ(TrainingRun(run.snapshot(), *backend).trainer().get("learning_rate"), 0.02) << "resumed";
  run.go_to(12);
  run.go_to(7);
  EXPECT_DOUBLE_EQ(run.trainer().get("learning_rate"), 0.02) << "rewound";
}

TEST(TrainingRun, ARewindAloneKeepsTheOldFutureAndAChangeDropsIt) {
  const auto backend = make_cpu_backend(1);
  const Recipe recipe = recipe_with_commands();
  TrainingRun run(recipe, *backend);
  train_to(run, 20);
  const std::string unbroken = run.trainer().checksum();
  run.go_to(5);
  TrainingRun resumed(run.snapshot(), *backend);
  train_to(resumed, 20);
  EXPECT_EQ(resumed.trainer().checksum(), unbroken);
  run.set("learning_rate", 0.0005);
  Recipe branch = recipe;
  branch.commands.resize(1);
  branch.commands.push_back({5, {"set", R"({"key":"learning_rate","to":0.0005})"_json}});
  TrainingRun of_the_branch(run.snapshot(), *backend);
  train_to(of_the_branch, 20);
  EXPECT_EQ(of_the_branch.trainer().checksum(), checksum_at(branch, 20, 1));
  EXPECT_EQ(run.recipe().commands.size(), 2u);
}

TEST(Trainer, EvaluationDoesNotDisturbTraining) {
  const auto backend = make_cpu_backend(1);
  TrainingRun analysed(small_recipe(), *backend);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(analysed.train_step());
    analysed.trainer().evaluate(5);
  }
  EXPECT_EQ(analysed.trainer().checksum(), checksum_at(small_recipe(), 10, 1));
}

TEST(Trainer, EvaluationCountsExactlyTheExamplesAskedFor) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  for (const std::int64_t examples : {1, 7, 171}) {
    const double accuracy = run.trainer().evaluate(examples);
    EXPECT_NEAR(accuracy * static_cast<double>(examples), std::round(accuracy * static_cast<double>(examples)), 1e-9);
  }
}

TEST(AnalysedRun, LookingDoesNotChangeTheRun) {
  const auto backend = make_cpu_backend(2);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(analysed.train_step());
    analysed.advance(Analysis::spectra, Budget::whole);
    analysed.advance(Analysis::trace, Budget::whole);
  }
  EXPECT_EQ(analysed.trainer().checksum(), checksum_at(small_recipe(), 20, 2));
  const Observation seen = analysed.describe();
  ASSERT_TRUE(seen.spectra && seen.trace);
  ASSERT_EQ(seen.spectra->heads.size(), 2u);
  ASSERT_EQ(seen.spectra->mlps.size(), 1u);
  for (const HeadSpectrum& head : seen.spectra->heads) {
    ASSERT_EQ(head.eigenvalues.size(), 6u);
    double energy = 0;
    for (std::size_t i = 0; i < head.energy.size(); ++i) energy += head.energy[i];
    EXPECT_NEAR(energy, 1.0, 1e-9);
    // In whitened coordinates the singular values, and so the eigenvalues, are below 1 (Cauchy-Schwarz).
    for (const auto& eigenvalue : head.eigenvalues) EXPECT_LT(std::abs(eigenvalue), 1.0 + 1e-5);
  }
  ASSERT_EQ(seen.trace->steps.size(), 24u);
  ASSERT_EQ(seen.trace->steps.back().heads.size(), 2u);
  EXPECT_EQ(seen.trace->steps.back().heads[0].G.size(), 36u);
  EXPECT_GT(seen.trace->steps.back().top_probabilities.front(), 0.0);
  // The last token has seen the whole sequence, so both forms hold the same operator.
  const auto& recurrent = seen.trace->steps.back().heads[0].eigenvalues;
  const auto& whole = seen.spectra->heads[0].eigenvalues;
  ASSERT_EQ(recurrent.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(std::abs(recurrent[i]), std::abs(whole[i]), 2e-3);
}

TEST(TrainingRun, ALiveChangeIsOneChange) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(3);
  run.set("learning_rate", 0.002, true);
  run.set("learning_rate", 0.004, true);
  run.go_to(5);
  run.set("learning_rate", 0.005, true);
  run.set("learning_rate", 0.006);
  EXPECT_EQ(run.recipe().commands.size(), 2u) << "one for each step that saw another value";
  ASSERT_EQ(run.curves().marks.size(), 1u);
  EXPECT_EQ(run.curves().marks[0].text, "learning rate 0.003 → 0.006");
  run.go_to(8);
  // The recipe makes the same run again.
  Recipe recipe = run.recipe();
  TrainingRun again(recipe, *backend);
  again.go_to(8);
  EXPECT_EQ(again.trainer().checksum(), run.trainer().checksum());
  ASSERT_TRUE(run.journal().undo());
  EXPECT_EQ(run.trainer().get("learning_rate"), 0.003);
  EXPECT_FALSE(run.journal().undo());
}

TEST(TrainingRun, ALiveChangeOfOneMomentIsTakenOutOfTheRecipe) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(3);
  const std::string checksum = run.trainer().checksum();
  for (const double rate : {0.001, 0.002, 0.004}) run.set("learning_rate", rate, true);
  run.set("learning_rate", 0.004);
  EXPECT_EQ(run.recipe().commands.size(), 1u);
  ASSERT_TRUE(run.journal().undo());
  EXPECT_TRUE(run.recipe().commands.empty());
  EXPECT_EQ(run.trainer().checksum(), checksum);
  run.set("clip", 2, true);
  run.set("batch", 2, true);
  EXPECT_EQ(run.recipe().commands.size(), 2u) << "another key is another change";
}

/// A model that learns within a second to repeat what it saw one token ago, so that right answers are no accident.
Recipe repeating_recipe(const char* mixer) {
  nlohmann::json json = small_recipe_json();
  json["model"]["blocks"] = nlohmann::json::array({{{"mixer", nlohmann::json::parse(mixer)}}});
  json["task"] = {{"kind", "sysprompt"}, {"bindings", 1}, {"length", 8}};
  json["training"].update({{"steps", 600}, {"batch", 16}, {"learning_rate", 0.01}, {"evaluate_every", 0}});
  return parse_recipe(json, "repeating");
}

// Token by token a model answers as over the whole sequence, where its layers read the past alone.
TEST(RecurrentForm, AnswersAsTheWholeOneDoes) {
  for (const char* mixer :
       {R"({"kind": "mamba2", "d_state": 4, "headdim": 8})", R"({"kind": "attention", "n_heads": 2})",
        R"({"kind": "ska", "H": 2, "r": 6, "P": 8, "mode": "recurrent"})"}) {
    const auto backend = make_cpu_backend(1);
    TrainingRun run(repeating_recipe(mixer), *backend);
    run.go_to(600);
    const std::unique_ptr<Task> longer = make_task({{"kind", "sysprompt"}, {"bindings", 2}, {"length", 24}});
    for (const Task* task : {static_cast<const Task*>(nullptr), static_cast<const Task*>(longer.get())})
      EXPECT_EQ(run.trainer().evaluate_recurrent(300, task), run.trainer().evaluate(300, task)) << mixer;
    EXPECT_GT(run.trainer().evaluate_recurrent(300), 0.1) << mixer;
  }
}

// In prefix mode the statistics of the whole sequence hold the question too; token by token they do not.
TEST(RecurrentForm, OfAPrefixReadsOnlyWhatHasCome) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  EXPECT_GE(run.trainer().evaluate_recurrent(16), 0.0);
  nlohmann::json json = small_recipe_json();
  json["model"]["blocks"][1]["mixer"]["mode"] = "recurrent";
  TrainingRun causal(parse_recipe(json, "causal"), *backend);
  EXPECT_EQ(run.trainer().evaluate_recurrent(64), causal.trainer().evaluate(64)) << "the same weights, the same form";
}

TEST(RecurrentForm, BehindAPromptThatIsReadAtOnce) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(40);
  Trainer& trainer = run.trainer();
  EXPECT_EQ(trainer.evaluate_recurrent(64, nullptr, {.decoded = 0}), trainer.evaluate(64)) << "all is prompt";
  for (const std::int64_t all : {-1, 24, 1000})
    EXPECT_EQ(trainer.evaluate_recurrent(64, nullptr, {.decoded = all}), trainer.evaluate_recurrent(64));
  TrainingRun repeating(repeating_recipe(R"({"kind": "ska", "H": 2, "r": 6, "P": 8, "mode": "recurrent"})"), *backend);
  repeating.go_to(600);
  const double whole = repeating.trainer().evaluate(300);
  EXPECT_GT(whole, 0.1);
  EXPECT_EQ(repeating.trainer().evaluate_recurrent(300, nullptr, {.decoded = 2}), whole);
}

}  // namespace
}  // namespace afterglow
