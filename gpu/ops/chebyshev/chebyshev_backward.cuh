// Gated KalmaNet's core in bfloat16, backward pass: the dual solve with all gradients that do not depend on later
// chunks, then the parts from later chunks. The equations are in chebyshev_backward.cu. Grid: one block a chunk.
#pragma once
#include "gpu/ops/chebyshev/chebyshev_forward.cuh"

namespace afterglow::device {
namespace chebyshev_units {
namespace {

/// Results of the dual solve: z and, for this lane's rows, p . dp.
template <int W>
struct DualRows {
  Rows<W> z;
  float value[2];
};

/// z, dq and dalpha.
template <int W, class T>
__device__ __forceinline__ void solve_dual(const ChebyshevShape& s, const ChebyshevPointersOf<T>& io,
                                           const ChunkRows& at, const Gates& gates, RecursionMemory<W>& shared,
                                           const T* dy, const SinksOf<T>& out, const Norms& norms, DualRows<W>& to) {
  Rows<W>& z = to.z;
  Rows<W> residual;
  Left<W> left;
  float alpha_share[2] = {};
  {
    const Faded faded(gates.value);
    load_rows(at, dy, {s.scale * faded.factor[0], s.scale * faded.factor[1]}, residual);
  }
  left.round(residual);
  residual.clear();
  read<W, false>(left, shared.S, shared.values, shared.keys, shared.weights, residual);  // dp
  to.value[0] = to.value[1] = 0.0f;
  float alphas[2];
  unrolled<2>([&](int half) {
    alphas[half] = io.alpha && token_of(half) < at.count ? io.alpha[at.row(token_of(half))] : s.alpha;
  });
  each_pair<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    const float alpha = alphas[half];
    const float2 q = two_of(io.q + place), x = two_of(io.x + place);
    const auto share = [&](float& cell, float& past, float from, float change) {
      to.value[half] += cell * rounded(from + alpha * change);
      alpha_share[half] += cell * change;
      past = (1.0f - alpha) * cell;
      cell *= -alpha;
    };
    share(residual.cell[n][2 * half], z.cell[n][2 * half], q.x, x.x - q.x);
    share(residual.cell[n][2 * half + 1], z.cell[n][2 * half + 1], q.y, x.y - q.y);
  });
  unrolled<2>([&](int half) {
    to.value[half] = sum_of_lanes<4>(to.value[half]);
    const float sum = sum_of_lanes<4>(alpha_share[half]);
    if (out.alpha.wanted() && threadIdx.x % 4 == 0 && token_of(half) < at.count)
      out.alpha.put(unsigned(at.row(token_of(half))), sum);
  });
  if (out.q.wanted()) put_rows(at, out.q.rows, out.q.accumulate, z);
  if (!s.decay_keys) shared.weights.fill(gates.key);
  tiles::wait<0>();
  fence_async_proxy();
  const Faded faded(gates.key);
  solve_rows(s.iterations, norms, faded, shared.H, shared.keys, shared.weights, residual, z);
  if (out.q.wanted()) put_rows(at, out.q.rows, true, z);
}

/// Inner products <gradient, state> of this lane's rows by keys and by values; the gates' gradients are sums of them.
struct Shares {
  float key[2], value[2];
};

/// The backward pass of a chunk after its dual solve. The panels reuse the memory of the states: x and z that of S, p
/// and dy that of H once it is not needed.
template <int W, class T>
struct ChunkReverse {
  const ChebyshevShape& s;
  const ChebyshevPointersOf<T>& io;
  const ChunkRows& at;
  const Gates& gates;
  const float* later;
  const RecursionMemory<W>& shared;
  Panel<chunk_tokens> x{shared.S.memory}, z{shared.S.memory + RecursionMemory<W>::panel_bytes}, p{shared.H.memory},
      dy{shared.H.memory + RecursionMemory<W>::panel_bytes};

