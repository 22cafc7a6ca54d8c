// The SKA core on the CPU, backward. The first parallel loop, over groups, goes from d y to the gradients of the
// raw statistics, the queries and the scale m. The second, over heads, forms suffix sums over the groups that a
// position contributes to, and from them the gradients of keys and values. core/layers/gradients.md derives the
// formulas.
#include <algorithm>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"
#include "core/backend/cpu/ridge.h"

namespace afterglow {
namespace {

using namespace ridge;

/// One group's share of the workspace: gradients of the raw sums of z z^T, z_{t+1} z_t^T, v z^T, of m, eta, gamma_raw.
template <class T>
struct GroupGradient {
  const Sizes& s;
  T* from;
  Compact<T> G{from, s.r, s.r}, M{G.data() + G.size(), s.r, s.r}, C{M.data() + M.size(), s.width, s.r};
  T &m = *(C.data() + C.size()), &eta = *(&m + 1), &gamma_raw = *(&m + 2);

  static std::int64_t size(const Sizes& s) { return 2 * s.r * s.r + s.width * s.r + 3; }
  GroupGradient(const Tensor& workspace, const Sizes& sizes, std::int64_t i)
      : s(sizes), from(workspace.as<T>() + i * size(sizes)) {}
};

/// One group in the backward pass; every matrix is float64. With N = L^T dL (of which the lower half counts):
/// dG = sym(L^-T Phi(N) L^-1), Phi halving the diagonal.
class GroupReverse {
 public:
  static std::int64_t doubles(const Sizes& s, int power) {
    return 7 * s.r * s.r + (8 + power) * s.width * s.r + s.width * s.width;
  }
  static constexpr std::int64_t pieces = 14;

  GroupReverse(const Sizes& s, int power, Scratch& scratch) : s_(s), power_(power), scratch_(scratch) {}

  template <class T>
  void load(const RidgeInputs& in, const RidgeSaved& saved, std::int64_t i, std::int64_t head) {
    A_ = entry<T>(saved.A_w, i).template cast<double>();
    L_ = entry<T>(saved.L, i).template cast<double>();
    F_ = entry<T>(saved.F, i).template cast<double>();
    invert_lower(L_, inverse_);
    m_ = static_cast<double>(saved.m.as<T>()[i]);
    eta_ = static_cast<double>(in.eta.as<T>()[head]);
    gamma_raw_ = static_cast<double>(in.gamma_raw.as<T>()[head]);
    divisor_ = std::max(static_cast<double>(saved.sigma.as<T>()[i]), 1.0);
    scale_ = s_.gamma.at(gamma_raw_) / divisor_;
    dA_.setZero();
  }

  /// Queries and upstream gradients as rows; for many of them it sums d E = d y^T q first, E = (eta / m) F A^K L^-1.
  template <class T, class Rows>
  void through_many(const Rows& queries, const Rows& dy, const Grad& dq, Rows dq_rows) {
    Compact<T> narrow = scratch_.block<T>(s_.width, s_.r);
    multiply(true, false, dy, queries, false, narrow);
    Compact<double> dE = tall(), E = tall();
    dE = narrow.template cast<double>();
    Compact<double> states(scratch_.take<double>((power_ + 1) * s_.width * s_.r), (power_ + 1) * s_.width, s_.r);
    const auto state = [&](int k) { return states.middleRows(k * s_.width, s_.width); };
    state(0) = F_;
    for (int k = 1; k <= power_; ++k) {
      multiply(false, false, state(k - 1), A_, false, state(k));
      state(k) *= scale_;
    }
    multiply(false, false, state(power_), inverse_, false, E);
    const double gain = eta_ / m_, overlap = E.cwiseProduct(dE).sum();
    deta_ = overlap / m_;
    dm_ = -gain * overlap / m_;
    if (dq.wanted()) {
      narrow = (gain * E).template cast<T>();
      multiply(false, false, dy, narrow, dq.accumulate, dq_rows);
    }
    multiply(false, true, dE, inverse_, false, tall_);
    dF_ = gain * tall_;
    multiply(true, false, state(power_), dF_, false, minus_N_);
    for (int k = power_; k > 0; --k) {
      multiply(true, false, state(k - 1), dF_, true, dA_);
      multiply(false, true, dF_, A_, false, tall_);
      dF_ = scale_ * tall_;
    }
  }

