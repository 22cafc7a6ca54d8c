// Gated KalmaNet's core, forward pass, as exact as float32:
//   H_t = e^g H_{t-1} + k_t k_t^T, S_t = e^g S_{t-1} + k_t v_t^T, (H_t + lambda_t I) x_t = q_t, y_t = scale p_t S_t, p
// = q + alpha (x - q).
// states_kernel computes the states before each chunk of 64 tokens; solve_kernel, one block a chunk, computes norms,
// Chebyshev iteration and readout with exact products on tensor cores. Also one token of the recurrent form.
#include "gpu/ops/chebyshev/chebyshev_dual.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

/// The state before every chunk, sum_i e^{G - G_i} k_i r_i^T, with r the keys (blockIdx.z 0) or the values (1). A block
/// keeps 64 rows of it in registers and loops over the chunks (inter-chunk state passing).
template <int J>
__global__ void __launch_bounds__(threads) states_kernel(ChebyshevShape s, ChebyshevPointers io) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  float *left = reinterpret_cast<float*>(aligned), *right = left + Tile<J>::panel;
  const int pair = int(blockIdx.x), row0 = int(blockIdx.y) * chunk_tokens;
  const bool keys = blockIdx.z == 0;
  float* states = (keys ? io.H : io.S) + pair * s.chunks * s.square();
  Tile<J> sum;
  sum.clear();
  for (int n = 0; n < s.chunks; ++n, states += s.square()) {
    sum.each([&](float& cell, int row, int column) {
      if (row0 + row < s.width && column < s.width) states[(row0 + row) * s.width + column] = cell;
    });
    if (n + 1 == s.chunks) return;
    const ChunkRows at(s, pair * s.chunks + n);
    load_gates(s, io.g, at, gates);
    const float* gate = keys ? gates.key : gates.value;
    const float last = gate[chunk_tokens - 1];
    fill_panel<J>(left, at.count, s.width,
                  [&](int row, int column) { return expf(last - gate[row]) * io.k[at.row(row) * s.width + column]; });
    load_panel<J>(s, at, keys ? io.k : io.v, right);
    __syncthreads();
    sum.each([&](float& cell, int, int) { cell *= expf(last); });
    sum.template add_product<true, false>(left + row0, Tile<J>::stride, right, Tile<J>::stride, chunk_tokens);
  }
}

/// Computes |H_c|_F and lambda_c of every token; `keys` and `state` are filled, `product` holds H_c k_c. Includes
/// barriers.
template <int J>
__device__ void measure(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkRows& at, const Gates& gates,
                        const float* state, const float* keys, Tile<J>& product) {
  __shared__ TokenParts overlap, own;
  __shared__ SquareSteps steps;
  product.sum_rows([&](float cell, int c, int column) { return cell * keys[c * Tile<J>::stride + column]; },
                   [&](int c, float sum) { overlap.own(c) = sum; });
  const auto square_of = [&](float, int c, int column) {
    const float k = keys[c * Tile<J>::stride + column];
    return k * k;
  };
  product.sum_rows(square_of, [&](int c, float sum) { own.own(c) = sum; });
  float square = 0;
  for (int i = threadIdx.x; i < Tile<J>::width * Tile<J>::width; i += threads) {
    const float number = state[i / Tile<J>::width * Tile<J>::stride + i % Tile<J>::width];
    square += number * number;
  }
  __syncthreads();
  const int c = int(threadIdx.x);
  if (c < chunk_tokens) steps.set(c, gates, overlap.of(c), own.of(c));
  put_norms(s, io, at, steps, square);
}

