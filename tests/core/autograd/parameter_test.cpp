// The parameter store: layout, names, and start values that depend on a parameter's name alone.
#include "core/autograd/parameter.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/io/error.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

class ParameterStoreTest : public testing::Test {
 protected:
  std::vector<double> drawn(const Shape& shape, Initialiser initialiser, std::uint64_t seed = 1) {
    ParameterStore store;
    const Parameter& parameter = store.add("p", shape, std::move(initialiser));
    store.allocate(*backend_, DType::f64);
    store.initialise(seed);
    return store.download(parameter.value);
  }
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
};

TEST_F(ParameterStoreTest, PadsParametersToBlocksAndMarksMatricesForDecay) {
  ParameterStore store;
  const Parameter& matrix = store.add("matrix", {5, 13}, constant(1));
  const Parameter& scalar = store.add("scalar", {}, constant(2));
  const Parameter& vector = store.add("vector", {64}, constant(3));
  const Parameter& kernel = store.add("kernel", {3, 1, 4}, constant(4));
  store.allocate(*backend_, DType::f32);
  store.initialise(0);
  EXPECT_EQ(store.count(), 65 + 1 + 64 + 12);
  EXPECT_EQ(store.values().elements(), 5 * parameter_block);
  EXPECT_THAT((std::vector<std::int64_t>{matrix.offset, scalar.offset, vector.offset, kernel.offset}),
              ElementsAre(0, 128, 192, 256));
  std::vector<std::uint8_t> mask(5);
  backend_->download(mask.data(), store.decay_mask());
  EXPECT_THAT(mask, ElementsAre(1, 1, 0, 0, 1));
  // Padding stays zero, so that norms and checksums of the flat buffers see the weights only.
  const std::vector<double> flat = store.download(store.values());
  EXPECT_DOUBLE_EQ(std::accumulate(flat.begin(), flat.end(), 0.0), 65 + 2 + 64 * 3 + 12 * 4);
  EXPECT_EQ(vector.value.data, store.values().as<float>() + 192);
  EXPECT_EQ(kernel.gradient.data, store.gradients().as<float>() + 256);
  EXPECT_THAT(store.download(store.second_moments()), Each(0.0));
}

TEST_F(ParameterStoreTest, RefusesTwiceTheSameNameAndLatecomers) {
  ParameterStore store;
  const ParameterScope scope = ParameterScope(store, "").scope("layers.0").scope("mixer");
  EXPECT_EQ(scope.add("weight", {2}, zeros()).name, "layers.0.mixer.weight");
  try {
    scope.add("weight", {3}, zeros());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layers.0.mixer.weight"));
  }
  store.allocate(*backend_, DType::f64);
  EXPECT_THROW(scope.add("late", {1}, zeros()), Error);
  EXPECT_THROW(store.upload(store.all()[0], std::vector<double>(3)), Error);
  EXPECT_EQ(store.find("layers.0.mixer.weight"), &store.all()[0]);
  EXPECT_EQ(store.find("nothing"), nullptr);
}

TEST_F(ParameterStoreTest, StartValuesDependOnSeedAndNameOnly) {
  const auto values_of = [&](const std::vector<std::string>& names, std::uint64_t seed) {
    ParameterStore store;
    for (const std::string& name : names) store.add(name, {7}, normal(1.0));
    store.allocate(*backend_, DType::f64);
    store.initialise(seed);
    return store.download(store.find("b")->value);
  };
  const std::vector<double> alone = values_of({"b"}, 3);
  EXPECT_EQ(values_of({"a", "b", "c"}, 3), alone);
  EXPECT_NE(values_of({"b"}, 4), alone);
  ParameterStore store;
  store.add("a", {7}, normal(1.0));
  store.add("b", {7}, normal(1.0));
  store.allocate(*backend_, DType::f64);
  store.initialise(3);
  EXPECT_NE(store.download(store.all()[0].value), store.download(store.all()[1].value));
}

