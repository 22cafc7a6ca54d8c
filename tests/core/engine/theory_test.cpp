// The theory of a live head: bounds hold, sizes fit, and a model without such a head has none.
#include <gtest/gtest.h>

#include <cmath>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/session/analysed_run.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

TEST(Theory, HoldsOnALiveHead) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(10);
  for (int head = 0; head < 2; ++head) {
    analysed.choose_theory(-1, head);
    EXPECT_FALSE(analysed.is_current(Analysis::theory));
    analysed.advance(Analysis::inspected, Budget::whole);
    analysed.advance(Analysis::theory, Budget::whole);
    EXPECT_TRUE(analysed.is_current(Analysis::theory));
    const Observation seen = analysed.describe();
    ASSERT_TRUE(seen.inspected && seen.theory);
    const TheoryView& t = *seen.theory;
    EXPECT_EQ(t.step, 10);
    EXPECT_EQ(t.head, head);
    EXPECT_EQ(seen.model.layers[static_cast<std::size_t>(t.layer)].kind, "ska");
    ASSERT_FALSE(t.noise.empty());
    for (std::size_t i = 0; i < t.noise.size(); ++i) {
      EXPECT_LE(t.operator_change[i], t.sharp_operator_bound[i] * (1 + 1e-9));
      EXPECT_LE(t.sharp_operator_bound[i], t.operator_bound[i] * (1 + 1e-9));
      EXPECT_LE(t.eigenvalue_change[i], t.bauer_fike[i] * (1 + 1e-6));
      EXPECT_LE(t.eigenvalue_change[i], t.pencil_bound[i] * (1 + 1e-6));
    }
    ASSERT_EQ(t.powers.norms.size(), 9u);
    for (std::size_t k = 0; k < 9; ++k) EXPECT_LE(t.powers.restored[k], t.powers.bounds[k] * (1 + 1e-9));
    ASSERT_EQ(t.risk.excess.size(), 9u);
    EXPECT_EQ(t.risk.excess[0], 0);
    ASSERT_EQ(t.gap.size(), 24u);
    for (std::size_t i = 0; i < t.gap.size(); ++i) {
      EXPECT_LE(t.gap[i], t.shared_gap[i] * (1 + 1e-9) + 1e-12);
      EXPECT_LE(t.shared_gap[i], t.gap_bound[i] * (1 + 1e-9));
    }
    EXPECT_GE(t.gradient_step_gap, 0);
    EXPECT_LT(t.gradient_step_gap, 1e-3) << "linear attention is one gradient step, up to rounding in float32";
    EXPECT_LT(t.linearity_gap, 1e-9) << "SKA with fixed statistics is linear in its query";
    EXPECT_GT(t.softmax.linearity_gap, t.linearity_gap);
    ASSERT_EQ(t.jacobian.singular_values.size(), 6u);
    EXPECT_LE(t.jacobian.singular_values.front(), t.jacobian.sharp_bound * (1 + 1e-9));
    EXPECT_LE(t.jacobian.sharp_bound, t.jacobian.bound * (1 + 1e-9));
    // 2 r^2 + P r + r + 1 numbers a head, r = 6, P = 8, two heads, one layer.
    EXPECT_EQ(t.state_bytes, 2 * 4 * (2 * 36 + 48 + 6 + 1));
    EXPECT_EQ(t.cache_bytes, 2 * 4 * (6 + 8));
  }
}

TEST(Theory, IsNoneWithoutAnSkaLayer) {
  nlohmann::json recipe = small_recipe_json();
  recipe["model"]["blocks"].erase(1);
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({parse_recipe(recipe, "test"), std::nullopt}, *backend);
  analysed.advance(Analysis::inspected, Budget::whole);
  analysed.advance(Analysis::theory, Budget::whole);
  EXPECT_TRUE(analysed.is_current(Analysis::theory));
  ASSERT_TRUE(analysed.describe().inspected);
  EXPECT_FALSE(analysed.describe().theory);
}

}  // namespace
}  // namespace afterglow