/// `H` and `S` are the states before the chunks, one behind the other.
template <int J>
__global__ void __launch_bounds__(threads, J < 8 ? 2 : 1)
    solve_kernel(ChebyshevShape s, ChebyshevPointers io, const float* H, const float* S, float* y) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  float *state = reinterpret_cast<float*>(aligned), *keys = state + Tile<J>::state, *iterate = keys + Tile<J>::panel;
  float *scores = iterate + Tile<J>::panel, *weights = scores + Scores::panel;
  const ChunkRows at(s, int(blockIdx.x));
  load_gates(s, io.g, at, gates);
  load_state<J>(s.width, H + blockIdx.x * s.square(), state);
  load_panel<J>(s, at, io.k, keys);
  __syncthreads();
  Tile<J> x, right;
  read_state<J, true>(keys, state, keys, gates.key, 1.0f, scores, x);
  add_past(scores, keys, x);
  measure(s, io, at, gates, state, keys, x);
  TokenNumbers fro, lambda;
  load_tile_norms(s, io, at, fro, lambda);
  load_tile(s, at, io.q, right);
  solve_chunk(s, fro, lambda, gates, state, keys, iterate, scores, weights, right, x);
  x.each([&](float& cell, int c, int column) {
    if (c < at.count && column < s.width) io.x[at.row(c) * s.width + column] = cell;
  });
  load_state<J>(s.width, S + blockIdx.x * s.square(), state);
  __syncthreads();
  load_mixed<J>(s, io, at, iterate);
  __syncthreads();
  read_state<J, false>(iterate, state, keys, gates.value, s.scale, scores, x);
  load_panel<J>(s, at, io.v, keys);
  __syncthreads();
  add_past(scores, keys, x);
  x.each([&](float& cell, int c, int column) {
    if (c < at.count && column < s.width) y[at.row(c) * s.width + column] = cell;
  });
}

template <int J>
void launch_solve(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* H,
                  const float* S, float* y) {
  launch_after("Gated KalmaNet", solve_kernel<J>, unsigned(s.pieces()), threads, chebyshev_bytes<J>(2, 1, 2), stream, s,
               io, H, S, y);
}

}  // namespace

void CudaBackend::chebyshev_readout(const ChebyshevConfig& config, const ChebyshevInputs& in,
                                    const ChebyshevSaved& saved, const Tensor& y) {
  const ChebyshevShape s = chebyshev_shape(config, in);
  if (on_matrix_units(s, precision_)) {
    with_stored_type(in.q, [&]<class T>(T) {
      const auto io = chebyshev_pointers<T>(in, saved);
      float* faded = scratch(2 * std::size_t(s.pieces()));
      with_units(s, [&](auto warpgroups) {
        const UnitPasses<warpgroups(), T> passes{stream(), s, io};
        passes.add_chunks(faded);
        sum_over_chunks(stream(), s, io.H, io.S, faded, false);
        launched("chebyshev_readout states");
        passes.solve_chunks(y.as<T>());
      });
    });
  } else {
    const ChebyshevPointers io = chebyshev_pointers(in, saved);
    const dim3 grid(unsigned(s.batch * s.heads), blocks_for(s.width, chunk_tokens), 2);
    with_tiles(s.width, [&](auto J) {
      launch_after("Gated KalmaNet", states_kernel<J()>, grid, threads, chebyshev_bytes<J()>(2, 0, 0), stream(), s, io);
    });
    launched("chebyshev_readout states");
    with_tiles(s.width, [&](auto J) { launch_solve<J()>(stream(), s, io, io.H, io.S, y.as<float>()); });
  }
  launched("chebyshev_readout");
}

// One token: the readout, then H <- e^g H + k k^T, S <- e^g S + k v^T.
void CudaBackend::chebyshev_step(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevState& state,
                                 const ChebyshevSaved& saved, const Tensor& y) {
  const ChebyshevShape s = chebyshev_shape(config, in);
  const ChebyshevPointers io = chebyshev_pointers(in, saved);
  float *H = state.H.as<float>(), *S = state.S.as<float>();
  with_tiles(s.width, [&](auto J) { launch_solve<J()>(stream(), s, io, H, S, y.as<float>()); });
  launched("chebyshev_step");
  const auto count = std::int64_t(s.square()) * s.batch * s.heads;
  map(*this, "chebyshev_step states", count, [=] __device__(unsigned place) {
    const auto square = unsigned(s.square()), i = place % square / s.width, j = place % s.width;
    const std::size_t row = s.row(int(place / square), 0);
    const float gate = io.g ? expf(fmaxf(io.g[row], s.log_floor)) : 1.0f, key_gate = s.decay_keys ? gate : 1.0f;
    const float *k = io.k + row * s.width, *v = io.v + row * s.width;
    H[place] = key_gate * H[place] + k[i] * k[j];
    S[place] = gate * S[place] + k[i] * v[j];
  });
}

}  // namespace afterglow
