// Gated KalmaNet's core, backward pass, as exact as float32. dual_kernel, one block a chunk: the dual solve (H + lambda
// I) z = alpha dp with dp = scale S dy, then dq and dalpha. reverse_kernel: the states' gradients, summed from the last
// chunk to the first. finish_kernel, one block a chunk: dk, dv and dg. The equations are in
// core/backend/cpu/chebyshev_backward.cpp.
#include "gpu/ops/chebyshev/chebyshev_dual.cuh"
#include "gpu/runtime/cuda_backend.h"

namespace afterglow {

using namespace device;

namespace {

/// Size of all states, counted in float32; the tensor-core kernels store them as bfloat16.
std::int64_t state_elements(const ChebyshevShape& s, Precision precision) {
  return s.pieces() * std::int64_t(s.square()) / (on_matrix_units(s, precision) ? 2 : 1);
}

std::int64_t dual_elements(const ChebyshevShape& s, Precision precision) {
  const std::int64_t rows = std::int64_t(s.batch) * s.tokens * s.heads;
  return rows * (s.width + 4) + 2 * state_elements(s, precision);
}

Dual dual_of(const Tensor& workspace, const ChebyshevShape& s, Precision precision) {
  const std::int64_t rows = std::int64_t(s.batch) * s.tokens * s.heads;
  Dual dual{};
  dual.z = workspace.as<float>();
  dual.later = dual.z + rows * s.width;
  dual.key_share = dual.later + rows;
  dual.value_share = dual.key_share + rows;
  dual.dH = dual.z + rows * (s.width + 4);  // a multiple of 16 bytes for widths of 4 and more
  dual.dS = dual.dH + state_elements(s, precision);
  return dual;
}

template <class T>
SinksOf<T> sinks_of(const ChebyshevGrads& to) {
  return {sink_of<T>(to.q), sink_of<T>(to.k), sink_of<T>(to.v), sink_of(to.g), sink_of(to.alpha)};
}

/// z, dq, dalpha, and what the other two kernels need of every token.
template <int J>
__global__ void __launch_bounds__(threads, J < 8 ? 2 : 1)
    dual_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, Sinks out) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  __shared__ float w[chunk_tokens];
  __shared__ TokenShares shares[2][chunk_tokens];  // of a row's two warps
  constexpr int stride = Tile<J>::stride;
  float *state = reinterpret_cast<float*>(aligned), *keys = state + Tile<J>::state, *iterate = keys + Tile<J>::panel;
  float *scores = iterate + Tile<J>::panel, *weights = scores + Scores::panel;
  const ChunkRows at(s, int(blockIdx.x));
  load_gates(s, io.g, at, gates);
  load_state<J>(s.width, io.S + blockIdx.x * s.square(), state);
  load_panel<J>(s, at, dy, iterate);
  load_panel<J>(s, at, io.v, keys);
  __syncthreads();
  Tile<J> dp, z;
  read_state<J, true>(iterate, state, keys, gates.value, s.scale, scores, dp);
  load_state<J>(s.width, io.H + blockIdx.x * s.square(), state);
  load_panel<J>(s, at, io.k, keys);
  __syncthreads();
  add_past(scores, keys, dp);
  TokenNumbers fro, lambda;
  load_tile_norms(s, io, at, fro, lambda);
  solve_chunk(s, fro, lambda, gates, state, keys, iterate, scores, weights, dp, z);  // z / alpha
  load_panel<J>(s, at, io.x, iterate);
  __syncthreads();
  Tile<J> image, q;
  read_state<J, true>(iterate, state, keys, gates.key, 1.0f, scores, image);
  add_past(scores, keys, image);
  load_tile(s, at, io.q, q);
#pragma unroll
  for (int i = 0; i < Tile<J>::rows; ++i) {
    const int c = Tile<J>::row(i);
    const bool inside = c < at.count;
    const std::size_t row = at.row(inside ? c : 0);
    const float alpha = io.alpha ? io.alpha[row] : s.alpha;
    TokenShares part{};
    unrolled<Tile<J>::columns>([&](int j) {
      const int column = Tile<J>::column(j);
      if (!inside || column >= s.width) return;
      const float answer = alpha * z.cell[i][j], d = dp.cell[i][j], x = iterate[c * stride + column];
      const float change = x - q.cell[i][j];
      part.overlap += x * answer;
      part.image += image.cell[i][j] * answer;
      part.value += d * (q.cell[i][j] + alpha * change);
      part.alpha += d * change;
      dual.z[row * s.width + column] = answer;
      if (out.q.wanted()) out.q.put(row, column, answer + (1.0f - alpha) * d);
    });
    for (float* share : {&part.overlap, &part.image, &part.value, &part.alpha}) *share = sum_of_lanes<4>(*share);
    if (threadIdx.x % 4 == 0) shares[Tile<J>::half()][c] = part;
  }
  __syncthreads();
  const int c = int(threadIdx.x);
  if (c < chunk_tokens) {
    const TokenShares &a = shares[0][c], &b = shares[1][c];
    const TokenShares whole{a.overlap + b.overlap, a.image + b.image, a.value + b.value, a.alpha + b.alpha};
    const std::size_t row = at.row(c);
    w[c] = c < at.count ? put_shares(s, dual, out, row, io.fro[row], whole) : 0.0f;
  }
  put_weights(s, at, gates.key, w, dual);
}

