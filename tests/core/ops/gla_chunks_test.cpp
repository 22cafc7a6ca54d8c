// Gated linear attention by chunks as gpu/ops/gla/gla_chunks.cu computes it, in plain loops and float64: against the
// recurrence, from decays that hardly fade to ones whose product over a chunk no number holds.
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "core/ops/ops.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

using Numbers = std::vector<double>;
constexpr int sub_chunk = 16, chunk = 64;
constexpr double steepest = -33.0;  // sum of logarithms over a sub-chunk; -48 to base 2

/// Rows of numbers.
struct Table {
  int columns;
  Numbers data;
  Table(int rows, int width) : columns(width), data(static_cast<std::size_t>(rows * width)) {}
  double& at(int row, int column) { return data[static_cast<std::size_t>(row * columns + column)]; }
  double at(int row, int column) const { return data[static_cast<std::size_t>(row * columns + column)]; }
};

/// One head, its length filled up to whole chunks with tokens that change nothing.
struct GlaHead {
  int tokens, keys, width;
  Table q, k, v, g, dy;

  GlaHead(int length, int key_width, int value_width)
      : tokens((length + chunk - 1) / chunk * chunk),
        keys(key_width),
        width(value_width),
        q(tokens, keys),
        k(tokens, keys),
        v(tokens, width),
        g(tokens, keys),
        dy(tokens, width) {}
};

struct GlaAnswers {
  Table y, dv, dq, dk, dg;
};

/// What the kernels have of a chunk.
struct GlaChunk {
  const GlaHead& head;
  int first;
  Table sums;  // of logarithms of the decay, from the sub-chunk's first token on
  Table q, k;  // with their decay from the sub-chunk's first token, and to its end
  Table S, F;  // state before the chunk, flow into its end, [K,P]

  GlaChunk(const GlaHead& of, int begin)
      : head(of),
        first(begin),
        sums(chunk, of.keys),
        q(chunk, of.keys),
        k(chunk, of.keys),
        S(of.keys, of.width),
        F(of.keys, of.width) {
    for (int t = 0; t < chunk; ++t)
      for (int c = 0; c < head.keys; ++c)
        sums.at(t, c) = (t % sub_chunk > 0 ? sums.at(t - 1, c) : 0.0) + head.g.at(first + t, c);
    for (int t = 0; t < chunk; ++t)
      for (int c = 0; c < head.keys; ++c) {
        q.at(t, c) = head.q.at(first + t, c) * from_start(t, c);
        k.at(t, c) = head.k.at(first + t, c) * to_end(t, c);
      }
  }
  double total(int part, int c) const { return sums.at(part * sub_chunk + sub_chunk - 1, c); }
  /// Of the decays of sub-chunks [begin, end).
  double faded(int begin, int end, int c) const {
    double product = 1;
    for (int part = begin; part < end; ++part) product *= std::exp(total(part, c));
    return product;
  }
  double enter(int t, int c) const { return faded(0, t / sub_chunk, c); }
  double leave(int t, int c) const { return faded(t / sub_chunk + 1, 4, c); }
  /// e^l_t, and f e^-l_t.
  double from_start(int t, int c) const { return std::exp(sums.at(t, c)); }
  double to_end(int t, int c) const { return std::exp(total(t / sub_chunk, c) - sums.at(t, c)); }
  bool is_steep(int part, int c) const { return total(part, c) < steepest; }
  /// What Q_t K_j is multiplied with; in a steep sub-chunk zero.
  double between(int t, int j, int c) const {
    const int later = t / sub_chunk, earlier = j / sub_chunk;
    if (later > earlier) return faded(earlier + 1, later, c);
    return is_steep(later, c) ? 0.0 : std::exp(-total(later, c));
  }
  /// Of a steep sub-chunk, the decay from token j to t, step by step; otherwise zero.
  double steep_decay(int c, int t, int j) const {
    double decay = t / sub_chunk == j / sub_chunk && is_steep(t / sub_chunk, c) ? 1.0 : 0.0;
    for (int s = j + 1; s <= t; ++s) decay *= std::exp(head.g.at(first + s, c));
    return decay;
  }
  /// A of a query at t and a key at j <= t.
  double met(int t, int j) const {
    double sum = 0;
    for (int c = 0; c < head.keys; ++c) {
      sum += q.at(t, c) * between(t, j, c) * k.at(j, c);
      sum += head.q.at(first + t, c) * head.k.at(first + j, c) * steep_decay(c, t, j);
    }
    return sum;
  }
  double weight(int t, int j) const {
    double sum = 0;
    for (int p = 0; p < head.width; ++p) sum += head.dy.at(first + t, p) * head.v.at(first + j, p);
    return sum;
  }
  /// e^l_t X_t, and f e^-l_j Y_j: dq and dk without scale and what a token gives itself.
  double turn_query(int t, int c) const {
    double x = 0, steep = 0;
    for (int p = 0; p < head.width; ++p) x += head.dy.at(first + t, p) * enter(t, c) * S.at(c, p);
    for (int j = 0; j < t; ++j) {
      x += between(t, j, c) * weight(t, j) * k.at(j, c);
      steep += weight(t, j) * head.k.at(first + j, c) * steep_decay(c, t, j);
    }
    return from_start(t, c) * x + steep;
  }
  double turn_key(int j, int c) const {
    double y = 0, steep = 0;
    for (int p = 0; p < head.width; ++p) y += head.v.at(first + j, p) * leave(j, c) * F.at(c, p);
    for (int t = j + 1; t < chunk; ++t) {
      y += between(t, j, c) * weight(t, j) * q.at(t, c);
      steep += weight(t, j) * head.q.at(first + t, c) * steep_decay(c, t, j);
    }
    return to_end(j, c) * y + steep;
  }
  /// S or F of the next chunk on the way.
  Table walked(bool back) const {
    Table next(head.keys, head.width);
    for (int c = 0; c < head.keys; ++c) {
      for (int p = 0; p < head.width; ++p) {
        double sum = faded(0, 4, c) * (back ? F : S).at(c, p);
        for (int t = 0; t < chunk; ++t)
          sum += back ? enter(t, c) * q.at(t, c) * head.dy.at(first + t, p)
                      : leave(t, c) * k.at(t, c) * head.v.at(first + t, p);
        next.at(c, p) = sum;
      }
    }
    return next;
  }
};