  /// The same from the right, w_k = A w_{k-1} from w_0 = L^-1 q / m, for fewer queries than values are wide.
  template <class T, class Rows>
  void through_few(const Rows& queries, const Rows& dy, const Grad& dq, Rows dq_rows) {
    const std::int64_t n = queries.rows();
    Compact<double> upstream(scratch_.take<double>(n * s_.width), s_.width, n);
    Compact<double> dw(scratch_.take<double>(n * s_.r), s_.r, n), next(scratch_.take<double>(n * s_.r), s_.r, n);
    Compact<double> states(scratch_.take<double>((power_ + 1) * s_.r * n), (power_ + 1) * s_.r, n);
    const auto state = [&](int k) { return states.middleRows(k * s_.r, s_.r); };
    next = queries.transpose().template cast<double>() / m_;
    upstream = dy.transpose().template cast<double>();
    state(0).noalias() = inverse_ * next;
    for (int k = 1; k <= power_; ++k) {
      state(k).noalias() = A_ * state(k - 1);
      state(k) *= scale_;
    }
    dF_.noalias() = upstream * state(power_).transpose();
    deta_ = dF_.cwiseProduct(F_).sum();
    dF_ *= eta_;
    dw.noalias() = F_.transpose() * upstream;
    dw *= eta_;
    for (int k = power_; k > 0; --k) {
      dA_.noalias() += dw * state(k - 1).transpose();
      next.noalias() = A_.transpose() * dw;
      dw = scale_ * next;
    }
    dm_ = -dw.cwiseProduct(state(0)).sum() / m_;
    minus_N_.noalias() = dw * state(0).transpose();
    if (!dq.wanted()) return;
    next.noalias() = inverse_.transpose() * dw;
    if (!dq.accumulate) dq_rows.setZero();
    dq_rows += (next / m_).transpose().template cast<T>();
  }

  /// From dF, dA and the readout's part of N to the raw statistics.
  template <class T>
  void finish(const RidgeSaved& saved, std::int64_t i, GroupGradient<T>& out) {
    out.eta = static_cast<T>(deta_);
    out.gamma_raw = static_cast<T>(dA_.cwiseProduct(A_).sum() / divisor_ * s_.gamma.slope(gamma_raw_));
    dA_ *= scale_;
    multiply(true, false, dF_, F_, true, minus_N_);
    multiply(false, true, dA_, A_, true, minus_N_);
    multiply(true, false, dA_, A_, true, minus_N_);
    put_symmetric(saved, i, out);
    multiply(true, false, inverse_, dA_, false, square_);
    multiply(false, false, square_, inverse_, false, work_);
    put(work_, entry<T>(saved.M, i), 2, out.M);
    multiply(false, false, dF_, inverse_, false, tall_);
    put(tall_, entry<T>(saved.C, i), 1, out.C);
    out.m = static_cast<T>(dm_);
  }

 private:
  Compact<double> square() { return scratch_.block<double>(s_.r, s_.r); }
  Compact<double> tall() { return scratch_.block<double>(s_.width, s_.r); }

  template <class T>
  void put_symmetric(const RidgeSaved& saved, std::int64_t i, GroupGradient<T>& out) {
    minus_N_.triangularView<Eigen::StrictlyUpper>().setZero();
    minus_N_.diagonal() *= 0.5;
    multiply(true, false, inverse_, minus_N_, false, square_);
    multiply(false, false, square_, inverse_, false, work_);
    square_ = -0.5 * (work_ + work_.transpose());
    put(square_, entry<T>(saved.G, i), 2, out.G);
  }
  /// A normalised statistic is the raw one over m^order; both the raw sum and m get a gradient.
  template <class T>
  void put(const Compact<double>& gradient, const Compact<T>& statistic, int order, Compact<T>& out) {
    dm_ -= order / m_ * gradient.cwiseProduct(statistic.template cast<double>()).sum();
    out = (gradient / (order == 2 ? m_ * m_ : m_)).template cast<T>();
  }

