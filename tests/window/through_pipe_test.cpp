// What a window shows of a session in another process: the same pictures and checksums as of one in its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "app/cli/version.h"
#include "app/window/commands/window_commands.h"
#include "app/window/key_routing.h"
#include "app/window/lesson_player.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/session/session.h"
#include "core/figure/files/page.h"
#include "core/io/atomic_file.h"
#include "core/recipe/interventions.h"
#include "core/recipe/lesson_plan.h"
#include "core/remote/remote.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/support/folders.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"
#include "tests/window/virtual_display.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Pictures = std::map<std::string, std::string>;

std::unique_ptr<ObservationSource> session_of(const std::string& recipe, bool is_piped) {
  if (!is_piped) return std::make_unique<Session>(recipe, SessionOptions{.device = "cpu", .threads = 1});
  RemoteOptions options{{program_file().string(), "session"}, "there", {}};
  options.hello.version = version_line();
  options.hello.recipe = recipe;
  options.hello.device = "cpu";
  options.hello.threads = 1;
  return connect_to_remote(std::move(options));
}

/// The window's loop without its display.
class Watched {
 public:
  Watched(const std::string& recipe, bool is_piped, fs::path folder)
      : folder_(std::move(folder)), source_(session_of(recipe, is_piped)) {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    fs::create_directories(folder_);
    actions_.export_folder = folder_.string();
    seen_ = source_->observe();
  }
  ~Watched() { fs::remove_all(folder_); }

