// The pictures inside one step are of the numbers that the layer itself computed.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr int width = 32, tokens = 7;

/// A small layer walked token by token in float64; its captures are those of the last one.
struct WalkedLayer {
  explicit WalkedLayer(const LayerKind& kind)
      : backend(make_cpu_backend(1)),
        arena(*backend),
        tape(*backend, arena),
        layer(kind.make(small_layer_config(kind, width), ParameterScope(store, "layer"))),
        state(layer->make_state(*backend, DType::f64, 1)),
        read(tape, *backend) {
    store.allocate_values(*backend, DType::f64);
    store.initialise(5);
    Random random(3);
    for (int t = 0; t < tokens; ++t) {
      std::vector<double> x;
      for (int i = 0; i < width; ++i) x.push_back(random.normal());
      tape.begin(false);
      tape.set_capturing(true);
      const Tape::Scope scope(tape, "layer");
      layer->step(tape, tape.constant(to_device(tape, {1, 1, width}, DType::f64, x)), state);
      tape.set_capturing(false);
    }
  }
  CapturedLayer captured() const { return {*layer, read, "layer", 1}; }
  /// By their symbols.
  std::map<std::string, StepPicture> pictures(const LayerKind& kind, int head) const {
    std::map<std::string, StepPicture> all;
    for (const StepPicture& picture : kind.readers.step_pictures(captured(), head)) all[picture.symbol] = picture;
    return all;
  }

  std::unique_ptr<Backend> backend;
  ParameterStore store;
  Arena arena;
  Tape tape;
  std::unique_ptr<Layer> layer;
  LayerState state;  // captures point into it
  CaptureReader read;
};

void expect_near(const std::vector<float>& shown, const std::vector<double>& computed) {
  ASSERT_EQ(shown.size(), computed.size());
  double size = 0;
  for (const double value : computed) size = std::max(size, std::abs(value));
  for (std::size_t i = 0; i < shown.size(); ++i) EXPECT_NEAR(shown[i], computed[i], 1e-5 * size + 1e-7) << i;
}

TEST(StepPictures, AreAtMostEightWithNamesOfTheirOwn) {
  int kinds = 0;
  for (const LayerKind& kind : layer_kinds()) {
    if (!kind.readers.step_pictures) continue;
    ++kinds;
    const WalkedLayer walked(kind);
    for (int head = 0; head < walked.captured().heads(); ++head) {
      const std::vector<StepPicture> all = kind.readers.step_pictures(walked.captured(), head);
      EXPECT_GE(all.size(), 3u) << kind.name;
      EXPECT_LE(all.size(), 8u) << kind.name;
      EXPECT_EQ(walked.pictures(kind, head).size(), all.size()) << kind.name << ": two of the same name";
      for (const StepPicture& picture : all) {
        EXPECT_EQ(picture.cells.size(), static_cast<std::size_t>(picture.rows * picture.columns)) << picture.symbol;
        EXPECT_FALSE(picture.about.empty()) << picture.symbol;
      }
    }
  }
  EXPECT_EQ(kinds, 3);
}

TEST(StepPictures, OfSkaLeadToItsAnswer) {
  const LayerKind& kind = *find_layer_kind("ska");
  const WalkedLayer walked(kind);
  for (int head = 0; head < walked.captured().heads(); ++head) {
    const auto pictures = walked.pictures(kind, head);
    expect_near(pictures.at("y").cells, walked.captured().row("readout", 0, head));
    expect_near(pictures.at("A_w").cells, walked.captured().block("A_w", head));
    const StepPicture &L = pictures.at("L"), &G = pictures.at("G");
    for (int i = 0; i < L.rows; ++i) {
      double sum = 0;
      for (int j = 0; j < L.columns; ++j) sum += std::pow(L.cells[static_cast<std::size_t>(i * L.columns + j)], 2);
      EXPECT_GT(sum, G.cells[static_cast<std::size_t>(i * G.columns + i)]) << "the ridge is in it";
      EXPECT_NEAR(sum, G.cells[static_cast<std::size_t>(i * G.columns + i)], 2e-3);
    }
  }
}

TEST(StepPictures, OfGatedKalmaNetEndAtItsSolution) {
  const LayerKind& kind = *find_layer_kind("gka");
  const WalkedLayer walked(kind);
  const auto pictures = walked.pictures(kind, 0);
  const std::vector<double> solution = walked.captured().row("xhat", 0, 0);
  const auto distance = [&](const std::string& symbol) {
    double sum = 0;
    for (std::size_t i = 0; i < solution.size(); ++i) sum += std::pow(pictures.at(symbol).cells[i] - solution[i], 2);
    return std::sqrt(sum);
  };
  std::vector<std::pair<int, std::string>> iterates;
  for (const auto& [symbol, picture] : pictures) {
    if (symbol.starts_with("x_")) iterates.emplace_back(std::stoi(symbol.substr(2)), symbol);
  }
  std::ranges::sort(iterates);
  ASSERT_GE(iterates.size(), 2u);
  expect_near(pictures.at(iterates.back().second).cells, solution);
  EXPECT_GT(distance(iterates.front().second), 10 * distance(iterates.back().second));
}

TEST(StepPictures, OfSessaAreALineOfTheSubstitution) {
  const LayerKind& kind = *find_layer_kind("sessa");
  const WalkedLayer walked(kind);
  const auto pictures = walked.pictures(kind, 0);
  const double gamma = walked.captured().values("gamma")[0];
  EXPECT_NE(gamma, 0);
  std::vector<double> sum;
  for (std::size_t i = 0; i < pictures.at("f_t").cells.size(); ++i)
    sum.push_back(pictures.at("f_t").cells[i] + gamma * pictures.at("B s").cells[i]);
  expect_near(pictures.at("s_t").cells, sum);
}

}  // namespace
}  // namespace afterglow