  const Sizes& s_;
  int power_;
  Scratch& scratch_;
  Compact<double> A_ = square(), L_ = square(), inverse_ = square(), dA_ = square(), minus_N_ = square(),
                  work_ = square(), square_ = square(), F_ = tall(), dF_ = tall(), tall_ = tall();
  double m_ = 1, eta_ = 1, gamma_raw_ = 0, divisor_ = 1, scale_ = 1, deta_ = 0, dm_ = 0;
};

template <class T>
void reverse_group(const RidgeConfig& config, const RidgeInputs& in, const Sizes& s, const RidgeSaved& saved,
                   std::int64_t i, const Tensor& dy, const Tensor& workspace, const Grad& dq) {
  const std::int64_t batch_head = i / s.groups, g = i % s.groups;
  const auto rows = [&](const Tensor& x) {
    Panel<T> panel = s.panel<T>(x, batch_head);
    return panel.middleRows(s.first(g), s.count(g));
  };
  GroupGradient<T> out(workspace, s, i);
  const Tensor& dq_target = dq.wanted() ? dq.tensor : in.q;  // an unwanted gradient is not written
  if (!s.contributes(in, batch_head, g)) {
    std::fill_n(out.G.data(), GroupGradient<T>::size(s), T{0});
    if (dq.wanted() && !dq.accumulate) rows(dq_target).setZero();
    return;
  }
  Scratch scratch(GroupReverse::doubles(s, config.power), GroupReverse::pieces);
  GroupReverse reverse(s, config.power, scratch);
  reverse.load<T>(in, saved, i, batch_head % s.heads);
  if (s.count(g) < s.width) {
    reverse.through_few<T>(rows(in.q), rows(dy), dq, rows(dq_target));
  } else {
    reverse.through_many<T>(rows(in.q), rows(dy), dq, rows(dq_target));
  }
  reverse.finish<T>(saved, i, out);
}

/// Sums over the groups after a piece, formed from the last piece to the first.
template <class T>
struct SuffixSums : StatisticsSums {
  Compact<T> G_now, M_now, C_now;

