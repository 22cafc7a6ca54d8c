// Properties of operations that the table cannot say: counts, histories, closed forms, large inputs.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "core/ops/ops.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class Identities : public ::testing::Test {
 protected:
  Identities() { tape_.begin(false); }
  Values random_values(std::int64_t count) {
    Values values(static_cast<std::size_t>(count));
    for (double& value : values) value = random_.normal();
    return values;
  }
  Tensor random_tensor(const Shape& shape) { return host_.f64(shape, random_values(shape.elements())); }
  Values read(const Var& var) { return host_.read<double>(var.value); }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
  Random random_{3};
};

TEST_F(Identities, TheUnitNormOfZeroIsZeroWithAFiniteGradient) {
  tape_.begin(true);
  const Var x = tape_.input(host_.f64({1, 3}, {0, 0, 0}));
  const Var y = unit_norm(tape_, x, 0.25);
  EXPECT_THAT(read(y), Each(0.0));
  tape_.backward(y, host_.f64({1, 3}, {1, 1, 1}));
  EXPECT_THAT(host_.read<double>(tape_.gradient_of(x)), Each(4.0));
}

TEST_F(Identities, CrossEntropyCountsHitsAndLetsTheSmallestIndexWinTies) {
  const Tensor logits = host_.f64({1, 5, 3}, {1, 2, 0, /**/ 5, 5, 1, /**/ 5, 5, 1, /**/ 0, 0, 9, /**/ 7, 7, 7});
  const CrossEntropy result = cross_entropy(tape_, tape_.constant(logits), host_.i32({1, 5}, {1, 0, 1, -1, 2}));
  EXPECT_THAT(host_.read<std::int32_t>(result.correct), ElementsAre(2));
  EXPECT_THAT(host_.read<std::int32_t>(result.counted), ElementsAre(4));
  const Values p = host_.read<double>(result.probabilities);
  for (int row = 0; row < 5; ++row) EXPECT_NEAR(p[3 * row] + p[3 * row + 1] + p[3 * row + 2], 1.0, 1e-15);
  EXPECT_NEAR(p[14], 1.0 / 3.0, 1e-15);
}

TEST_F(Identities, CrossEntropyOfEqualLogitsIsTheLogarithmOfTheVocabulary) {
  const Tensor logits = host_.f64({2, 1, 101}, Values(202, 1e4));
  EXPECT_NEAR(read(cross_entropy(tape_, tape_.constant(logits), host_.i32({2, 1}, {0, 100})).loss)[0], std::log(101.0),
              1e-12);
}

TEST_F(Identities, CrossEntropyStaysFiniteForHugeLogits) {
  const Tensor logits = host_.f32({1, 1, 3}, {3e38f, -3e38f, 0.0f});
  const CrossEntropy result = cross_entropy(tape_, tape_.constant(logits), host_.i32({1, 1}, {0}));
  EXPECT_EQ(host_.read<float>(result.loss.value)[0], 0.0f);
  EXPECT_THAT(host_.read<float>(result.probabilities), ElementsAre(1, 0, 0));
}