/// From the last chunk to the first, with 64 rows of dH (blockIdx.z 0) or dS (1) in a block's registers.
template <int J>
__global__ void __launch_bounds__(threads)
    reverse_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  constexpr int stride = Tile<J>::stride;
  float *left = reinterpret_cast<float*>(aligned), *right = left + Tile<J>::panel;
  const int pair = int(blockIdx.x), row0 = int(blockIdx.y) * chunk_tokens;
  const bool keys = blockIdx.z == 0;
  Tile<J> sum;
  sum.clear();
  for (int n = s.chunks - 1; n >= 0; --n) {
    const std::size_t place = (std::size_t(pair) * s.chunks + n) * s.square();
    float* gradients = (keys ? dual.dH : dual.dS) + place;
    sum.each([&](float& cell, int row, int column) {
      if (row0 + row < s.width && column < s.width) gradients[(row0 + row) * s.width + column] = cell;
    });
    if (n == 0) return;
    const ChunkRows at(s, pair * s.chunks + n);
    load_gates(s, io.g, at, gates);
    const float* gate = keys ? gates.key : gates.value;
    sum.each([&](float& cell, int, int) { cell *= expf(gate[chunk_tokens - 1]); });
    if (!keys) {
      fill_panel<J>(left, at.count, s.width,
                    [&](int c, int column) { return s.scale * expf(gate[c]) * mixed(s, io, at.row(c), column); });
      load_panel<J>(s, at, dy, right);
      __syncthreads();
      sum.template add_product<true, false>(left + row0, stride, right, stride, chunk_tokens);
      continue;
    }
    load_panel<J>(s, at, io.x, left);
    fill_panel<J>(right, at.count, s.width,
                  [&](int c, int column) { return -expf(gate[c]) * dual.z[at.row(c) * s.width + column]; });
    __syncthreads();
    sum.template add_product<true, false>(left + row0, stride, right, stride, chunk_tokens);
    sum.template add_product<true, false>(right + row0, stride, left, stride, chunk_tokens);
    __syncthreads();
    fill_panel<J>(left, at.count, s.width, [&](int c, int column) {
      return -expf(gate[c]) * dual.later[at.row(c)] * io.k[at.row(c) * s.width + column];
    });
    load_panel<J>(s, at, io.k, right);
    __syncthreads();
    sum.template add_product<true, false>(left + row0, stride, right, stride, chunk_tokens);
    const float weight = dual.later[at.row(0)] * expf(2.0f * gate[0]);
    sum.each([&](float& cell, int row, int column) {
      if (row0 + row < s.width && column < s.width) cell -= weight * io.H[place + (row0 + row) * s.width + column];
    });
  }
}

template <int J>
__device__ void subtract_overlap(Tile<J>& gradient, const float* other, float factor, TokenParts& shares) {
  gradient.sum_rows([&](float cell, int c, int column) { return cell * other[c * Tile<J>::stride + column]; },
                    [&](int c, float sum) { shares.own(c) -= factor * sum; });
}

