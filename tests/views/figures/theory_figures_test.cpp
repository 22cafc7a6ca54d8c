// The figures of the theory page show the numbers of core/analysis on a live head.
#include "views/analyses/theory/theory_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/analysis/attention/query_jacobian.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/inspection/theory.h"
#include "core/studies/claims_view.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/views/figures/figure_parts.h"

namespace afterglow {
namespace {

constexpr int heads = 2, r = 6, P = 8;

/// A trained SKA layer in float64 and what a captured pass left of it.
struct LiveHead {
  explicit LiveHead(const std::string& mode) : recipe(recipe_of(mode)), trainer(recipe, *backend, DType::f64) {
    for (int i = 0; i < 5; ++i) trainer.step();
    example = trainer.task().example(trainer.seed(), 0, Split::held_out);
    while (trainer.parts()[part].kind != "ska") ++part;
    tape.begin(false);
    const Capturing capturing(tape);
    trainer.model().forward(tape, upload(DType::i32, example.tokens.data()), upload(DType::u8, example.context.data()));
  }

  static Recipe recipe_of(const std::string& mode) {
    nlohmann::json json = small_recipe_json();
    json["model"]["blocks"][1]["mixer"]["mode"] = mode;
    if (mode == "chunk") json["model"]["blocks"][1]["mixer"]["chunk"] = 10;
    return parse_recipe(json, "test");
  }
  Tensor upload(DType dtype, const void* values) {
    const Tensor tensor = tape.scratch({1, static_cast<std::int64_t>(example.tokens.size())}, dtype);
    backend->upload(tensor, values);
    return tensor;
  }
  /// Rows of one head of a capture [1,T,H,width] at the tokens that the head's last statistics hold.
  std::vector<double> rows(const CaptureReader& read, const char* name, int head, int width, const std::string& mode) {
    const std::vector<double> all = read.values(trainer.parts()[part].scope + name);
    std::vector<double> kept;
    for (std::size_t t = 0; t < example.tokens.size(); ++t) {
      if ((mode == "masked" && example.context[t] != 1) || (mode == "chunk" && t >= 20)) continue;
      for (int i = 0; i < width; ++i) kept.push_back(all[(t * heads + head) * width + i]);
    }
    return kept;
  }

  /// What the window sees of its head 1.
  Observation observed(const CaptureReader& read) {
    Observation o;
    o.theory =
        std::make_shared<const TheoryView>(read_theory(trainer, static_cast<int>(part), 1, read, example.context));
    return o;
  }

  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Recipe recipe;
  Trainer trainer;
  Arena arena{*backend};
  Tape tape{*backend, arena};
  Example example;
  std::size_t part = 0;
};

TEST(QueryJacobianFigures, ShowSoftmaxBesideSkaAsTheAnalysisSays) {
  for (const std::string mode : {"prefix", "masked", "chunk"}) {
    LiveHead live(mode);
    const CaptureReader read(live.tape, *live.backend);
    const Observation o = live.observed(read);
    CurveStore curves;
    const auto figures = query_jacobian_figures(o, {}, curves);
    ASSERT_EQ(figures.size(), 2u) << mode;

    const std::vector<double> keys = live.rows(read, ".keys", 1, r, mode),
                              values = live.rows(read, ".values", 1, P, mode),
                              queries = live.rows(read, ".queries", 1, r, "");
    const auto expected = attention_query_jacobians(keys, values, queries, static_cast<int>(keys.size()) / r, r,
                                                    1 / std::sqrt(static_cast<double>(r)));
    const double m = read.tail(live.trainer.parts()[live.part].scope + ".m", 1, heads, 1).front();
    const Scatter dots = series<Scatter>(figures[1], "softmax");
    ASSERT_EQ(dots.points.size(), live.example.tokens.size()) << "fewer than 64: every query has its dot";
    ASSERT_EQ(expected.size(), dots.points.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(dots.points[i].x, expected[i].max_weight, 1e-12);
      EXPECT_NEAR(dots.points[i].y / m, expected[i].singular_values.front(), 1e-12) << "by the query divided by m";
      EXPECT_LE(dots.points[i].y, o.theory->softmax.saturation_bound[i] * (1 + 1e-9));
      EXPECT_LE(dots.points[i].y, o.theory->softmax.sharp_bound[i] * (1 + 1e-9));
    }
    const Line last = series<Line>(figures[0], "softmax, last token"), ska = series<Line>(figures[0], "SKA");
    ASSERT_EQ(CurveView(last.curve).size(), static_cast<std::size_t>(expected.back().rank));
    for (std::size_t i = 0; i < CurveView(last.curve).size(); ++i)
      EXPECT_NEAR(CurveView(last.curve).y(i) / m, expected.back().singular_values[i], 1e-12);
    EXPECT_EQ(CurveView(ska.curve).y(0), figures[1].reference_lines[1].at) << "SKA's norm, the same for every query";
    EXPECT_NEAR(figures[1].reference_lines[0].at / m, expected[0].bound, 1e-12) << "J.2";
  }
}

TEST(LinearGapFigures, SayThatLinearAttentionIsOneGradientStep) {
  for (const std::string mode : {"prefix", "masked", "chunk"}) {
    LiveHead live(mode);
    const CaptureReader read(live.tape, *live.backend);
    const Observation o = live.observed(read);
    EXPECT_LT(o.theory->gradient_step_gap, 1e-11) << mode << ": the statistics are those of the pairs, in float64";
    EXPECT_LT(o.theory->linearity_gap, 1e-11) << mode;
    EXPECT_GT(o.theory->softmax.linearity_gap, 1e-9) << mode;
    CurveStore curves;
    EXPECT_NE(linear_gap_figures(o, {}, curves).at(0).subtitle.find("|C q − B_1 q| ≤ "), std::string::npos);
    EXPECT_NE(query_jacobian_figures(o, {}, curves).at(1).subtitle.find("deviation from linear: softmax "),
              std::string::npos);
  }
  EXPECT_TRUE(gradient_step_text({}).empty());
  EXPECT_TRUE(linearity_text({}).empty());
}

TEST(ClaimFigures, CountEveryClaimOnceUnderItsPaper) {
  CurveStore curves;
  const std::vector<Figure> figures = claims_figures({}, {}, curves);
  ASSERT_EQ(figures.size(), 4u);
  double all = 0;
  for (const Figure& figure : figures) {
    for (const Bar& bar : std::get<Bars>(figure.series.front()).bars) all += bar.value;
  }
  EXPECT_EQ(all, static_cast<double>(paper_claims().size()));
  EXPECT_NE(claims_subtitle({}, {}).find(" do not · "), std::string::npos) << claims_subtitle({}, {});
}

}  // namespace
}  // namespace afterglow
