// The SKA core, backward pass. First each group on its own: from dy to the gradients of its queries, raw statistics,
// scale m, eta and gamma. Then suffix sums over the groups that a piece contributes to, and from them the gradients of
// keys and values. Grid: (groups or tiles of tokens, pairs of sequence and head).
// With E = (eta / m) F A^K L^-1, A = s A_w, s = gamma / max(sigma, 1), y = E q:
//   dE = sum dy q^T, dq = E^T dy; with F_k = F A^k: dF_K = (eta / m) dE L^-T, dA = sum F_{k-1}^T dF_k,
//   dF_{k-1} = dF_k A^T; dA_w = s dA; dM = L^-T dA_w L^-1, dC = dF_0 L^-1.
//   The gradient of G passes through L. Its lower half is Phi(L^T dL) = -Phi(N) with
//   N = F_K^T dF_K + dF_0^T F_0 + dA_w A_w^T + dA_w^T A_w, and dG = -1/2 L^-T sym(N) L^-1, where sym mirrors the lower
// half of N. So dL itself is never formed.
#include "gpu/ops/ridge/ridge_factor.cuh"
#include "gpu/ops/ridge/ridge_pieces.cuh"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

template <int W>
constexpr bool prefetches =
    W <= 2;  // copies the next tile while it works on one; for the largest matrices not every GPU has room
template <int W>
constexpr int backward_bytes = (prefetches<W> ? 7 : 5) * Grid<W>::size * 4;

/// Writes one number, or four neighbours, of a gradient counted flat.
__device__ inline void put_numbers(const Sink& sink, std::size_t i, float value) { sink.put(unsigned(i), value); }
__device__ inline void put_numbers(const Sink& sink, std::size_t i, const float4& value) {
  auto* place = reinterpret_cast<float4*>(sink.rows.data + i);
  if (!sink.rows.dense || reinterpret_cast<std::uintptr_t>(place) % 16 != 0) {
    const float numbers[4] = {value.x, value.y, value.z, value.w};
    for (unsigned e = 0; e < 4; ++e) sink.put(unsigned(i) + e, numbers[e]);
    return;
  }
  float4 sum = value;
  if (sink.accumulate) sum += *place;
  *place = sum;
}

