// Shows a made-up observation in a real window: for looking at it, for pictures and for tests under a virtual display.
//   window_samples SAMPLE [--theme NAME] [--scale S] [--size WxH] [--script FILE] [--screenshot FILE] [--frames N]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "app/window/window_loop.h"
#include "core/io/error.h"
#include "tests/support/sample_observations.h"

namespace {

using namespace afterglow;

/// Answers commands the way a session would, as far as a made-up run can. Every command goes to stdout.
class SampleSource final : public ObservationSource {
 public:
  explicit SampleSource(std::shared_ptr<const Observation> observation) : observation_(std::move(observation)) {}
  void send(Command command) override {
    std::printf("%s %s\n", command.name.c_str(), command.value.dump().c_str());
    std::fflush(stdout);
    Observation next = *observation_;
    if (command.name == "toggle_run") next.running = !next.running;
    if (command.name == "step") next = samples::training_at(next.step + 1);
    observation_ = std::make_shared<const Observation>(std::move(next));
    ++revision_;
    ++taken_;
  }
  std::shared_ptr<const Observation> observe() const override { return observation_; }
  std::uint64_t revision() const override { return revision_; }
  std::uint64_t taken_commands() const override { return taken_; }

 private:
  std::shared_ptr<const Observation> observation_;
  std::uint64_t revision_ = 1, taken_ = 0;
};

std::shared_ptr<const Observation> sample_named(const std::string& name) {
  for (const samples::Sample& sample : samples::all()) {
    if (sample.name == name) return sample.observation();
  }
  throw UsageError("there is no sample \"" + name + "\"");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    WindowOptions options;
    const auto value = [&](const char* option) -> std::string {
      for (int i = 2; i + 1 < argc; ++i) {
        if (std::strcmp(argv[i], option) == 0) return argv[i + 1];
      }
      return "";
    };
    options.theme = value("--theme");
    options.scale = std::atof(value("--scale").c_str());
    options.size = value("--size");
    options.script = value("--script");
    options.screenshot = value("--screenshot");
    options.exit_after_frames = std::atoi(value("--frames").c_str());
    WindowLoop(options, std::make_unique<SampleSource>(sample_named(argc > 1 ? argv[1] : "mid training"))).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
