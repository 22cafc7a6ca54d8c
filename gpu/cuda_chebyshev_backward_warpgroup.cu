// Gated KalmaNet's core by warp groups, backward, behind the dual solve: all gradients of keys, values and gates that
// need nothing of later chunks, then what the later chunks add to them.
#include "gpu/cuda_chebyshev_warpgroup.cuh"

namespace afterglow::device {

namespace warpgroup {
namespace {

/// A chunk on its way back, behind its dual solve. Of five panels four are there at a time: first H, keys and x; then z
/// and weighted keys where H was; last p and dy there, and values where x was.
template <int W>
struct ChunkReverse {
  static constexpr int panel_bytes = Panel<chunk_tokens>::bytes(W);
  static constexpr int bytes = std::max(Panel<W>::bytes(W), 2 * panel_bytes) + 2 * panel_bytes;

  const ChebyshevShape& s;
  const ChebyshevPointers& io;
  const ChunkRows& at;
  const Gates& gates;
  const float* later;
  const Dual& dual;
  unsigned char* memory;
  Panel<W> H{memory};
  Panel<chunk_tokens> first{memory}, second{memory + panel_bytes}, keys{memory + bytes - 2 * panel_bytes},
      x{memory + bytes - panel_bytes};

  /// z . H_c x of this lane's rows. What the chunk's own keys have in it goes again in through_keys, so both must be
  /// products of the same rounded numbers.
  __device__ __forceinline__ void measure_image(float (&image)[2]) const {
    Left<W> own;
    Rows<W> product;
    take_rows(x, own);
    multiply_state<W, false>(own, H, false, product);
    scale_rows(Faded(gates.key).factor, product);
    const auto past = [&](int c, int j) { return fast_exp(j <= c ? gates.key[c] - gates.key[j] : -INFINITY); };
    add_pairs(own, keys, keys, past, product);
    take_rounded(at, rounded_answers(dual).z, own);
    overlaps(product, own, image);
  }

  /// dk of H_c = e^{G_c} H_0 + ..: the coefficients of H_0, then the tokens behind with their solutions, then w_c H_c.
  /// `overlap` are the products with the keys; z goes to the first panel.
  __device__ __forceinline__ void through_keys(Rows<W>& gradient, float (&overlap)[2]) const {
    Left<W> own;
    take_rows(keys, own);
    multiply_state<W, false>(own, H, false, gradient);
    __syncthreads();
    begin_panel<W>(at, rounded_answers(dual).z, first);
    float before[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) before[half] = -expf(gates.key[token_of(half)]) * later[token_of(half)];
    scale_rows(before, gradient);
    await_copies<0>();
    publish();
    const auto behind = [&](int c, int j) { return -fast_exp(j >= c ? gates.key[j] - gates.key[c] : -INFINITY); };
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn) add_pairs(own, turn == 0 ? x : first, turn == 0 ? first : x, behind, gradient);
    const auto both = [&](int c, int j) {
      const int last = max(c, j);
      return -later[last] * fast_exp(gates.key[last] - gates.key[min(c, j)]);
    };
    add_pairs(own, keys, keys, both, gradient);
    overlaps(gradient, own, overlap);
  }

  /// What the chunk asks of H before it. x is used up; the second panel takes weighted keys.
  __device__ __forceinline__ void ask_keys() const {
    __syncthreads();
    scale_panel<W>(x, x, [&](int c) { return -fast_exp(gates.key[c]); });
    scale_panel<W>(keys, second, [&](int c) { return -fast_exp(gates.key[c]) * later[c]; });
    publish();
    const float weight = later[0] * expf(2.0f * gates.key[0]);
    Rows<W> sums;
#pragma unroll 1
    for (int block = 0; block < W / 64; ++block) {
      begin_products();
      begin_outer(x, block, first, false, sums);
      begin_outer(first, block, x, true, sums);
      begin_outer(keys, block, second, true, sums);
      end_group();
      await_groups<0>(sums.cell);
      subtract_state(state_of<W>(io.H, blockIdx.x), block, weight, sums);
      store_state(sums, block, state_to<W>(dual.dH, blockIdx.x));
    }
    __syncthreads();
  }

  /// p and dy to the first panels, values to that of x.
  __device__ __forceinline__ void load_values(const float* upstream) const {
    begin_panel<W>(at, rounded_answers(dual).p, first);
    load_panel<W, 8>(at, io.v, x);
    load_panel<W, 8>(at, upstream, second);
    await_copies<0>();
    publish();
  }

