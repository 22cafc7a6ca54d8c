// Mathematics in labels: what stands above and below what, and everything else left as it is written.
#include "core/figure/math/math_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/figure/recording_canvas.h"

namespace afterglow {
namespace {

MathText set(std::string_view markup) {
  const RecordingCanvas canvas;
  return set_math(markup, 12, FontFace::regular, canvas);
}

/// "lag" at the line, "−0.73" above: "lag ^−0.73"; what is lowered follows a "_".
std::string shape_of(std::string_view markup) {
  std::string shape;
  for (const TextRun& run : set(markup).runs)
    shape += (shape.empty() ? "" : " ") + std::string(run.rise > 0 ? "^" : run.rise < 0 ? "_" : "") + run.text;
  return shape;
}

TEST(MathText, SetsScripts) {
  EXPECT_EQ(shape_of("lag^−0.73"), "lag ^−0.73");
  EXPECT_EQ(shape_of("|λ|^K − I"), "|λ| ^K  − I");
  EXPECT_EQ(shape_of("e^{−t/τ} x"), "e ^−t/τ  x");
  EXPECT_EQ(shape_of("|∂y_t/∂x_τ|"), "|∂y _t /∂x _τ |");
  EXPECT_EQ(shape_of("w_tτ v_{t+1}"), "w _tτ  v _t+1");
  EXPECT_EQ(shape_of("(tr A)^½"), "(tr A) ^½");
  EXPECT_EQ(shape_of("λ_max"), "λ _max");
}

TEST(MathText, SetsPowersOfTen) {
  EXPECT_EQ(shape_of("1e−4"), "10 ^−4");
  EXPECT_EQ(shape_of("1e+06"), "10 ^6");
  EXPECT_EQ(shape_of("rate 3e−4 → 1e−3"), "rate 3×10 ^−4  → 10 ^−3");
  EXPECT_EQ(shape_of("−2.5e6 B"), "−2.5×10 ^6  B");
}

TEST(MathText, LeavesNamesAndBrokenMarkupAlone) {
  for (const char* plain :
       {"learning_rate", "tiny_seed7_step1000", "gated_deltanet", "4f2a91e7c3", "12e", "a^", "^2", "_x", "e^{−x", "{a}",
        "{\"preset\": \"tiny\"}", "{a}/b", "3 sessa", "", "x_", "size ^ 2", "v1e5", "p.x_1"}) {
    const MathText text = set(plain);
    EXPECT_LE(text.runs.size(), 1u) << plain;
    EXPECT_EQ(text.runs.empty() ? "" : text.runs[0].text, plain);
    EXPECT_TRUE(text.rules.empty());
  }
}

TEST(MathText, StandsBothScriptsOfABaseOverEachOther) {
  const MathText text = set("A_w^K x");
  ASSERT_EQ(text.runs.size(), 4u);
  EXPECT_DOUBLE_EQ(text.runs[1].x, text.runs[2].x);
  EXPECT_LT(text.runs[1].rise, 0);
  EXPECT_GT(text.runs[2].rise, 0);
  EXPECT_GE(text.runs[3].x, text.runs[1].x + text.runs[1].width);
  EXPECT_GE(text.runs[3].x, text.runs[2].x + text.runs[2].width);
}

TEST(MathText, BuildsFractionsRootsAndBars) {
  const MathText fraction = set("{1}/{1 + x^2}");
  ASSERT_EQ(fraction.rules.size(), 1u);
  ASSERT_GE(fraction.runs.size(), 3u);
  const TextRule& rule = fraction.rules[0];
  EXPECT_GT(fraction.runs[0].rise, rule.rise);
  EXPECT_LT(fraction.runs[1].rise, rule.rise);
  EXPECT_NEAR(fraction.runs[0].x + fraction.runs[0].width / 2, rule.x + rule.width / 2, 1e-9);
  EXPECT_GT(fraction.ascent + fraction.descent, 16);

  const MathText root = set("√{2 t}");
  ASSERT_EQ(root.rules.size(), 1u);
  EXPECT_DOUBLE_EQ(root.rules[0].x, root.runs[0].width);
  EXPECT_NEAR(root.rules[0].width, root.runs[1].width, 1e-9);
  EXPECT_EQ(set("‾{x}").rules.size(), 1u);
}

TEST(MathText, RunsFollowEachOtherWithinItsWidth) {
  const RecordingCanvas canvas;
  for (const char* markup : {"lag^−0.73 ± 0.02", "1e−4", "√{x_1}/{2}", "a^{b^{c^{d^e}}}"}) {
    const MathText text = set(markup);
    double end = 0;
    for (const TextRun& run : text.runs) {
      EXPECT_GE(run.x, end - 1e-9) << markup;
      EXPECT_GE(run.size, 6) << markup;
      EXPECT_NEAR(run.width, canvas.text_width(run.text, run.size, FontFace::regular), 1e-9);
      end = run.x + run.width;
    }
    EXPECT_NEAR(text.width, end, 1e-9) << markup;
    EXPECT_DOUBLE_EQ(math_width(canvas, markup, 12, FontFace::regular), text.width);
  }
}

TEST(MathText, IsDrawnFromItsAnchorAndTurned) {
  RecordingCanvas level, turned;
  const double width = math_width(level, "x^2", 12, FontFace::regular);
  draw_math(level, {100, 50}, "x^2", {12, FontFace::regular, {}, Anchor::middle, 0});
  ASSERT_EQ(level.texts.size(), 2u);
  EXPECT_NEAR(level.texts[0].box.x, 100 - width / 2, 1e-9);
  EXPECT_NEAR(level.texts[1].box.right(), 100 + width / 2, 1e-9);
  draw_math(turned, {100, 50}, "x^2", {12, FontFace::regular, {}, Anchor::middle, 90});
  ASSERT_EQ(turned.texts.size(), 2u);
  EXPECT_NEAR(turned.texts[0].box.bottom(), 50 + width / 2, 1e-9);
  EXPECT_LT(turned.texts[1].box.x, turned.texts[0].box.x);  // above means left of a text that reads upwards
}

TEST(FittedMath, FitsAndSaysSo) {
  const RecordingCanvas canvas;
  EXPECT_EQ(fitted_math(canvas, "short", 100, 12, FontFace::regular), "short");
  for (const char* markup : {"a rather long sentence", "half-life e^{−t/τ} tokens", "naïve λ|λ|λ|λ|λ"}) {
    for (const double width : {20.0, 40.0, 60.0}) {
      const std::string cut = fitted_math(canvas, markup, width, 12, FontFace::regular);
      EXPECT_LE(math_width(canvas, cut, 12, FontFace::regular), width) << cut;
      EXPECT_TRUE(cut.ends_with("…"));
      EXPECT_EQ(cut.find('{'), std::string::npos);
    }
  }
  EXPECT_EQ(fitted_math(canvas, "anything", 0, 12, FontFace::regular), "…");
  EXPECT_EQ(fitted_math(canvas, std::string(1000000, 'm'), 100, 12, FontFace::regular),
            fitted_math(canvas, std::string(100, 'm'), 100, 12, FontFace::regular));
}

}  // namespace
}  // namespace afterglow
