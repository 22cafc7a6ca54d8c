// The pictures inside one step are of the numbers that the layer itself computed.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

constexpr int pictured_width = 32, pictured_tokens = 7;

/// A small layer walked token by token in float64; its captures are those of the last one.
struct WalkedLayer {
  explicit WalkedLayer(const LayerKind& kind, int length = pictured_tokens)
      : backend(make_cpu_backend(1)),
        arena(*backend),
        tape(*backend, arena),
        layer(make_layer(kind.name, small_layer_config(kind, pictured_width), ParameterScope(store, "layer"))),
        state(layer->make_state(*backend, DType::f64, 1)),
        read(tape, *backend) {
    store.allocate_values(*backend, DType::f64);
    store.initialise(5);
    Random random(3);
    for (int t = 0; t < length; ++t) {
      std::vector<double> x;
      for (int i = 0; i < pictured_width; ++i) x.push_back(random.normal());
      tape.begin(false);
      const Capturing capturing(tape);
      const Tape::Scope scope(tape, "layer");
      layer->step(tape, tape.constant(to_device(tape, {1, 1, pictured_width}, DType::f64, x)), state);
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
  const CapturedLayer layer = walked.captured();
  const std::vector<double> solution = layer.row("xhat", 0, 0), q = layer.row("queries", 0, 0);
  const StepPicture& iterates = pictures.at("x_i");
  ASSERT_EQ(iterates.rows, 31);
  const std::size_t n = solution.size(), last = iterates.cells.size() - n;
  expect_near({iterates.cells.begin() + static_cast<std::ptrdiff_t>(last), iterates.cells.end()}, solution);

  // Both residuals of each iterate, from H itself.
  const std::vector<double> H = layer.block("H", 0);
  const double lambda = layer.row("lambda", 0, 0).front();
  const StepPicture& missed = pictures.at("|r_i| / |q|");
  ASSERT_EQ(missed.curves.size(), 2u);
  double length = 0;
  for (const double x : q) length += x * x;
  for (const std::size_t i : {std::size_t{0}, std::size_t{6}, std::size_t{30}}) {
    double ridged = 0, plain = 0;
    for (std::size_t row = 0; row < n; ++row) {
      double sum = -q[row];
      for (std::size_t j = 0; j < n; ++j) sum += H[row * n + j] * static_cast<double>(iterates.cells[i * n + j]);
      plain += sum * sum;
      ridged += std::pow(sum + lambda * static_cast<double>(iterates.cells[i * n + row]), 2);
    }
    EXPECT_NEAR(missed.cells[i], std::sqrt(ridged / length), 1e-5) << i;
    EXPECT_NEAR(missed.cells[31 + i], std::sqrt(plain / length), 1e-5) << i;
  }
  EXPECT_LT(missed.cells[30], 1e-2 * missed.cells[0]);
  EXPECT_GT(missed.cells[61], 10 * missed.cells[30]) << "the ridge keeps the solution away from H x = q";

  const double alpha = layer.row("alpha", 0, 0).front();
  std::vector<double> reader;
  for (std::size_t i = 0; i < n; ++i) reader.push_back(q[i] + alpha * (solution[i] - q[i]));
  expect_near(pictures.at("q'").cells, reader);
  expect_near(pictures.at("y").cells, layer.row("readout", 0, 0));
}

TEST(StepPictures, OfSessaAreALineOfTheSubstitution) {
  const LayerKind& kind = *find_layer_kind("sessa");
  const WalkedLayer walked(kind);
  const auto pictures = walked.pictures(kind, 1);
  const CapturedLayer layer = walked.captured();
  const double gamma = layer.values("gamma")[0];
  EXPECT_NE(gamma, 0);
  EXPECT_FLOAT_EQ(pictures.at("γ_t").cells.at(0), static_cast<float>(gamma));
  std::vector<double> sum;
  for (std::size_t i = 0; i < pictures.at("f_t").cells.size(); ++i)
    sum.push_back(pictures.at("f_t").cells[i] + gamma * pictures.at("r_t").cells[i]);
  expect_near(pictures.at("s_t").cells, sum);

  // The feedback row weighs the past solutions to r_t, the forward rows the values to f_t (before their projection).
  const std::vector<float>&feedback = pictures.at("α_fb").cells, &forward = pictures.at("α").cells;
  ASSERT_EQ(feedback.size(), static_cast<std::size_t>(pictured_tokens - 1));
  ASSERT_EQ(forward.size(), static_cast<std::size_t>(pictured_tokens));
  const std::vector<double> past = walked.read.download(walked.state.get("solution"));
  std::vector<double> routed(static_cast<std::size_t>(pictured_width), 0.0);
  for (std::size_t j = 0; j < feedback.size(); ++j) {
    for (std::size_t i = 0; i < routed.size(); ++i)
      routed[i] += static_cast<double>(feedback[j]) * past[j * pictured_width + i];
  }
  expect_near(pictures.at("r_t").cells, routed);
  EXPECT_NEAR(std::accumulate(forward.begin(), forward.end(), 0.0), 1, 1e-6);
}

TEST(StepPictures, OfSessasFirstTokenHaveNoFeedback) {
  const LayerKind& kind = *find_layer_kind("sessa");
  const WalkedLayer walked(kind, 1);
  const auto pictures = walked.pictures(kind, 0);
  EXPECT_EQ(pictures.count("α_fb"), 0u);
  EXPECT_EQ(pictures.at("s_t").cells, pictures.at("f_t").cells);
  EXPECT_EQ(pictures.at("α").cells, std::vector<float>{1.0f});
}

}  // namespace
}  // namespace afterglow