template <int J>
__device__ void put_tile(const ChebyshevShape& s, const ChunkRows& at, const Sink& out, Tile<J>& tile) {
  if (!out.wanted()) return;
  tile.each([&](float& cell, int c, int column) {
    if (c < at.count && column < s.width) out.put(at.row(c), unsigned(column), cell);
  });
}

/// dk, dv, dg.
template <int J>
__global__ void __launch_bounds__(threads, J < 8 ? 2 : 1)
    finish_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, Sinks out) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  __shared__ float later[chunk_tokens], sums[32];
  __shared__ TokenParts shares;
  constexpr int stride = Tile<J>::stride;
  float *state = reinterpret_cast<float*>(aligned), *keys = state + Tile<J>::state, *panel = keys + Tile<J>::panel;
  float *upstream = panel + Tile<J>::panel, *scores = upstream + Tile<J>::panel;
  const ChunkRows at(s, int(blockIdx.x));
  const std::size_t place = blockIdx.x * s.square();
  load_gates(s, io.g, at, gates);
  const float key_end = gates.key[chunk_tokens - 1], value_end = gates.value[chunk_tokens - 1];
  if (threadIdx.x < chunk_tokens) {
    const int c = int(threadIdx.x);
    const std::size_t row = at.row(c);
    later[c] = c < at.count ? dual.later[row] : 0.0f;
    shares.part[0][c] = c < at.count ? dual.value_share[row] + (s.decay_keys ? dual.key_share[row] : 0.0f) : 0.0f;
    shares.part[1][c] = 0.0f;
  }
  load_state<J>(s.width, dual.dH + place, state);
  load_panel<J>(s, at, io.k, keys);
  load_panel<J>(s, at, dy, upstream);
  load_panel<J>(s, at, io.x, panel);
  __syncthreads();
  Tile<J> dk, other;
  dk.clear();
  dk.template add_product<false, true>(keys, stride, state, stride, Tile<J>::width);  // dH and H are symmetric
  dk.each([&](float& cell, int c, int) { cell *= expf(key_end - gates.key[c]); });
  masked_scores<J>(panel, keys, gates.key, -1.0f, scores);
  load_state<J>(s.width, io.H + place, state);
  load_panel<J>(s, at, dual.z, panel);
  __syncthreads();
  other.clear();
  other.template add_product<false, true>(keys, stride, state, stride, Tile<J>::width);
  unrolled<Tile<J>::rows, Tile<J>::columns>([&](int i, int j) {
    const int c = Tile<J>::row(i);
    dk.cell[i][j] -= expf(gates.key[c]) * later[c] * other.cell[i][j];
  });
  add_future(scores, panel, dk);
  masked_scores<J>(panel, keys, gates.key, -1.0f, scores);
  load_panel<J>(s, at, io.x, panel);
  __syncthreads();
  add_future(scores, panel, dk);
  __syncthreads();
  load_state<J>(s.width, dual.dS + place, state);
  load_panel<J>(s, at, io.v, panel);
  __syncthreads();
  // M diag(w) M^T has e^{G_m - G_n} later_m, with m the later of the two tokens.
  Scores gram;
  gram.clear();
  gram.add_product<false, true>(keys, stride, keys, stride, Tile<J>::width);
  gram.each([&](float& cell, int i, int j) {
    const int m = max(i, j);
    cell *= -later[m] * expf(gates.key[m] - gates.key[min(i, j)]);
  });
  gram.store(scores, Scores::stride);
  __syncthreads();
  dk.template add_product<false, false>(scores, Scores::stride, keys, stride, chunk_tokens);
  if (s.decay_keys) subtract_overlap(dk, keys, 0.5f, shares);
  other.clear();
  other.template add_product<false, true>(panel, stride, state, stride, Tile<J>::width);
  other.each([&](float& cell, int c, int) { cell *= expf(value_end - gates.value[c]); });
  unrolled<Tile<J>::rows, Tile<J>::columns>([&](int i, int j) { dk.cell[i][j] += other.cell[i][j]; });
  masked_scores<J>(upstream, panel, gates.value, s.scale, scores);
  Tile<J>& dv = other;
  dv.clear();
  dv.template add_product<false, false>(keys, stride, state, stride, Tile<J>::width);
  dv.each([&](float& cell, int c, int) { cell *= expf(value_end - gates.value[c]); });
  load_mixed<J>(s, io, at, panel);
  __syncthreads();
  add_future(scores, panel, dk);
  put_tile(s, at, out.k, dk);
  masked_scores<J>(panel, keys, gates.value, s.scale, scores);
  load_panel<J>(s, at, io.v, panel);
  __syncthreads();
  add_future(scores, upstream, dv);
  put_tile(s, at, out.v, dv);
  subtract_overlap(dv, panel, 1.0f, shares);
  if (!out.g.wanted()) return;
  float carry = 0;
  if (at.index + 1 < s.chunks) {
#pragma unroll 8
    for (std::size_t i = threadIdx.x; i < s.square(); i += threads) {
      carry += dual.dS[place + i] * io.S[place + s.square() + i];
      if (s.decay_keys) carry += 0.5f * dual.dH[place + i] * io.H[place + s.square() + i];
    }
  }
  carry = block_sum(carry, sums);
  const int c = int(threadIdx.x);
  if (c >= at.count) return;
  for (int i = at.count - 1; i >= c; --i) carry += shares.of(i);
  const std::size_t row = at.row(c);
  out.g.put(unsigned(row), at.first + c > 0 && io.g[row] >= s.log_floor ? carry : 0.0f);
}

}  // namespace

