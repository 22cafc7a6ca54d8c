// Every command of the window has a handler, and what each handler changes.
#include "app/window/commands/window_commands.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "app/window/film/film_files.h"
#include "app/window/keys.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/figure/files/page.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/studies/claims_view.h"
#include "tests/support/sample_observations.h"
#include "views/page/page.h"

namespace afterglow {
namespace {

struct WindowCommandsTest : testing::Test {
  PageState page;
  FigureCache figures;
  CommandQueue engine;
  WindowActions actions;
  std::shared_ptr<const Observation> observation = std::make_shared<const Observation>(samples::mid_training());

  void run(const std::string& name, const std::string& value = "{}") {
    CommandContext context{page, figures, observation, engine, actions, 1.0};
    run_window_command(context, {name, nlohmann::json::parse(value)});
  }
  std::string followed() {
    std::string text;
    for (const Command& command : engine.take()) text += command.name + " " + command.value.dump() + "\n";
    return text;
  }
};

TEST_F(WindowCommandsTest, EveryWindowCommandOfTheTableHasAHandler) {
  const auto handled = handled_window_commands();
  for (const CommandSpec& spec : command_table()) {
    const bool has_handler = std::find(handled.begin(), handled.end(), spec.name) != handled.end();
    EXPECT_EQ(has_handler, spec.target == CommandTarget::window) << spec.name;
  }
  EXPECT_EQ(handled.size(),
            static_cast<std::size_t>(std::count_if(command_table().begin(), command_table().end(),
                                                   [](const auto& s) { return s.target == CommandTarget::window; })));
}

TEST_F(WindowCommandsTest, EveryExampleOfTheTableRunsWithoutComplaint) {
  for (const CommandSpec& spec : command_table()) {
    if (spec.target != CommandTarget::window || spec.name == "export") continue;
    run(std::string(spec.name), std::string(spec.example));
    for (const Note& note : page.notes) EXPECT_EQ(note.severity, Severity::info) << spec.name << ": " << note.text;
    page.notes.clear();
  }
}

TEST_F(WindowCommandsTest, FilmsArePicturesOnlyWhereAskedFor) {
  std::vector<FilmForm> saved;
  actions.save_film = [&](FilmForm form) { saved.push_back(form); };
  run("film");
  run("film", R"({"as": "pictures"})");
  run("film", R"({"as": "webm"})");
  EXPECT_EQ(saved, (std::vector{FilmForm::film, FilmForm::pictures}));
  ASSERT_EQ(page.notes.size(), 1u);
  EXPECT_EQ(page.notes[0].severity, Severity::warning);
}

TEST_F(WindowCommandsTest, SelectKeepsWhatIsNotNamed) {
  run("select", R"({"layer": 3, "head": 2})");
  run("select", R"({"mode": 5, "scaled": true})");
  EXPECT_EQ(page.selection.layer, 3);
  EXPECT_EQ(page.selection.head, 2);
  EXPECT_EQ(page.selection.mode, 5);
  EXPECT_TRUE(page.selection.scaled);
}

TEST_F(WindowCommandsTest, NonsenseLeavesANoteAndChangesNothing) {
  const Selection before = page.selection;
  for (const char* value : {R"({"layer": "first"})", R"({"layer": 1e300})", R"({"smoothing": 2})"}) {
    run("select", value);
    EXPECT_EQ(page.notes.size(), 1u) << value;
    page.notes.clear();
  }
  EXPECT_EQ(page.selection.layer, before.layer);
  run("maximise", R"({"panel": "nothing"})");
  EXPECT_TRUE(page.maximised.empty());
  run("workspace", R"({"name": "nowhere"})");
  EXPECT_EQ(page.workspace, "koopman");
}

TEST_F(WindowCommandsTest, ArrowsMoveTokensInTheStepperAndStepsElsewhere) {
  run("time_left");
  EXPECT_EQ(followed(), "rewind {\"by\":1}\n");
  run("time_right", R"({"count": 10})");
  EXPECT_EQ(followed(), "step {\"count\":10}\n");
  run("time_home");
  EXPECT_EQ(followed(), "rewind {\"step\":0}\n");
  page.pointer.panel = "stepper";
  run("time_left", R"({"count": 3})");
  EXPECT_EQ(page.selection.token, 60);
  run("time_right", R"({"count": 100})");
  EXPECT_EQ(page.selection.token, 63);
  run("time_home");
  EXPECT_EQ(page.selection.token, 0);
  run("time_end");
  EXPECT_EQ(page.selection.token, -1);
  EXPECT_EQ(followed(), "");
}

TEST_F(WindowCommandsTest, KeysOfTimeGoThroughThePicturesInsideOneStep) {
  page.maximised = "inside";
  const int token = selected_token(*observation, page.selection);
  const auto count = static_cast<int>(observation->trace->steps.back().pictures.front().size());
  ASSERT_GT(count, 2);
  const auto shown = [&] { return page.shown_figure.contains("inside") ? page.shown_figure["inside"] : -1; };
  run("time_right");
  EXPECT_EQ(shown(), 0) << "one at a time, from the first";
  run("time_right");
  EXPECT_EQ(shown(), 1);
  run("time_end");
  EXPECT_EQ(shown(), count - 1);
  run("time_right");
  EXPECT_EQ(shown(), count - 1) << "no token follows the last one";
  EXPECT_EQ(selected_token(*observation, page.selection), token);
  run("time_home");
  run("time_left");
  EXPECT_EQ(shown(), count - 1) << "before the first picture comes the last one of the token before";
  EXPECT_EQ(selected_token(*observation, page.selection), token - 1);
  run("time_right");
  EXPECT_EQ(shown(), 0);
  EXPECT_EQ(selected_token(*observation, page.selection), token);
  EXPECT_EQ(followed(), "") << "training rests";
  run("restore");
  EXPECT_EQ(shown(), -1) << "Esc: all pictures, then all panels";
  EXPECT_EQ(page.maximised, "inside");
  run("restore");
  EXPECT_TRUE(page.maximised.empty());
  page.time.focus = TimeFocus::steps;
  run("time_left");
  EXPECT_EQ(followed(), "rewind {\"by\":1}\n") << "elsewhere the keys do what they always do";
}

TEST_F(WindowCommandsTest, ScriptsMayNamePlotsByFormerIds) {
  run("maximise", R"({"panel": "memory"})");
  EXPECT_EQ(page.maximised, "state_size");
  run("show", R"({"panel": "memory", "figure": 0})");
  EXPECT_TRUE(page.shown_figure.contains("state_size"));
  run("axis_scale", R"({"plot": "memory", "axis": "y", "scale": "linear"})");
  EXPECT_EQ(page.plots["state_size"].y_scale, Scale::linear);
}

TEST_F(WindowCommandsTest, TheRaceHasAPageOfItsOwn) {
  page.maximised = "training";
  run("race");
  EXPECT_EQ(page.workspace, "race");
  EXPECT_TRUE(page.maximised.empty());
}

TEST_F(WindowCommandsTest, ArrowsOverTheStepperMoveTheToken) {
  page.maximised = "stepper";
  run("time_left");
  EXPECT_EQ(page.selection.token, 62);
  page.maximised = "training";
  page.time.focus = TimeFocus::steps;
  run("time_left");
  EXPECT_EQ(page.selection.token, 62) << "elsewhere they move the step";
}

TEST_F(WindowCommandsTest, LayoutsAreKeptTakenAndForgottenByName) {
  page.splits["koopman/0"] = {0.6, 0.2, 0.2};
  page.shown_figure["training"] = 1;
  run("layout", R"({"save": "mine"})");
  page.notes.clear();
  const Layout kept = page.layouts.at("mine");
  run("reset_layout");
  EXPECT_TRUE(page.splits.empty() && page.shown_figure.empty());
  EXPECT_EQ(page.workspace, "koopman") << "the page stays, its panels are as at first";
  run("workspace", R"({"name": "solvers"})");
  run("layout", R"({"choose": "mine"})");
  EXPECT_EQ(page.workspace, "koopman");
  EXPECT_EQ(page.splits, kept.splits);
  EXPECT_EQ(page.shown_figure, kept.shown_figure);
  run("layout", R"({"forget": "mine"})");
  EXPECT_TRUE(page.layouts.empty());
  EXPECT_TRUE(page.notes.empty());
  for (const char* wrong : {R"({"choose": "mine"})", R"({"save": ""})", R"({"save": 3})", "{}",
                            R"({"save": "a", "forget": "b"})", R"({"keep": "a"})"}) {
    run("layout", wrong);
    EXPECT_EQ(page.notes.size(), 1u) << wrong;
    page.notes.clear();
  }
  EXPECT_TRUE(page.layouts.empty());
}

TEST_F(WindowCommandsTest, PagesGoRound) {
  run("page");
  EXPECT_EQ(page.workspace, workspaces()[1].id);
  run("page", R"({"by": -2})");
  EXPECT_EQ(page.workspace, workspaces().back().id);
  run("page", R"({"by": 1, "of": "panels"})");
  EXPECT_EQ(page.workspace, "koopman");
}

TEST_F(WindowCommandsTest, ControlsHideAndALockKeepsThemHidden) {
  run("controls");
  EXPECT_TRUE(page.presentation.hides_controls);
  run("restore");
  EXPECT_FALSE(page.presentation.hides_controls) << "Escape brings them back";
  page.presentation.is_locked = page.presentation.hides_controls = true;
  run("controls");
  page.notes.clear();
  run("restore");
  EXPECT_TRUE(page.presentation.hides_controls);
}

TEST_F(WindowCommandsTest, TheScreenIsBlankOnlyWhilePresenting) {
  run("blank");
  EXPECT_FALSE(page.presentation.is_blank);
  run("present");
  run("blank");
  EXPECT_TRUE(page.presentation.is_blank);
  run("restore");
  EXPECT_FALSE(page.presentation.is_blank);
  EXPECT_TRUE(page.presentation.is_on) << "one thing at a time";
  run("blank");
  run("present");
  EXPECT_FALSE(page.presentation.is_blank);
}

TEST_F(WindowCommandsTest, TokensStayWithinTheTrace) {
  run("token", R"({"to": 5})");
  EXPECT_EQ(page.selection.token, 5);
  run("token", R"({"by": -100})");
  EXPECT_EQ(page.selection.token, 0);
  run("token", R"({"to": 100000})");
  EXPECT_EQ(page.selection.token, 63);
  observation = std::make_shared<const Observation>(samples::nothing());
  run("token", R"({"to": 5})");
  EXPECT_EQ(page.selection.token, 63) << "without a trace there is nowhere to go";
}

TEST_F(WindowCommandsTest, RestoreTakesOneThingAtATime) {
  run("maximise", R"({"panel": "spectrum"})");
  run("select", R"({"mode": 2})");
  run("help");
  run("restore");
  EXPECT_FALSE(page.help_is_open);
  EXPECT_EQ(page.maximised, "spectrum");
  run("restore");
  EXPECT_TRUE(page.maximised.empty());
  EXPECT_EQ(page.selection.mode, 2);
  run("restore");
  EXPECT_EQ(page.selection.mode, -1);
}

TEST_F(WindowCommandsTest, ScalesAndCursorsReachTheNamedPlot) {
  run("axis_scale", R"({"plot": "training_loss", "axis": "y", "scale": "symlog"})");
  EXPECT_EQ(page.plots["training_loss"].y_scale, Scale::symlog);
  run("axis_scale", R"({"plot": "training_loss", "axis": "y"})");
  EXPECT_EQ(page.plots["training_loss"].y_scale, Scale::linear) << "symlog is followed by linear";
  run("axis_scale", R"({"panel": "training", "axis": "x", "scale": "log"})");
  EXPECT_EQ(page.plots["training_accuracy"].x_scale, Scale::log);
  run("cursor", R"({"plot": "training_loss", "at": 10})");
  run("cursor", R"({"plot": "training_loss", "at": 200})");
  EXPECT_EQ(page.plots["training_loss"].mark_a, 10);
  EXPECT_EQ(page.plots["training_loss"].mark_b, 200);
  run("cursor", R"({"plot": "training_loss", "at": 30, "which": "a"})");
  EXPECT_EQ(page.plots["training_loss"].mark_a, 30);
  EXPECT_EQ(page.plots["training_loss"].mark_b, 200) << "the other one stays";
  run("cursor", R"({"plot": "training_loss", "at": 40, "which": "c"})");
  EXPECT_EQ(page.plots["training_loss"].mark_a, 30) << "there is no cursor c";
  EXPECT_FALSE(page.notes.empty());
  run("cursor", R"({"plot": "training_loss", "at": 0})");
  EXPECT_FALSE(page.plots["training_loss"].mark_a);
}

TEST_F(WindowCommandsTest, AxesOfANamedPlotAreSetBeforeItIsMeasured) {
  run("axis_scale", R"({"plot": "not_yet_measured", "axis": "x", "scale": "linear"})");
  EXPECT_EQ(page.plots["not_yet_measured"].x_scale, Scale::linear);
  EXPECT_TRUE(page.notes.empty());
}

TEST_F(WindowCommandsTest, ZoomStaysReadable) {
  for (int i = 0; i < 50; ++i) run("zoom", R"({"factor": 1.1})");
  EXPECT_DOUBLE_EQ(page.zoom, 3.0);
  run("zoom", R"({"to": 1.0})");
  EXPECT_DOUBLE_EQ(page.zoom, 1.0);
  for (int i = 0; i < 50; ++i) run("zoom", R"({"factor": 0.9})");
  EXPECT_DOUBLE_EQ(page.zoom, 0.5);
}

TEST_F(WindowCommandsTest, ActionsOfTheWindowSystemAreAskedFor) {
  std::string picture;
  int closed = 0, full = 0;
  actions.save_picture = [&](const std::string& path) { picture = path; };
  actions.close = [&] { ++closed; };
  actions.toggle_full_screen = [&] { ++full; };
  run("screenshot", R"({"path": "a.png"})");
  run("quit");
  run("fullscreen");
  EXPECT_EQ(picture, "a.png");
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(full, 1);
}

TEST_F(WindowCommandsTest, AnotherHeadIsAnotherTheory) {
  run("select", R"({"head": 2})");
  EXPECT_EQ(followed(), "theory {\"head\":2,\"layer\":-1}\n");
  run("select", R"({"head": 2, "mode": 1})");
  EXPECT_EQ(followed(), "");
}

TEST_F(WindowCommandsTest, TheSetUpLineIsShortAndNamesWhatDiffersAlone) {
  std::string text;
  actions.copy_text = [&](const std::string& copied) { text = copied; };
  nlohmann::json recipe = to_json(parse_recipe(find_preset("small-prompt").text, "preset"));
  apply_assignment(recipe, "steps=900");
  apply_assignment(recipe, "layers.1.ska.K=4");
  recipe = to_json(parse_recipe(recipe, "changed"));
  Observation o = samples::mid_training();
  o.recipe = recipe.dump();
  observation = std::make_shared<const Observation>(o);
  run("copy", R"({"what": "setup"})");
  EXPECT_NE(text.find("--set 'training.steps=900'"), std::string::npos) << text;
  EXPECT_EQ(text.find("learning_rate"), std::string::npos) << text;
  EXPECT_LT(text.size(), 200u) << text;
  nlohmann::json again = to_json(parse_recipe(find_preset("small-prompt").text, "preset"));
  for (std::size_t at = text.find("--set '"); at != std::string::npos; at = text.find("--set '", at + 1))
    apply_assignment(again, text.substr(at + 7, text.find('\'', at + 7) - at - 7));
  EXPECT_EQ(to_json(parse_recipe(again, "again")), recipe) << "the line makes the same recipe";
}

TEST_F(WindowCommandsTest, CopyWritesWhatAShellUnderstands) {
  std::string text;
  actions.copy_text = [&](const std::string& copied) { text = copied; };
  Observation o = samples::mid_training();
  o.recipe = R"({"name": "tiny", "seed": 9, "probe": {"index": 3}, "commands": []})";
  observation = std::make_shared<const Observation>(o);
  run("copy", R"({"what": "setup"})");
  EXPECT_EQ(text, "afterglow train --preset tiny --seed 9 --set 'probe={\"index\":3}' --until 428");
  page.selection.head = 2;
  run("copy", R"({"panel": "spectrum"})");
  EXPECT_EQ(text,
            "afterglow plot spectrum --preset tiny --seed 9 --set 'probe={\"index\":3}' --steps 428 --head 2 --svg "
            "spectrum.svg");
  run("copy", R"({"what": "formula", "card": "half_life"})");
  EXPECT_NE(text.find("\\lambda"), std::string::npos);
  const PaperClaim& claim = paper_claims().front();
  run("copy", nlohmann::json{{"what", "claim"}, {"claim", claim.claim}}.dump());
  EXPECT_EQ(text, claim.command);
  page.notes.clear();
  run("copy", R"({"what": "claim", "claim": "The moon is a layer"})");
  EXPECT_EQ(page.notes.back().severity, Severity::warning);
  page.notes.clear();
  run("copy", R"({"panel": "nothing"})");
  EXPECT_EQ(page.notes.back().severity, Severity::warning);
}

TEST_F(WindowCommandsTest, CopyGivesThePictureOfAPlotOrSaysWhyNot) {
  if (!has_page_writer()) GTEST_SKIP() << "no pictures without cairo";
  std::string png, text;
  actions.copy_picture = [&](const std::string& copied) { png = copied; };
  actions.copy_text = [&](const std::string& copied) { text = copied; };
  page.pointer.plot = "training_loss";
  run("copy", R"({"what": "picture"})");
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  EXPECT_NE(page.notes.back().text.find("Loss"), std::string::npos);
  png.clear();
  page.pointer.plot.clear();
  page.pointer.panel = "spectrum";
  run("copy", R"({"what": "picture"})");
  EXPECT_EQ(png, "") << "no plot is under the mouse";
  EXPECT_TRUE(text.starts_with("afterglow plot spectrum"));
  run("copy", R"({"what": "picture", "plot": "nothing"})");
  EXPECT_EQ(page.notes.back().severity, Severity::warning);
  actions.copy_picture = [](const std::string&) { throw Error(ExitCode::failure, "install a helper"); };
  run("copy", R"({"what": "picture", "plot": "training_loss"})");
  EXPECT_NE(page.notes.back().text.find("install a helper"), std::string::npos);
}

TEST_F(WindowCommandsTest, APlotIsCopiedInWords) {
  std::string text;
  actions.copy_text = [&](const std::string& copied) { text = copied; };
  run("copy", R"({"what": "words", "plot": "training_loss"})");
  EXPECT_TRUE(text.starts_with("Training, Loss, tiny, step 428")) << text;
  EXPECT_NE(text.find(" falls from "), std::string::npos) << text;
}

TEST_F(WindowCommandsTest, ColoursAreLockedAtARangeOrAtWhatIsShown) {
  ShownPlot shown;
  shown.panel = shown.plot = "token_weights";
  shown.colours = Range{-0.2, 0.2};
  page.drawn.plots = {shown};
  const auto& locked = page.plots["token_weights"].colours;
  run("colours", R"({"plot": "token_weights", "on": true})");
  EXPECT_EQ(locked, (Range{-0.2, 0.2}));
  run("colours", R"({"plot": "token_weights", "low": 0, "high": 0.5})");
  EXPECT_EQ(locked, (Range{0, 0.5}));
  EXPECT_EQ(view_of(page.plots["token_weights"], 12).colours, locked);
  run("colours", R"({"plot": "token_weights", "low": 1, "high": 0.5})");
  EXPECT_EQ(page.notes.back().severity, Severity::warning);
  EXPECT_EQ(locked, (Range{0, 0.5}));
  run("colours", R"({"plot": "token_weights", "on": false})");
  EXPECT_FALSE(locked);
}

TEST_F(WindowCommandsTest, F1PinsTheCardOfWhatIsUnderThePointer) {
  page.card.asked = "mode";
  run("help");
  EXPECT_EQ(page.card.pinned, "mode");
  EXPECT_FALSE(page.help_is_open);
}

TEST_F(WindowCommandsTest, AWindowOfStepsReplacesTheExponentialAverage) {
  run("select", R"({"window": 50})");
  EXPECT_EQ(page.selection.window, 50);
  run("select", R"({"smoothing": 0.9})");
  EXPECT_EQ(page.selection.window, 0);
}

TEST_F(WindowCommandsTest, TheShuttleDoublesAndStops) {
  run("shuttle", R"({"direction": -1})");
  run("shuttle", R"({"direction": -1})");
  EXPECT_EQ(followed(), "rewind {\"by\":1}\nrewind {\"by\":2}\n");
  run("shuttle", R"({"direction": 0})");
  EXPECT_EQ(followed(), "pause {}\n");
  run("shuttle", R"({"direction": 1})");
  EXPECT_EQ(followed(), "run {}\n");
  page.time.focus = TimeFocus::tokens;
  page.selection.token = 10;
  page.time.shuttle = 0;
  for (int i = 0; i < 3; ++i) run("shuttle", R"({"direction": 1})");
  EXPECT_EQ(page.selection.token, 17);
}

TEST_F(WindowCommandsTest, PresentingGoesThereAndBack) {
  page.theme = "dark";
  run("present");
  EXPECT_TRUE(page.presentation.is_on);
  EXPECT_EQ(page.theme, "projector");
  run("restore");
  EXPECT_FALSE(page.presentation.is_on);
  EXPECT_EQ(page.theme, "dark");
}

TEST_F(WindowCommandsTest, TabGoesRoundThePanels) {
  run("focus");
  const std::string first = page.focus.panel;
  EXPECT_FALSE(first.empty());
  run("focus", R"({"by": -1})");
  EXPECT_NE(page.focus.panel, first);
  run("focus");
  EXPECT_EQ(page.focus.panel, first);
}

TEST_F(WindowCommandsTest, EscapeSendsTheHintsAway) {
  run("hints");
  EXPECT_TRUE(page.hints.is_drag_due && page.hints.is_intro_due);
  run("restore");
  EXPECT_FALSE(page.hints.is_drag_due);
  run("hints", R"({"intro": false})");
  EXPECT_FALSE(page.hints.is_intro_due);
}

TEST_F(WindowCommandsTest, HelpPinsTheCardUnderTheMouse) {
  page.card.card = "half_life";
  run("help");
  EXPECT_EQ(page.card.pinned, "half_life");
  EXPECT_FALSE(page.help_is_open);
  run("help");
  EXPECT_TRUE(page.card.pinned.empty());
  page.card.card.clear();
  run("help");
  EXPECT_TRUE(page.help_is_open);
}

TEST_F(WindowCommandsTest, HomeAndEndGoAsFarAsTheRunReaches) {
  Observation o = samples::rewound();
  o.oldest_step = 20;
  observation = std::make_shared<const Observation>(o);
  run("time_home");
  EXPECT_EQ(followed(), "rewind {\"step\":20}\n");
  run("time_end");
  EXPECT_EQ(followed(), "run_to {\"step\":428}\n");
  observation = std::make_shared<const Observation>(samples::mid_training());
  run("time_end");
  EXPECT_EQ(followed(), "") << "nothing lies ahead";
}

TEST_F(WindowCommandsTest, LPlaysFasterWithEachPress) {
  for (int i = 0; i < 2; ++i) run("shuttle", R"({"direction": 1})");
  EXPECT_EQ(followed(), "run {}\nspeed {\"by\":1}\nrun {}\n");
}

struct ExportedView : WindowCommandsTest {
  ExportedView() {
    std::filesystem::create_directories(folder);
    Observation o = samples::rewound();
    o.recipe = to_json(parse_recipe(find_preset("tiny").text, "preset")).dump();
    observation = std::make_shared<const Observation>(o);
  }
  ~ExportedView() override { std::filesystem::remove_all(folder); }
  std::filesystem::path exported(const std::string& plot, const std::string& format) {
    const std::filesystem::path path = folder / (plot + "." + format);
    const char* what = find_plot_kind(plot) ? "panel" : "plot";
    run("export", nlohmann::json{{what, plot}, {"path", path.string()}, {"formats", {format}}}.dump());
    EXPECT_TRUE(std::filesystem::exists(path)) << (page.notes.empty() ? "" : page.notes.back().text);
    return path;
  }
  std::filesystem::path folder = std::filesystem::temp_directory_path() / "afterglow_exported_view_test";
};

TEST_F(ExportedView, ThePageGoesIntoAFolderOfItsOwnAndSaysHowManyFiles) {
  actions.export_folder = folder.string();
  run("export", R"({"all": true})");
  EXPECT_EQ(page.notes.back().text, "This page shows no plot.");
  for (const char* plot : {"training_loss", "training_accuracy"}) {
    page.drawn.plots.push_back({});
    page.drawn.plots.back().plot = plot;
  }
  for (const char* number : {"", "_2"}) {
    run("export", R"({"all": true, "formats": ["svg", "csv"]})");
    const std::filesystem::path made = folder / (page.workspace + "_seed" + std::to_string(observation->seed) +
                                                 "_step" + std::to_string(observation->step) + number);
    for (const char* file : {"training_loss.svg", "training_loss.csv", "training_accuracy.svg"})
      EXPECT_TRUE(std::filesystem::exists(made / file)) << made / file;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(made), std::filesystem::directory_iterator()), 4);
    EXPECT_EQ(page.notes.back().text, "2 figures, 4 files in " + made.string());
  }
}

