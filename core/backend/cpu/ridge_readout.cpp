// The SKA core on the CPU, forward: raw sums of pieces, prefix sums over groups, then for each group the normalised
// statistics, their factorisation and the readout y = eta F A^K L^-1 q / m with F = C L^-T.
#include <algorithm>
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/ridge.h"

namespace afterglow {
namespace {

using namespace ridge;

/// The largest key norm, or given length, so far and where it is.
struct KeyScale {
  double largest = 0.0;
  std::int32_t index = -1;

  template <class T>
  void see(const RidgeInputs& in, const Sizes& s, std::int64_t batch_head, std::int64_t first, std::int64_t count) {
    const Panel<T> keys = s.panel<T>(in.z, batch_head);
    const std::uint8_t* mask = s.mask(in, batch_head);
    for (std::int64_t t = first; t < first + count; ++t) {
      if (mask && !s.counts(mask[t])) continue;
      const double length = in.length.defined() ? static_cast<double>(s.number<T>(in.length, batch_head, t))
                                                : std::sqrt(keys.row(t).template cast<double>().squaredNorm());
      if (length > largest) {
        largest = length;
        index = static_cast<std::int32_t>(t);
      }
    }
  }
  double scale() const { return std::max(largest, smallest_scale); }
  std::int32_t attained() const { return largest >= smallest_scale ? index : -1; }
};

/// Running sums of l z^T, l_{t+1} z_t^T, v z^T with l = z where there are no left factors; not yet divided by m.
template <class T>
struct RawSums : StatisticsSums {
  Compact<T> square, tall;  // one piece's share

