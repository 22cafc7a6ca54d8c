// The real program in a real window: start, train, pause, step, rewind, export, close, with keys and mouse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "core/engine/training/saved/saved_run.h"
#include "core/engine/training/saved/snapshot.h"
#include "core/figure/files/figure_files.h"
#include "core/io/atomic_file.h"
#include "core/recipe/run_notes.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/support/folders.h"
#include "tests/window/virtual_display.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;

struct Workflow : testing::Test {
  static void SetUpTestSuite() { display = new VirtualDisplay; }
  static void TearDownTestSuite() {
    delete display;
    display = nullptr;
  }
  void SetUp() override {
    if (!display->is_there()) GTEST_SKIP() << "needs Xvfb and xdotool";
    fs::remove_all(home);
    fs::create_directories(home);
  }
  void TearDown() override { fs::remove_all(home); }

  void focus() {
    ASSERT_TRUE(
        wait_until(30, [&] { return !(window = display->xdotool("search --onlyvisible --name Afterglow")).empty(); }));
    display->xdotool("windowfocus --sync " + window);
    sleep_seconds(0.5);
  }
  void key(const std::string& name) {
    display->xdotool("key " + name);
    sleep_seconds(0.15);
  }
  /// Points at the first plot of the training panel.
  void point_at_training() {
    display->xdotool("mousemove --window " + window + " 560 260");
    sleep_seconds(0.3);
  }
  /// Exports the plot under the mouse and returns the training step that the file is named after, -1 when none comes.
  int exported_step() {
    const fs::path folder = home / "Documents" / "Afterglow";
    fs::remove_all(folder);
    key("ctrl+e");
    std::string name;
    wait_until(20, [&] {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".csv") name = entry.path().stem().string();
      }
      return !name.empty();
    });
    const std::size_t at = name.rfind("_step");
    return at == std::string::npos ? -1 : std::stoi(name.substr(at + 5));
  }
  static bool has_snapshot(const fs::path& folder) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".safetensors") return true;
    }
    return false;
  }
  std::string output() {
    std::ifstream file(home / "output.txt");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static inline VirtualDisplay* display = nullptr;
  fs::path home = fs::temp_directory_path() / ("afterglow_window_" + std::to_string(::getpid()));
  std::string window;
};

/// The second time the session is another process.
struct WorkflowThroughPipe : Workflow, testing::WithParamInterface<bool> {
  std::vector<std::string> started(std::vector<std::string> words) const {
    words.insert(words.begin(), program_file().string());
    if (GetParam()) words.insert(words.end(), {"--through", program_file().string() + " session"});
    return words;
  }
};
INSTANTIATE_TEST_SUITE_P(HereAndThere, WorkflowThroughPipe, testing::Bool());

TEST_P(WorkflowThroughPipe, StartTrainPauseStepRewindExportClose) {
  RunningProgram program(*display, home, started({"--size", "1600x1000", "--threads", "1"}));
  focus();
  point_at_training();
  sleep_seconds(2);
  key("space");
  sleep_seconds(1);
  const int paused = exported_step();
  EXPECT_GT(paused, 0) << "it trains by itself: " << output();
  EXPECT_EQ(exported_step(), paused) << "paused means that nothing moves";
  key("Right");
  sleep_seconds(1);
  EXPECT_EQ(exported_step(), paused + 1);
  key("Left");
  sleep_seconds(0.5);
  key("Left");
  sleep_seconds(1);
  EXPECT_EQ(exported_step(), paused - 1);
  for (const char* extension : {".svg", ".pdf", ".png", ".csv"}) {
    bool is_there = false;
    for (const auto& entry : fs::directory_iterator(home / "Documents" / "Afterglow"))
      is_there = is_there || entry.path().extension() == extension;
    EXPECT_TRUE(is_there) << extension;
  }
  key("space");
  sleep_seconds(1.5);
  key("space");
  sleep_seconds(0.5);
  const int reached = exported_step();
  EXPECT_GT(reached, paused - 1) << "space runs on";
  key("Home");
  sleep_seconds(1);
  EXPECT_EQ(exported_step(), 0);
  key("End");
  sleep_seconds(1.5);
  EXPECT_EQ(exported_step(), reached) << "what was trained is still there";
  key("ctrl+s");
  if (GetParam()) {  // asks where, once
    sleep_seconds(0.5);
    key("Return");
  }
  EXPECT_TRUE(wait_until(10, [&] { return has_snapshot(home / "Documents" / "Afterglow"); })) << output();
  EXPECT_FALSE(has_snapshot(home)) << "no stray file where it was started";
  fs::remove_all(home / "Documents");
  key("ctrl+s");
  EXPECT_TRUE(wait_until(10, [&] { return has_snapshot(home / "Documents" / "Afterglow"); })) << output();
  key("ctrl+q");
  EXPECT_EQ(program.exit_code(20), 0) << output();
  EXPECT_TRUE(fs::exists(home / ".config" / "afterglow" / "settings.json"));
}