TEST_F(Identities, AHeadInChunksIsTheHeadAsAWhole) {
  constexpr std::int64_t batch = 2, length = 19, width = 6, vocabulary = 23;
  const auto draw = [&](std::int64_t count) {
    Values values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(random_.normal());
    return values;
  };
  const Tensor x = host_.f64({batch, length, width}, draw(batch * length * width));
  const Tensor w = host_.f64({vocabulary, width}, draw(vocabulary * width));
  std::vector<std::int32_t> asked;
  for (std::int64_t i = 0; i < batch * length; ++i) asked.push_back(i % 3 == 0 ? -1 : static_cast<int>(i * 7 % 23));
  const Tensor targets = host_.i32({batch, length}, asked), upstream = host_.f64({1}, {0.7});
  struct Pass {
    Values loss, dx, dw;
    std::vector<std::int32_t> correct, counted;
  };
  const auto run = [&](std::int64_t rows_at_once) {
    tape_.begin(true);
    const Var hidden = tape_.input(x), weight = tape_.input(w);
    const CrossEntropy found = rows_at_once > 0
                                   ? head_cross_entropy(tape_, hidden, weight, targets, rows_at_once * vocabulary)
                                   : cross_entropy(tape_, linear(tape_, hidden, weight), targets);
    EXPECT_EQ(found.probabilities.defined(), rows_at_once == 0);
    tape_.backward(found.loss, upstream);
    return Pass{read(found.loss), host_.read<double>(tape_.gradient_of(hidden)),
                host_.read<double>(tape_.gradient_of(weight)), host_.read<std::int32_t>(found.correct),
                host_.read<std::int32_t>(found.counted)};
  };
  const auto close = [](const Values& want) { return ::testing::Pointwise(::testing::DoubleNear(1e-14), want); };
  const Pass whole = run(0);
  EXPECT_THAT(whole.counted, ElementsAre(25));
  for (const int rows : {1, 5, 19, 37, 38, 1000}) {
    const Pass chunked = run(rows);
    EXPECT_THAT(chunked.loss, close(whole.loss)) << rows;
    EXPECT_THAT(chunked.dx, close(whole.dx)) << rows;
    EXPECT_THAT(chunked.dw, close(whole.dw)) << rows;
    EXPECT_EQ(chunked.correct, whole.correct) << rows;
    EXPECT_EQ(chunked.counted, whole.counted) << rows;
  }
}

TEST_F(Identities, AnsweredRowsAreInOrderAndTheRestAnswersNothing) {
  const Tensor targets = host_.i32({7}, {-1, 4, -1, 0, 2, -1, 9});
  const Tensor places = host_.i32({5}, {7, 7, 7, 7, 7}), own = host_.i32({5}, {7, 7, 7, 7, 7});
  const Tensor ranks = host_.i32({7}, {7, 7, 7, 7, 7, 7, 7});
  backend_->answered_rows(targets, places, own, ranks);
  EXPECT_THAT(host_.read<std::int32_t>(places), ElementsAre(1, 3, 4, 6, -1));
  EXPECT_THAT(host_.read<std::int32_t>(own), ElementsAre(4, 0, 2, 9, -1));
  EXPECT_THAT(host_.read<std::int32_t>(ranks), ElementsAre(-1, 0, -1, 1, 2, -1, 3));
}