TEST_F(ExportedView, TheKeysForAnExportSayTheNumberFirstAndWriteWhenTheyArePressedAgain) {
  actions.export_folder = folder.string();
  page.drawn.plots.emplace_back().plot = "training_loss";
  const std::string asks = command_for(*parse_chord("Ctrl+Shift+E"))->value.dump();
  run("export", asks);
  EXPECT_THAT(page.notes.back().text, testing::HasSubstr("again writes 1 plot of this page as 4 files into /"));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  run("export", asks);
  EXPECT_THAT(page.notes.back().text, testing::StartsWith("1 figures, 4 files in "));
  run("export", asks);
  EXPECT_THAT(page.notes.back().text, testing::HasSubstr("again")) << "the next time it asks once more";
}

TEST_F(WindowCommandsTest, ASecondRunIsOpenedByItsNameAndClosedWithoutOne) {
  std::vector<std::string> opened;
  actions.compare_with = [&](const std::string& word) { opened.push_back(word); };
  run("against", R"({"open": "runs/a@500"})");
  run("against");
  EXPECT_EQ(opened, (std::vector<std::string>{"runs/a@500", ""}));
}

TEST_F(WindowCommandsTest, GoingOnOpensTheRunThatWasKeptLast) {
  run("go_on");
  EXPECT_EQ(page.notes.back().text, "No run has been saved yet.");
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "afterglow_go_on_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  actions.kept_folder = folder.string();
  const std::filesystem::path kept = folder / "tiny_seed7_step60_ab.safetensors";
  write_file_atomically(kept, "");
  run("go_on");
  const nlohmann::json fields{{"path", kept.string()}};
  EXPECT_EQ(followed(), "load " + fields.dump() + "\n");
  run("presets");
  EXPECT_TRUE(std::ranges::any_of(page.picker.entries, [](const PickerEntry& entry) {
    return entry.section == PickerSection::recent && entry.name == "Go on: tiny, step 60";
  }));
  std::filesystem::remove_all(folder);
}