TEST_F(Workflow, AClosedWindowKeepsItsRunAndTheNextOneGoesOnWithIt) {
  const fs::path folder = home / ".local" / "share" / "afterglow" / "runs", saved = home / "Documents" / "Afterglow";
  const auto snapshot_in = [](const fs::path& place) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place, error)) {
      if (entry.path().extension() == ".safetensors") return read_snapshot(entry.path());
    }
    return Snapshot();
  };
  const auto save_present = [&] {
    fs::remove_all(saved);
    key("ctrl+s");
    EXPECT_TRUE(wait_until(20, [&] { return has_snapshot(saved); })) << output();
    return snapshot_in(saved);
  };
  Snapshot before;
  {
    RunningProgram program(*display, home, {program_file().string(), "--preset", "small-prompt", "--threads", "1"});
    focus();
    sleep_seconds(9);
    key("space");
    sleep_seconds(1);
    before = save_present();
    key("ctrl+q");
    ASSERT_EQ(program.exit_code(30), 0) << output();
  }
  const Snapshot kept = snapshot_in(folder);
  EXPECT_GT(kept.step, 0);
  EXPECT_EQ(kept.step, before.step);
  EXPECT_EQ(kept.checksum, before.checksum);
  EXPECT_NE(output().find("continue with: afterglow "), std::string::npos) << output();
  {
    RunningProgram program(*display, home, {program_file().string(), "--threads", "1"});
    focus();
    sleep_seconds(3);
    key("ctrl+p");
    sleep_seconds(1);
    display->xdotool("type go_on");
    sleep_seconds(1);
    key("Return");
    sleep_seconds(4);
    const Snapshot again = save_present();
    EXPECT_EQ(again.recipe.name, "small-prompt");
    EXPECT_EQ(again.step, before.step);
    EXPECT_EQ(again.checksum, before.checksum);
    key("ctrl+q");
    ASSERT_EQ(program.exit_code(30), 0) << output();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "nothing new to be kept";
}

TEST_F(Workflow, ASignalKeepsTheRunToo) {
  const fs::path folder = home / ".local" / "share" / "afterglow" / "runs";
  RunningProgram program(*display, home, {program_file().string(), "--preset", "small-prompt", "--threads", "1"});
  focus();
  sleep_seconds(9);
  program.send(SIGTERM);
  EXPECT_EQ(program.exit_code(30), 130) << output();
  EXPECT_TRUE(has_snapshot(folder)) << output();
}

TEST_P(WorkflowThroughPipe, TheKeyboardAloneExportsAPlotThroughItsMenu) {
  RunningProgram program(*display, home, started({"--size", "1280x720", "--threads", "1"}));
  focus();
  sleep_seconds(2);
  key("space");
  key("Tab");
  key("Menu");
  sleep_seconds(0.5);
  key("Down");
  key("Down");
  key("Down");
  key("Return");
  const fs::path folder = home / "Documents" / "Afterglow";
  EXPECT_TRUE(wait_until(20, [&] {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".csv") return true;
    }
    return false;
  })) << output();
  key("ctrl+q");
  EXPECT_EQ(program.exit_code(20), 0) << output();
}

TEST_F(Workflow, PaletteRunsACommandAndSettingsComeBack) {
  {
    RunningProgram program(*display, home, {program_file().string(), "--size", "1280x720"});
    focus();
    key("ctrl+p");
    sleep_seconds(0.5);
    display->xdotool("type --delay 40 light");
    sleep_seconds(0.5);
    display->xdotool("key Return");  // the example of the command appears
    sleep_seconds(0.5);
    display->xdotool("key Return");
    sleep_seconds(0.5);
    key("ctrl+plus");
    key("ctrl+2");
    key("ctrl+q");
    ASSERT_EQ(program.exit_code(20), 0) << output();
  }
  std::ifstream file(home / ".config" / "afterglow" / "settings.json");
  std::ostringstream settings;
  settings << file.rdbuf();
  EXPECT_NE(settings.str().find("\"theme\": \"light\""), std::string::npos) << settings.str();
  EXPECT_NE(settings.str().find("\"workspace\": \"stepper\""), std::string::npos) << settings.str();
  EXPECT_NE(settings.str().find("\"zoom\": 1.1"), std::string::npos) << settings.str();
}

