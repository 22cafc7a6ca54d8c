// The Kalman recursion: G = Phi k, f = w / (1 + w k . G), Phi -= f G G^T, S += f G (v - S^T k)^T, y = S^T q. Grid: one
// block a head, with covariance Phi [K,K] and memory S [K,P] in shared memory. A reference for comparison, not a fast
// kernel: the steps depend on each other.
#include "core/backend/kalman.h"
#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

struct KalmanSizes {
  int batch, length, heads, keys, width;
  float ridge;
};

struct KalmanArrays {
  const float *q, *k, *v, *weight, *dy;
};

/// One head's matrices and one token's vectors, in shared memory.
struct KalmanMemory {
  float *square, *matrix;                // [K,K], [K,P]
  float *q, *k, *gain, *v, *error, *dy;  // [K], [K], [K], [P], [P], [P]

  __device__ KalmanMemory(float* memory, const KalmanSizes& s) {
    square = memory;
    matrix = square + s.keys * s.keys;
    q = matrix + s.keys * s.width;
    k = q + s.keys;
    gain = k + s.keys;
    v = gain + s.keys;
    error = v + s.width;
    dy = error + s.width;
  }
  static std::size_t bytes(const KalmanSizes& s) {
    return sizeof(float) * std::size_t(s.keys * (s.keys + s.width) + 3 * (s.keys + s.width));
  }
};

struct HeadPosition {
  int b, h;
  __device__ explicit HeadPosition(const KalmanSizes& s) : b(int(blockIdx.x) / s.heads), h(int(blockIdx.x) % s.heads) {}
  __device__ std::size_t row(const KalmanSizes& s, int t) const {
    return (std::size_t(b) * s.length + t) * s.heads + h;
  }
};

__device__ int first() { return int(threadIdx.x); }

__device__ float product(const float* a, const float* b, int count, int stride_a = 1, int stride_b = 1) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += a[i * stride_a] * b[i * stride_b];
  return sum;
}

__device__ void load_token(const KalmanMemory& m, const KalmanSizes& s, const KalmanArrays& in, std::size_t row) {
  __syncthreads();
  for (int i = first(); i < s.keys; i += threads) {
    m.q[i] = in.q[row * s.keys + i];
    m.k[i] = in.k[row * s.keys + i];
  }
  for (int p = first(); p < s.width; p += threads) {
    m.v[p] = in.v[row * s.width + p];
    m.dy[p] = in.dy != nullptr ? in.dy[row * s.width + p] : 0.0f;
  }
  __syncthreads();
}

/// S += G e^T, Phi -= G (Phi k)^T for the loaded token.
__device__ void update(const KalmanMemory& m, const KalmanSizes& s, float weight) {
  for (int i = first(); i < s.keys + s.width; i += threads) {
    if (i < s.keys) {
      m.gain[i] = product(m.square + i, m.k, s.keys, s.keys);  // Phi is symmetric
    } else {
      m.error[i - s.keys] = m.v[i - s.keys] - product(m.matrix + i - s.keys, m.k, s.keys, s.width);
    }
  }
  __syncthreads();
  const float factor = weight / (1.0f + weight * product(m.k, m.gain, s.keys));
  for (int at = first(); at < s.keys * s.keys; at += threads)
    m.square[at] -= factor * m.gain[at / s.keys] * m.gain[at % s.keys];
  for (int at = first(); at < s.keys * s.width; at += threads)
    m.matrix[at] += factor * m.gain[at / s.width] * m.error[at % s.width];
  __syncthreads();
}

__device__ void begin(const KalmanMemory& m, const KalmanSizes& s) {
  for (int at = first(); at < s.keys * s.keys; at += threads)
    m.square[at] = at / s.keys == at % s.keys ? 1.0f / s.ridge : 0.0f;
  for (int at = first(); at < s.keys * s.width; at += threads) m.matrix[at] = 0.0f;
}

__global__ void __launch_bounds__(threads)
    kalman_kernel(KalmanSizes s, KalmanArrays in, float* y, float* covariance, float* memory, bool resume) {
  extern __shared__ float shared[];
  const KalmanMemory m(shared, s);
  const HeadPosition place(s);
  const std::size_t head = blockIdx.x;
  begin(m, s);
  for (int at = first(); resume && at < s.keys * s.keys; at += threads)
    m.square[at] = covariance[head * s.keys * s.keys + at];
  for (int at = first(); resume && at < s.keys * s.width; at += threads)
    m.matrix[at] = memory[head * s.keys * s.width + at];
  for (int t = 0; t < s.length; ++t) {
    const std::size_t row = place.row(s, t);
    load_token(m, s, in, row);
    update(m, s, in.weight != nullptr ? in.weight[row] : 1.0f);
    for (int p = first(); p < s.width; p += threads) y[row * s.width + p] = product(m.matrix + p, m.q, s.keys, s.width);
  }
  for (int at = first(); covariance != nullptr && at < s.keys * s.keys; at += threads)
    covariance[head * s.keys * s.keys + at] = m.square[at];
  for (int at = first(); memory != nullptr && at < s.keys * s.width; at += threads)
    memory[head * s.keys * s.width + at] = m.matrix[at];
}