  /// The parts of the dual solve's results, and w of every token in shared memory. through_keys subtracts the chunk's
  /// own keys' part of z . H x again, so both must be products of the same rounded numbers.
  __device__ __forceinline__ void share_out(const Norms& norms, const DualRows<W>& rows, float* w,
                                            Shares& shares) const {
    Left<W> solution;
    Rows<W> image;
    take_rows(x, solution);
    multiply_state<W, false>(solution, shared.H, false, image);
    scale_rows(Faded(gates.key).factor, image);
    const auto past = [&](int c, int j) { return fast_exp(j <= c ? gates.key[c] - gates.key[j] : -INFINITY); };
    add_pairs(solution, shared.keys, shared.keys, past, image);
    float overlap[2];
    overlaps(at, rows.z, io.x, overlap);
    Left<W> z_rounded;
    z_rounded.round(rows.z);
    overlaps(image, z_rounded, shares.key);
    unrolled<2>([&](int half) {
      const float own = weight_of(s, norms.fro[half], overlap[half]);
      if (threadIdx.x % 4 == 0) w[token_of(half)] = own;
      shares.key[half] = -shares.key[half] - 0.5f * own * norms.fro[half] * norms.fro[half];
      shares.value[half] = rows.value[half];
    });
  }

  /// dk through H_c = e^{G_c} H_0 + ..: the coefficients of H_0, then later tokens with their solutions, then w_c H_c.
  __device__ __forceinline__ void through_keys(Rows<W>& gradient, Shares& shares) const {
    Left<W> own;
    take_rows(shared.keys, own);
    multiply_state<W, false>(own, shared.H, false, gradient);
    float before[2], overlap[2];
    unrolled<2>([&](int half) { before[half] = -expf(gates.key[token_of(half)]) * later[token_of(half)]; });
    scale_rows(before, gradient);
    const auto behind = [&](int c, int j) { return -fast_exp(j >= c ? gates.key[j] - gates.key[c] : -INFINITY); };
    add_pairs(own, x, z, behind, gradient);
    add_pairs(own, z, x, behind, gradient);
    const auto both = [&](int c, int j) {
      const int last = max(c, j);
      return -later[last] * fast_exp(gates.key[last] - gates.key[min(c, j)]);
    };
    add_pairs(own, shared.keys, shared.keys, both, gradient);
    overlaps(gradient, own, overlap);
    unrolled<2>([&](int half) { shares.key[half] -= 0.5f * overlap[half]; });
  }

  /// Adds the rest of dk, then computes dv; writes both.
  __device__ __forceinline__ void through_values(const SinksOf<T>& out, Rows<W>& gradient, Shares& shares) const {
    const auto behind = [&](int c, int j) {
      return s.scale * fast_exp(j >= c ? gates.value[j] - gates.value[c] : -INFINITY);
    };
    Left<W> own;
    take_rows(shared.values, own);
    add_pairs(own, dy, p, behind, gradient);
    if (out.k.wanted()) put_rows(at, out.k.rows, out.k.accumulate, gradient);
    take_rows(shared.keys, own);
    gradient.clear();
    add_pairs(own, p, dy, behind, gradient);
    if (out.v.wanted()) put_rows(at, out.v.rows, out.v.accumulate, gradient);
    take_rows(shared.values, own);
    float overlap[2];
    overlaps(gradient, own, overlap);
    unrolled<2>([&](int half) { shares.value[half] -= overlap[half]; });
  }