  void give(const Command& command) {
    if (find_command(command.name)->target == CommandTarget::engine) {
      ++sent_;
      return source_->send(command);
    }
    CommandQueue following;
    CommandContext context{page(), figures_, seen_, following, actions_, 1.0};
    run_window_command(context, command);
    for (const Command& next : following.take()) give(next);
  }
  void turn() {
    const std::uint64_t taken = source_->taken_commands();
    seen_ = source_->observe();
    taken_ = taken;
    follow_model(page(), seen_->model);
    for (const Command& command : window_.commands.take()) give(command);
    follow_lesson(page(), {*seen_, [this](const Command& c) { give(c); }, [this] { return sent_; }, taken, 0});
    source_->request_analyses(asked_ | analyses_of_lesson(page()));
    window_.show(seen_);
    window_.draw_page();
    sleep_seconds(0.002);
  }
  template <class Condition>
  void wait(const Condition& condition) {
    for (int i = 0; i < 60'000 && !condition(*seen_); ++i) turn();
    ASSERT_TRUE(condition(*seen_)) << "step " << seen_->step << ", " << source_->line().problem;
  }
  /// Until nothing moves and these analyses belong to what is shown.
  void rest(AnalysisSet analyses, std::int64_t step) {
    asked_ = analyses;
    wait([&](const Observation& now) {
      return taken_ == sent_ && now.step == step && !now.running && now.rebuilds_to < 0 &&
             (now.current & analyses) == analyses && now.checksum_step == step;
    });
  }
  /// The page and every figure on it, as files have them.
  Pictures pictures(const std::string& workspace) {
    page().workspace = workspace;
    turn();
    Pictures found{{"checksum", seen_->checksum}, {"recipe", seen_->recipe}};
    for (const ShownPanel& shown : page().drawn.panels) {
      const PlotKind& kind = *find_plot_kind(shown.panel);
      for (const Figure& figure : figures_.figures(kind, seen_, page().selection))
        found[workspace + " " + figure.id] = svg_text(figure, page_size(SizePreset::one_column, figure));
    }
    EXPECT_GT(found.size(), 2u) << workspace;
    return found;
  }
  void key(const std::string& chord) {
    route_key(page(), window_.commands, *parse_chord(chord), false);
    turn();
  }
  PageState& page() { return window_.state; }
  const Observation& seen() const { return *seen_; }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
  NullWindow window_{1280, 720};
  FigureCache figures_;
  WindowActions actions_;
  std::unique_ptr<ObservationSource> source_;
  std::shared_ptr<const Observation> seen_;
  AnalysisSet asked_ = 0;
  std::uint64_t sent_ = 0, taken_ = 0;
};

using Story = Pictures (*)(Watched&);

void add(Pictures& all, const std::string& when, const Pictures& more) {
  for (const auto& [name, text] : more) all[when + ": " + name] = text;
}

constexpr AnalysisSet usual = Analysis::spectra | Analysis::trace | set_of(Analysis::inspected);

Pictures training_and_rewind(Watched& window) {
  Pictures all;
  window.rest(usual, 40);
  for (const char* page : {"koopman", "stepper", "probe", "training"}) add(all, "trained", window.pictures(page));
  window.give({"rewind", R"({"step": 20})"_json});
  window.rest(usual, 20);
  for (const char* page : {"koopman", "training"}) add(all, "rewound", window.pictures(page));
  window.give({"set", R"({"key": "learning_rate", "to": 0.01})"_json});
  window.give({"run"});
  window.rest(usual, 40);
  add(all, "another future", window.pictures("training"));
  return all;
}

Pictures drag(Watched& window) {
  Pictures all;
  window.rest(usual, 40);
  const HeadSpectrum head = window.seen().spectra->heads.at(0);
  window.give(drag_mode({head.layer, head.head, false, 0}, 0.9 * head.eigenvalues.at(0), true));
  window.rest(usual, 40);
  for (const char* page : {"koopman", "probe"}) add(all, "dragged", window.pictures(page));
  window.give({"undo"});
  window.rest(usual, 40);
  add(all, "undone", window.pictures("koopman"));
  return all;
}

Pictures causes(Watched& window) {
  window.give({"measure", R"({"analysis": "patch grid", "part": 1})"_json});
  window.rest(
      Analysis::patch | Analysis::ablation | set_of(Analysis::logit_lens) | Analysis::readout | Analysis::transplant,
      40);
  return window.pictures("causes");
}

Pictures phase_map(Watched& window) {
  window.rest(usual, 40);
  const json map = {{"x", "learning_rate=0.001,0.01"}, {"y", "layers.1.ska.ridge=0.001,0.1"}, {"steps", 12}};
  window.give({"phase_map", map});
  window.rest(set_of(Analysis::phase_map), 40);
  EXPECT_EQ(window.seen().phase_map->sweep.results.size(), 4u);
  return window.pictures("phase_map");
}

Pictures lesson(Watched& window) {
  Pictures all;
  window.give({"lesson", json{{"open", (source_folder() / "tests/app/lessons/small.md").string()}}});
  LessonPane& pane = window.page().lesson;
  const auto is_over = [&](const Observation&) { return pane.deed >= (*pane.plans)[pane.step].deeds.size(); };
  window.wait([&](const Observation&) { return pane.asks; });
  window.key("1");
  for (const std::int64_t step : {20, 30}) {
    window.wait(is_over);
    window.rest(usual, step);
    EXPECT_TRUE(pane.problem.empty()) << pane.problem;
    add(all, "step " + std::to_string(step), window.pictures("koopman"));
    window.key("PageDown");
  }
  return all;
}

/// Files land here, whatever machine trains.
Pictures exports(Watched& window) {
  window.rest(usual, 40);
  Pictures all;
  for (const char* panel : {"training", "spectrum"})
    window.give({"export", {{"panel", panel}, {"formats", {"svg", "png", "csv"}}}});
  for (const auto& entry : fs::directory_iterator(window.folder()))
    all[entry.path().filename().string()] = read_file(entry.path(), 1 << 24);
  EXPECT_EQ(all.size(), 6u);
  return all;
}

/// A hostile session names what it likes; only the folder for exports gets files.
TEST(Exports, StayInTheirFolderWhateverTheSessionNames) {
  const fs::path home = fs::temp_directory_path() / ("afterglow_names_" + std::to_string(::getpid()));
  for (const std::string name : {"../../evil", "/tmp/evil", "..", "a/../../evil"}) {
    fs::remove_all(home);
    fs::create_directories(home / "a" / "exports");
    auto now = std::make_shared<Observation>(samples::mid_training());
    ASSERT_TRUE(now->race);
    auto race = std::make_shared<RaceView>(*now->race);
    for (RaceEntry& entry : race->entries) entry.tail.kind = name;
    now->race = race;
    now->preset = now->title = now->measures.quality = name;
    NullWindow window(1280, 720);
    window.show(now);
    window.state.workspace = "race";
    window.draw_page(2);
    FigureCache figures;
    WindowActions actions;
    actions.export_folder = (home / "a" / "exports").string();
    CommandQueue following;
    CommandContext context{window.state, figures, now, following, actions, 1.0};
    run_window_command(context, {"export", R"({"panel": "race", "formats": ["csv"]})"_json});
    run_window_command(context, {"export", R"({"all": true, "formats": ["csv"]})"_json});
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home)) {
      files += entry.is_regular_file();
      EXPECT_TRUE(entry.is_directory() || entry.path().string().starts_with(actions.export_folder)) << entry.path();
    }
    EXPECT_GT(files, 1u);
    EXPECT_FALSE(fs::exists("/tmp/evil.csv"));
  }
  fs::remove_all(home);
}

struct NamedStory {
  const char* name;
  Story story;
};
void PrintTo(const NamedStory& one, std::ostream* out) { *out << one.name; }

class ThroughPipe : public testing::TestWithParam<NamedStory> {};

TEST_P(ThroughPipe, ShowsTheSame) {
  std::map<bool, Pictures> shown;
  for (const bool is_piped : {false, true}) {
    const fs::path folder = fs::temp_directory_path() / ("afterglow_pipe_" + std::to_string(::getpid()));
    Watched window(small_recipe_json().dump(), is_piped, folder);
    shown[is_piped] = GetParam().story(window);
  }
  ASSERT_EQ(shown[true].size(), shown[false].size());
  for (const auto& [name, text] : shown[false]) {
    ASSERT_TRUE(shown[true].contains(name)) << name;
    EXPECT_TRUE(shown[true][name] == text) << name << " differs";
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, ThroughPipe,
                         testing::Values(NamedStory{"training and rewind", training_and_rewind},
                                         NamedStory{"drag", drag}, NamedStory{"causes", causes},
                                         NamedStory{"phase map", phase_map}, NamedStory{"lesson", lesson},
                                         NamedStory{"exports", exports}));

}  // namespace
}  // namespace afterglow