__device__ inline float inner(float a, float b) { return a * b; }
__device__ inline float inner(const float4& a, const float4& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

/// Four sums over the block, returned to thread 0.
template <int W>
__device__ float4 sum_of_block(const float4& share, float4 (&memory)[ridge_warps<W>]) {
  const float4 of_warp = make_float4(warp_sum(share.x), warp_sum(share.y), warp_sum(share.z), warp_sum(share.w));
  if (ridge_lane() == 0) memory[ridge_warp()] = of_warp;
  __syncthreads();
  float4 sum = memory[0];
  for (int w = 1; w < ridge_warps<W>; ++w) sum += memory[w];
  return sum;
}

/// The backward pass of one group. Matrices in shared memory: L^-1, A_w, F, two temporaries, and where there is room
/// two for the next tiles.
template <int W, bool exact>
struct GroupReverse {
  RidgeShape s;
  RidgePointers in;
  RidgeWorkspace out;
  std::size_t entry;
  int pair, first, end, depth;
  float* memory;
  float m, scale, gain;
  float *inverse = memory, *A = matrix(1), *F = matrix(2), *left = matrix(3), *right = matrix(4),
        *next_left = matrix(5), *next_right = matrix(6);
  float4 shares = {0, 0, 0, 0};  // this thread's parts of sums over matrices: overlap, slope, trace, readout

  __device__ float* matrix(int i) const { return memory + i * Grid<W>::size; }
  __device__ void load_queries(float* to, int begin) const { load_positions<W>(to, s, in.q, s.rank, pair, begin, end); }
  __device__ void load_upstream(float* to, const float* dy, int begin) const {
    load_positions<W>(to, s, dy, s.width, pair, begin, end);
  }

  /// Loads L^-1, A_w and F, and computes dE.
  __device__ Product<W> gather(const float* dy) {
    Product<W> dE;
    load_matrix<W>(inverse, in.inverse + entry * s.square(), s.rank, s.rank);
    load_matrix<W>(A, in.A_w + entry * s.square(), s.rank, s.rank);
    load_queries(left, first);
    load_upstream(right, dy, first);
    load_matrix<W>(F, in.F + entry * s.tall(), s.width, s.rank);
    dE.clear();
    for (int begin = first; begin < end; begin += Grid<W>::width) {
      wait_for_copies();
      const int next = begin + Grid<W>::width;
      const auto bring = [&](float* queries, float* upstream) {
        load_queries(queries, next);
        load_upstream(upstream, dy, next);
      };
      if (prefetches<W> && next < end) bring(next_left, next_right);
      accumulate<exact>(dE, ByColumns{right}, ByColumns{left}, min(Grid<W>::width, padded(end - begin)));
      if (next >= end) break;
      if constexpr (prefetches<W>) {
        swap(left, next_left);
        swap(right, next_right);
      } else {
        __syncthreads();
        bring(left, right);
      }
    }
    __syncthreads();
    return dE;
  }

  /// F_k = F (s A_w)^k: F itself, or computed in `left`, which no thread reads any more.
  __device__ const float* filter(int k) {
    const float* from = F;
    for (int i = 0; i < k; ++i) {
      Product<W> next;
      multiply<exact>(next, ByRows{from}, ByColumns{A}, depth);
      next.replace(left, scale);
      from = left;
    }
    return from;
  }

  /// dq = (eta / m) dy F_K L^-1, from the last tile to the first; `right` holds dy of the last tile and is overwritten.
  __device__ void answer_queries(const float* dy, const float* F_K, const Sink& dq) {
    const int last = first + (end - 1 - first) / Grid<W>::width * Grid<W>::width;
    for (int begin = last; begin >= first; begin -= Grid<W>::width) {
      if (begin < last) wait_for_copies();
      if (prefetches<W> && begin > first) load_upstream(next_right, dy, begin - Grid<W>::width);
      Product<W> gradient;
      multiply<exact>(gradient, ByRows{right}, ByColumns{F_K}, padded(s.width));
      gradient.replace(right);
      multiply<true>(gradient, ByRows{right}, ByColumns{inverse}, depth);
      gradient.replace(right, gain);
      each_row<W>(right, s.rank, [&](int row, int column, auto numbers) {
        if (begin + row < end) put_numbers(dq, s.token(pair, begin + row) * s.rank + column, numbers);
      });
      if (begin == first) break;
      if constexpr (prefetches<W>) {
        swap(right, next_right);
      } else {
        __syncthreads();
        load_upstream(right, dy, begin - Grid<W>::width);
      }
    }
  }

  /// Computes dF_0 in `right` and dA from dE, and the readout's part of N.
  __device__ void through_filter(const Product<W>& dE, const float* F_K, Product<W>& N, Product<W>& dA) {
    dE.replace(right);
    Product<W> dF;
    multiply<true>(dF, ByRows{right}, ByRows{inverse}, depth);
    shares.x = dF.dot(F_K) / m;  // not from the gain, so that eta may be zero
    dF.replace(right, gain);
    multiply<exact>(N, ByColumns{F_K}, ByColumns{right}, padded(s.width));
    dA.clear();
    for (int k = s.power; k > 0; --k) {
      __syncthreads();
      const float* from = filter(k - 1);
      accumulate<exact>(dA, ByColumns{from}, ByColumns{right}, padded(s.width));
      multiply<exact>(dF, ByRows{right}, ByRows{A}, depth);
      dF.replace(right, scale);
    }
    multiply<exact>(dF, ByColumns{right}, ByColumns{F}, padded(s.width));
    N.add(dF);
    dF.each([&](int row, int column, float value) { shares.w += row == column ? value : 0.0f; });  // <dF_0, F_0>
  }

  /// dC, dM, dG. `right` holds dF_0; `left` may be overwritten.
  __device__ void to_statistics(Product<W>& N, const Product<W>& dA) {
    Product<W> result;
    multiply<true>(result, ByRows{right}, ByColumns{inverse}, depth);
    result.replace(right);
    store_matrix<W>(out.C + entry * s.tall(), right, s.width, s.rank, 1.0f / m);
    shares.y = dA.dot(A);
    dA.replace(left, scale);
    Product<W> also;
    multiply_two<exact>(result, Factors{ByColumns{left}, ByColumns{A}}, also, Factors{ByRows{left}, ByRows{A}}, depth);
    N.add(result);
    N.add(also);
    N.each([&](int row, int column, float value) {  // the lower half, mirrored
      if (row < column) return;
      right[Grid<W>::place(row, column)] = value;
      right[Grid<W>::place(column, row)] = value;
    });
    __syncthreads();
    // L^-T matrix L^-1 of both, in place.
    multiply_two<true>(result, Factors{ByRows{left}, ByColumns{inverse}}, also,
                       Factors{ByRows{right}, ByColumns{inverse}}, depth);
    replace_both(result, also);
    multiply_two<true>(result, Factors{ByColumns{inverse}, ByColumns{left}}, also,
                       Factors{ByColumns{inverse}, ByColumns{right}}, depth);
    replace_both(result, also);
    store_matrix<W>(out.M + entry * s.square(), left, s.rank, s.rank, 1.0f / (m * m));
    store_matrix<W>(out.G + entry * s.square(), right, s.rank, s.rank, -0.5f / (m * m));
    const float* G = in.G + entry * s.square();
    each_row<W>(right, s.rank, [&](int row, int column, auto numbers) {
      if (row < s.rank)
        shares.z -= 0.5f * inner(numbers, *reinterpret_cast<const decltype(numbers)*>(G + row * s.rank + column));
    });
  }

  __device__ void replace_both(const Product<W>& of_left, const Product<W>& of_right) {
    of_left.replace(left);
    of_right.store(right);
    __syncthreads();
  }
};

// Shared memory has room for two blocks of the largest matrices; registers for three would spill.
template <int W, bool exact>
__global__ void __launch_bounds__(ridge_threads<W>, ridge_blocks<W>(W < 4 ? 3 : 2))
    group_backward_kernel(RidgeShape s, RidgePointers in, const float* dy, RidgeWorkspace work, RidgeSinks out,
                          unsigned* ticket) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  __shared__ float4 sums[ridge_warps<W>];
  float* shared = reinterpret_cast<float*>(memory);
  const int g = int(blockIdx.x), pair = int(blockIdx.y), head = pair % s.heads;
  const std::size_t entry = std::size_t(pair) * s.groups + g;
  const float m = in.m[entry], divisor = fmaxf(in.sigma[entry], 1.0f), raw = in.gamma_raw[head];
  const int first = s.first(g), end = first + s.count(g), depth = padded(s.rank);
  const float scale = s.gamma(raw) / divisor, gain = in.eta[head] / m;
  GroupReverse<W, exact> reverse{s, in, work, entry, pair, first, end, depth, shared, m, scale, gain};
  const Product<W> dE = reverse.gather(dy);
  const float* F_K = reverse.filter(s.power);
  if (out.q.wanted()) reverse.answer_queries(dy, F_K, out.q);
  Product<W> N, dA;
  reverse.through_filter(dE, F_K, N, dA);
  reverse.to_statistics(N, dA);
  // E scales with eta / m, G and M with 1 / m^2, C with 1 / m; <dM, M> = <dA_w, A_w> and <dC, C> = <dF_0, F_0>.
  const float4 sum = sum_of_block<W>(reverse.shares, sums);
  const float overlap = sum.x, slope = sum.y, trace = sum.z, readout = sum.w;
  if (threadIdx.x == 0) {
    work.eta[entry] = overlap;
    work.gamma_raw[entry] = slope / divisor * s.gamma_slope(raw);
    work.m[entry] = -(2.0f * (trace + reverse.scale * slope) + readout + in.eta[head] * overlap) / m;
  }
  if (is_last_block(ticket, gridDim.x * gridDim.y)) sum_heads(s, work, out);
}

