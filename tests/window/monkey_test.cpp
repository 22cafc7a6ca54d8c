// A monkey at the window: random commands with random values, keys, texts and mouse moves, against a session that
// trains. Whatever it does, nothing ends the program, and the snapshot that is saved afterwards has the weights that a
// run of its recipe reaches without a window. AFTERGLOW_MONKEY_SECONDS=3600 lets it play for an hour,
// AFTERGLOW_MONKEY_SEED begins elsewhere. And frame after frame of every page during training leaves memory as it was:
// AFTERGLOW_MONKEY_FRAMES=1000000 looks at as many.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/window/commands/window_commands.h"
#include "app/window/key_routing.h"
#include "app/window/lesson_player.h"
#include "core/backend/host_memory.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/session/session.h"
#include "core/random/random.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/views/drawing/null_window.h"
#include "tests/window/virtual_display.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Trains or measures for minutes, which is no part of this play.
bool is_long(const Command& command) {
  constexpr std::string_view long_ones[] = {"compare", "gka_figure6", "phase_map", "race", "influence"};
  if (std::ranges::find(long_ones, command.name) != std::end(long_ones)) return true;
  return command.name == "load" && command.value.value("preset", json()) != "tiny";
}

/// Begins again or goes far back: done often, nothing would ever be trained.
bool goes_back(const Command& command) {
  constexpr std::string_view ways[] = {"reset", "reseed", "load", "rewind", "time_home", "discard"};
  return std::ranges::find(ways, command.name) != std::end(ways);
}

/// What values are made of, in addition to the examples of the table.
class Words {
 public:
  Words() {
    for (const PlotKind& kind : plot_kinds()) texts_.emplace_back(kind.id);
    for (const Workspace& one : workspaces()) texts_.emplace_back(one.id);
    for (const CommandSpec& spec : command_table()) {
      const json example = json::parse(spec.example);
      for (const auto& field : example.items()) keys_.push_back(field.key());
    }
    for (const char* text :
         {"", "light", "dark", "linear", "log", "symlog", "x", "y", "b", "all", "loss", "cpu", "fp32"})
      texts_.emplace_back(text);
    texts_.emplace_back(std::string(300, 'a'));
    texts_.emplace_back("\xce\xbb\xe2\x80\x94\xf0\x9f\x90\x92");
  }
  json changed(const json& value, Random& random) const {
    if (random.uniform_int(3) == 0) return value;
    if (value.is_object()) return changed_object(value, random);
    switch (random.uniform_int(8)) {
      case 0:
        return nullptr;
      case 1:
        return random.uniform_int(2) == 0;
      case 2:
        return json::array({number(random), text(random)});
      case 3:
      case 4:
        return text(random);
      default:
        return number(random);
    }
  }
  std::string text(Random& random) const { return texts_[random.uniform_int(texts_.size())]; }

 private:
  json changed_object(const json& value, Random& random) const {
    json result = json::object();
    for (const auto& [key, field] : value.items()) {
      if (random.uniform_int(6) > 0) result[key] = changed(field, random);
    }
    const std::string& more = keys_[random.uniform_int(keys_.size())];
    if (more != "path" && random.uniform_int(4) == 0) result[more] = changed(text(random), random);
    return result;
  }
  static json number(Random& random) {
    constexpr double some[] = {-1, 0, 1, 2, 3, 5, 8, 40, 0.5, -0.01, 1e-9, 1e9, -1e300};
    if (random.uniform_int(3) == 0) return random.uniform_int(20);
    return some[random.uniform_int(std::size(some))];
  }

  std::vector<std::string> texts_, keys_;
};

/// Every mode with its number, by which panels name and colour it.
std::string modes_of(const Observation& seen) {
  json heads = json::array();
  for (const HeadSpectrum& head : seen.spectra->heads) {
    json modes = json::array();
    for (std::size_t i = 0; i < head.eigenvalues.size(); ++i)
      modes.push_back({head.identity[i], head.eigenvalues[i].real(), head.eigenvalues[i].imag()});
    heads.push_back({{"layer", head.layer}, {"head", head.head}, {"modes", modes}});
  }
  return heads.dump();
}