  /// Adds the rest of dk, then dv; writes both. `overlap` are products of dv with the values.
  __device__ __forceinline__ void through_values(const Sinks& out, Rows<W>& gradient, float (&overlap)[2]) const {
    const auto behind = [&](int c, int j) {
      return s.scale * fast_exp(j >= c ? gates.value[j] - gates.value[c] : -INFINITY);
    };
    Left<W> own;
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn) {
      const bool of_keys = turn == 0;
      const Sink& to = of_keys ? out.k : out.v;
      take_rows(of_keys ? x : keys, own);
      add_pairs(own, of_keys ? second : first, of_keys ? first : second, behind, gradient);
      if (to.wanted()) put_rows(at, to.rows, to.accumulate, gradient);
      if (of_keys) gradient.clear();
    }
    take_rows(x, own);
    overlaps(gradient, own, overlap);
  }

  /// What the chunk asks of S before it; p is used up.
  __device__ __forceinline__ void ask_values(Rows<W>& sums) const {
    __syncthreads();
    scale_panel<W>(first, first, [&](int c) { return s.scale * fast_exp(gates.value[c]); });
    publish();
#pragma unroll 1
    for (int block = 0; block < W / 64; ++block) {
      multiply_outer(first, block, second, sums);
      store_state(sums, block, state_to<W>(dual.dS, blockIdx.x));
    }
  }
};

/// Of keys, values and gates the gradients from the chunk's own tokens, and what they ask of the states before the
/// chunk.
template <int W>
__global__ void __launch_bounds__(threads, 2)
    own_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, Sinks out, float* faded) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  __shared__ float w[chunk_tokens], later[chunk_tokens];
  const ChunkRows at(s, static_cast<int>(blockIdx.x));
  const ChunkReverse<W> chunk{s, io, at, gates, later, dual, memory};
  begin_state<W>(state_of<W>(io.H, blockIdx.x), chunk.H);
  load_panel<W, 16>(at, io.k, chunk.keys);
  load_panel<W, 16>(at, io.x, chunk.x);
  const int c = static_cast<int>(threadIdx.x);
  if (c < chunk_tokens) w[c] = c < at.count ? dual.later[at.row(c)] : 0.0f;
  load_gates(s, io.g, at, gates);
  sum_weights(gates.key, w, later);
  await_copies<0>();
  publish();
  Rows<W> gradient;
  float image[2], of_keys[2], of_values[2];
  chunk.measure_image(image);
  chunk.through_keys(gradient, of_keys);
  chunk.ask_keys();
  chunk.load_values(dy);
  chunk.through_values(out, gradient, of_values);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = token_of(half);
    if (threadIdx.x % 4 != 0 || token >= at.count) continue;
    dual.key_share[at.row(token)] -= image[half] + 0.5f * of_keys[half];
    dual.value_share[at.row(token)] -= of_values[half];
  }
  if (threadIdx.x == 0) {
    faded[blockIdx.x] = expf(gates.key[chunk_tokens - 1]);
    faded[s.pieces() + blockIdx.x] = expf(gates.value[chunk_tokens - 1]);
  }
  chunk.ask_values(gradient);
}

/// This thread's part of the sum of products of a state in shared and one in global memory.
template <int W>
__device__ float overlap_of(Panel<W> a, const Number* b) {
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < W * W / 8; i += threads) {
    const uint4 first = *reinterpret_cast<const uint4*>(a.memory + a.place(i / (W / 8), i % (W / 8) * 8)),
                second = __ldg(reinterpret_cast<const uint4*>(b) + i);
    const std::uint32_t left[4] = {first.x, first.y, first.z, first.w},
                        right[4] = {second.x, second.y, second.z, second.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += low_of(left[j]) * low_of(right[j]) + high_of(left[j]) * high_of(right[j]);
  }
  return sum;
}