// Turns gradients by group into gradients by piece: sums over the groups that a piece contributes to.
template <class Number>
__global__ void __launch_bounds__(owner_threads) suffix_kernel(RidgeShape s, RidgeWorkspace work) {
  wait_for_previous_kernel();
  const Owned<Number> owned(s, work.G, work.M, work.C, std::size_t(blockIdx.y) * s.groups);
  if (owned.place == nullptr) return;
  Number sum{};
  for (int end = s.groups; end > 0; end -= groups_ahead) {
    Number raw[groups_ahead];
    unrolled<groups_ahead>([&](int i) {
      const int g = end - 1 - i;
      raw[i] = g >= 0 ? owned.place[g * owned.stride] : Number{};
    });
#pragma unroll
    for (int i = 0; i < groups_ahead; ++i) {
      const int g = end - 1 - i;
      if (g < 0) break;
      if (!s.exclusive) sum += raw[i];
      owned.place[g * owned.stride] = sum;
      if (s.exclusive) sum += raw[i];
    }
  }
}

template <int W>
constexpr int token_bytes = (4 * Grid<W>::size + 2 * Grid<W>::width) * 4;

/// What the next kernel computes. Where left factors l are given, it runs twice: with keys, whose gradient dz it sends
/// to l, dl_t = dG z_t + dM z_{t-1}, with dv; and with l in the place of the keys, dz_t = dG l_t + dM^T l_{t+1} + dC^T
/// v_t.
enum class Tokens { all, left_from_keys, keys_from_left };