  /// The gradients of the states before the chunk; weighted rows overwrite x, p and the values.
  __device__ __forceinline__ void put_state_gradients(const Dual& dual, Rows<W>& sums) const {
    load_panel<W>(at, io.x, x, [&](int c) { return -fast_exp(gates.key[c]); });
    load_panel<W>(at, io.k, shared.values, [&](int c) { return -fast_exp(gates.key[c]) * later[c]; });
    load_mixed<W>(s, io, at, p, [&](int c) { return s.scale * fast_exp(gates.value[c]); });
    fence_async_proxy();
    const float weight = later[0] * expf(2.0f * gates.key[0]);
#pragma unroll 1
    for (int block = 0; block < state_blocks<W>; ++block) {
      begin_products();
      begin_outer(x, block, z, false, sums);
      begin_outer(z, block, x, true, sums);
      begin_outer(shared.keys, block, shared.values, true, sums);
      end_group();
      wait_for_groups<0>(sums.cell);
      subtract_state(state_of<W>(io.H, blockIdx.x), block, weight, sums);
      store_state(sums, block, state_of<W>(dual.dH, blockIdx.x));
      multiply_outer(p, block, dy, sums);
      store_state(sums, block, state_of<W>(dual.dS, blockIdx.x));
    }
  }
};

/// The dual solve; then the gradients of keys, values and gates from the chunk's own tokens, and those of the states
/// before the chunk.
template <int W, class T>
__global__ void __launch_bounds__(threads, 2)
    dual_kernel(ChebyshevShape s, ChebyshevPointersOf<T> io, const T* dy, Dual dual, SinksOf<T> out, float* faded) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  __shared__ float w[chunk_tokens], later[chunk_tokens];
  RecursionMemory<W> shared(memory);
  const ChunkRows at(s, int(blockIdx.x));
  shared.load(s, io, at, gates, gates.value, false);
  const ChunkReverse<W, T> chunk{s, io, at, gates, later, shared};
  Rows<W> gradient;
  Shares shares;
  {
    const Norms norms(io, at);
    DualRows<W> rows;
    solve_dual(s, io, at, gates, shared, dy, out, norms, rows);
    load_panel<W>(at, io.x, chunk.x);
    store_rows(rows.z, chunk.z);
    fence_async_proxy();
    chunk.share_out(norms, rows, w, shares);
  }
  sum_weights(gates.key, w, later);
  chunk.through_keys(gradient, shares);
  __syncthreads();
  load_mixed<W>(s, io, at, chunk.p, [](int) { return 1.0f; });
  load_panel<W>(at, dy, chunk.dy);
  fence_async_proxy();
  chunk.through_values(out, gradient, shares);
  unrolled<2>([&](int half) {
    const int c = token_of(half);
    if (threadIdx.x % 4 != 0 || c >= at.count) return;
    dual.key_share[at.row(c)] = shares.key[half];
    dual.value_share[at.row(c)] = shares.value[half];
  });
  if (threadIdx.x == 0) {
    faded[blockIdx.x] = expf(gates.key[chunk_tokens - 1]);
    faded[s.pieces() + blockIdx.x] = expf(gates.value[chunk_tokens - 1]);
  }
  __syncthreads();
  chunk.put_state_gradients(dual, gradient);
}

/// This thread's part of the inner product of a state in shared memory and one in global memory.
template <int W>
__device__ float overlap_of(Panel<W> a, const Number* b) {
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < W * W / 8; i += threads) {
    const uint4 first = *reinterpret_cast<const uint4*>(a.memory + a.place(i / (W / 8), i % (W / 8) * 8)),
                second = __ldg(reinterpret_cast<const uint4*>(b) + i);
    const std::uint32_t left[4] = {first.x, first.y, first.z, first.w},
                        right[4] = {second.x, second.y, second.z, second.w};
    unrolled<4>([&](int j) { sum += low_of(left[j]) * low_of(right[j]) + high_of(left[j]) * high_of(right[j]); });
  }
  return sum;
}

