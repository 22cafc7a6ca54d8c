// The core of Gated KalmaNet on the CPU, backward, by implicit differentiation (GKA 4.2.2, B.2). With z the Chebyshev
// answer for (H + lambda I) z = dx, the gradient of H_t from its own token is -z x^T - (w/2) H, w = 2 a (x . z) / |H|_F
// (eq. 23; eq. 25 has the sign of the last term wrong). Three parallel loops: over chunks, for z, dq, and what each
// adds to the gradients of the states before it; over heads, which sum those gradients from the last chunk to the
// first; and over chunks again, for dk, dv and the gates.
//
// The gradient of a gate needs no states inside a chunk. With D_t the whole gradient of a state X_t,
// dg_t = <D_t, e^g X_{t-1}> = <D_t, X_t> - (k_t's share), and <D_t, X_t> = <own gradient, X_t> + dg_{t+1}.
#include "core/backend/cpu/chebyshev.h"
#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/dispatch.h"

namespace afterglow {
namespace {

using namespace chebyshev;

struct Reverse {};

/// The workspace: z [B,T,H,D]; w, then its sums `later`, and the tokens' own shares <own gradient, H>, <own gradient,
/// S> [B,T,H]; the gradients of the states [B,H,N,D,D]: first what each chunk adds to the gradient of the state before
/// it, then the gradient that the later chunks pass to the state after it. That of H is symmetrised: dH + dH^T.
template <class T>
struct Workspace {
  T *z, *later, *key_share, *value_share, *dH, *dS;
  static std::int64_t elements(const Sizes& s) {
    return s.rows() * (s.width + 3) + 2 * s.pieces() * s.width * s.width + 64;
  }
  Workspace(const Tensor& memory, const Sizes& s) {
    dH = memory.as<T>();
    dS = dH + s.pieces() * s.width * s.width;
    z = dS + s.pieces() * s.width * s.width;
    later = z + s.rows() * s.width;
    key_share = later + s.rows();
    value_share = key_share + s.rows();
  }
};

template <class T>
void put_rows(const Grad& grad, const Chunk<T>& chunk, const Block<T>& values) {
  if (grad.wanted()) put_into(map_of(chunk.panel(grad.tensor)), map_of(values), grad.accumulate);
}
template <class T>
void put_number(const Grad& grad, const Chunk<T>& chunk, std::int64_t c, T value) {
  if (grad.wanted()) put_into(chunk.number(grad.tensor, c), value, grad.accumulate);
}

/// The backward pass of one chunk.
template <class T>
class ChunkReverse {
 public:
  static std::int64_t memory(const Sizes& s) { return Chunk<T>::memory(s, 5, 1); }
  ChunkReverse(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevSaved& saved, const Sizes& s,
               std::int64_t piece, const Tensor& dy, const Tensor& workspace)
      : config_(config),
        in_(in),
        saved_(saved),
        work_(workspace, s),
        pieces_(thread_scratch<T, Reverse>(memory(s))),
        size_(s.width * s.width),
        first_(piece % s.chunks == 0),
        last_(piece % s.chunks == s.chunks - 1),
        chunk_(config, in, s, piece / s.chunks / s.heads, piece / s.chunks % s.heads, piece % s.chunks,
               saved.H.as<T>() + piece * size_, saved.S.as<T>() + piece * size_, pieces_),
        n_(chunk_.count),
        dy_(chunk_.panel(dy)),
        x_(chunk_.panel(saved.x)),
        z_(chunk_.panel(work_.z)),
        dH_(work_.dH + piece * size_, s.width, s.width),
        dS_(work_.dS + piece * size_, s.width, s.width),
        a_(panel()),
        b_(panel()),
        c_(panel()),
        d_(panel()),
        e_(panel()),
        scores_(square()) {}