/// What later chunks add to the gradients of keys and values; `keys` and `values` are this lane's parts of the gates'.
template <int W>
__device__ __forceinline__ void add_later(const ChebyshevPointers& io, const ChunkRows& at, const Gates& gates,
                                          Panel<W> dH, Panel<W> dS, const Sinks& out, float (&of_keys)[2],
                                          float (&of_values)[2]) {
  float key_factor[2], value_factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    key_factor[half] = expf(gates.key[chunk_tokens - 1] - gates.key[token_of(half)]);
    value_factor[half] = expf(gates.value[chunk_tokens - 1] - gates.value[token_of(half)]);
  }
  Rows<W> gradient;
  Left<W> keys, values;
  load_rows(at, io.k, {1.0f, 1.0f}, gradient);
  keys.round(gradient);
  load_rows(at, io.v, value_factor, gradient);
  values.round(gradient);
  await_copies<0>();
  publish();
  multiply_state<W, false>(keys, dH, false, gradient);
  scale_rows(key_factor, gradient);
  overlaps(gradient, keys, of_keys);
  multiply_state<W, false>(values, dS, true, gradient);
  if (out.k.wanted()) put_rows(at, out.k.rows, true, gradient);
  load_rows(at, io.k, {1.0f, 1.0f}, gradient);
  keys.round(gradient);
  multiply_state<W, true>(keys, dS, false, gradient);
  overlaps(gradient, values, of_values);
  scale_rows(value_factor, gradient);
  if (out.v.wanted()) put_rows(at, out.v.rows, true, gradient);
}

/// What later chunks add to the gradients of keys and values, and the gates' gradients.
template <int W>
__global__ void __launch_bounds__(threads, 2)
    later_kernel(ChebyshevShape s, ChebyshevPointers io, Dual dual, Sinks out) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  __shared__ float shares[chunk_tokens], ones[chunk_tokens], after[chunk_tokens], sums[32];
  const Panel<W> dH{memory}, dS{memory + Panel<W>::bytes(W)};
  const ChunkRows at(s, static_cast<int>(blockIdx.x));
  begin_state<W>(state_of<W>(dual.dH, blockIdx.x), dH);
  begin_state<W>(state_of<W>(dual.dS, blockIdx.x), dS);
  load_gates(s, io.g, at, gates);
  float of_keys[2], of_values[2];
  add_later(io, at, gates, dH, dS, out, of_keys, of_values);
  if (!out.g.wanted()) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = token_of(half);
    if (threadIdx.x % 4 == 0) shares[c] = -of_values[half] - (s.decay_keys ? 0.5f * of_keys[half] : 0.0f);
  }
  float carry = 0;
  if (at.index + 1 < s.chunks) {
    carry = overlap_of(dS, state_of<W>(io.S, blockIdx.x + 1));
    if (s.decay_keys) carry += 0.5f * overlap_of(dH, state_of<W>(io.H, blockIdx.x + 1));
  }
  carry = block_sum(carry, sums);
  const int c = static_cast<int>(threadIdx.x);
  if (c < chunk_tokens) {
    ones[c] = 1.0f;
    if (c < at.count) shares[c] += dual.value_share[at.row(c)] + (s.decay_keys ? dual.key_share[at.row(c)] : 0.0f);
  }
  __syncthreads();
  recur_over_chunk<true>(ones, shares, carry, after);
  __syncthreads();
  if (c >= at.count) return;
  const std::size_t row = at.row(c);
  out.g.put(static_cast<unsigned>(row), at.first + c > 0 && io.g[row] >= s.log_floor ? after[c] : 0.0f);
}

}  // namespace
}  // namespace warpgroup

void own_on_warpgroups(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* dy,
                       const Dual& dual, const Sinks& out, float* faded) {
  warpgroup::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = warpgroup::ChunkReverse<W>::bytes;
    allow_shared_memory(reinterpret_cast<const void*>(warpgroup::own_kernel<W>), bytes, "Gated KalmaNet");
    warpgroup::own_kernel<W>
        <<<static_cast<unsigned>(s.pieces()), warpgroup::threads, bytes, stream>>>(s, io, dy, dual, out, faded);
  });
}

void add_later_on_warpgroups(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io,
                             const Dual& dual, const Sinks& out) {
  warpgroup::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = 2 * warpgroup::Panel<W>::bytes(W);
    allow_shared_memory(reinterpret_cast<const void*>(warpgroup::later_kernel<W>), bytes, "Gated KalmaNet");
    warpgroup::later_kernel<W>
        <<<static_cast<unsigned>(s.pieces()), warpgroup::threads, bytes, stream>>>(s, io, dual, out);
  });
}

}  // namespace afterglow::device
