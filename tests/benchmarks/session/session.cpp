// What a window costs the training that it watches: a session of this process, one behind a pipe, and a real window, in
// turns with a training that no window sees; then how soon a drag is answered here and behind a line of 80 ms and 20
// Mbit/s.
//
//   benchmark_session [--device cpu] [--threads 0] [--turns 5] [--seconds 2] [--drags 60] [PRESET...]
//
// A preset takes about a minute on a GPU with `--seconds 1 --drags 15`, and a window needs a display ($DISPLAY).
#include "core/engine/session/session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/cli/version.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/child_process.h"
#include "core/io/json_file.h"
#include "core/recipe/interventions.h"
#include "core/recipe/recipe.h"
#include "core/remote/remote.h"
#include "gpu/cuda.h"
#include "tests/app/run_program.h"

namespace afterglow {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;

constexpr double nominal_trip = 0.08, megabits = 20;  // seconds, a second
constexpr duration<double> picture{1.0 / 60}, glance{0.001};
// Of the page that the window opens with.
constexpr AnalysisSet first_page = Analysis::spectra | Analysis::trace | Analysis::inspected | Analysis::ablation;

struct Options {
  std::string device = "cpu";
  int threads = 0, turns = 5, drags = 60;
  double seconds = 2;
  std::vector<std::string> presets;
};

double seconds_since(Clock::time_point start) { return duration<double>(Clock::now() - start).count(); }
void wait(double seconds) { std::this_thread::sleep_for(duration<double>(seconds)); }

std::string endless(const std::string& preset) {
  Recipe recipe = parse_recipe(find_preset(preset).text, preset);
  recipe.training.steps = 100'000'000;
  recipe.training.evaluate_every = 0;
  return to_json(recipe).dump();
}

double at(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

double longest_call = 0;  // seconds that a window has waited for an observation

/// Looks as a window does, every sixtieth of a second, for so long; returns the pictures a second.
double look(ObservationSource& source, double seconds) {
  const Clock::time_point start = Clock::now();
  const std::uint64_t first = source.revision();
  for (Clock::time_point due = start; seconds_since(start) < seconds;) {
    const Clock::time_point asked = Clock::now();
    source.observe();
    longest_call = std::max(longest_call, seconds_since(asked));
    due += std::chrono::duration_cast<Clock::duration>(picture);
    std::this_thread::sleep_until(due);
  }
  return static_cast<double>(source.revision() - first) / seconds_since(start);
}

void look_until(ObservationSource& source, const std::function<bool(const Observation&)>& is_enough) {
  for (const Clock::time_point start = Clock::now(); !is_enough(*source.observe());) {
    require_training(*source.observe());
    if (seconds_since(start) > 120) throw Error(ExitCode::failure, "waited in vain; ", source.line().problem);
    std::this_thread::sleep_for(picture);
  }
}

/// A step and when it was seen, from an observation that was made after the call.
std::pair<std::int64_t, Clock::time_point> present(ObservationSource& source) {
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t before = source.revision();
    source.observe();
    for (const Clock::time_point start = Clock::now(); source.revision() == before && seconds_since(start) < 10;)
      std::this_thread::sleep_for(glance);
  }
  const Clock::time_point now = Clock::now();
  return {source.observe()->step, now};
}

/// Steps a second while `work` runs.
double speed(ObservationSource& source, const std::function<void()>& work) {
  const auto [first, start] = present(source);
  work();
  const auto [last, end] = present(source);
  return static_cast<double>(last - first) / duration<double>(end - start).count();
}

/// A run that trains only while it is measured.
class Watched {
 public:
  explicit Watched(std::unique_ptr<ObservationSource> source) : source_(std::move(source)) {
    source_->request_analyses(first_page);
    look_until(*source_, [](const Observation& now) { return now.step > 20; });
    look(*source_, 2);  // until the first analyses have been made
    rest();
  }
  /// Steps a second with a reader, and pictures a second.
  std::pair<double, double> watched(double seconds) {
    begin(first_page);
    look(*source_, 0.5 * seconds);  // what became due meanwhile
    double pictures = 0;
    const double steps = speed(*source_, [&] { pictures = look(*source_, seconds); });
    rest();
    return {steps, pictures};
  }
  double alone(double seconds) {
    begin(0);
    const double steps = speed(*source_, [&] { wait(seconds); });
    rest();
    return steps;
  }
  ObservationSource& source() { return *source_; }
  void begin(AnalysisSet analyses) {
    source_->request_analyses(analyses);
    source_->send({"run"});
    look_until(*source_, [](const Observation& now) { return now.running; });
  }
  void rest() {
    source_->request_analyses(0);
    source_->send({"pause"});
    look_until(*source_, [](const Observation& now) { return !now.running; });
  }