// One tile of tokens of a piece: dz_t = 2 dG z_t + dM^T z_{t+1} + dM z_{t-1} + dC^T v_t, dv_t = dC z_t. A transition
// belongs to the piece of its later token, so the last token of a piece takes dM from the next piece.
template <int W, bool exact>
__global__ void __launch_bounds__(ridge_threads<W>, ridge_blocks<W>(3))
    token_kernel(RidgeShape s, RidgePointers in, RidgeWorkspace work, RidgeSinks out, Tokens part) {
  wait_for_previous_kernel();
  constexpr int width = Grid<W>::width, size = Grid<W>::size;
  extern __shared__ float4 memory[];
  constexpr int shares = ridge_threads<W> / width;
  __shared__ float extra[width], along[width], share[shares][width];
  float* keys = reinterpret_cast<float*>(memory);  // positions first - 1 .. first + width
  float *values = keys + size + 2 * width, *dG = values + size, *dM = dG + size;
  float* const dC = dG;  // dC overwrites dG
  const int tiles = (s.piece + width - 1) / width;
  const int piece = int(blockIdx.x) / tiles, pair = int(blockIdx.y);
  const int first = s.first(piece) + int(blockIdx.x) % tiles * width;
  const int piece_end = s.first(piece) + s.count(piece), count = min(width, piece_end - first);
  if (count <= 0) return;
  const std::size_t base = std::size_t(pair) * s.groups, entry = base + piece;
  load_keys<W>(keys, s, in, pair, first, first + count);
  load_matrix<W>(dG, work.G + entry * s.square(), s.rank, s.rank);
  load_matrix<W>(dM, work.M + entry * s.square(), s.rank, s.rank);
  load_positions<W>(values, s, in.v, s.width, pair, first, first + count);
  const bool piece_ends = first + count == piece_end;
  const float* after = key_at(s, in, pair, first + count);
  for (int i = int(threadIdx.x); i < width; i += ridge_threads<W>) {
    along[i] = after != nullptr && i < s.rank ? after[i] : 0.0f;
  }
  wait_for_copies();
  const int depth = padded(s.rank);
  Product<W> dz;
  multiply<exact>(dz, ByRows{keys, 1}, ByRows{dG}, depth);  // dG is symmetric
  if (part == Tokens::all) dz.add(dz);
  __syncthreads();
  load_matrix<W>(dC, work.C + entry * s.tall(), s.width, s.rank);
  // The row behind the tile: the next token if it belongs to this piece; otherwise `extra` adds its part.
  if (threadIdx.x < width) keys[Grid<W>::place(count + 1, int(threadIdx.x))] = piece_ends ? 0.0f : along[threadIdx.x];
  const int own_column = int(threadIdx.x) % width, own_share = int(threadIdx.x) / width;
  float sum = 0;
  if (part != Tokens::left_from_keys && piece_ends && piece + 1 < s.groups && own_column < s.rank) {
    const float* behind = work.M + (entry + 1) * s.square();
#pragma unroll 8
    for (int k = own_share; k < s.rank; k += shares) sum += along[k] * behind[k * s.rank + own_column];
  }
  share[own_share][own_column] = sum;
  __syncthreads();
  Product<W> to_before, to_behind;
  multiply_two<exact>(to_behind, Factors{ByRows{keys, 2}, ByColumns{dM}}, to_before, Factors{ByRows{keys}, ByRows{dM}},
                      depth);
  if (part != Tokens::left_from_keys) dz.add(to_behind);
  if (part != Tokens::keys_from_left) dz.add(to_before);
  if (threadIdx.x < (width < 32 ? 32 : width)) {
    const int row = int(threadIdx.x);
    const float sent = scale_gradient(s, in, work, base, first + row, first, first + count);
    if (row < width) {
      along[row] = in.length == nullptr ? sent : 0.0f;
      if (in.length != nullptr && out.length.wanted() && row < count) {
        const std::size_t token = s.token(pair, first + row);
        out.length.put(unsigned(token), sent * in.length[token]);
      }
      float total = 0;
      for (int i = 0; i < shares; ++i) total += share[i][row];
      extra[row] = total;
    }
  }
  wait_for_copies();
  Product<W> dv, of_values;
  multiply_two<exact>(dv, Factors{ByRows{keys, 1}, ByRows{dC}}, of_values, Factors{ByRows{values}, ByColumns{dC}},
                      max(depth, padded(s.width)));
  if (part != Tokens::left_from_keys) dz.add(of_values);
  dz.each([&](int row, int column, float& value) {
    if (row == count - 1) value += extra[column];
    value += along[row] * keys[Grid<W>::place(row + 1, column)];
  });
  dv.replace(dC);
  dz.store(values);
  __syncthreads();
  if (out.v.wanted()) {
    each_row<W>(dC, s.width, [&](int row, int column, auto numbers) {
      if (row < count) put_numbers(out.v, s.token(pair, first + row) * s.width + column, numbers);
    });
  }
  if (out.z.wanted()) {
    each_row<W>(values, s.rank, [&](int row, int column, auto numbers) {
      if (row >= count) return;
      const float selected = key_at(s, in, pair, first + row) != nullptr ? 1.0f : 0.0f;
      put_numbers(out.z, s.token(pair, first + row) * s.rank + column, selected * numbers);
    });
  }
}