  SuffixSums(const Sizes& s, Scratch& scratch)
      : StatisticsSums(s, scratch),
        G_now(scratch.block<T>(s.r, s.r)),
        M_now(scratch.block<T>(s.r, s.r)),
        C_now(scratch.block<T>(s.width, s.r)) {}
  void add(const GroupGradient<T>& group) {
    G += group.G.template cast<double>();
    M += group.M.template cast<double>();
    C += group.C.template cast<double>();
  }
  /// Where both factors of G are keys, each of them takes half of the gradient's double.
  void convert(bool are_both_keys) {
    G_now = ((are_both_keys ? 2.0 : 1.0) * G).template cast<T>();
    M_now = M.cast<T>();
    C_now = C.cast<T>();
  }
};

/// Adds what one piece of positions contributes: G = sum l z^T, M = sum l_{t+1} z_t^T, C = sum v z^T. `left` and
/// `dleft` are `keys` and `dz` where there are no left factors.
template <class T>
void reverse_piece(const SuffixSums<T>& sums, const Panel<T>& keys, const Panel<T>& left, const Panel<T>& values,
                   std::int64_t first, std::int64_t count, Compact<T>& dz, Compact<T>& dleft, const Grad& dv,
                   Panel<T>& dv_panel) {
  const auto rows = keys.middleRows(first, count);
  multiply(false, false, left.middleRows(first, count), sums.G_now, true, dz.middleRows(first, count));
  if (dleft.data() != dz.data()) multiply(false, false, rows, sums.G_now, true, dleft.middleRows(first, count));
  multiply(false, false, values.middleRows(first, count), sums.C_now, true, dz.middleRows(first, count));
  if (dv.wanted()) multiply(false, true, rows, sums.C_now, dv.accumulate, dv_panel.middleRows(first, count));
  const std::int64_t later = std::max<std::int64_t>(first, 1), pairs = first + count - later;
  if (pairs <= 0) return;
  multiply(false, true, keys.middleRows(later - 1, pairs), sums.M_now, true, dleft.middleRows(later, pairs));
  multiply(false, false, left.middleRows(later, pairs), sums.M_now, true, dz.middleRows(later - 1, pairs));
}

/// Adds the gradient of m to the position whose key norm, or given length, is m; nothing where m is clamped to its
/// minimum.
template <class T>
void reverse_scales(const RidgeInputs& in, const Sizes& s, const RidgeSaved& saved, const Tensor& workspace,
                    std::int64_t batch_head, const Panel<T>& keys, Compact<T>& dz, const Grad& dlength) {
  for (std::int64_t t = 0; t < s.tokens && dlength.wanted() && !dlength.accumulate; ++t)
    s.number<T>(dlength.tensor, batch_head, t) = T{0};
  for (std::int64_t g = 0; g < s.groups; ++g) {
    const std::int64_t i = batch_head * s.groups + g;
    const std::int32_t t = saved.m_index.as<std::int32_t>()[i];
    if (t < 0) continue;
    const T dm = GroupGradient<T>(workspace, s, i).m;
    if (!in.length.defined()) {
      dz.row(t) += dm / saved.m.as<T>()[i] * keys.row(t);
    } else if (dlength.wanted()) {
      s.number<T>(dlength.tensor, batch_head, t) += dm;
    }
  }
}

template <class T>
void put_rows(const RidgeInputs& in, const Sizes& s, std::int64_t batch_head, const Grad& grad, Compact<T>& rows) {
  if (!grad.wanted()) return;
  Panel<T> target = s.panel<T>(grad.tensor, batch_head);
  const std::uint8_t* mask = s.mask(in, batch_head);
  for (std::int64_t t = 0; mask && t < s.tokens; ++t) {
    if (!s.counts(mask[t])) rows.row(t).setZero();
  }
  put_into(target, rows, grad.accumulate);
}

template <class T>
void reverse_head(const RidgeInputs& in, const Sizes& s, const RidgeSaved& saved, const Tensor& workspace,
                  std::int64_t batch_head, const RidgeGrads& out) {
  Scratch scratch(4 * s.r * s.r + 2 * s.width * s.r + 4 * s.tokens * s.r, 10);
  const bool has_left = in.left.defined();
  const Panel<T> keys = s.contributing<T>(in.z, in, batch_head, scratch), values = s.panel<T>(in.v, batch_head);
  const Panel<T> left = has_left ? s.contributing<T>(in.left, in, batch_head, scratch) : keys;
  Panel<T> dv = s.panel<T>(out.v.wanted() ? out.v.tensor : in.v, batch_head);
  Compact<T> dz = scratch.block<T>(s.tokens, s.r), dleft = has_left ? scratch.block<T>(s.tokens, s.r) : dz;
  dz.setZero();
  dleft.setZero();
  SuffixSums<T> sums(s, scratch);
  for (std::int64_t g = s.groups - 1; g >= 0; --g) {
    const GroupGradient<T> group(workspace, s, batch_head * s.groups + g);
    if (!s.exclusive) sums.add(group);
    sums.convert(!has_left);
    reverse_piece(sums, keys, left, values, s.first(g), s.count(g), dz, dleft, out.v, dv);
    if (s.exclusive) sums.add(group);
  }
  reverse_scales(in, s, saved, workspace, batch_head, keys, dz, out.length);
  if (has_left) put_rows(in, s, batch_head, out.left, dleft);
  put_rows(in, s, batch_head, out.z, dz);
}

/// eta and gamma_raw belong to a head: sums over sequences and groups, in order.
template <class T>
void reverse_head_scalars(const Sizes& s, const Tensor& workspace, const RidgeGrads& out) {
  const auto put = [](const Grad& grad, std::int64_t head, double value) {
    if (!grad.wanted()) return;
    T& target = grad.tensor.as<T>()[head];
    target = static_cast<T>(grad.accumulate ? static_cast<double>(target) + value : value);
  };
  for (std::int64_t head = 0; head < s.heads; ++head) {
    double deta = 0.0, dgamma = 0.0;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        const GroupGradient<T> group(workspace, s, (b * s.heads + head) * s.groups + g);
        deta += static_cast<double>(group.eta);
        dgamma += static_cast<double>(group.gamma_raw);
      }
    }
    put(out.eta, head, deta);
    put(out.gamma_raw, head, dgamma);
  }
}

}  // namespace

Plan CpuBackend::plan(const RidgeConfig& config, const RidgeInputs& in) const {
  const Sizes s(config, in);
  return {.kept = step_factors(s.r, s.width),
          .workspace = s.batch * s.heads * s.groups * GroupGradient<float>::size(s)};
}

void CpuBackend::ridge_readout_backward(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                                        const Tensor& dy, const Tensor& workspace, const RidgeGrads& out) {
  const Sizes s(config, in);
  with_type(dy, [&]<class T>(T) {
    pool_.for_each(s.batch * s.heads * s.groups,
                   [&](std::int64_t i) { reverse_group<T>(config, in, s, saved, i, dy, workspace, out.q); });
    if (out.z.wanted() || out.v.wanted() || out.length.wanted() || out.left.wanted())
      pool_.for_each(s.batch * s.heads, [&](std::int64_t i) { reverse_head<T>(in, s, saved, workspace, i, out); });
    reverse_head_scalars<T>(s, workspace, out);
  });
}

}  // namespace afterglow