  RawSums(const Sizes& s, Scratch& scratch)
      : StatisticsSums(s, scratch), square(scratch.block<T>(s.r, s.r)), tall(scratch.block<T>(s.width, s.r)) {}
  /// A transition belongs to the piece of its later position.
  void add(const Panel<T>& keys, const Panel<T>& left, const Panel<T>& values, std::int64_t first, std::int64_t count) {
    const auto rows = keys.middleRows(first, count);
    multiply(true, false, left.middleRows(first, count), rows, false, square);
    G += square.template cast<double>();
    multiply(true, false, values.middleRows(first, count), rows, false, tall);
    C += tall.template cast<double>();
    const std::int64_t later = std::max<std::int64_t>(first, 1), pairs = first + count - later;
    if (pairs <= 0) return;
    multiply(true, false, left.middleRows(later, pairs), keys.middleRows(later - 1, pairs), false, square);
    M += square.template cast<double>();
  }
};

template <class T>
void store_statistics(const RidgeSaved& saved, std::int64_t i, const RawSums<T>& sums, const KeyScale& key) {
  const double m = key.scale(), inverse = 1.0 / m;
  entry<T>(saved.G, i) = (sums.G * (inverse * inverse)).template cast<T>();
  entry<T>(saved.M, i) = (sums.M * (inverse * inverse)).template cast<T>();
  entry<T>(saved.C, i) = (sums.C * inverse).template cast<T>();
  saved.m.as<T>()[i] = static_cast<T>(m);
  saved.m_index.as<std::int32_t>()[i] = key.attained();
}

/// Fills G, M, C, m of every group of one head.
template <class T>
void gather_statistics(const RidgeInputs& in, const Sizes& s, const RidgeSaved& saved, std::int64_t batch_head) {
  Scratch scratch(3 * s.r * s.r + 2 * s.width * s.r + (s.masked ? 2 * s.tokens * s.r : 0), 7);
  const Panel<T> keys = s.contributing<T>(in.z, in, batch_head, scratch), values = s.panel<T>(in.v, batch_head);
  const Panel<T> left = in.left.defined() ? s.contributing<T>(in.left, in, batch_head, scratch) : keys;
  RawSums<T> sums(s, scratch);
  KeyScale key;
  if (!s.running_scale) key.see<T>(in, s, batch_head, 0, s.tokens);
  const auto add_piece = [&](std::int64_t g) {
    if (s.running_scale) key.see<T>(in, s, batch_head, s.first(g), s.count(g));
    sums.add(keys, left, values, s.first(g), s.count(g));
  };
  for (std::int64_t g = 0; g < s.groups; ++g) {
    if (!s.exclusive) add_piece(g);
    store_statistics(saved, batch_head * s.groups + g, sums, key);
    if (s.exclusive && g + 1 < s.groups) add_piece(g);
  }
}

/// y = q E^T with E = (eta / m) F A^K L^-1: many queries share E.
template <class T, class Rows>
void read_out_many(Whitened& w, int power, double gain, double scale, Compact<T>& E, const Rows& queries, Rows y) {
  for (int k = 0; k < power; ++k) {
    multiply(false, false, w.F, w.A, false, w.tall);
    w.F = scale * w.tall;
  }
  multiply(false, false, w.F, w.inverse, false, w.tall);
  E = (gain * w.tall).template cast<T>();
  multiply(false, true, queries, E, false, y);
}

/// The same from the right, one query at a time: matrix-vector products only.
template <class T, class Rows>
void read_out_few(Whitened& w, int power, double gain, double scale, const Rows& queries, Rows y) {
  for (std::int64_t t = 0; t < queries.rows(); ++t) {
    w.left = queries.row(t).template cast<double>().transpose();
    w.right.noalias() = w.inverse * w.left;
    for (int k = 0; k < power; ++k) {
      w.left.noalias() = w.A * w.right;
      w.right = scale * w.left;
    }
    w.tall.col(0).noalias() = w.F * w.right;
    y.row(t) = (gain * w.tall.col(0)).transpose().template cast<T>();
  }
}

/// Factorises group `i` of the saved statistics and writes the readout of queries [rows, r] to y [rows, P].
template <class T>
void answer(const RidgeConfig& config, const RidgeInputs& in, const Sizes& s, const RidgeSaved& saved, std::int64_t i,
            std::int64_t head, const Panel<T>& queries, const Panel<T>& y, std::int64_t first, std::int64_t count,
            bool contributes) {
  Scratch scratch(Whitened::doubles(s) + s.width * s.r, Whitened::pieces + 1);
  Whitened whitened{s, scratch};
  whitened.compute(config, entry<T>(saved.G, i), entry<T>(saved.M, i), entry<T>(saved.C, i));
  whitened.save<T>(saved, i);
  Panel<T> out = y;
  auto rows_of = [&](Panel<T> panel) { return panel.middleRows(first, count); };
  if (!contributes) {
    rows_of(out).setZero();
    return;
  }
  const double gain = static_cast<double>(in.eta.as<T>()[head]) / static_cast<double>(saved.m.as<T>()[i]);
  const double scale = config.gamma.at(static_cast<double>(in.gamma_raw.as<T>()[head])) / std::max(whitened.sigma, 1.0);
  if (count < s.width) {
    read_out_few<T>(whitened, config.power, gain, scale, rows_of(queries), rows_of(out));
  } else {
    Compact<T> E = scratch.block<T>(s.width, s.r);
    read_out_many<T>(whitened, config.power, gain, scale, E, rows_of(queries), rows_of(out));
  }
}

}  // namespace

void CpuBackend::ridge_readout(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                               const Tensor& y) {
  const Sizes s(config, in);
  with_type(y, [&]<class T>(T) {
    pool_.for_each(s.batch * s.heads, [&](std::int64_t i) { gather_statistics<T>(in, s, saved, i); });
    pool_.for_each(s.batch * s.heads * s.groups, [&](std::int64_t i) {
      const std::int64_t batch_head = i / s.groups, g = i % s.groups;
      answer<T>(config, in, s, saved, i, batch_head % s.heads, s.panel<T>(in.q, batch_head), s.panel<T>(y, batch_head),
                s.first(g), s.count(g), s.contributes(in, batch_head, g));
    });
  });
}

void CpuBackend::ridge_scales(const RidgeConfig& config, const RidgeSaved& saved, const Tensor& scales) {
  with_type(scales, [&]<class T>(T) {
    for (std::int64_t i = 0; i < scales.elements(); ++i)
      scales.as<T>()[i] = T{1} / saved.m.as<T>()[config.group_of(i, scales.shape)];
  });
}

void CpuBackend::ridge_scales_backward(const RidgeConfig& config, const RidgeSaved& saved, const Tensor& dscales,
                                       const Grad& dlength) {
  if (!dlength.wanted()) return;
  if (!dlength.accumulate) fill(dlength.tensor, 0.0);
  const std::int64_t tokens = dscales.shape[1], heads = dscales.shape[2];
  with_type(dscales, [&]<class T>(T) {
    for (std::int64_t i = 0; i < dscales.elements(); ++i) {
      const std::int64_t group = config.group_of(i, dscales.shape);
      const std::int32_t from = saved.m_index.as<std::int32_t>()[group];
      const T m = saved.m.as<T>()[group];
      if (from < 0) continue;
      dlength.tensor.as<T>()[(i / (tokens * heads) * tokens + from) * heads + i % heads] -=
          dscales.as<T>()[i] / (m * m);
    }
  });
}

}  // namespace afterglow