  /// z, dq, dalpha, the shares of the tokens and what the chunk adds to the gradients of the states before it.
  void solve(const ChebyshevGrads& out) {
    const Block<T> dp = a_, dx = b_;
    chunk_.read(chunk_.value_gate, chunk_.value_mask, dy_, chunk_.S0, true, chunk_.v, chunk_.k, scale(), dp);
    for (std::int64_t c = 0; c < n_; ++c) map_of(dx).row(c) = alpha(c) * map_of(dp).row(c);
    chunk_.solve(saved_.fro, saved_.lambda, dx, z_);
    chunk_.apply(x_, c_);
    for (std::int64_t c = 0; c < n_; ++c) share(c);
    for (std::int64_t c = 0; c < n_; ++c) {
      map_of(d_).row(c) = map_of(z_).row(c) + (T{1} - alpha(c)) * map_of(dp).row(c);
      put_number(out.alpha, chunk_, c, map_of(dp).row(c).dot(map_of(x_).row(c) - map_of(chunk_.q).row(c)));
    }
    put_rows(out.q, chunk_, d_);
    sum_weights();
    give_to_keys();
    give_to_values();
  }

  /// dk, dv and dg (from the shares, less the contributions of the tokens' own k k^T and k v^T), once dH_ and dS_ hold
  /// the gradients that the later chunks pass to the states after this one.
  void finish(const ChebyshevGrads& out) {
    const Block<T> dk = a_, dv = b_, from_values = c_;
    key_gradient(dk);
    for (std::int64_t c = 0; c < n_; ++c) key_share(c) -= T{0.5} * map_of(dk).row(c).dot(map_of(chunk_.k).row(c));
    value_gradients(from_values, dv);
    for (std::int64_t c = 0; c < n_; ++c) value_share(c) -= map_of(dv).row(c).dot(map_of(chunk_.v).row(c));
    map_of(dk) += map_of(from_values);
    put_rows(out.k, chunk_, dk);
    put_rows(out.v, chunk_, dv);
    if (out.g.wanted()) gate_gradient(out.g);
  }

 private:
  Block<T> panel() { return pieces_.block(chunk_.count, chunk_.width); }
  Block<T> square() { return pieces_.block(chunk_.count, chunk_.count); }
  T scale() const { return static_cast<T>(config_.scale); }
  T alpha(std::int64_t c) const { return chunk_.alpha_of(in_.alpha, c); }
  T& w(std::int64_t c) const { return work_.later[chunk_.place(c)]; }
  T& later(std::int64_t c) const { return work_.later[chunk_.place(c)]; }
  T& key_share(std::int64_t c) const { return work_.key_share[chunk_.place(c)]; }
  T& value_share(std::int64_t c) const { return work_.value_share[chunk_.place(c)]; }

  /// <-z x^T - (w/2) H, H> and <scale p dy^T, S>; a_ holds dp, c_ holds H x.
  void share(std::int64_t c) {
    const auto x = map_of(x_).row(c), z = map_of(z_).row(c), q = map_of(chunk_.q).row(c);
    const T fro = chunk_.number(saved_.fro, c);
    const bool through_lambda = config_.lambda_grad && config_.fixed_lambda <= 0 && fro > T{0};
    w(c) = through_lambda ? static_cast<T>(2 * config_.ridge) * x.dot(z) / fro : T{0};
    key_share(c) = -z.dot(map_of(c_).row(c)) - T{0.5} * w(c) * fro * fro;
    value_share(c) = map_of(a_).row(c).dot(q + alpha(c) * (x - q));
  }

  /// later_i = sum_{c>=i} w_c e^{2 (G_c - G_i)}: all terms of the chunk with w_c H_c are made from these sums.
  void sum_weights() {
    T sum = 0;
    for (std::int64_t c = n_ - 1; c >= 0; --c) {
      if (c + 1 < n_) sum *= std::exp(T{2} * (chunk_.key_gate[c + 1] - chunk_.key_gate[c]));
      later(c) = sum += w(c);
    }
  }