TEST_F(ExportedView, OpeningAFigureShowsItAsItWasLookedAt) {
  page.workspace = "training";
  page.maximised = "training";
  page.selection.layer = 3;
  page.selection.head = 2;
  page.selection.smoothing = 0;
  page.plots["training_loss"].x = Range{20, 90};
  page.plots["training_loss"].y_scale = Scale::linear;
  page.plots["training_loss"].hidden = {"loss"};
  for (const char* format : {"svg", "csv"}) {
    const SavedRun saved = open_saved_run(exported("training_loss", format));
    EXPECT_EQ(saved.recipe.name, "tiny");
    const Selection selection = page.selection;
    page = {};
    run("view", saved.view);
    EXPECT_TRUE(page.notes.empty()) << page.notes.back().text;
    EXPECT_EQ(page.workspace, "training");
    EXPECT_EQ(page.maximised, "training");
    EXPECT_EQ(page.focus.panel, "training");
    EXPECT_EQ(page.focus.plot, "training_loss");
    EXPECT_EQ(page.selection, selection);
    EXPECT_EQ(page.plots["training_loss"].x, (Range{20, 90}));
    EXPECT_FALSE(page.plots["training_loss"].y);
    EXPECT_EQ(page.plots["training_loss"].y_scale, Scale::linear);
    EXPECT_EQ(page.plots["training_loss"].hidden, std::set<std::string>{"loss"});
    EXPECT_NE(followed().find("trace {\"layer\":3}"), std::string::npos);
  }
}

