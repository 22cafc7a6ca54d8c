// What a frame costs: building the page with long curves, at rest, with new data and while it is moved, and how long a
// drag takes from the hand to the picture that follows it.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <thread>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/session.h"
#include "core/recipe/recipe.h"
#include "tests/support/sample_observations.h"
#include "tests/views/drawing/null_window.h"

namespace afterglow {
namespace {

constexpr int width = 1600, height = 1000;

void shorten(Values& curve, std::size_t size) {
  curve = std::vector<double>(curve.span().begin(),
                              curve.span().begin() + static_cast<std::ptrdiff_t>(std::min(curve.size(), size)));
}

/// The sample of a million points as it was when it had only `steps`.
Observation training_after(const Observation& whole, std::size_t steps) {
  Observation part = whole;
  for (RunCurves& run : part.runs) {
    for (Values* curve : {&run.loss, &run.accuracy, &run.learning_rate, &run.gradient_norm}) shorten(*curve, steps);
    for (NamedCurve& curve : run.layer_gradient_norms) shorten(curve.values, steps);
  }
  part.step = static_cast<std::int64_t>(steps);
  return part;
}

struct MillionPoints {
  NullWindow window{width, height};
  Observation whole = samples::million_points();
  MillionPoints() {
    window.state.workspace = "training";
    window.show(whole);
    window.draw_page(3);
  }
};

void unchanged_frame(benchmark::State& state) {
  MillionPoints page;
  const std::size_t before = mallinfo2().uordblks;
  for (auto _ : state) page.window.draw_page();
  state.counters["heap_growth_bytes"] = static_cast<double>(mallinfo2().uordblks) - static_cast<double>(before);
}
BENCHMARK(unchanged_frame)->Unit(benchmark::kMillisecond);

void frame_with_new_points(benchmark::State& state) {
  MillionPoints page;
  constexpr std::size_t first = 900'000, last = 999'000;
  std::size_t steps = last;
  for (auto _ : state) {
    state.PauseTiming();
    steps += 37;
    if (steps > last) {
      page.window.show(training_after(page.whole, steps = first));
      page.window.draw_page();
    }
    page.window.show(training_after(page.whole, steps));
    state.ResumeTiming();
    page.window.draw_page();
  }
}
BENCHMARK(frame_with_new_points)->Unit(benchmark::kMillisecond);

void frame_while_all_plots_are_moved(benchmark::State& state) {
  MillionPoints page;
  double shift = 0;
  for (auto _ : state) {
    shift += 1000;
    for (auto& [id, plot] : page.window.state.plots) plot.x = Range{shift, shift + 800'000};
    page.window.draw_page();
  }
}
BENCHMARK(frame_while_all_plots_are_moved)->Unit(benchmark::kMillisecond);

void frame_of_workspace(benchmark::State& state, const std::string& workspace) {
  NullWindow window(width, height);
  window.show(samples::mid_training());
  window.state.workspace = workspace;
  window.draw_page(3);
  const std::size_t before = mallinfo2().uordblks;
  for (auto _ : state) window.draw_page();
  state.counters["heap_growth_bytes"] = static_cast<double>(mallinfo2().uordblks) - static_cast<double>(before);
}

/// A session at rest and the page that shows it.
class Rest {
 public:
  Rest() {
    SessionOptions options;
    options.device = "cpu";
    options.start_running = false;
    session_ = std::make_unique<Session>(std::string(find_preset("tiny").text), options);
    wait([](const Observation& o) { return o.inspected && o.spectra && !o.spectra->heads.empty() && o.trace; });
    window_.draw_page(3);
  }

  /// Sends the command and draws until the page shows what it changed.
  template <class Shown>
  void follow(const Command& command, const Shown& shown) {
    session_->send(command);
    wait(shown);
    window_.draw_page();
  }

 private:
  template <class Shown>
  void wait(const Shown& shown) {
    std::shared_ptr<const Observation> seen = session_->observe();
    while (!shown(*seen)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      seen = session_->observe();
    }
    window_.show(seen);
  }

  NullWindow window_{width, height};
  std::unique_ptr<Session> session_;
};

void drag_of_an_eigenvalue(benchmark::State& state) {
  Rest rest;
  int moves = 0;
  for (auto _ : state) {
    const double re = 0.2 + 0.001 * (++moves % 500);
    rest.follow({"drag_mode", {{"head", 0}, {"mode", 0}, {"re", re}, {"im", 0.1}, {"live", true}}},
                [re](const Observation& o) {
                  if (!o.inspected || o.inspected->setup.interventions.empty()) return false;
                  const LayerIntervention& layer = o.inspected->setup.interventions.layers.begin()->second;
                  return std::abs(layer.heads.at(0).modes.begin()->second.moved_to->real() - re) < 1e-5;
                });
  }
}
BENCHMARK(drag_of_an_eigenvalue)->Unit(benchmark::kMillisecond)->UseRealTime();

void drag_of_the_learning_rate(benchmark::State& state) {
  Rest rest;
  int moves = 0;
  for (auto _ : state) {
    const double rate = 1e-4 * (1 + ++moves % 50);
    rest.follow(SetNumber{"learning_rate", rate, true}, [rate](const Observation& o) {
      for (const Setting& setting : o.settings) {
        if (setting.key == "learning_rate" && std::abs(setting.value - rate) < 1e-9) return true;
      }
      return false;
    });
  }
}
BENCHMARK(drag_of_the_learning_rate)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace afterglow

int main(int argc, char** argv) {
  for (const afterglow::Workspace& workspace : afterglow::workspaces()) {
    const std::string name(workspace.id);
    benchmark::RegisterBenchmark(("frame_of_workspace/" + name).c_str(), [name](benchmark::State& state) {
      afterglow::frame_of_workspace(state, name);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