  /// sum_c e^{G_c} (dH_c + dH_c^T) = -(X^T e^G Z + Z^T e^G X) - H_0 sum_c w_c e^{2 G_c} - sum_j e^{G_j} later_j k_j
  /// k_j^T.
  void give_to_keys() {
    for (std::int64_t c = 0; c < n_; ++c) {
      const T gate = std::exp(chunk_.key_gate[c]);
      map_of(c_).row(c) = -gate * map_of(z_).row(c);
      map_of(d_).row(c) = -gate * later(c) * map_of(chunk_.k).row(c);
    }
    map_of(dH_) = -later(0) * std::exp(T{2} * chunk_.key_gate[0]) * map_of(chunk_.H0);
    product(true, false, c_, x_, true, dH_);
    product(true, false, x_, c_, true, dH_);
    product(true, false, d_, chunk_.k, true, dH_);
  }

  /// sum_c e^{G_c} scale p_c dy_c^T.
  void give_to_values() {
    weighted_readout(chunk_.value_gate, c_);
    product(true, false, c_, dy_, false, dS_);
  }
  /// Rows e^{gate_c} scale p_c; without a gate scale p_c.
  void weighted_readout(const T* gate, const Block<T>& p) {
    for (std::int64_t c = 0; c < n_; ++c) {
      const auto x = map_of(x_).row(c), q = map_of(chunk_.q).row(c);
      map_of(p).row(c) = scale() * (gate ? std::exp(gate[c]) : T{1}) * (q + alpha(c) * (x - q));
    }
  }

  /// out_i (+)= sum_{c>=i} e^{G_c - G_i} (left_c . right_i) rows_c, times `sign`.
  void from_later(const Block<T>& mask, const Block<T>& left, const Block<T>& right, const Block<T>& rows, T sign,
                  const Block<T>& out) {
    product(false, true, left, right, false, scores_);
    map_of(scores_).array() *= sign * map_of(mask).array();
    product(true, false, scores_, rows, true, out);
  }
  /// Row i of out becomes e^{G_C - G_i} in_i state: the gradient from later chunks.
  void from_state(const T* gate, const Block<T>& in, const Block<T>& state, bool transpose, const Block<T>& out) {
    product(false, transpose, in, state, false, out);
    for (std::int64_t i = 0; i < n_; ++i) map_of(out).row(i) *= std::exp(gate[n_ - 1] - gate[i]);
  }

  /// (7): sum_{t>=i} e^{G_t - G_i} (dH_t + dH_t^T) k_i.
  void key_gradient(const Block<T>& dk) {
    const Block<T>& mask = chunk_.key_mask;
    from_state(chunk_.key_gate, chunk_.k, dH_, false, dk);
    from_later(mask, x_, chunk_.k, z_, T{-1}, dk);
    from_later(mask, z_, chunk_.k, x_, T{-1}, dk);
    // The coefficients of H_0 are b_i = e^{G_i} later_i; M diag(w) M^T has e^{G_m - G_n} later_m, m the later token.
    for (std::int64_t i = 0; i < n_; ++i)
      map_of(d_).row(i) = -std::exp(chunk_.key_gate[i]) * later(i) * map_of(chunk_.k).row(i);
    product(false, false, d_, chunk_.H0, true, dk);
    product(false, true, chunk_.k, chunk_.k, false, scores_);
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j < n_; ++j)
        scores_.data[i * n_ + j] *= -later(std::max(i, j)) * mask.data[std::max(i, j) * n_ + std::min(i, j)];
    product(false, false, scores_, chunk_.k, true, dk);
  }

  /// The gradients through S_t = sum k v^T.
  void value_gradients(const Block<T>& dk, const Block<T>& dv) {
    const Block<T> p = e_;
    weighted_readout(nullptr, p);
    from_state(chunk_.value_gate, chunk_.v, dS_, true, dk);
    from_later(chunk_.value_mask, dy_, chunk_.v, p, T{1}, dk);
    from_state(chunk_.value_gate, chunk_.k, dS_, false, dv);
    from_later(chunk_.value_mask, p, chunk_.k, dy_, T{1}, dv);
  }

