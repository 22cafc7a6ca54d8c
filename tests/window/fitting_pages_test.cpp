// Whatever model is opened: every panel that a page shows of it has figures, every page that has none says what it
// needs, and the preset that it offers has it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/engine/session/analysed_run.h"
#include "views/page/page.h"

namespace afterglow {

/// In listings of tests.
void PrintTo(const Preset& preset, std::ostream* out);
void PrintTo(const Preset& preset, std::ostream* out) { *out << preset.name; }

namespace {

using nlohmann::json;

/// A preset's model and task on short sequences and few examples; what there is to see does not depend on them.
Recipe shortened(const Preset& preset) {
  json recipe = json::parse(preset.text);
  json& task = recipe["task"];
  if (task.contains("length") && task["length"].is_number() && task["kind"] == "stories") task["length"] = 48;
  if (task["kind"] == "mqar") task["length"] = 48, task["bindings"] = 2;
  recipe["training"]["batch"] = 2;
  recipe["training"]["evaluate_examples"] = 2;
  recipe["training"]["steps"] = 6;  // all of them are recorded
  // Of the largest model one block of each kind, and so many tokens that some follow its chunks.
  if (recipe["model"].value("vocab", 0) > 1024) {
    recipe["model"]["vocab"] = task["vocab"] = 512;
    recipe["model"]["blocks"] = json::array({recipe["model"]["blocks"][0], recipe["model"]["blocks"][1]});
    for (json& block : recipe["model"]["blocks"]) block.erase("repeat");
    task["length"] = 160;
  }
  if (recipe["model"].contains("blocks")) {
    recipe["commands"] = json::parse(R"([{"step": 0, "name": "influence",
      "value": {"tokens": 24, "directions": 2, "race": {"tokens": 24, "directions": 2, "kinds": ["attention"]}}}])");
  }
  return parse_recipe(recipe, preset.name);
}

/// The kinds of a model's parts: presets that share them show the same.
void collect_kinds(const json& part, std::set<std::string>& kinds) {
  if (part.is_object() && part.contains("kind")) kinds.insert(part["kind"].get<std::string>());
  if (part.is_object() && part.contains("memory")) kinds.insert("memory");
  if (part.is_structured()) {
    for (const json& inner : part) collect_kinds(inner, kinds);
  }
}

std::vector<Preset> one_preset_of_each_sort() {
  std::vector<Preset> chosen;
  std::set<std::set<std::string>> seen;
  for (const Preset& preset : presets()) {
    std::set<std::string> kinds;
    collect_kinds(json::parse(preset.text).at("model"), kinds);
    if (seen.insert(kinds).second) chosen.push_back(preset);
  }
  return chosen;
}

class FittingPages : public testing::TestWithParam<Preset> {};

TEST_P(FittingPages, HaveNoEmptyPanel) {
  const auto backend = make_backend("cpu", 1);
  AnalysedRun analysed({shortened(GetParam()), std::nullopt}, *backend);
  analysed.go_to(4);
  analysed.advance(Analysis::phase_map);  // its axes are there before its first run
  // The first pieces of what goes through many interventions.
  for (const Analysis analysis : {Analysis::patch, Analysis::ablation, Analysis::readout, Analysis::accuracy}) {
    for (int piece = 0; piece < 2; ++piece) analysed.advance(analysis);
  }
  analysed.ask({"microscope", R"({"steps": 1})"_json});
  analysed.ask({"bisect", R"({"condition": "loss < 100", "until": 2})"_json});
  analysed.ask({"over_training", R"({"number": "loss"})"_json});
  const Observation seen = analysed.observe(all_analyses | Analysis::logit_lens | Analysis::transplant |
                                            Analysis::forces | Analysis::microscope | Analysis::bisect |
                                            Analysis::over_training | Analysis::retrieval | Analysis::costs);
  CurveStore curves;
  int pages = 0;
  for (const Workspace& workspace : workspaces()) {
    if (!why_not(workspace, seen.model).empty()) continue;
    ++pages;
    for (const WorkspaceRow& row : fitting_rows(workspace, seen.model)) {
      for (const WorkspacePanel& panel : row.panels) {
        const PlotKind& kind = *find_plot_kind(panel.id);
        EXPECT_FALSE(kind.prepare(seen, {}, curves).empty())
            << panel.id << " on " << workspace.id << ": " << kind.subtitle(seen, {});
      }
    }
  }
  EXPECT_GE(pages, 2);
}

