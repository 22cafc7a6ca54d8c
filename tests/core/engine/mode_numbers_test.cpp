// One number for each mode: kept over training, rewind, snapshot and change of the view, and the same in spectrum,
// trace, ablation and interventions.
#include "core/engine/observation/mode_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using nlohmann::json;

constexpr int numbered_part = 3;

Recipe recipe_of_steps(std::int64_t steps) {
  json recipe = small_recipe_json();
  recipe["training"]["steps"] = steps;
  return parse_recipe(recipe, "test");
}

struct NumberedRun {
  explicit NumberedRun(const SavedRun& saved) : backend(make_cpu_backend(2)), analysed(saved, *backend) {}
  explicit NumberedRun(std::int64_t steps) : NumberedRun(SavedRun{recipe_of_steps(steps), std::nullopt}) {}
  /// Of each head the numbers with their eigenvalues, in the order of the numbers.
  std::vector<std::pair<int, std::complex<double>>> modes() {
    const Observation seen = analysed.observe(set_of(Analysis::spectra));
    std::vector<std::pair<int, std::complex<double>>> all;
    for (const HeadSpectrum& head : seen.spectra->heads) {
      const auto begin = static_cast<std::ptrdiff_t>(all.size());
      for (std::size_t i = 0; i < head.eigenvalues.size(); ++i) all.emplace_back(head.identity[i], head.eigenvalues[i]);
      std::ranges::sort(all.begin() + begin, all.end(), {}, [](const auto& mode) { return mode.first; });
    }
    return all;
  }
  std::unique_ptr<Backend> backend;
  AnalysedRun analysed;
};

/// A snapshot whose modes are numbered against their order by modulus: the smallest is mode 0.
Snapshot numbered_backwards(Snapshot snapshot) {
  for (HostTensor& tensor : snapshot.file.tensors) {
    if (tensor.name != "modes.numbers") continue;
    std::vector<double> rows = to_doubles(tensor);
    for (std::size_t row = 0; row < rows.size(); row += 5) rows[row + 2] = 5 - rows[row + 2];
    tensor = make_tensor(tensor.name, tensor.shape, std::span<const double>(rows));
  }
  snapshot.file.metadata.erase("checksum.tensors");
  return snapshot;
}

SavedRun trained_and_numbered_backwards() {
  NumberedRun trained(40);
  trained.analysed.go_to(20);
  const Snapshot snapshot = numbered_backwards(trained.analysed.snapshot());
  return {snapshot.recipe, snapshot};
}

TEST(ModeNumbers, DoNotDependOnWhatIsLookedAt) {
  NumberedRun straight(100), wandering(100);
  straight.analysed.go_to(70);
  wandering.analysed.choose_inspected({{"index", 3}});
  for (const std::int64_t step : {1, 9, 23, 50, 4, 37, 70}) {
    wandering.analysed.go_to(step);
    wandering.modes();
  }
  wandering.analysed.choose_inspected({{"index", 0}});
  EXPECT_EQ(wandering.modes(), straight.modes());
}

TEST(ModeNumbers, OfARunWhoseSettingsChangedAtItsStartAreThoseOfItsRecipe) {
  NumberedRun live(100);
  live.modes();
  live.analysed.set("layers.0.mamba2.dt_floor", 0.4);
  live.analysed.set("layers.1.ska.ridge", 0.5);
  live.analysed.go_to(20);
  NumberedRun again(SavedRun{live.analysed.recipe(), std::nullopt});
  again.analysed.go_to(20);
  EXPECT_EQ(again.modes(), live.modes());
}

TEST(ModeNumbers, AreTheSameAfterSavingAndGoingOn) {
  NumberedRun straight(60), saved(60);
  straight.analysed.go_to(50);
  saved.analysed.go_to(37);
  const Snapshot snapshot = saved.analysed.snapshot();
  NumberedRun reopened(SavedRun{snapshot.recipe, snapshot});
  EXPECT_EQ(reopened.modes(), saved.modes());
  reopened.analysed.go_to(50);
  EXPECT_EQ(reopened.modes(), straight.modes());
}

