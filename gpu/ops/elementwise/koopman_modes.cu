// The Koopman MLP's core on rows of pairs [rows, 2 pairs]: with u = silu(lifted) and the multiplier gamma + i omega,
// divided by its modulus where that exceeds 1, z = (gamma u0 + omega u1, gamma u1 - omega u0) times sigmoid(gate).
// Memory-bound. Grid: (groups of rows, tiles of pairs); a lane takes up to four pairs of four rows at a time.
#include <algorithm>
#include <initializer_list>

#include "core/backend/mixed_modes.h"
#include "gpu/ops/product/rounded.cuh"

namespace afterglow {

using namespace device;

namespace {

// A lane takes `pairs` neighbouring pairs (several if rows can be read so) of several rows at a time.
constexpr unsigned lanes = 32, row_groups = threads / lanes, together = 4, max_ranges = 64;
constexpr unsigned resident_blocks = 384;

using Mode = UnitMode<float>;  // a pair's multiplier

/// T is the stored type of the modes' numbers.
template <class T>
struct ModeInputs {
  Rows<T> lifted, gate, dz;
  const float *gamma, *omega;
  unsigned rows, pairs;
  __device__ Mode mode(unsigned pair) const { return {gamma[pair], omega[pair]}; }
};

/// A lane's numbers of one row; `lifted` and `dz` have equally many.
template <unsigned pairs, class T>
struct ModePieces {
  using P = Stored<T, 2 * pairs>;
  P lifted, gate, dz;
  __device__ static ModePieces of(const ModeInputs<T>& in, unsigned row, unsigned pair, bool inside) {
    return {P::of(in.lifted, row, 2 * pair, inside), P::of(in.gate, row, 2 * pair, inside && in.gate.data != nullptr),
            P::of(in.dz, row, 2 * pair, inside && in.dz.data != nullptr)};
  }
};

template <unsigned pairs, class T>
__global__ void __launch_bounds__(threads) modes_kernel(ModeInputs<T> in, Rows<T> z, RoundedResult rounded) {
  wait_for_previous_kernel();
  const unsigned pair = (blockIdx.y * lanes + threadIdx.x % lanes) * pairs;
  const unsigned first = (blockIdx.x * row_groups + threadIdx.x / lanes) * together;
  if (pair >= in.pairs) return;
  if (rounded.wanted()) rounded.factor(1, first == 0 && pair == 0);
  using P = Piece<2 * pairs>;
  ModePieces<pairs, T> pieces[together];
  unrolled<together>(
      [&](unsigned k) { pieces[k] = ModePieces<pairs, T>::of(in, first + k, pair, first + k < in.rows); });
  Mode modes[pairs];
  unrolled<pairs>([&](unsigned i) { modes[i] = in.mode(pair + i); });
#pragma unroll
  for (unsigned k = 0; k < together; ++k) {
    if (first + k >= in.rows) break;
    const P lifted = P::of(pieces[k].lifted);
    P result;
    unrolled<pairs>([&](unsigned i) {
      const float u0 = silu<T>(lifted.v[2 * i]), u1 = silu<T>(lifted.v[2 * i + 1]);
      result.v[2 * i] = modes[i].gamma * u0 + modes[i].omega * u1;
      result.v[2 * i + 1] = modes[i].gamma * u1 - modes[i].omega * u0;
    });
    if (in.gate.data != nullptr) {
      const P gate = P::of(pieces[k].gate);
      unrolled<2 * pairs>([&](unsigned e) { result.v[e] *= sigmoid<T>(gate.v[e]); });
    }
    result.store(&z.at(first + k, 2 * pair));
    if (rounded.wanted()) rounded.put((first + k) * std::size_t{2 * in.pairs} + 2 * pair, result, 1);
  }
}

template <class T>
struct ModeSinks {
  SinkOf<T> lifted, gate;
  Sink gamma, omega;
};

// One row of one pair: adds to the gradients of the (projected) multiplier; the gradients of the pair's own numbers
// overwrite `lifted` and `gate`.
template <class T>
__device__ void mode_backward(const Mode& mode, bool gated, float* lifted, float* gate, const float* dz, float& dgamma,
                              float& domega) {
  const Silu first = silu_with_slope<T>(lifted[0]), second = silu_with_slope<T>(lifted[1]);
  const float u0 = first.value, u1 = second.value;
  float d0 = dz[0], d1 = dz[1];
  if (gated) {
    const float g0 = sigmoid<T>(gate[0]), g1 = sigmoid<T>(gate[1]);
    gate[0] = d0 * (mode.gamma * u0 + mode.omega * u1) * g0 * (1.0f - g0);
    gate[1] = d1 * (mode.gamma * u1 - mode.omega * u0) * g1 * (1.0f - g1);
    d0 *= g0;
    d1 *= g1;
  }
  dgamma += d0 * u0 + d1 * u1;
  domega += d0 * u1 - d1 * u0;
  lifted[0] = (mode.gamma * d0 - mode.omega * d1) * first.slope;
  lifted[1] = (mode.omega * d0 + mode.gamma * d1) * second.slope;
}

template <unsigned pairs, class T>
__global__ void __launch_bounds__(threads)
    modes_backward_kernel(ModeInputs<T> in, float* partials, unsigned* tickets, ModeSinks<T> out) {
  wait_for_previous_kernel();
  constexpr unsigned tile = lanes * pairs;  // pairs of a block: sums for gamma, then for omega
  __shared__ float sums[2 * pairs][threads], totals[2 * tile];
  const unsigned lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
  const unsigned first = blockIdx.x * tile, pair = first + lane * pairs;
  float to_gamma[pairs] = {}, to_omega[pairs] = {};
  if (pair < in.pairs) {
    Mode modes[pairs];
    unrolled<pairs>([&](unsigned i) { modes[i] = in.mode(pair + i); });
    for (unsigned row = (blockIdx.y * row_groups + group) * together; row < in.rows;
         row += gridDim.y * row_groups * together) {
      using P = Piece<2 * pairs>;
      ModePieces<pairs, T> pieces[together];
      unrolled<together>(
          [&](unsigned k) { pieces[k] = ModePieces<pairs, T>::of(in, row + k, pair, row + k < in.rows); });
#pragma unroll
      for (unsigned k = 0; k < together; ++k) {
        if (row + k >= in.rows) break;
        P lifted = P::of(pieces[k].lifted), gate = P::of(pieces[k].gate);
        const P dz = P::of(pieces[k].dz);
        unrolled<pairs>([&](unsigned i) {
          mode_backward<T>(modes[i], in.gate.data != nullptr, lifted.v + 2 * i, gate.v + 2 * i, dz.v + 2 * i,
                           to_gamma[i], to_omega[i]);
        });
        if (out.lifted.wanted()) lifted.put(out.lifted, row + k, 2 * pair);
        if (out.gate.wanted()) gate.put(out.gate, row + k, 2 * pair);
      }
    }
  }
  if (!out.gamma.wanted() && !out.omega.wanted()) return;
  unrolled<pairs>([&](unsigned i) {
    sums[i][threadIdx.x] = to_gamma[i];
    sums[pairs + i][threadIdx.x] = to_omega[i];
  });
  __syncthreads();
  float* own = partials + (std::size_t{blockIdx.x} * gridDim.y + blockIdx.y) * 2 * tile;
  if (threadIdx.x < 2 * tile) {
    const unsigned kind = threadIdx.x / tile, i = threadIdx.x % pairs, from = threadIdx.x % tile / pairs;
    float sum = 0;
    unrolled<row_groups>([&](unsigned other) { sum += sums[kind * pairs + i][other * lanes + from]; });
    own[threadIdx.x] = sum;
  }
  if (!is_last_block(&tickets[blockIdx.x], gridDim.y)) return;
  sum_partials(partials + std::size_t{blockIdx.x} * gridDim.y * 2 * tile, gridDim.y, 2 * tile, 0, 2 * tile,
               [&](unsigned place, float sum) { totals[place] = sum; });
  __syncthreads();
  if (threadIdx.x >= tile || first + threadIdx.x >= in.pairs) return;
  const Mode mode = in.mode(first + threadIdx.x);
  float dgamma = totals[threadIdx.x], domega = totals[tile + threadIdx.x];
  mode.through_division(dgamma, domega);
  if (out.gamma.wanted()) out.gamma.put(first + threadIdx.x, dgamma);
  if (out.omega.wanted()) out.omega.put(first + threadIdx.x, domega);
}

template <class T>
ModeInputs<T> mode_inputs(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate) {
  return {rows_of<T>(lifted),
          rows_of<T>(gate),
          {},
          gamma.as<float>(),
          omega.as<float>(),
          unsigned(lifted.rows()),
          unsigned(lifted.columns() / 2)};
}

/// Calls body with the pairs of a lane, `max_pairs` if rows can be read so, as a compile-time constant.
template <unsigned max_pairs, class T, class Body>
void with_pairs(const ModeInputs<T>& in, std::initializer_list<Rows<T>> results, const Body& body) {
  constexpr unsigned width = 2 * max_pairs;
  const bool whole = in.pairs % max_pairs == 0 && in_pieces<width>(in.lifted) && in_pieces<width>(in.gate) &&
                     in_pieces<width>(in.dz) && std::all_of(results.begin(), results.end(), in_pieces<width, T>);
  with_either<max_pairs, 1u>(whole, body);
}

/// The threads of one block. The shared functions are compiled for the host as well, where nothing calls them.
struct BlockTeam {
  template <class Body>
  __host__ __device__ void each([[maybe_unused]] int n, [[maybe_unused]] int m,
                                [[maybe_unused]] const Body& body) const {
#ifdef __CUDA_ARCH__
    for (int i = int(threadIdx.x); i < n * m; i += int(threads)) body(i / m, i % m);
#endif
  }
  __host__ __device__ void wait() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
};

// One block of channels each, see core/backend/mixed_modes.h.
__global__ void __launch_bounds__(threads)
    mixed_kernel(int b, const float* A, const float* gamma, const float* omega, float* Q, float* W) {
  wait_for_previous_kernel();
  extern __shared__ float memory[];
  const unsigned at = blockIdx.x * b * b, pair = blockIdx.x * b / 2;
  mix_block(BlockTeam{}, b, A + at, gamma + pair, omega + pair, Q + at, W + at, memory);
}

__global__ void __launch_bounds__(threads)
    mixed_backward_kernel(int b, const float* gamma, const float* omega, const float* Q, const float* dW, Sink dA,
                          Sink dgamma, Sink domega) {
  wait_for_previous_kernel();
  extern __shared__ float memory[];
  const unsigned at = blockIdx.x * b * b, pair = blockIdx.x * b / 2;
  mix_block_backward(
      BlockTeam{}, b, gamma + pair, omega + pair, Q + at, dW + at, memory,
      [=](int k, float real, float imaginary) {
        if (dgamma.wanted()) dgamma.put(pair + k, real);
        if (domega.wanted()) domega.put(pair + k, imaginary);
      },
      [=](int place, float value) {
        if (dA.wanted()) dA.put(at + place, value);
      });
}

/// Launches a kernel for the blocks of matrices [n,b,b].
template <class Kernel, class... Arguments>
void launch_mixed(const CudaBackend& backend, const char* name, Kernel* kernel, const Tensor& matrices,
                  const Arguments&... arguments) {
  const auto b = int(matrices.shape[2]);
  if (b > 64) {
    throw Error(ExitCode::failure, "the GPU mixes blocks of up to 64 channels, and mixer_block is " +
                                       std::to_string(b) + "; choose a smaller one or --device cpu");
  }
  const int bytes = mixed_scratch(b) * int(sizeof(float));
  launch(name, kernel, unsigned(matrices.shape[0]), threads, bytes, backend.stream(), b, arguments...);
  backend.launched(name);
}

}  // namespace

void CudaBackend::mixed_modes(const Tensor& A, const Tensor& gamma, const Tensor& omega, const Tensor& Q,
                              const Tensor& W) {
  launch_mixed(*this, "mixed_modes", mixed_kernel, A, A.as<float>(), gamma.as<float>(), omega.as<float>(),
               Q.as<float>(), W.as<float>());
}

void CudaBackend::mixed_modes_backward(const Tensor& gamma, const Tensor& omega, const Tensor& Q, const Tensor& dW,
                                       const Grad& dA, const Grad& dgamma, const Grad& domega) {
  launch_mixed(*this, "mixed_modes_backward", mixed_backward_kernel, Q, gamma.as<float>(), omega.as<float>(),
               Q.as<float>(), dW.as<float>(), sink_of(dA), sink_of(dgamma), sink_of(domega));
}

void CudaBackend::koopman_modes(const Tensor& lifted, const Tensor& gamma, const Tensor& omega, const Tensor& gate,
                                const Tensor& z, const Tensor& rounded) {
  if (lifted.elements() == 0) return;
  with_stored_type(lifted, [&]<class T>(T) {
    const ModeInputs<T> in = mode_inputs<T>(lifted, gamma, omega, gate);
    const Rows<T> to = rows_of<T>(z);
    with_pairs<max_piece<T> / 2>(in, {to}, [&](auto pairs) {
      const dim3 grid(blocks_for(in.rows, row_groups * together), blocks_for(in.pairs, lanes * pairs));
      launch(*this, "koopman_modes", modes_kernel<pairs, T>, grid, threads, in, to, rounded_result(*this, rounded));
    });
  });
}

void CudaBackend::koopman_modes_backward(const Tensor& lifted, const Tensor& gamma, const Tensor& omega,
                                         const Tensor& gate, const Tensor& dz, const Grad& dlifted, const Grad& dgamma,
                                         const Grad& domega, const Grad& dgate) {
  if (lifted.elements() == 0) return;
  with_stored_type(lifted, [&]<class T>(T) {
    ModeInputs<T> in = mode_inputs<T>(lifted, gamma, omega, gate);
    in.dz = rows_of<T>(dz);
    const ModeSinks<T> out{sink_of<T>(dlifted), sink_of<T>(dgate), sink_of(dgamma), sink_of(domega)};
    // Sums of more pairs would leave registers for fewer lanes.
    with_pairs<2>(in, {out.lifted.rows, out.gate.rows}, [&](auto pairs) {
      const unsigned tiles = blocks_for(in.pairs, lanes * pairs),
                     max_blocks_of_tile = at_most(resident_blocks / tiles + 1, max_ranges);
      const dim3 grid(tiles, at_most(blocks_for(in.rows, row_groups * together), max_blocks_of_tile));
      float* partials = scratch(std::size_t{grid.x} * grid.y * 2 * lanes * pairs);
      launch(*this, "koopman_modes_backward", modes_backward_kernel<pairs, T>, grid, threads, in, partials, tickets_,
             out);
    });
  });
}

}  // namespace afterglow