struct KalmanSinks {
  Sink q, k, v, weight;
};

// Forward for x_t = Phi_t q_t and r_t = S_t dy_t [B,T,H,K], then backward with A and D in place of Phi and S.
__global__ void __launch_bounds__(threads)
    kalman_backward_kernel(KalmanSizes s, KalmanArrays in, float* x, float* r, KalmanSinks out) {
  extern __shared__ float shared[];
  const KalmanMemory m(shared, s);
  const HeadPosition place(s);
  begin(m, s);
  for (int t = 0; t < s.length; ++t) {
    const std::size_t row = place.row(s, t);
    load_token(m, s, in, row);
    update(m, s, in.weight != nullptr ? in.weight[row] : 1.0f);
    for (int i = first(); i < s.keys; i += threads) {
      x[row * s.keys + i] = product(m.square + i, m.q, s.keys, s.keys);
      r[row * s.keys + i] = product(m.matrix + i * s.width, m.dy, s.width);
    }
  }
  __syncthreads();
  for (int at = first(); at < s.keys * (s.keys + s.width); at += threads)
    m.square[at] = 0.0f;  // and `matrix`, which follows
  for (int t = s.length - 1; t >= 0; --t) {
    const std::size_t row = place.row(s, t);
    const float weight = in.weight != nullptr ? in.weight[row] : 1.0f;
    const float *xt = x + row * s.keys, *rt = r + row * s.keys;
    load_token(m, s, in, row);
    for (int at = first(); at < s.keys * s.keys; at += threads) m.square[at] -= rt[at / s.keys] * xt[at % s.keys];
    for (int at = first(); at < s.keys * s.width; at += threads) m.matrix[at] += xt[at / s.width] * m.dy[at % s.width];
    __syncthreads();
    for (int i = first(); i < s.keys; i += threads) {
      const float forth = product(m.square + i * s.keys, m.k, s.keys) + product(m.matrix + i * s.width, m.v, s.width);
      const float back = product(m.square + i, m.k, s.keys, s.keys);
      m.gain[i] = forth;
      if (out.q.wanted()) out.q.put(row, unsigned(i), rt[i]);
      if (out.k.wanted()) out.k.put(row, unsigned(i), weight * (forth + back));
    }
    __syncthreads();
    for (int p = first(); out.v.wanted() && p < s.width; p += threads)
      out.v.put(row, unsigned(p), weight * product(m.matrix + p, m.k, s.keys, s.width));
    if (out.weight.wanted() && first() == 0) out.weight.put(unsigned(row), product(m.k, m.gain, s.keys));
  }
}

KalmanSizes sizes_of(const KalmanInputs& in) {
  const Shape& q = in.q.shape;
  const KalmanSizes s{int(q[0]), int(q[1]), int(q[2]), int(q[3]), int(in.v.shape[3]), float(in.ridge)};
  if (KalmanMemory::bytes(s) > 200 * 1024) {
    throw Error(ExitCode::bad_input, "the Kalman recursion has keys of width " + std::to_string(s.keys) +
                                         " and values of width " + std::to_string(s.width) +
                                         ", which is more than the GPU kernel holds; use more heads, or the CPU");
  }
  return s;
}

KalmanArrays arrays_of(const KalmanInputs& in, const Tensor& dy) {
  return {in.q.as<float>(), in.k.as<float>(), in.v.as<float>(), in.weight.as<float>(), dy.as<float>()};
}

}  // namespace

void CudaBackend::kalman_scan(const KalmanInputs& in, const Tensor& y, const KalmanState& state, bool resume) {
  const KalmanSizes s = sizes_of(in);
  launch_after("kalman_scan", kalman_kernel, unsigned(s.batch * s.heads), threads, KalmanMemory::bytes(s), stream(), s,
               arrays_of(in, {}), y.as<float>(), state.covariance.as<float>(), state.memory.as<float>(), resume);
  launched("kalman_scan");
}

Plan CudaBackend::plan(const KalmanInputs& in) const { return {.workspace = 2 * in.q.elements()}; }

void CudaBackend::kalman_scan_backward(const KalmanInputs& in, const Tensor& dy, const Tensor& workspace,
                                       const KalmanGrads& out) {
  const KalmanSizes s = sizes_of(in);
  launch_after("kalman_scan_backward", kalman_backward_kernel, unsigned(s.batch * s.heads), threads,
               KalmanMemory::bytes(s), stream(), s, arrays_of(in, dy), workspace.as<float>(),
               workspace.as<float>() + in.q.elements(),
               KalmanSinks{sink_of(out.q), sink_of(out.k), sink_of(out.v), sink_of(out.weight)});
  launched("kalman_scan_backward");
}

}  // namespace afterglow