Plan CudaBackend::plan(const ChebyshevConfig& config, const ChebyshevInputs& in) const {
  const ChebyshevShape s = chebyshev_shape(config, in);
  return {.stored = on_matrix_units(s, precision_) && s.width >= 64 ? Storage::narrow : Storage::wide,
          .workspace = dual_elements(s, precision_)};
}

void CudaBackend::chebyshev_readout_backward(const ChebyshevConfig& config, const ChebyshevInputs& in,
                                             const ChebyshevSaved& saved, const Tensor& dy, const Tensor& workspace,
                                             const ChebyshevGrads& out) {
  const ChebyshevShape s = chebyshev_shape(config, in);
  const Dual dual = dual_of(workspace, s, precision_);
  if (on_matrix_units(s, precision_)) {
    with_stored_type(in.q, [&]<class T>(T) {
      const auto io = chebyshev_pointers<T>(in, saved);
      const SinksOf<T> sinks = sinks_of<T>(out);
      float* faded = scratch(2 * std::size_t(s.pieces()));
      with_units(s, [&](auto warpgroups) {
        const UnitPasses<warpgroups(), T> passes{stream(), s, io};
        passes.dual_chunks(dy.as<T>(), dual, sinks, faded);
        launched("chebyshev_readout_backward solve");
        sum_over_chunks(stream(), s, dual.dH, dual.dS, faded, true);
        launched("chebyshev_readout_backward states");
        passes.add_later_chunks(dual, sinks);
      });
    });
  } else {
    const ChebyshevPointers io = chebyshev_pointers(in, saved);
    const Sinks sinks = sinks_of<float>(out);
    const auto* upstream = dy.as<float>();
    constexpr const char* what = "Gated KalmaNet";
    const dim3 grid(unsigned(s.batch * s.heads), blocks_for(s.width, chunk_tokens), 2);
    const auto pieces = unsigned(s.pieces());
    with_tiles(s.width, [&](auto J) {
      launch_after(what, dual_kernel<J()>, pieces, threads, chebyshev_bytes<J()>(2, 1, 2), stream(), s, io, upstream,
                   dual, sinks);
      launch_after(what, reverse_kernel<J()>, grid, threads, chebyshev_bytes<J()>(2, 0, 0), stream(), s, io, upstream,
                   dual);
      launch_after(what, finish_kernel<J()>, pieces, threads, chebyshev_bytes<J()>(3, 1, 1), stream(), s, io, upstream,
                   dual, sinks);
    });
  }
  launched("chebyshev_readout_backward");
}

}  // namespace afterglow