TEST_F(Workflow, EnterThatComesAtOnceWithTheNumberTrainsThatManySteps) {
  std::ofstream(home / "script.json")
      << R"([{"name": "pause", "step": 1}, {"name": "rewind", "value": {"step": 0}, "frame": 5},
      {"name": "save", "value": {"path": "kept.safetensors"}, "step": 23}, {"name": "quit", "step": 23},
      {"name": "quit", "time": 60}])";
  RunningProgram program(*display, home,
                         {program_file().string(), "--size", "1600x1000", "--threads", "1", "--script", "script.json"});
  focus();
  sleep_seconds(3);
  display->xdotool("mousemove --window " + window + " 1268 22 click 1");
  sleep_seconds(0.5);
  display->xdotool("key --delay 0 2 3 Return");
  EXPECT_EQ(program.exit_code(60), 0) << output();
  EXPECT_TRUE(fs::exists(home / "kept.safetensors")) << output();
}

TEST_F(Workflow, DamagedSettingsAreToldAndTheWindowOpens) {
  const fs::path settings = home / ".config" / "afterglow" / "settings.json";
  fs::create_directories(settings.parent_path());
  for (const char* text : {"{", "[1, 2]", "\xff\xfe", ""}) {
    std::ofstream(settings, std::ios::binary | std::ios::trunc) << text;
    RunningProgram program(*display, home, {program_file().string(), "--size", "1280x720", "--threads", "1"});
    focus();
    EXPECT_NE(output().find("the settings could not be read"), std::string::npos) << output();
    EXPECT_NE(output().find(settings.string()), std::string::npos) << output();
    key("ctrl+q");
    ASSERT_EQ(program.exit_code(20), 0) << output();
    fs::remove(home / "output.txt");
  }
}

TEST_F(Workflow, ScriptLeavesAPictureAndBadFilesAreTold) {
  std::ofstream(home / "script.json")
      << R"([{"name": "theme", "value": {"name": "projector"}}, {"name": "zoom", "value": {"to": 1.2}, "frame": 8}, {"name": "zoom", "value": {"to": 0.9}, "frame": 12}, {"name": "pause", "step": 1}])";
  RunningProgram program(*display, home,
                         {program_file().string(), "--script", "script.json", "--frames", "20", "--screenshot",
                          "picture.png", "--size", "1024x768"});
  EXPECT_EQ(program.exit_code(60), 0) << output();
  EXPECT_GT(fs::file_size(home / "picture.png"), 10'000u);
  EXPECT_FALSE(fs::exists(home / ".config" / "afterglow" / "settings.json")) << "automatic runs keep no settings";
  std::ofstream(home / "broken.json") << "{";
  RunningProgram broken(*display, home, {program_file().string(), "--script", "broken.json", "--frames", "2"});
  EXPECT_EQ(broken.exit_code(30), 3) << output();
  EXPECT_NE(output().find("broken.json"), std::string::npos);
}

TEST_F(Workflow, OpensThePresetThatIsNamed) {
  fs::create_directories(home);
  std::ofstream(home / "script.json") << R"([{"name": "pause", "step": 1},
      {"name": "save", "value": {"path": "kept.safetensors"}}, {"name": "quit", "frame": 60}])";
  RunningProgram program(*display, home,
                         {program_file().string(), "--preset", "tiny-ssm", "--seed", "5", "--set",
                          "learning_rate=0.004", "--script", "script.json", "--size", "1024x768"});
  ASSERT_EQ(program.exit_code(60), 0) << output();
  const SavedRun kept = open_saved_run((home / "kept.safetensors").string());
  ASSERT_TRUE(kept.snapshot);
  EXPECT_EQ(kept.snapshot->recipe.name, "tiny-ssm");
  EXPECT_EQ(kept.snapshot->recipe.seed, 5u);
  EXPECT_DOUBLE_EQ(kept.snapshot->recipe.training.learning_rate, 0.004);
}