TEST_F(ExportedView, AnotherPageAndOneFigureAloneComeBack) {
  page.workspace = "probe";
  page.shown_figure["spectrum"] = 0;
  const SavedRun saved = open_saved_run(exported("spectrum", "svg"));
  page = {};
  run("view", saved.view);
  EXPECT_EQ(page.workspace, "probe");
  EXPECT_EQ(page.shown_figure["spectrum"], 0);
  EXPECT_TRUE(page.maximised.empty());
}

TEST_F(ExportedView, WhatLiesAheadIsNotInTheFile) {
  const std::string text = read_file(exported("training_loss", "csv"), 1 << 20);
  EXPECT_EQ(text.find("ahead"), std::string::npos);
  EXPECT_NE(text.find("\n150,"), std::string::npos);
  EXPECT_EQ(text.find("\n151,"), std::string::npos);
}

TEST_F(WindowCommandsTest, AViewThatMakesNoSenseChangesNothing) {
  for (const char* value : {"{}", R"({"panel": "nothing"})", R"({"panel": "training", "x": [1]})",
                            R"({"panel": "training", "zoom": 2})", R"({"panel": "training", "page": "nowhere"})"}) {
    run("view", value);
    ASSERT_FALSE(page.notes.empty()) << value;
    EXPECT_EQ(page.notes.back().severity, Severity::warning);
    EXPECT_EQ(page.workspace, "koopman") << value;
    page.notes.clear();
  }
}

TEST_F(WindowCommandsTest, ANoteIsTypedInThePalette) {
  run("palette", R"({"text": "note text=\"\" step=120"})");
  ASSERT_TRUE(page.palette.is_open && page.palette.selected);
  page.palette.text.insert(static_cast<std::size_t>(page.palette.selected->begin), "it = falls");
  palette_key(page, engine, ListKey::accept);
  EXPECT_EQ(followed(), "note {\"step\":120,\"text\":\"it = falls\"}\n");
  EXPECT_EQ(typed_note(std::vector<RunNote>{{.text = "a \"quote\""}}, 1), R"(note text="a 'quote'" number=1)");
  page.palette.text = R"(note text="" number=1)";
  page.palette.is_open = true;
  palette_key(page, engine, ListKey::accept);
  EXPECT_EQ(followed(), "note {\"number\":1,\"text\":\"\"}\n") << "which takes it away";
  const std::optional<Command> key = command_for({.key = "W"});
  ASSERT_TRUE(key);
  EXPECT_EQ(key->name + " " + key->value.dump(), R"(palette {"text":"note text=\"\""})");
}

}  // namespace
}  // namespace afterglow