/// The window without its display: what WindowLoop does between frames, with a page that is drawn for nothing.
class Play {
 public:
  Play(NullWindow& window, const std::string& recipe, const fs::path& folder)
      : window_(window), session_(recipe, {"cpu", 1, true, 200.0}) {
    actions_.export_folder = folder.string();
  }
  void give(const Command& command) {
    if (is_long(command) || (goes_back(command) && ++wishes_to_go_back_ % 12 != 0)) return;
    past_.push_back(command.name + " " + command.value.dump());
    if (past_.size() > 20) past_.pop_front();
    const CommandSpec* spec = find_command(command.name);
    ASSERT_NE(spec, nullptr) << command.name;
    if (spec->target == CommandTarget::engine) return send(command);
    CommandQueue following;
    CommandContext context{window_.state, figures_, now_, following, actions_, time_};
    run_window_command(context, command);
    for (Command& next : following.take()) {
      if (!is_long(next)) send(std::move(next));
    }
  }
  void frame() {
    const std::uint64_t taken = session_.taken_commands();
    now_ = session_.observe();
    follow_model(window_.state, now_->model);
    window_.show(now_);
    give_all();
    follow_lesson(window_.state,
                  {*now_, [this](const Command& command) { give(command); }, [this] { return sent_; }, taken, time_});
    window_.draw_page();
    AnalysisSet shown = analyses_of_lesson(window_.state);
    for (const ShownPanel& panel : window_.state.drawn.panels) shown |= cheap(analyses_for(panel.panel));
    session_.request_analyses(shown);
    give_all();
    time_ += 1.0 / 60;
  }
  void key(const Chord& chord) { route_key(window_.state, window_.commands, chord, ImGui::GetIO().WantTextInput); }
  /// Waits for the worker; false where it did not come in ten minutes.
  bool rests() {
    send({"pause"});
    return wait_until(600, [&] {
      const bool is_done = session_.taken_commands() == sent_;
      now_ = session_.observe();
      return is_done && !now_->running;
    });
  }
  void save(const fs::path& file) {
    send({"save", json{{"path", file.string()}}});
    rests();
  }
  void open(const fs::path& file) {
    send({"load", json{{"path", file.string()}}});
    rests();
  }
  /// Of a run at rest.
  std::string modes() {
    session_.request_analyses(set_of(Analysis::spectra));
    wait_until(600, [&] {
      now_ = session_.observe();
      return now_->spectra && now_->spectra->step == now_->step;
    });
    return modes_of(*now_);
  }
  const Observation& now() const { return *now_; }
  PageState& page() { return window_.state; }
  std::string past() const {
    std::string text = "the last commands:";
    for (const std::string& command : past_) text += "\n  " + command;
    return text;
  }

 private:
  /// Influence, race, map and interventions of a page take seconds each, which is no part of this play.
  static AnalysisSet cheap(AnalysisSet asked) {
    return asked & ~(Analysis::influence | Analysis::race | Analysis::phase_map | Analysis::patch | Analysis::ablation |
                     Analysis::readout);
  }
  void send(Command command) {
    ++sent_;
    session_.send(std::move(command));
  }
  void give_all() {
    for (const Command& command : window_.commands.take()) give(command);
  }

  NullWindow& window_;
  Session session_;
  FigureCache figures_;
  WindowActions actions_;
  std::shared_ptr<const Observation> now_ = std::make_shared<const Observation>();
  std::uint64_t sent_ = 0;
  int wishes_to_go_back_ = 0;
  double time_ = 0;
  std::deque<std::string> past_;
};