TEST_F(Workflow, AFigureOpensAsTheOnlyRunWhereItWasExported) {
  nlohmann::json recipe = small_recipe_json();
  recipe["shown_step"] = 12;
  recipe["view"] = {{"panel", "training"}, {"enlarged", true}};
  Figure figure;
  figure.recipe = recipe.dump();
  for (const FigureFormat format : {FigureFormat::svg, FigureFormat::csv}) {
    const fs::path file =
        write_figure(figure, home / "figure", {format}, SizePreset::one_column, {.overwrite = true}).front();
    std::ofstream(home / "script.json") << R"([{"name": "save", "value": {"path": "kept.safetensors"}, "step": 12},
        {"name": "export", "value": {"panel": "training", "formats": ["csv"]}, "frame": 60}, {"name": "quit", "frame": 90}])";
    RunningProgram program(*display, home,
                           {program_file().string(), file.string(), "--script", "script.json", "--size", "1024x768"});
    ASSERT_EQ(program.exit_code(60), 0) << output();
    const SavedRun kept = open_saved_run(home / "kept.safetensors");
    EXPECT_EQ(kept.snapshot->step, 12);
    EXPECT_EQ(kept.recipe.name, "small");
    fs::remove(home / "kept.safetensors");
    const fs::path exported = home / "Documents" / "Afterglow" / "training_accuracy_seed3_step12.csv";
    ASSERT_TRUE(fs::exists(exported)) << output();
    EXPECT_EQ(read_file(exported, 1 << 20).find("run 1"), std::string::npos) << "there is no earlier run";
    fs::remove_all(home / "Documents");
  }
}

/// A burst of clicks that arrives between two frames: Dear ImGui takes one press or release a frame.
TEST_F(Workflow, ACommandAndItsValueThatAreTypedAtOnceRunWhileTheProcessorIsBusy) {
  const fs::path file = home / "status.json";
  const nlohmann::json status_command = {{"name", "status"}, {"value", {{"path", file.string()}}}, {"frame", 2}};
  std::ofstream(home / "script.json") << nlohmann::json::array({status_command}).dump();
  fs::create_directories(home / "load");
  RunningProgram program(
      *display, home, {program_file().string(), "--preset", "tiny", "--script", "script.json", "--size", "1280x720"});
  RunningProgram load(*display, home / "load",
                      {program_file().string(), "train", "--steps", "1000000", "--preset", "tiny", "--quiet"});
  focus();
  ASSERT_TRUE(wait_until(30, [&] { return fs::exists(file); })) << output();
  display->xdotool("key --delay 0 ctrl+p");
  display->xdotool("type --delay 0 'stop when'");
  display->xdotool("key --delay 0 Return");
  display->xdotool("type --delay 0 'loss < 0.01'");
  display->xdotool("key --delay 0 Return m");
  nlohmann::json status;
  const auto has_run = [&] {
    status = nlohmann::json::parse(std::ifstream(file), nullptr, false);
    return status.is_object() && status["page"]["selection"].contains("mode") &&
           status["run"]["recipe"].dump().find("loss < 0.01") != std::string::npos;
  };
  EXPECT_TRUE(wait_until(40, has_run)) << status.dump() << output();
}

TEST_F(Workflow, EveryClickOfABurstCountsAtItsPlace) {
  const fs::path file = home / "status.json";
  std::ofstream(home / "script.json") << nlohmann::json{
      {"commands",
       {{{"name", "pause"}, {"frame", 1}}, {{"name", "status"}, {"value", {{"path", file.string()}}}, {"frame", 2}}}}};
  RunningProgram program(
      *display, home,
      {program_file().string(), "--preset", "tiny-ssm", "--script", "script.json", "--size", "1280x720"});
  focus();
  const auto step = [&] {
    const auto status = nlohmann::json::parse(std::ifstream(file), nullptr, false);
    return status.is_object() ? status["run"].value("step", -1) : -1;
  };
  ASSERT_TRUE(wait_until(30, [&] { return step() >= 0; })) << output();
  // The button that trains one step is somewhere in the top bar, between the tabs and the run button.
  int x = 940;
  for (int before = step(); x < 1060 && step() != before + 1; x += 10) {
    before = step();
    display->xdotool("mousemove --window " + window + " " + std::to_string(x) + " 26 click 1");
    wait_until(1.5, [&] { return step() != before; });
    if (step() == before + 1) break;
  }
  ASSERT_LT(x, 1060) << "no button trains a step";
  sleep_seconds(1);
  const int before = step();
  // Clicks on the button and, in between, elsewhere, faster than frames.
  std::string burst;
  for (int i = 0; i < 6; ++i)
    burst += " mousemove --window " + window + " " + std::to_string(x) + " 26 click 1 mousemove --window " + window +
             " 600 300 click 1";
  display->xdotool(burst);
  EXPECT_TRUE(wait_until(60, [&] { return step() == before + 6; })) << step() - before << " of 6 clicks counted";
}