TEST_F(Identities, AHeadThatIsNotTrainedPassesTheGradientOfItsInputAlone) {
  const Tensor x = host_.f64({1, 3, 2}, {1, 2, -1, 0.5, 0, 3}), w = host_.f64({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor targets = host_.i32({1, 3}, {0, 2, 1});
  const auto gradient = [&](bool is_trained) {
    tape_.begin(true);
    const Var hidden = tape_.input(x), weight = is_trained ? tape_.input(w) : tape_.constant(w);
    tape_.backward(head_cross_entropy(tape_, hidden, weight, targets, 6).loss, host_.f64({1}, {1}));
    return host_.read<double>(tape_.gradient_of(hidden));
  };
  EXPECT_EQ(gradient(false), gradient(true));
}

TEST_F(Identities, CrossEntropyByRowsLetsTheSmallestIndexWinTiesAndStaysFinite) {
  const Tensor logits = host_.f32({5, 3}, {5, 5, 1, /**/ 5, 5, 1, /**/ 0, 0, 9, /**/ 7, 7, 7, /**/ 3e38f, -3e38f, 0});
  const Tensor targets = host_.i32({5}, {0, 1, -1, 2, 0}), losses = host_.f32({5}, std::vector<float>(5)),
               hits = host_.i32({5}, {9, 9, 9, 9, 9});
  backend_->cross_entropy_rows(logits, targets, true, losses, hits);
  EXPECT_THAT(host_.read<std::int32_t>(hits), ElementsAre(3, 1, 0, 1, 3));
  EXPECT_EQ(host_.read<float>(losses)[2], 0.0f);
  EXPECT_NEAR(host_.read<float>(losses)[3], std::log(3.0), 1e-6);
  EXPECT_EQ(host_.read<float>(losses)[4], 0.0f);
  const std::vector<float> gradients = host_.read<float>(logits);
  EXPECT_THAT(std::vector<float>(gradients.begin() + 6, gradients.begin() + 9), Each(0.0f)) << "no target";
  EXPECT_THAT(std::vector<float>(gradients.begin() + 12, gradients.end()), Each(0.0f)) << "sure and right";
  EXPECT_NEAR(gradients[11], 1.0 / 3.0 - 1.0, 1e-6);
}

TEST_F(Identities, ActivationsKeepTheirLimits) {
  const Var x = tape_.constant(host_.f32({4}, {-200, -20, 20, 200}));
  const auto values = [&](Unary kind) { return host_.read<float>(unary(tape_, kind, x).value); };
  EXPECT_THAT(values(Unary::sigmoid), Each(::testing::AllOf(::testing::Ge(0.0f), ::testing::Le(1.0f))));
  EXPECT_FLOAT_EQ(values(Unary::softplus)[3], 200.0f);
  EXPECT_NEAR(values(Unary::softplus)[1], std::exp(-20.0), 1e-14);
  EXPECT_FLOAT_EQ(values(Unary::silu)[3], 200.0f);
  EXPECT_NEAR(values(Unary::silu)[0], 0.0, 1e-30);
  EXPECT_EQ(values(Unary::tanh)[0], -1.0f);
  EXPECT_EQ(values(Unary::gelu)[3], 200.0f);
}

// Scores depend on the distance of two tokens alone.
TEST_F(Identities, RotaryKeepsProductsWhenBothPositionsMove) {
  const Var q = tape_.constant(random_tensor({1, 1, 1, 64})), k = tape_.constant(random_tensor({1, 1, 1, 64}));
  const auto product = [&](std::int64_t query_at, std::int64_t key_at) {
    const Values a = read(rotary_pair(tape_, q, q, {}, query_at)[0]), b = read(rotary_pair(tape_, k, k, {}, key_at)[0]);
    double sum = 0.0;
    for (int i = 0; i < 64; ++i) sum += a[i] * b[i];
    return sum;
  };
  EXPECT_NEAR(product(17, 5), product(100'012, 100'000), 1e-9);
  EXPECT_GT(std::abs(product(17, 5) - product(17, 6)), 1e-3);
}

// Echo eq. 29 and 32: turned by theta, the invariant stays and the harmonic turns by 2 theta.
TEST_F(Identities, SquaresOfTurnedPairsStayOrTurnTwiceAsFar) {
  const Values k = random_values(2);
  const double theta = 0.7;
  const Values turned{k[0] * std::cos(theta) - k[1] * std::sin(theta), k[0] * std::sin(theta) + k[1] * std::cos(theta)};
  const auto squares = [&](const Values& pair) {
    return read(pair_squares(tape_, tape_.constant(host_.f64({1, 2}, pair)), {true, true}));
  };
  const Values before = squares(k), after = squares(turned);
  EXPECT_NEAR(after[0], before[0], 1e-14);
  EXPECT_NEAR(after[1], std::cos(2 * theta) * before[1] - std::sin(2 * theta) * before[2], 1e-14);
  EXPECT_NEAR(after[2], std::sin(2 * theta) * before[1] + std::cos(2 * theta) * before[2], 1e-14);
}

// Turning at a steady pace, for so long that float32 sums would have lost the angle.
TEST_F(Identities, AnglesOfALongSequenceKeepTheirDigits) {
  const std::int64_t length = 200'000;
  const std::vector<float> dt(length, 0.125f), turn(length, 100.0f);  // tanh 1: an eighth of pi a token
  const Var theta = rotary_angles(tape_, tape_.constant(host_.f32({1, length, 1}, dt)),
                                  tape_.constant(host_.f32({1, length, 1}, turn)));
  const std::vector<float> angles = host_.read<float>(theta.value);
  for (std::int64_t t = length - 40; t < length; ++t) {
    const double exact = std::remainder(static_cast<double>(t + 1) / 8.0, 2.0) * std::numbers::pi;
    EXPECT_NEAR(std::sin(angles[t]), std::sin(exact), 1e-6);
    EXPECT_NEAR(std::cos(angles[t]), std::cos(exact), 1e-6);
  }
}

TEST_F(Identities, AnglesPieceByPieceEqualTheWhole) {
  const Tensor dt = random_tensor({1, 9, 3}), turn = random_tensor({1, 9, 2}), carry = host_.f64({1, 3, 2}, Values(6));
  const Values whole = read(rotary_angles(tape_, tape_.constant(dt), tape_.constant(turn)));
  Values pieces;
  for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 1}, {5, 4}}) {
    const auto piece = [&](const Tensor& of) {
      return tape_.constant(Tensor(of.as<double>() + begin * of.columns(), {1, count, of.columns()}, DType::f64));
    };
    const Values angles = read(rotary_angles(tape_, piece(dt), piece(turn), carry));
    pieces.insert(pieces.end(), angles.begin(), angles.end());
  }
  EXPECT_LT(relative_error(pieces, whole), 1e-14);
}