class Monkey : public testing::Test {
 protected:
  Monkey() {
    fs::create_directories(folder_);
    fs::current_path(folder_);  // what it exports without a folder
  }
  ~Monkey() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }
  void act(Play& play, NullWindow& window, Random& random) {
    switch (random.uniform_int(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return play.give(some_command(play, random));
      case 4:
        return play.give(some_setting(play, random));
      case 5:
      case 6: {
        const std::span<const CommandSpec> table = command_table();
        const std::vector<Chord> chords = chords_of(table[random.uniform_int(table.size())]);
        if (!chords.empty()) play.key(chords[random.uniform_int(chords.size())]);
        return;
      }
      case 7:
        ImGui::GetIO().AddInputCharactersUTF8(words_.text(random).substr(0, 20).c_str());
        return play.key({false, false, false, random.uniform_int(2) == 0 ? "Enter" : "Down"});
      default:
        return move_mouse(window, random);
    }
  }
  Command some_command(const Play&, Random& random) {
    const std::span<const CommandSpec> table = command_table();
    const CommandSpec& spec = table[random.uniform_int(table.size())];
    return {std::string(spec.name), words_.changed(json::parse(spec.example), random)};
  }
  /// A hyperparameter within its range and not far from where it is, so that steps stay short and numbers finite.
  Command some_setting(const Play& play, Random& random) {
    const std::vector<Setting>& settings = play.now().settings;
    if (settings.empty()) return {"run"};
    const Setting& setting = settings[random.uniform_int(settings.size())];
    const double factor = 0.5 + random.uniform(),
                 to = std::clamp(setting.initial * factor, setting.minimum, setting.maximum);
    return {"set", {{"key", setting.key}, {"to", setting.integer ? std::round(to) : to}}};
  }
  void move_mouse(NullWindow& window, Random& random) {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    window.mouse(random.uniform() * size.x, random.uniform() * size.y);
    if (random.uniform_int(4) == 0) window.wheel(random.uniform() * 6 - 3);
    const int button = static_cast<int>(random.uniform_int(3));
    if (random.uniform_int(2) == 0) window.button(random.uniform_int(2) == 0, button);
  }
  /// What its recipe trains to without a window: the weights, and which mode has which number.
  static std::string reached_by(const Recipe& recipe, std::int64_t step) {
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    AnalysedRun run(SavedRun{recipe, std::nullopt}, *backend);
    run.go_to(step);
    return run.trainer().checksum() + modes_of(run.observe(set_of(Analysis::spectra)));
  }
  /// Saves and opens again: no mode has another number or place then.
  void reopen(Play& play) {
    ASSERT_TRUE(play.rests()) << play.past();
    if (play.now().stopped_non_finite) return;
    const std::string before = play.modes();
    const fs::path file = folder_ / "reopened.safetensors";
    play.save(file);
    play.open(file);
    EXPECT_EQ(play.modes(), before) << play.past();
  }
  /// One session from its start to a snapshot.
  void play_once(NullWindow& window, std::uint64_t seed, int acts) {
    Random random(seed, 24);
    json recipe = small_recipe_json();
    recipe["training"]["steps"] = 100000;
    Play play(window, recipe.dump(), folder_);
    SCOPED_TRACE("AFTERGLOW_MONKEY_SEED=" + std::to_string(seed));
    for (int i = 0; i < acts && !HasFatalFailure(); ++i) {
      if (i % 10 == 0) {
        play.give({"speed", R"({"to": 300})"_json});
        play.give({"run"});
      }
      if (i % 50 == 49) reopen(play);
      act(play, window, random);
      play.frame();
      play.frame();
      frames_ += 2;
    }
    ASSERT_TRUE(play.rests()) << play.past();
    if (play.now().stopped_non_finite) return;  // its weights are no numbers, and a snapshot of them is refused
    const fs::path file = folder_ / "monkey.safetensors";
    play.save(file);
    const SavedRun saved = open_saved_run(file);
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    AnalysedRun reopened(saved, *backend);
    const std::string modes = modes_of(reopened.observe(set_of(Analysis::spectra)));
    EXPECT_EQ(modes, play.modes()) << play.past();
    EXPECT_EQ(reopened.trainer().checksum() + modes, reached_by(saved.snapshot->recipe, saved.snapshot->step))
        << "step " << saved.snapshot->step << ", " << play.past() << "\n"
        << to_json(saved.snapshot->recipe).dump();
    steps_ += saved.snapshot->step;
    commands_ += static_cast<std::int64_t>(saved.snapshot->recipe.commands.size());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::current_path(folder_);
  }

  Words words_;
  fs::path before_ = fs::current_path();
  fs::path folder_ = fs::temp_directory_path() / ("afterglow_monkey_" + std::to_string(::getpid()));
  std::int64_t frames_ = 0, steps_ = 0, commands_ = 0;
};