TEST_F(ParameterStoreTest, AStretchOfValuesIsFilledFromItsOwnPlaceOn) {
  const Shape shape{10, 37};
  const std::vector<Initialiser> independent{fan_in_uniform(), normal(0.5), uniform(-1, 2), log_of_uniform(1, 16),
                                             time_step_bias(0.001, 0.1)};
  for (std::size_t kind = 0; kind < independent.size(); ++kind) {
    const Initialiser& start = independent[kind];
    ASSERT_GT(start.words_each, 0) << kind;
    std::vector<double> whole(370), behind(300);
    Random from_first(5, weights_stream, 9), from_later(5, weights_stream, 9);
    start.fill(from_first, shape, whole);
    from_later.skip(static_cast<std::uint64_t>(70 * start.words_each));
    start.fill(from_later, shape, behind);
    EXPECT_EQ(std::vector<double>(whole.begin() + 70, whole.end()), behind) << kind;
  }
  EXPECT_EQ(orthogonal().words_each, 0) << "its rows depend on each other";
}

TEST_F(ParameterStoreTest, ManyWeightsAreThoseThatFillThemAllAtOnce) {
  const std::vector<double> few = drawn({70001}, normal(1.0)), many = drawn({1'100'003}, normal(1.0));  // by threads
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  Initialiser together = normal(1.0);
  together.words_each = 0;
  EXPECT_EQ(drawn({1'100'003}, together), many);
}

TEST_F(ParameterStoreTest, SmallTypesHoldTheRoundedStartValues) {
  ParameterStore store;
  store.add("p", {101}, normal(1.0));
  store.allocate(*backend_, DType::f32);
  store.initialise(1);
  const std::vector<double> narrow = store.download(store.all()[0].value), wide = drawn({101}, normal(1.0));
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow[i], static_cast<float>(wide[i]));
}

TEST_F(ParameterStoreTest, InitialisersKeepTheirRanges) {
  EXPECT_THAT(drawn({64, 4, 4}, fan_in_uniform()), Each(testing::AllOf(Ge(-0.25), Le(0.25))));
  EXPECT_THAT(drawn({1000}, uniform(2, 3)), Each(testing::AllOf(Ge(2.0), Le(3.0))));
  for (const double a_log : drawn({1000}, log_of_uniform(1, 16))) {
    EXPECT_GE(std::exp(a_log), 1 - 1e-12);
    EXPECT_LE(std::exp(a_log), 16 + 1e-12);
  }
  for (const double bias : drawn({1000}, time_step_bias(1e-3, 1e-1))) {
    EXPECT_GE(std::log1p(std::exp(bias)), 1e-3 - 1e-12);
    EXPECT_LE(std::log1p(std::exp(bias)), 1e-1 + 1e-12);
  }
}

TEST_F(ParameterStoreTest, NormalValuesHaveTheirMoments) {
  const std::vector<double> values = drawn({20000}, normal(0.5));
  double mean = 0.0, square = 0.0;
  for (const double value : values) mean += value / 20000, square += value * value / 20000;
  EXPECT_NEAR(mean, 0.0, 0.02);
  EXPECT_NEAR(square, 0.25, 0.01);
}

TEST_F(ParameterStoreTest, OrthogonalMatricesAreOrthonormalInTheShorterDirection) {
  for (const Shape& shape : {Shape{37, 5}, Shape{5, 37}, Shape{8, 8}, Shape{1, 1}}) {
    const std::vector<double> q = drawn(shape, orthogonal());
    const std::int64_t rows = shape[0], columns = shape[1], shorter = std::min(rows, columns);
    for (std::int64_t a = 0; a < shorter; ++a) {
      for (std::int64_t b = 0; b < shorter; ++b) {
        double dot = 0.0;
        for (std::int64_t k = 0; k < std::max(rows, columns); ++k)
          dot += rows >= columns ? q[k * columns + a] * q[k * columns + b] : q[a * columns + k] * q[b * columns + k];
        EXPECT_NEAR(dot, a == b ? 1.0 : 0.0, 1e-12) << shape.text();
      }
    }
  }
}

}  // namespace
}  // namespace afterglow