INSTANTIATE_TEST_SUITE_P(Presets, FittingPages, testing::ValuesIn(one_preset_of_each_sort()), [](const auto& preset) {
  std::string name = preset.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(MissingPanels, NameAPresetThatHasThem) {
  for (const PlotKind& kind : plot_kinds()) {
    if (kind.needs == LayerTraits()) continue;
    const Preset* preset = first_preset_that_shows(kind.needs);
    ASSERT_NE(preset, nullptr) << kind.id;
    EXPECT_TRUE(shows(*preset, kind.needs)) << kind.id << ", " << preset->name;
    EXPECT_TRUE(why_not(kind).starts_with("Needs a")) << why_not(kind);
  }
  EXPECT_EQ(first_preset_that_shows(LayerTrait::series)->name, "forecast");
  EXPECT_EQ(first_preset_that_shows(LayerTrait::training_memory)->name, "tiny-memory");
}

ModelSummary model_of(std::initializer_list<const char*> kinds, bool is_forecaster = false) {
  ModelSummary model;
  model.name = "one";
  model.is_forecaster = is_forecaster;
  for (const char* kind : kinds) model.layers.push_back({kind, "", kind, "", 0, 0, 0});
  return model;
}

std::set<std::string_view> pages_without(const ModelSummary& model) {
  std::set<std::string_view> pages;
  for (const Workspace& workspace : workspaces()) {
    if (why_not(workspace, model).empty()) continue;
    pages.insert(workspace.id);
    EXPECT_NE(preset_for(workspace), nullptr) << workspace.id;
  }
  return pages;
}

TEST(MissingPages, AreThoseThatSayNothingOfTheModel) {
  using Pages = std::set<std::string_view>;
  EXPECT_EQ(pages_without(model_of({"embedding", "mamba2", "ska", "head"})), Pages{"retrieval"});
  EXPECT_EQ(pages_without(ModelSummary()), Pages{}) << "before a model has come nothing is known to be missing";
  EXPECT_EQ(pages_without(model_of({"embedding", "attention", "spectral_memory"}, true)),
            (Pages{"koopman", "probe", "causes", "theory", "stepper", "solvers", "influence", "race", "retrieval"}));
  EXPECT_EQ(pages_without(model_of({"embedding", "sessa", "head"})), Pages{"solvers"});
  EXPECT_EQ(pages_without(model_of({"embedding", "gated_deltanet", "head"})), Pages{"retrieval"});
}

TEST(MissingPanels, GiveTheirPlaceToWhatFits) {
  const Workspace& koopman = workspaces().front();
  std::vector<std::string_view> shown;
  for (const WorkspaceRow& row : fitting_rows(koopman, model_of({"embedding", "gla", "head"}))) {
    for (const WorkspacePanel& panel : row.panels) shown.push_back(panel.id);
  }
  EXPECT_EQ(shown, (std::vector<std::string_view>{"state_spectrum", "training", "gate", "stepper", "state_growth",
                                                  "token_weights"}));
  EXPECT_EQ(missing_panels(koopman, model_of({"embedding", "sessa", "head"})),
            (std::vector<std::string_view>{"spectrum", "mode_needs", "power_filter", "conditioning"}));
  EXPECT_TRUE(missing_panels(koopman, model_of({"ska"})).empty());
}

}  // namespace
}  // namespace afterglow