std::int64_t padded_elements(std::int64_t count) { return (count + 63) / 64 * 64; }

template <int W, bool exact>
void launch_backward(const RidgeCall& call, const Tensor& dy, const RidgeWorkspace& work, const RidgeGrads& grads,
                     unsigned* ticket) {
  const auto& [stream, s, of_tokens, in, is_exact] = call;
  const bool on_warpgroups = W == 4 && fits_warpgroups(s);
  const auto sinks = [&] {
    return RidgeSinks{sink_of(grads.z),         sink_of(grads.q),      sink_of(grads.v),   sink_of(grads.eta),
                      sink_of(grads.gamma_raw), sink_of(grads.length), sink_of(grads.left)};
  };
  const bool groups_on_warpgroups = on_warpgroups && takes_pairs(grads.q);
  if constexpr (hopper_ridge) {
    if (groups_on_warpgroups) groups_backward_on_warpgroups(call, dy, work, grads, ticket);
  }
  if (!groups_on_warpgroups)
    launch("ridge_readout_backward", group_backward_kernel<W, exact>, call.grid(), ridge_threads<W>, backward_bytes<W>,
           stream, s, in, rows_of(dy).data, work, sinks(), ticket);
  if (!grads.z.wanted() && !grads.v.wanted() && !grads.length.wanted() && !grads.left.wanted()) return;
  if (s.groups > 1 || s.exclusive) {
    launch_owners(suffix_kernel<float4>, suffix_kernel<float>, stream, s, work);
  }
  if constexpr (hopper_ridge) {
    const bool are_apart = grads.z.tensor.data != grads.v.tensor.data;
    if (on_warpgroups && takes_pairs(grads.z) && takes_pairs(grads.v) && are_apart)
      return tokens_on_warpgroups(call, work, grads);
  }
  const RidgeSinks out = sinks();
  const dim3 grid(unsigned(s.groups) * blocks_for(s.piece, Grid<W>::width), call.grid().y);
  const auto run = [&](const RidgePointers& from, const RidgeSinks& to, Tokens part) {
    launch("ridge_readout_backward tokens", token_kernel<W, exact>, grid, ridge_threads<W>, token_bytes<W>, stream, s,
           from, work, to, part);
  };
  if (in.left != nullptr) {
    RidgePointers left = in;
    left.z = in.left;
    run(in, {out.left, {}, out.v, {}, {}, {}, {}}, Tokens::left_from_keys);
    return run(left, {out.z, {}, {}, {}, {}, out.length, {}}, Tokens::keys_from_left);
  }
  if (out.v.wanted() && out.v.rows.data == out.z.rows.data) {
    // Values that are also keys: dv is written first and dz is added.
    run(in, {{}, {}, out.v, {}, {}, {}, {}}, Tokens::all);
    return run(in, {out.z, {}, {}, {}, {}, out.length, {}}, Tokens::all);
  }
  run(in, out, Tokens::all);
}

}  // namespace