/// Bytes that the program has asked for and not returned; what lies between them stays resident as well.
std::int64_t asked_for() {
  const struct mallinfo2 all = ::mallinfo2();
  return static_cast<std::int64_t>(all.uordblks + all.hblkhd);
}

double in_mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

double number_of(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atof(text) : otherwise;
}

TEST_F(Monkey, LeavesAWindowThatWorksAndARecipeThatTellsWhatItDid) {
  constexpr int acts = 150, fewest_plays = 4, settled_after = 3;
  [[maybe_unused]] constexpr std::int64_t allowance = std::int64_t{64} << 20;
  const double seconds = number_of("AFTERGLOW_MONKEY_SECONDS", 0);
  const auto first_seed = static_cast<std::uint64_t>(number_of("AFTERGLOW_MONKEY_SEED", 1));
  const auto start = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds;
  };
  NullWindow window(1280, 800);
  std::int64_t settled = 0, last = 0;
  int plays = 0;
  for (; (plays < fewest_plays || !is_over()) && !HasFailure(); ++plays) {
    play_once(window, first_seed + static_cast<std::uint64_t>(plays), acts);
    ::malloc_trim(0);
    last = resident_bytes();
    if (plays == settled_after) settled = last;
    if (plays % 200 == settled_after)
      std::printf("play %d: %.1f MiB resident, %.1f asked for\n", plays + 1, in_mebibytes(last),
                  in_mebibytes(asked_for()));
  }
  std::printf(
      "%d plays, %lld frames, %lld steps compared, %lld commands in their recipes; memory %+.1f MiB since play %d\n",
      plays, static_cast<long long>(frames_), static_cast<long long>(steps_), static_cast<long long>(commands_),
      in_mebibytes(last - settled), settled_after + 1);
#ifndef __SANITIZE_THREAD__  // which keeps notes of every address that was ever used
  EXPECT_LE(last - settled, allowance);
#endif
}

TEST_F(Monkey, FramesOfAllPagesLeaveMemoryAsItWas) {
  constexpr int frames_a_page = 40;
  constexpr std::int64_t allowance = std::int64_t{16} << 20;
  const auto rounds =
      static_cast<std::int64_t>(number_of("AFTERGLOW_MONKEY_FRAMES", 2000)) / (frames_a_page * workspaces().size()) + 1;
  NullWindow window(1280, 800);
  json recipe = small_recipe_json();
  recipe["training"]["steps"] = 100000000;
  Play play(window, recipe.dump(), folder_);
  play.give({"speed", R"({"to": 300})"_json});
  play.give({"run"});
  std::int64_t settled = 0, last = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    // Curves grow with the steps; from here on only frames come.
    if (round == rounds / 4) {
      ASSERT_TRUE(play.rests());
    }
    for (const Workspace& workspace : workspaces()) {
      play.give({"workspace", json{{"name", workspace.id}}});
      for (int i = 0; i < frames_a_page; ++i, ++frames_) play.frame();
    }
    ::malloc_trim(0);
    last = resident_bytes();
    if (round == rounds / 4) settled = last;
  }
  std::printf("%lld frames, a quarter of them during %lld steps; memory %+.1f MiB since then\n",
              static_cast<long long>(frames_), static_cast<long long>(play.now().step), in_mebibytes(last - settled));
  EXPECT_LE(last - settled, allowance);
}

}  // namespace
}  // namespace afterglow