TEST_F(Workflow, AKeySpeaksOfWhatWasUnderThePointer) {
  const fs::path file = home / "pointer.json";
  std::ofstream(home / "script.json") << nlohmann::json{
      {"commands", {{{"name", "status"}, {"value", {{"path", file.string()}}}, {"frame", 2}}}}};
  RunningProgram program(
      *display, home,
      {program_file().string(), "--preset", "few-modes", "--script", "script.json", "--size", "1280x720"});
  focus();
  nlohmann::json status;
  const auto enlarged = [&] {
    status = nlohmann::json::parse(std::ifstream(file), nullptr, false);
    return status.is_object() ? status["page"].value("maximised", "") : "not read";
  };
  const auto at = [&](const char* place) { return " mousemove --window " + window + " " + place; };
  // After some steps the page has its panels, however busy the machine is.
  ASSERT_TRUE(wait_until(60, [&] { return enlarged().empty() && status["run"].value("step", 0) > 20; })) << output();
  // The pointer goes on before the program has read the key.
  display->xdotool(at("1100 230") + " key Return" + at("500 400"));
  EXPECT_TRUE(wait_until(20, [&] { return enlarged() == "training"; })) << enlarged();
}

TEST_F(Workflow, WithoutADisplayItSaysSo) {
  fs::create_directories(home);
  const std::string command = "cd '" + home.string() + "' && env -u WAYLAND_DISPLAY -u DISPLAY HOME='" + home.string() +
                              "' '" + program_file().string() + "' >out.txt 2>&1";
  EXPECT_NE(std::system(command.c_str()), 0);
  std::ifstream file(home / "out.txt");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("display"), std::string::npos) << text.str();
}

TEST_F(Workflow, ANoteIsWrittenByItsKeyAndTakenBackByUndo) {
  std::ofstream(home / "recipe.json") << small_recipe_json();
  RunningProgram program(*display, home, {program_file().string(), "--recipe", "recipe.json", "--threads", "1"});
  focus();
  sleep_seconds(3);
  const fs::path saved = home / "Documents" / "Afterglow";
  const auto notes_in_snapshot = [&] {
    fs::remove_all(saved);
    key("ctrl+s");
    EXPECT_TRUE(wait_until(20, [&] { return has_snapshot(saved); })) << output();
    return notes_of(read_snapshot(fs::directory_iterator(saved)->path()).recipe);
  };
  for (const char* words : {"one", "two"}) {
    key("w");
    sleep_seconds(1);
    display->xdotool(std::string("type --delay 60 ") + words);
    sleep_seconds(0.5);
    key("Return");
    sleep_seconds(1);
  }
  const std::vector<RunNote> both = notes_in_snapshot();
  ASSERT_EQ(both.size(), 2u) << output();
  EXPECT_EQ(both[0].text + " " + both[1].text, "one two");
  key("ctrl+z");
  sleep_seconds(0.5);
  EXPECT_EQ(notes_in_snapshot().size(), 1u);
  key("ctrl+q");
  EXPECT_EQ(program.exit_code(20), 0) << output();
}

TEST_F(Workflow, AReportIsThatOfTheCommandLineAndTheWindowComesBack) {
  nlohmann::json recipe = small_recipe_json();
  recipe["training"]["steps"] = 12;
  std::ofstream(home / "recipe.json") << recipe;
  std::ofstream(home / "script.json") << R"([{"name": "run_to", "value": {"step": 12}},
      {"name": "rewind", "value": {"step": 8}, "step": 12}, {"name": "note", "value": {"text": "the jump"}, "time": 4},
      {"name": "report", "value": {"path": "report.html", "states": 3}, "time": 5},
      {"name": "save", "value": {"path": "kept.safetensors"}, "time": 25}, {"name": "quit", "time": 27}])";
  RunningProgram program(*display, home,
                         {program_file().string(), "--recipe", "recipe.json", "--threads", "1", "--script",
                          "script.json", "--size", "1024x768"});
  ASSERT_EQ(program.exit_code(60), 0) << output();
  const std::string page = read_file(home / "report.html", 1 << 24);
  EXPECT_NE(page.find(R"("steps":[0,6,12])"), std::string::npos) << output();
  EXPECT_NE(page.find(R"(data-step="8"><small>step 8</small>the jump)"), std::string::npos);
  EXPECT_EQ(read_snapshot(home / "kept.safetensors").step, 8) << "it comes back";
  RunningProgram train(*display, home,
                       {program_file().string(), "train", "--recipe", "recipe.json", "--no-figures", "--device", "cpu",
                        "--json", "--quiet"});
  ASSERT_EQ(train.exit_code(60), 0) << output();
  const std::string made = output();
  const std::size_t at = made.rfind("\"checksum\":");
  ASSERT_NE(at, std::string::npos) << made;
  const std::string checksum = made.substr(made.find('"', at + 11) + 1, 16);
  EXPECT_NE(page.find("have the checksum " + checksum), std::string::npos) << checksum;
}

}  // namespace
}  // namespace afterglow