/// y and dv of a chunk.
void mix(const GlaChunk& own, GlaAnswers& to) {
  for (int t = 0; t < chunk; ++t) {
    for (int p = 0; p < own.head.width; ++p) {
      double y = 0, dv = 0;
      for (int c = 0; c < own.head.keys; ++c) {
        y += own.q.at(t, c) * own.enter(t, c) * own.S.at(c, p);
        dv += own.k.at(t, c) * own.leave(t, c) * own.F.at(c, p);
      }
      for (int j = 0; j <= t; ++j) y += own.met(t, j) * own.head.v.at(own.first + j, p);
      for (int s = t; s < chunk; ++s) dv += own.met(s, t) * own.head.dy.at(own.first + s, p);
      to.y.at(own.first + t, p) = y;
      to.dv.at(own.first + t, p) = dv;
    }
  }
}

/// dq, dk and dg of a chunk; `next`: the state after it.
void turn(const GlaChunk& own, const Table& next, GlaAnswers& to) {
  for (int c = 0; c < own.head.keys; ++c) {
    double path = 0;
    for (int p = 0; p < own.head.width; ++p) path += next.at(c, p) * own.F.at(c, p);
    for (int t = chunk - 1; t >= 0; --t) {
      const double q = own.head.q.at(own.first + t, c), k = own.head.k.at(own.first + t, c), itself = own.weight(t, t);
      const double to_q = own.turn_query(t, c), to_k = own.turn_key(t, c);
      path += q * to_q - k * to_k;
      to.dg.at(own.first + t, c) = path;
      to.dq.at(own.first + t, c) = to_q + itself * k;
      to.dk.at(own.first + t, c) = to_k + itself * q;
    }
  }
}

GlaAnswers by_chunks(const GlaHead& head) {
  GlaAnswers to{Table(head.tokens, head.width), Table(head.tokens, head.width), Table(head.tokens, head.keys),
                Table(head.tokens, head.keys), Table(head.tokens, head.keys)};
  std::vector<GlaChunk> chunks;
  for (int first = 0; first < head.tokens; first += chunk) chunks.emplace_back(head, first);
  for (std::size_t i = 1; i < chunks.size(); ++i) chunks[i].S = chunks[i - 1].walked(false);
  for (std::size_t i = chunks.size() - 1; i > 0; --i) chunks[i - 1].F = chunks[i].walked(true);
  for (const GlaChunk& own : chunks) {
    mix(own, to);
    turn(own, own.walked(false), to);
  }
  return to;
}

class GlaByChunks : public ::testing::TestWithParam<std::array<double, 2>> {
 protected:
  static constexpr int length = 150, keys = 5, width = 3;

  void fill(GlaHead& head) {
    const auto [least, most] = GetParam();
    Random random(5);
    for (int t = 0; t < length; ++t) {
      for (int c = 0; c < keys; ++c) {
        head.q.at(t, c) = random.normal();
        head.k.at(t, c) = random.normal();
        head.g.at(t, c) = least + (most - least) * random.uniform();
        if (least == most) head.g.at(t, c) = random.uniform() < 0.1 ? -100.0 : -0.02;
      }
      for (int p = 0; p < width; ++p) {
        head.v.at(t, p) = random.normal();
        head.dy.at(t, p) = random.normal();
      }
    }
  }
};

void expect_close(const Table& got, const Numbers& want, const char* what) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got.data[i] - want[i]) * (got.data[i] - want[i]);
    size += want[i] * want[i];
  }
  EXPECT_GT(size, 0.0) << what;
  EXPECT_LE(std::sqrt(difference / size), 1e-12) << what;
}

TEST_P(GlaByChunks, IsTheRecurrence) {
  GlaHead head(length, keys, width);
  fill(head);
  const GlaAnswers got = by_chunks(head);

  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  HostValues host(*backend);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  tape.begin(true);
  const auto input = [&](const Table& table) {
    return tape.input(host.f64({1, head.tokens, 1, table.columns}, table.data));
  };
  const DeltaVars in{input(head.q), input(head.k), input(head.v), {}, input(head.g), 1.0};
  const Var y = delta_scan(tape, in);
  tape.backward(y, host.f64({1, head.tokens, 1, width}, head.dy.data));
  expect_close(got.y, host.read<double>(y.value), "y");
  expect_close(got.dv, host.read<double>(tape.gradient_of(in.v)), "dv");
  expect_close(got.dq, host.read<double>(tape.gradient_of(in.q)), "dq");
  expect_close(got.dk, host.read<double>(tape.gradient_of(in.k)), "dk");
  expect_close(got.dg, host.read<double>(tape.gradient_of(in.g)), "dg");
}

// The last: every tenth decay forgets all, the others hardly anything.
INSTANTIATE_TEST_SUITE_P(Decays, GlaByChunks,
                         ::testing::Values(std::array{-0.01, 0.0}, std::array{-1.0, -0.01}, std::array{-30.0, -0.01},
                                           std::array{-20.0, -10.0}, std::array{0.0, 0.0}));

}  // namespace
}  // namespace afterglow::testing