Plan CudaBackend::plan(const RidgeConfig& config, const RidgeInputs& in) const {
  const RidgeShape s = ridge_shape(config, in);
  const std::int64_t entries = std::int64_t{s.batch} * s.heads * s.groups;
  const bool is_largest = std::max(s.rank, s.width) > 32, is_gathered = s.groups > 1 || s.exclusive;
  const bool is_narrow = precision_ == Precision::bf16 && is_largest && is_gathered && fits_warpgroups(s);
  return {.stored = is_narrow ? Storage::narrow : Storage::wide,
          .workspace = 2 * padded_elements(entries * s.square()) + padded_elements(entries * s.tall()) +
                       3 * padded_elements(entries)};
}

void CudaBackend::ridge_readout_backward(const RidgeConfig& config, const RidgeInputs& in, const RidgeSaved& saved,
                                         const Tensor& dy, const Tensor& workspace, const RidgeGrads& out) {
  const RidgeShape s = ridge_shape(config, in);
  if (dy.elements() == 0) return;
  const RidgeCall call{stream(), s, in, ridge_pointers(config, in, saved), precision_ == Precision::fp32};
  const std::int64_t entries = std::int64_t{s.batch} * s.heads * s.groups;
  RidgeWorkspace work{};
  work.G = workspace.as<float>();
  work.M = work.G + padded_elements(entries * s.square());
  work.C = work.M + padded_elements(entries * s.square());
  work.m = work.C + padded_elements(entries * s.tall());
  work.eta = work.m + padded_elements(entries);
  work.gamma_raw = work.eta + padded_elements(entries);
  with_either<true, false>(call.exact, [&](auto exact) {
    with_grid(s, [&](auto W) { launch_backward<W(), exact()>(call, dy, work, out, tickets_); });
  });
  launched("ridge_readout_backward");
}

}  // namespace afterglow