 private:
  std::unique_ptr<ObservationSource> source_;
};

std::unique_ptr<ObservationSource> session_here(const std::string& preset, const Options& options) {
  return std::make_unique<Session>(endless(preset),
                                   SessionOptions{.device = options.device, .threads = options.threads});
}

/// `words` come before the program.
std::unique_ptr<ObservationSource> session_there(const std::string& preset, const Options& options,
                                                 std::vector<std::string> words = {}) {
  words.push_back(program_file().string());
  words.emplace_back("session");
  RemoteOptions remote{std::move(words), "there", {}};
  remote.hello.version = version_line();
  remote.hello.recipe = endless(preset);
  remote.hello.device = options.device;
  remote.hello.threads = options.threads;
  return connect_to_remote(std::move(remote));
}

/// The program's window on the display, which sleeps while it is not measured.
class Window {
 public:
  Window(const std::string& preset, const Options& options, const ScratchFolder& folder)
      : status_(folder / (preset + ".status")) {
    const std::filesystem::path recipe = folder / (preset + ".json"), script = folder / (preset + ".script");
    write_file(recipe, endless(preset));
    write_file(script,
               nlohmann::json{{{"name", "status"}, {"value", {{"path", status_.string()}}}}, {{"name", "run"}}}.dump());
    process_ =
        start_program({program_file().string(), "--recipe", recipe.string(), "--script", script.string(), "--device",
                       options.device, "--threads", std::to_string(options.threads), "--size", "1600x1000"},
                      {});
    while (present().first <= 20) wait(0.1);
    wait(2);
    ::kill(process_, SIGSTOP);
  }
  ~Window() {
    ::kill(process_, SIGKILL);
    ends_well(process_, std::chrono::seconds(5));
  }
  double watched(double seconds) {
    ::kill(process_, SIGCONT);
    wait(0.5 * seconds);
    const auto [first, start] = present();
    wait(seconds);
    const auto [last, end] = present();
    ::kill(process_, SIGSTOP);
    return static_cast<double>(last - first) / (end - start);
  }