/// The gates' gradients: sums over later tokens of <own gradient, state>, starting from the gradients of the states
/// after this chunk. `overlap`: for this lane's rows the inner products of keys and values with later chunks'
/// gradients.
template <int W, class T>
__device__ __forceinline__ void put_gates(const ChebyshevShape& s, const ChebyshevPointersOf<T>& io,
                                          const ChunkRows& at, const Dual& dual, Panel<W> dH, Panel<W> dS,
                                          const Shares& overlap, const Sink& to) {
  __shared__ float shares[chunk_tokens], ones[chunk_tokens], after[chunk_tokens], sums[32];
  unrolled<2>([&](int half) {
    const int c = token_of(half);
    if (threadIdx.x % 4 == 0) shares[c] = -overlap.value[half] - (s.decay_keys ? 0.5f * overlap.key[half] : 0.0f);
  });
  float carry = 0;
  if (at.index + 1 < s.chunks) {
    carry = overlap_of(dS, state_of<W>(io.S, blockIdx.x + 1));
    if (s.decay_keys) carry += 0.5f * overlap_of(dH, state_of<W>(io.H, blockIdx.x + 1));
  }
  carry = block_sum(carry, sums);
  const int c = int(threadIdx.x);
  if (c < chunk_tokens) {
    ones[c] = 1.0f;
    if (c < at.count) shares[c] += dual.value_share[at.row(c)] + (s.decay_keys ? dual.key_share[at.row(c)] : 0.0f);
  }
  __syncthreads();
  recur_over_chunk<true>(ones, shares, carry, after);
  __syncthreads();
  if (c >= at.count) return;
  const std::size_t row = at.row(c);
  to.put(unsigned(row), at.first + c > 0 && io.g[row] >= s.log_floor ? after[c] : 0.0f);
}

/// Adds the parts of later chunks to the gradients of keys and values; computes the gates' gradients.
template <int W, class T>
__global__ void __launch_bounds__(threads, 3)
    later_kernel(ChebyshevShape s, ChebyshevPointersOf<T> io, Dual dual, SinksOf<T> out) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  const Panel<W> dH{memory}, dS{memory + Panel<W>::bytes(W)};
  const ChunkRows at(s, int(blockIdx.x));
  begin_state<W>(state_of<W>(dual.dH, blockIdx.x), dH);
  begin_state<W>(state_of<W>(dual.dS, blockIdx.x), dS);
  load_gates(s, io.g, at, gates);
  float of_keys[2], of_values[2];
  unrolled<2>([&](int half) {
    of_keys[half] = expf(gates.key[chunk_tokens - 1] - gates.key[token_of(half)]);
    of_values[half] = expf(gates.value[chunk_tokens - 1] - gates.value[token_of(half)]);
  });
  const auto load_left = [&](const T* from, const float(&factor)[2], Left<W>& left) {
    Rows<W> rows;
    load_rows(at, from, factor, rows);
    left.round(rows);
  };
  Left<W> own;
  load_left(io.k, of_keys, own);
  tiles::wait<0>();
  fence_async_proxy();
  Rows<W> gradient;
  Shares overlap;
  multiply_state<W, false>(own, dH, false, gradient);
  overlaps(at, gradient, io.k, overlap.key);
  load_left(io.v, of_values, own);
  multiply_state<W, false>(own, dS, true, gradient);
  if (out.k.wanted()) put_rows(at, out.k.rows, true, gradient);
  load_left(io.k, of_values, own);
  multiply_state<W, true>(own, dS, false, gradient);
  if (out.v.wanted()) put_rows(at, out.v.rows, true, gradient);
  if (!out.g.wanted()) return;
  overlaps(at, gradient, io.v, overlap.value);
  put_gates(s, io, at, dual, dH, dS, overlap, out.g);
}

}  // namespace
}  // namespace chebyshev_units

template <bool warpgroups, class T>
void UnitPasses<warpgroups, T>::dual_chunks(const T* dy, const Dual& dual, const SinksOf<T>& out, float* faded) const {
  using namespace chebyshev_units;
  with_width(s.width, [&](auto W) {
    launch_chunks(dual_kernel<W(), T>, RecursionMemory<W()>::bytes, stream, s, io, dy, dual, out, faded);
  });
}

template <bool warpgroups, class T>
void UnitPasses<warpgroups, T>::add_later_chunks(const Dual& dual, const SinksOf<T>& out) const {
  using namespace chebyshev_units;
  with_width(s.width, [&](auto W) {
    launch_chunks(later_kernel<W(), T>, 2 * Panel<W()>::bytes(W()), stream, s, io, dual, out);
  });
}

template struct UnitPasses<units::is_warpgroup, float>;
template struct UnitPasses<units::is_warpgroup, Bf16>;

}  // namespace afterglow::device
