// What the page wants to know with which the window opens.
#include <gtest/gtest.h>

#include "app/cli/bench/bench_runs.h"
#include "views/page/page.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

TEST(FirstPage, AsksForWhatTheBenchmarkOfItMeasures) {
  ASSERT_EQ(workspaces().front().id, PageState().workspace);
  AnalysisSet analyses = Analysis::trace | Analysis::inspected;  // tokens and interventions
  for (const WorkspaceRow& row : workspaces().front().rows) {
    if (row.is_strip) continue;  // links
    for (const WorkspacePanel& panel : row.panels) analyses |= analyses_for(panel.id);
  }
  EXPECT_EQ(analyses, first_page_analyses);
}

ModelSummary model_of(const std::string& name, std::initializer_list<const char*> kinds) {
  ModelSummary model;
  model.name = name;
  for (const char* kind : kinds) model.layers.push_back({kind, "", kind, "", 0, 0, 0});
  return model;
}

TEST(FirstPage, IsTheOneThatIsAboutTheModelsLayers) {
  const auto opened = [](std::initializer_list<const char*> kinds) {
    PageState page;
    follow_model(page, ModelSummary());
    EXPECT_EQ(page.workspace, "koopman") << "nothing has come yet";
    follow_model(page, model_of("one", kinds));
    return page.workspace;
  };
  EXPECT_EQ(opened({"embedding", "mamba2", "ska", "head"}), "koopman");
  EXPECT_EQ(opened({"embedding", "gka", "swiglu", "head"}), "solvers");
  EXPECT_EQ(opened({"embedding", "sessa", "head"}), "influence");
  EXPECT_EQ(opened({"embedding", "attention", "spectral_memory", "head"}), "memory");
  EXPECT_EQ(opened({"embedding", "mamba2", "head"}), "training");
}

TEST(FirstPage, ChangesOnlyWhenItHasNothingToShowOfAnotherModel) {
  PageState page;
  follow_model(page, model_of("tiny", {"ska"}));
  page.workspace = "training";
  follow_model(page, model_of("sessa-mqar", {"sessa"}));
  EXPECT_EQ(page.workspace, "training") << "it shows any model";
  page.workspace = "theory";
  follow_model(page, model_of("sessa-mqar", {"sessa"}));
  EXPECT_EQ(page.workspace, "theory") << "the model is the same: it was chosen for it";
  follow_model(page, model_of("gka", {"gka"}));
  EXPECT_EQ(page.workspace, "solvers");
  follow_model(page, model_of("tiny", {"ska"}));
  EXPECT_EQ(page.workspace, "solvers") << "it has something to show of this one too";
}

TEST(FirstPage, OfAModelThatIsNotTrainedHereShowsItsLayers) {
  for (const std::initializer_list<const char*> kinds :
       {std::initializer_list<const char*>{"embedding", "mamba2", "head"},
        {"embedding", "delta_net", "swiglu", "head"},
        {"embedding", "linear_attention", "head"},
        {"embedding", "attention", "swiglu", "head"}}) {
    const ModelSummary model = model_of("a checkpoint", kinds);
    PageState page;
    follow_model(page, model, false);
    EXPECT_NE(page.workspace, "training") << *(kinds.begin() + 1);
    std::size_t about_its_layers = 0;
    for (const WorkspaceRow& row : fitting_rows(present_workspace(page), model)) {
      for (const WorkspacePanel& panel : row.panels)
        about_its_layers += find_plot_kind(panel.id)->needs != LayerTraits();
    }
    EXPECT_GE(about_its_layers, 2U) << *(kinds.begin() + 1) << " on " << page.workspace;
    page.workspace = "training";
    page.opened.model = "another";
    follow_model(page, model, false);
    EXPECT_NE(page.workspace, "training") << "it has nothing to show of it";
  }
}

// The other panels of a large model take minutes or days; the map of half-lives takes one sequence.
TEST(FirstPage, OfAModelWhoseHeadsFadeHasTheMapOfTheirHalfLives) {
  PageState page;
  follow_model(page, model_of("a hybrid", {"embedding", "gated_deltanet", "swiglu", "attention", "swiglu", "head"}),
               false);
  EXPECT_EQ(page.workspace, home_of("half_lives").id);
}

TEST(FirstPage, ThatWasChosenBeforeTheModelCameStays) {
  PageState page;
  page.opened.workspace_is_chosen = true;
  follow_model(page, model_of("gka", {"gka"}));
  EXPECT_EQ(page.workspace, "koopman");
  follow_model(page, model_of("sessa-mqar", {"sessa"}));
  EXPECT_EQ(page.workspace, "influence");
}

}  // namespace
}  // namespace afterglow