TEST_F(Identities, WithoutLagTheTrapezoidIsTheSelectiveScan) {
  const std::int64_t length = 21, heads = 2;
  Values dt = random_values(length * heads), log_decay;
  const Values A_log{0.3, -0.4};
  for (std::size_t i = 0; i < dt.size(); ++i) {
    dt[i] = std::abs(dt[i]);
    log_decay.push_back(-std::exp(A_log[i % 2]) * dt[i]);
  }
  ScanVars in;
  in.x = tape_.constant(random_tensor({1, length, heads, 5}));
  in.B = tape_.constant(random_tensor({1, length, heads, 7}));
  in.C = tape_.constant(random_tensor({1, length, heads, 7}));
  in.dt = tape_.constant(host_.f64({1, length, heads}, dt));
  in.heads = in.groups = heads;
  ScanVars trapezoid = in;
  in.A_log = tape_.constant(host_.f64({heads}, A_log));
  trapezoid.log_decay = tape_.constant(host_.f64({1, length, heads}, log_decay));
  trapezoid.lag = tape_.constant(host_.f64({1, length, heads}, Values(length * heads, 0.0)));
  EXPECT_LT(relative_error(read(ssd_scan(tape_, trapezoid)), read(ssd_scan(tape_, in))), 1e-14);
}

TEST_F(Identities, ConvolutionPieceByPieceEqualsTheWhole) {
  const std::int64_t batch = 2, length = 11, channels = 37;
  for (const std::int64_t width : {1, 2, 4, 7}) {
    const Tensor x = random_tensor({batch, length, channels});
    const Var weight = tape_.constant(random_tensor({channels, 1, width}));
    const Var bias = tape_.constant(random_tensor({channels}));
    const Values whole = read(causal_conv(tape_, tape_.constant(x), weight, bias));
    const Tensor history = host_.f64({batch, width - 1, channels}, Values(batch * (width - 1) * channels + 1, 0.0));
    Values pieces(whole.size());
    for (std::int64_t begin = 0; begin < length;) {
      const std::int64_t count = std::min<std::int64_t>(begin == 2 ? 5 : 1, length - begin);
      const Tensor piece = tape_.scratch({batch, count, channels}, DType::f64);
      backend_->copy(piece.reshaped({batch, count * channels}),
                     x.reshaped({batch, length * channels}).column_range(begin * channels, count * channels));
      const Values y = read(causal_conv(tape_, tape_.constant(piece), weight, bias, history));
      for (std::int64_t b = 0; b < batch; ++b)
        std::copy_n(y.begin() + b * count * channels, count * channels,
                    pieces.begin() + (b * length + begin) * channels);
      begin += count;
    }
    EXPECT_LE(relative_error(pieces, whole), 1e-14) << width;
  }
}

TEST_F(Identities, AttentionIgnoresTheFuture) {
  const std::int64_t length = 130;
  const Tensor q = random_tensor({1, length, 2, 8}), k = random_tensor({1, length, 1, 8}),
               v = random_tensor({1, length, 1, 8});
  const auto attend = [&] {
    return read(causal_attention(tape_, tape_.constant(q), tape_.constant(k), tape_.constant(v), 0.3));
  };
  const Values before = attend();
  for (std::int64_t i = 70 * 8; i < length * 8; ++i) {
    k.as<double>()[i] = 1e6;
    v.as<double>()[i] = std::numeric_limits<double>::quiet_NaN();
  }
  const Values after = attend();
  for (std::int64_t i = 0; i < 64 * 16; ++i) EXPECT_EQ(after[i], before[i]);
  EXPECT_TRUE(std::isnan(after.back()));
}