  void gate_gradient(const Grad& dg) {
    T sum = 0;
    if (!last_) {
      const Block<T> after_H(chunk_.H0.data + size_, chunk_.width, chunk_.width);
      const Block<T> after_S(chunk_.S0.data + size_, chunk_.width, chunk_.width);
      sum = map_of(dS_).cwiseProduct(map_of(after_S)).sum();
      if (config_.decay_keys) sum += T{0.5} * map_of(dH_).cwiseProduct(map_of(after_H)).sum();
    }
    for (std::int64_t c = n_ - 1; c >= 0; --c) {
      sum += value_share(c) + (config_.decay_keys ? key_share(c) : T{0});
      const bool acts = !(first_ && c == 0) && chunk_.number(in_.g, c) >= chunk_.log_floor();
      put_number(dg, chunk_, c, acts ? sum : T{0});
    }
  }

  const ChebyshevConfig& config_;
  const ChebyshevInputs& in_;
  const ChebyshevSaved& saved_;
  Workspace<T> work_;
  Pieces<T> pieces_;
  std::int64_t size_;
  bool first_, last_;
  Chunk<T> chunk_;
  std::int64_t n_;
  Block<T> dy_, x_, z_, dH_, dS_;
  Block<T> a_, b_, c_, d_, e_, scores_;
};

/// Turns what each chunk adds into the gradient from all later chunks: R_n = e^{G of chunk n+1} R_{n+1} + added_{n+1}.
template <class T>
void sum_backwards(const ChebyshevConfig& config, const ChebyshevInputs& in, const Sizes& s, T* states, bool decay,
                   std::int64_t batch_head, T* sum) {
  const std::int64_t size = s.width * s.width;
  const T floor =
      config.gate_floor > 0 ? static_cast<T>(std::log(config.gate_floor)) : -std::numeric_limits<T>::infinity();
  ArrayMap<T> total(sum, size);
  total.setZero();
  for (std::int64_t n = s.chunks - 1; n >= 0; --n) {
    ArrayMap<T> place(states + (batch_head * s.chunks + n) * size, size);
    T gate = 0;
    for (std::int64_t t = n * s.chunk; decay && in.g.defined() && t < std::min(s.tokens, (n + 1) * s.chunk); ++t) {
      const std::int64_t row = (batch_head / s.heads * s.tokens + t) * s.heads + batch_head % s.heads;
      gate += std::max(in.g.as<T>()[row], floor);
    }
    place.swap(total);
    total = std::exp(gate) * place + total;
  }
}

}  // namespace

Plan CpuBackend::plan(const ChebyshevConfig& config, const ChebyshevInputs& in) const {
  return {.workspace = Workspace<double>::elements(Sizes(config, in))};
}

void CpuBackend::chebyshev_readout_backward(const ChebyshevConfig& config, const ChebyshevInputs& in,
                                            const ChebyshevSaved& saved, const Tensor& dy, const Tensor& workspace,
                                            const ChebyshevGrads& out) {
  const Sizes s(config, in);
  with_type(in.q, [&]<class T>(T) {
    pool_.for_each(s.pieces(),
                   [&](std::int64_t i) { ChunkReverse<T>(config, in, saved, s, i, dy, workspace).solve(out); });
    const Workspace<T> work(workspace, s);
    pool_.for_each(2 * s.batch * s.heads, [&](std::int64_t i) {
      struct Sum {};
      T* sum = thread_scratch<T, Sum>(s.width * s.width);
      const bool keys = i % 2 == 0;
      sum_backwards(config, in, s, keys ? work.dH : work.dS, !keys || config.decay_keys, i / 2, sum);
    });
    pool_.for_each(s.pieces(),
                   [&](std::int64_t i) { ChunkReverse<T>(config, in, saved, s, i, dy, workspace).finish(out); });
  });
}

}  // namespace afterglow