TEST(ModeNumbers, AreAllDifferentAndSurviveAnUndo) {
  NumberedRun run(100);
  run.analysed.go_to(20);
  const auto before = run.modes();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].first, static_cast<int>(i % 6));
  run.analysed.set("layers.1.ska.ridge", 0.5);
  run.analysed.forget_results();
  run.modes();
  run.analysed.undo();
  EXPECT_EQ(run.modes(), before);
}

TEST(ModeNumbers, ASnapshotWithoutThemIsNumberedByModulusAndSaysSo) {
  NumberedRun trained(40);
  trained.analysed.go_to(20);
  Snapshot snapshot = trained.analysed.snapshot();
  snapshot.file.metadata.erase("modes.step");
  snapshot.file.metadata.erase("checksum.tensors");
  NumberedRun old(SavedRun{snapshot.recipe, snapshot});
  const Observation seen = old.analysed.observe(set_of(Analysis::spectra));
  EXPECT_EQ(seen.spectra->numbered_at, 20);
  EXPECT_EQ(seen.spectra->heads[0].identity, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(trained.analysed.observe(set_of(Analysis::spectra)).spectra->numbered_at, 0);
}

TEST(ModeNumbers, DamagedOnesAreRefused) {
  NumberedRun trained(40);
  trained.analysed.go_to(20);
  for (const double bad : {-1.0, 0.5, 1e9}) {
    Snapshot snapshot = trained.analysed.snapshot();
    for (HostTensor& tensor : snapshot.file.tensors) {
      if (tensor.name != "modes.numbers") continue;
      std::vector<double> rows = to_doubles(tensor);
      rows[2] = bad;
      tensor = make_tensor(tensor.name, tensor.shape, std::span<const double>(rows));
    }
    EXPECT_THROW(numbered_spectra(snapshot), Error) << bad;
  }
}

TEST(ModeNumbers, TraceAblationProbeAndNamesMeanTheSameEigenvalue) {
  NumberedRun run(trained_and_numbered_backwards());
  const Observation plain = run.analysed.observe(Analysis::spectra | Analysis::trace | Analysis::ablation);
  const HeadSpectrum& head = *find_head(plain.spectra.get(), numbered_part, 1);
  EXPECT_GT(head.identity.front(), head.identity.back()) << "the largest has the largest number";
  const HeadStep& last = plain.trace->steps.back().heads[1];
  for (const int number : {0, 2, 5}) {
    const auto place = static_cast<std::size_t>(std::ranges::find(head.identity, number) - head.identity.begin());
    const auto at_last = static_cast<std::size_t>(std::ranges::find(last.identity, number) - last.identity.begin());
    EXPECT_NEAR(std::abs(head.eigenvalues[place] - last.eigenvalues[at_last]), 0, 1e-3) << "spectrum over the sequence";

    const std::string prefix = "head.1_ska.1.", member = ".modulus";
    const std::vector<NamedNumber> names = numbers_of(plain);
    const auto value = [&](const std::string& name) {
      return std::ranges::find(names, name, &NamedNumber::name)->value.number;
    };
    EXPECT_EQ(value(prefix + "mode_number." + std::to_string(number) + member), std::abs(head.eigenvalues[place]));
    EXPECT_EQ(value(prefix + "mode." + std::to_string(place) + member), std::abs(head.eigenvalues[place])) << "by size";

    const json named = {{"layer", numbered_part}, {"head", 1}, {"number", number}};
    run.analysed.change_inspection({"mode_off", named});
    const Observation seen = run.analysed.observe(set_of(Analysis::inspected));
    const InspectedHead& inspected = seen.inspected->heads[1];
    EXPECT_TRUE(inspected.is_off[place]);
    EXPECT_EQ(inspected.spectrum.identity, head.identity);
    const auto part =
        std::ranges::find(plain.ablation->parts, "1 ska head 1 mode " + std::to_string(number), &AblatedPart::name);
    ASSERT_NE(part, plain.ablation->parts.end());
    EXPECT_DOUBLE_EQ(part->accuracy, seen.inspected->accuracy_after) << number;
    run.analysed.change_inspection({"clear_overrides"});

    // By its place it is the same one in the inspected sequence's own sequence.
    const json placed = {{"layer", numbered_part}, {"head", 1}, {"mode", place}};
    run.analysed.change_inspection({"mode_off", placed});
    EXPECT_EQ(run.analysed.observe(set_of(Analysis::inspected)).inspected->heads[1].is_off, inspected.is_off);
    run.analysed.change_inspection({"clear_overrides"});
  }
}

TEST(ModeNumbers, SurgeryNamesTheModeThatWasDraggedByItsPlace) {
  NumberedRun run(trained_and_numbered_backwards());
  const Observation seen = run.analysed.observe(set_of(Analysis::spectra));
  const HeadSpectrum& head = *find_head(seen.spectra.get(), numbered_part, 0);
  const std::size_t place = 0;
  const std::complex<double> to = 0.9 * head.eigenvalues[place];
  const json drag = {
      {"layer", numbered_part}, {"head", 0}, {"number", head.identity[place]}, {"re", to.real()}, {"im", to.imag()}};
  run.analysed.change_inspection({"drag_mode", drag});
  run.analysed.operate(json::object());
  const json value = run.analysed.recipe().commands.back().command.value;
  EXPECT_EQ(value["overrides"][0]["value"]["mode"], place);
  EXPECT_FALSE(value["overrides"][0]["value"].contains("number"));
  NumberedRun again(SavedRun{run.analysed.recipe(), std::nullopt});
  again.analysed.go_to(run.analysed.step());
  EXPECT_EQ(again.analysed.trainer().checksum(), run.analysed.trainer().checksum());
}

TEST(ModeNumbers, InterventionsTakeWhatTheMouseSendsAsTheyTakeText) {
  const std::vector<InterventionTarget> layers{{3, "1 ska", "layers.1.ska", 2, 6, false},
                                               {4, "1 mlp", "layers.1.mlp", 1, 8, true}};
  const auto after = [&](const std::vector<Command>& commands) {
    Interventions changed;
    for (const Command& command : commands) apply_intervention(changed, command, layers);
    return changed;
  };
  const ModeName mode{3, 1, true, 2}, pair{4, 0, false, 7};
  EXPECT_EQ(after({drag_mode(mode, {0.5, -0.25}), mode_off(pair, true)}),
            after({{"drag_mode", R"({"layer": 3, "head": 1, "number": 2, "re": 0.5, "im": -0.25})"_json},
                   {"mode_off", R"({"layer": 4, "mode": 7})"_json}}));
  EXPECT_EQ(after({mode_off(mode, true), mode_off(mode, false)}), Interventions());
  for (const ModeName& absent :
       {ModeName{2, 0, true, 0}, ModeName{3, 2, true, 0}, ModeName{3, 0, true, 6}, ModeName{4, 0, false, 8}})
    EXPECT_THROW(after({mode_off(absent, true)}), Error);
  EXPECT_TRUE(is_live(drag_mode(mode, {}, true)) && is_live({"set", R"({"key": "clip", "to": 1, "live": true})"_json}));
  EXPECT_FALSE(is_live(SetNumber{"clip", 1}) || is_live({"undo"}));
}

TEST(ModeNumbers, InterventionsReadNumbersAndPlaces) {
  const std::vector<InterventionTarget> layers{{3, "1 ska", "layers.1.ska", 2, 6, false}};
  Interventions both;
  apply_intervention(both, {"mode_off", R"({"head": 0, "number": 2})"_json}, layers);
  apply_intervention(both, {"drag_mode", R"({"head": 1, "mode": 2, "re": 0.5})"_json}, layers);
  Interventions again;
  std::string texts;
  for (const json& command : to_json(both)) {
    apply_intervention(again, parse_command(command), layers);
    texts += command.dump();
  }
  EXPECT_EQ(again, both);
  EXPECT_THAT(texts, testing::AllOf(testing::HasSubstr("\"number\":2"), testing::HasSubstr("\"mode\":2")));
  EXPECT_THROW(apply_intervention(both, {"mode_off", R"({"number": 2, "mode": 2})"_json}, layers), Error);
  apply_intervention(both, {"mode_off", R"({"off": false})"_json}, layers);
  apply_intervention(both, {"mode_off", R"({"head": 0, "mode": 1})"_json}, layers);
  apply_intervention(both, {"mode_off", R"({"head": 0, "off": false})"_json}, layers);
  EXPECT_FALSE(both.layers[3].heads.contains(0)) << "all on again, however they were named";
}

}  // namespace
}  // namespace afterglow