TEST_F(Identities, AttentionWithEqualScoresAverages) {
  const std::int64_t length = 65;
  const Tensor zero = host_.f64({1, length, 1, 1}, Values(length, 0.0)), v = random_tensor({1, length, 1, 1});
  const Values y = read(causal_attention(tape_, tape_.constant(zero), tape_.constant(zero), tape_.constant(v), 1.0));
  double sum = 0.0;
  for (std::int64_t t = 0; t < length; ++t) {
    sum += v.as<double>()[t];
    EXPECT_NEAR(y[t], sum / static_cast<double>(t + 1), 1e-14);
  }
}

// With keys of length 1 the key scale m of SKA is 1, so that its ridge is lambda.
TEST_F(Identities, TheKalmanRecursionIsRidgeRegressionWhichIsKoopmanAttentionWithoutItsPowers) {
  const std::int64_t length = 37, heads = 2, keys = 6, width = 5;
  const double ridge = 0.03;
  const auto vars = [&](std::int64_t columns) { return tape_.constant(random_tensor({1, length, heads, columns})); };
  const Var q = unit_norm(tape_, vars(keys), 0.0), k = unit_norm(tape_, vars(keys), 0.0), v = vars(width);
  const Values exact = read(kalman_scan(tape_, {q, k, v, {}, ridge}, {}));
  RidgeConfig config;
  config.mode = RidgeConfig::Mode::recurrent;
  config.power = 0;
  config.ridge = ridge;
  const Var ones = tape_.constant(host_.f64({heads}, Values(heads, 1.0)));
  EXPECT_LE(relative_error(read(ridge_readout(tape_, config, {k, q, v, ones, ones, {}})), exact), 1e-12);
}

TEST_F(Identities, TheKalmanRecursionGoesOnFromItsState) {
  const std::int64_t length = 9, keys = 4, width = 3;
  const Tensor q = random_tensor({1, length, 1, keys}), k = random_tensor({1, length, 1, keys}),
               v = random_tensor({1, length, 1, width});
  const auto part = [&](const Tensor& x, std::int64_t begin, std::int64_t count) {
    return tape_.constant(Tensor(x.as<double>() + begin * x.columns(), {1, count, 1, x.columns()}, DType::f64));
  };
  const KalmanState state{host_.f64({1, 1, keys, keys}, Values(16, 7.0)),
                          host_.f64({1, 1, keys, width}, Values(12, 7.0))};
  const auto scan = [&](std::int64_t begin, std::int64_t count, bool resume) {
    return read(kalman_scan(tape_, {part(q, begin, count), part(k, begin, count), part(v, begin, count), {}, 0.5},
                            state, resume));
  };
  const Values whole = scan(0, length, false);
  Values pieces = scan(0, 4, false);
  const Values rest = scan(4, 5, true);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_LE(relative_error(pieces, whole), 1e-13);
}

TEST_F(Identities, AChannelScanOfConstantsIsAGeometricSum) {
  constexpr std::int64_t length = 40;
  constexpr double step = 0.3, x = 1.5, B = 0.7, C = -0.4, D = 0.2;
  const double rates[] = {0.1, 1.0, 2.5};
  const auto all = [&](std::int64_t columns, double value) {
    return tape_.constant(host_.f64({1, length, columns}, Values(static_cast<std::size_t>(length * columns), value)));
  };
  const Var A_log = tape_.constant(host_.f64({1, 3}, {std::log(rates[0]), std::log(rates[1]), std::log(rates[2])}));
  const Tensor state = host_.f64({1, 1, 3}, Values(3, 7.0));
  const Values y = read(channel_scan(
      tape_, {all(1, x), all(1, step), A_log, all(3, B), all(3, C), tape_.constant(host_.f64({1}, {D}))}, state));
  for (std::int64_t t = 0; t < length; ++t) {
    double want = D * x;
    for (const double rate : rates) {
      const double a = std::exp(-rate * step);
      want += C * step * x * B * (1 - std::pow(a, static_cast<double>(t + 1))) / (1 - a);
    }
    EXPECT_NEAR(y[static_cast<std::size_t>(t)], want, 1e-12) << "token " << t;
  }
  const double a = std::exp(-rates[0] * step);
  EXPECT_NEAR(host_.read<double>(state)[0], step * x * B * (1 - std::pow(a, length)) / (1 - a), 1e-12);
}