 private:
  static void write_file(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }
  /// The step of the newest picture and the second at which its file, which the next one replaces, was written.
  std::pair<std::int64_t, double> present() const {
    const Descriptor file(::open(status_.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info {};
    std::string text(::fstat(file.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0, ' ');
    if (::read(file.get(), text.data(), text.size()) <= 0) return {0, 0};
    return {nlohmann::json::parse(text)["run"]["step"],
            static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec)};
  }
  std::filesystem::path status_;
  pid_t process_ = -1;
};

struct Row {
  std::string name;
  std::vector<double> speeds{}, pictures{};
};

void measure_speeds(const std::string& preset, const Options& options, const ScratchFolder& folder) {
  Watched here(session_here(preset, options)), there(session_there(preset, options));
  std::optional<Window> window;
  if (::getenv("DISPLAY")) window.emplace(preset, options, folder);
  Row alone{"no reader"}, reader{"a reader of this process"}, drawn{"a window here"}, piped{"a reader behind a pipe"};
  const auto add = [](Row& row, const std::pair<double, double>& measured) {
    row.speeds.push_back(measured.first);
    row.pictures.push_back(measured.second);
  };
  for (int i = 0; i < options.turns; ++i) {
    alone.speeds.push_back(there.alone(options.seconds));
    add(reader, here.watched(options.seconds));
    if (window) drawn.speeds.push_back(window->watched(options.seconds));
    add(piped, there.watched(options.seconds));
  }
  const double base = at(alone.speeds, 0.5);
  for (const Row& row : {alone, reader, drawn, piped}) {
    if (row.speeds.empty()) continue;
    std::printf("%-8s watched by %-25s %8.1f steps/s (%.1f to %.1f), %5.1f %% of those alone", preset.c_str(),
                row.name.c_str(), at(row.speeds, 0.5), at(row.speeds, 0), at(row.speeds, 1),
                100 * at(row.speeds, 0.5) / base);
    std::printf(row.pictures.empty() ? "\n" : "; %.1f pictures/s\n", at(row.pictures, 0.5));
  }
  std::fflush(stdout);
}

/// Whether the answers are those with this mode there.
bool shows(const Observation& now, const ModeName& mode, std::complex<double> to) {
  if (!now.inspected) return false;
  const ModeEdits edits = changes_of(now.inspected->setup.interventions, mode.layer, mode.head).modes;
  const auto found = edits.find({true, mode.mode});
  return found != edits.end() && found->second.moved_to == to;
}

/// Milliseconds from a drag to the answers that show it; the drags come at uneven times.
std::vector<double> drag(ObservationSource& source, int drags) {
  std::vector<double> times;
  const auto spectra = source.observe()->spectra;
  const HeadSpectrum& head = spectra->heads.front();
  const ModeName mode{head.layer, head.head, true, head.identity.front()};
  for (int i = 1; i <= drags; ++i) {
    look(source, 0.2 + 0.013 * (i % 10));
    const std::complex<double> to(0.5 + 0.005 * i, 0.1);
    const Clock::time_point start = Clock::now();
    source.send(drag_mode(mode, to, true));
    while (!shows(*source.observe(), mode, to) && seconds_since(start) < 5) std::this_thread::sleep_for(glance);
    times.push_back(1e3 * seconds_since(start));
  }
  return times;
}

void measure_drags(const std::string& preset, const Options& options) {
  const auto is_ready = [](const Observation& now) {
    return now.running && now.spectra && !now.spectra->heads.empty();
  };
  const auto measure = [&](const char* name, ObservationSource& source) {
    source.request_analyses(first_page);
    look_until(source, is_ready);
    look(source, 2);  // the round trip is known after a second
    const double pictures = look(source, 2);
    const LineState line = source.line();
    const std::vector<double> times = drag(source, options.drags);
    std::printf("%-8s a drag is shown %-24s after %6.1f ms (9 of 10: %.1f, all: %.1f); %.1f pictures/s", preset.c_str(),
                name, at(times, 0.5), at(times, 0.9), at(times, 1), pictures);
    std::printf(", longest call of the window %.2f ms", 1e3 * std::exchange(longest_call, 0));
    if (!line.host.empty()) {
      std::printf("; round trip %.1f ms, %.2f MB/s: a drag takes %.2f of %.0f ms", 1e3 * line.round_trip,
                  1e-6 * line.bytes_per_second, 1e-3 * at(times, 0.5) / nominal_trip, 1e3 * nominal_trip);
    }
    std::printf("\n");
    std::fflush(stdout);
  };
  if (find_preset(preset).text.find("\"ska\"") == std::string::npos) return;  // has no modes
  measure("here", *session_here(preset, options));
  measure("behind a pipe", *session_there(preset, options));
  const std::string line = (source_folder() / "tests/attack/slow_line.py").string();
  measure(
      "behind the slow line",
      *session_there(preset, options, {"python3", line, std::to_string(1e3 * nominal_trip), std::to_string(megabits)}));
}

Options options_of(int count, char** words) {
  Options options;
  std::map<std::string, std::function<void(const std::string&)>> known{
      {"--device", [&](const std::string& word) { options.device = word; }},
      {"--threads", [&](const std::string& word) { options.threads = std::stoi(word); }},
      {"--turns", [&](const std::string& word) { options.turns = std::stoi(word); }},
      {"--drags", [&](const std::string& word) { options.drags = std::stoi(word); }},
      {"--seconds", [&](const std::string& word) { options.seconds = std::stod(word); }}};
  for (int i = 1; i < count; ++i) {
    const auto found = known.find(words[i]);
    if (found == known.end())
      options.presets.emplace_back(words[i]);
    else if (++i < count)
      found->second(words[i]);
  }
  if (options.presets.empty()) options.presets = {"tiny", "ssm-ska"};
  return options;
}

}  // namespace
}  // namespace afterglow

int main(int count, char** words) {
  using namespace afterglow;
  ::signal(SIGPIPE, SIG_IGN);
  register_cuda_maker([](std::string* why_not) { return make_cuda_backend(0, why_not); });
  try {
    const Options options = options_of(count, words);
    const ScratchFolder folder("benchmark_session");
    for (const std::string& preset : options.presets) {
      measure_speeds(preset, options, folder);
      measure_drags(preset, options);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