TEST_F(Identities, TheDeltaRuleStoresOrthonormalKeysExactlyAndOverwritesThem) {
  const std::int64_t keys = 4;
  Values unit(2 * keys * keys, 0.0);  // the unit vectors, twice
  for (std::int64_t t = 0; t < 2 * keys; ++t) unit[t * keys + t % keys] = 1.0;
  const Var k = tape_.constant(host_.f64({1, 2 * keys, 1, keys}, unit));
  const Tensor v = random_tensor({1, 2 * keys, 1, 3});
  const Var beta = tape_.constant(host_.f64({1, 2 * keys, 1}, Values(2 * keys, 1.0)));
  const Values y = read(delta_scan(tape_, {k, k, tape_.constant(v), beta, {}, 1.0}));
  // What was written is read, also where an older value had been.
  EXPECT_LE(relative_error(y, host_.read<double>(v)), 1e-15);
}

TEST_F(Identities, AGateThatNeverClosesLeavesDeltaNetAndLinearAttention) {
  const std::int64_t length = 33, heads = 2, keys = 5, width = 4;
  const Var q = tape_.constant(random_tensor({1, length, heads, keys})),
            k = unit_norm(tape_, tape_.constant(random_tensor({1, length, heads, keys})), 0.0),
            v = tape_.constant(random_tensor({1, length, heads, width}));
  const Var beta = unary(tape_, Unary::sigmoid, tape_.constant(random_tensor({1, length, heads})));
  const Var open = tape_.constant(host_.f64({1, length, heads}, Values(length * heads, 0.0)));
  const Var channels = tape_.constant(host_.f64({1, length, heads, keys}, Values(length * heads * keys, 0.0)));
  EXPECT_EQ(read(delta_scan(tape_, {q, k, v, beta, open, 0.5})), read(delta_scan(tape_, {q, k, v, beta, {}, 0.5})));
  ScanVars sum;
  sum.x = v;
  sum.B = k;
  sum.C = q;
  sum.heads = sum.groups = heads;
  EXPECT_LE(relative_error(read(delta_scan(tape_, {q, k, v, {}, channels, 1.0})), read(ssd_scan(tape_, sum))), 1e-14);
}

TEST_F(Identities, TheDeltaRuleGoesOnFromItsState) {
  const std::int64_t length = 40, keys = 3, width = 5;
  const Tensor x = random_tensor({1, length, 1, keys}), v = random_tensor({1, length, 1, width});
  const Values g_values(static_cast<std::size_t>(length), -0.2);
  const Tensor g = host_.f64({1, length, 1}, g_values);
  const auto part = [&](const Tensor& of, std::int64_t begin, std::int64_t count) {
    Shape shape = of.shape;
    shape = shape.rank() == 3 ? Shape{1, count, 1} : Shape{1, count, 1, of.columns()};
    return tape_.constant(Tensor(of.as<double>() + begin * of.columns(), shape, DType::f64));
  };
  const Tensor state = host_.f64({1, 1, keys, width}, Values(15, 7.0));
  const auto scan = [&](std::int64_t begin, std::int64_t count, bool resume) {
    const Var k = part(x, begin, count);
    return read(delta_scan(tape_, {k, k, part(v, begin, count), {}, part(g, begin, count), 1.0}, state, resume));
  };
  const Values whole = scan(0, length, false);
  Values pieces = scan(0, 33, false);
  const Values rest = scan(33, 7, true);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_LE(relative_error(pieces, whole), 1e-14);
}

}  // namespace
}  // namespace afterglow::testing
