// Keys and queries of Mamba-3: y_h = R(theta_h) (weight x / rms(x) + bias_h) for every head h, with R a rotation of
// pairs of states (RoPE). Memory-bound: a block takes whole rows of all heads, two pairs of a head a thread, and with
// many rows also sums the gradients of weight and bias. Other sizes run one warp a row (rotate_any_heads). T is the
// stored type of vectors.
#include "gpu/tile/columns.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

// Rows of a block when there are many, forward and backward (where the block sums its part of the weights' gradients);
// and the maximum size of all those parts.
constexpr unsigned forward_block_rows = 4, backward_block_rows = 16, max_partials = 1 << 22;
// Rows that a thread processes at once, given the number of its rotated pairs: as many as registers hold.
template <unsigned rotated_pairs>
constexpr unsigned forward_rows = rotated_pairs == 1 ? 4 : 1;
template <unsigned rotated_pairs>
constexpr unsigned backward_rows = rotated_pairs == 1 ? 2 : 1;

/// Rotates one pair by its angle, and by the negative angle.
__device__ float2 rope_forward(float2 pair, float angle) {
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  return {pair.x * cosine - pair.y * sine, pair.x * sine + pair.y * cosine};
}
__device__ float2 rope_backward(float2 pair, float angle) {
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  return {pair.x * cosine + pair.y * sine, pair.y * cosine - pair.x * sine};
}

/// The gradient of the angle.
__device__ float angle_gradient(float2 up, float2 out) { return up.y * out.x - up.x * out.y; }

/// Keys or queries of all heads; the first `pairs` pairs are rotated. A last state without a partner counts as a pair
/// with 0.
template <class T>
struct RopeHeads {
  Rows<T> x;
  const float *weight, *theta;
  const T *y, *dy;
  unsigned rows, heads, states, pairs;
  __device__ float x_at(std::size_t row, unsigned n) const { return float(x.at(row, n)); }
  __device__ float2 load(const T* from, std::size_t row, unsigned h, unsigned pair) const {
    const std::size_t at = (row * heads + h) * states + 2 * pair;
    return {float(from[at]), 2 * pair + 1 < states ? float(from[at + 1]) : 0.0f};
  }
  __device__ std::size_t angle_at(std::size_t row, unsigned h, unsigned pair) const {
    return (row * heads + h) * pairs + pair;
  }
  /// d loss / d (normed vector + bias) of a head.
  __device__ float2 straight(std::size_t row, unsigned h, unsigned pair) const {
    const float2 up = load(dy, row, h, pair);
    return pair < pairs ? rope_backward(up, theta[angle_at(row, h, pair)]) : up;
  }
};

template <class T>
RopeHeads<T> rope_inputs(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                         const Tensor& dy) {
  return {rows_of<T>(x),        weight.as<float>(),    theta.as<float>(),
          rows_of<T>(y).data,   rows_of<T>(dy).data,   unsigned(x.rows()),
          unsigned(y.shape[2]), unsigned(x.columns()), theta.defined() ? unsigned(theta.columns()) : 0u};
}

/// Rows of a block: `side_by_side`, each by `warps_of_row` warps.
struct RowBlock {
  unsigned warps_of_row, side_by_side;
  unsigned threads() const { return 32 * warps_of_row * side_by_side; }
};

/// A lane's two pairs of a vector of four states a lane.
struct TwoPairs {
  float2 pair[2];
  __device__ void add(unsigned e, float x, float y) {
    pair[e].x += x;
    pair[e].y += y;
  }
};

/// A thread has pairs `lane` and `lane + lanes` of one head; when half of all pairs are rotated, each thread rotates
/// one. Also for a vector that all heads share.
template <unsigned lanes>
struct OwnPairs {
  unsigned row, head, lane;  // row: index among those side by side
  bool inside;

  __device__ OwnPairs(unsigned heads, const RowBlock& block)
      : row(threadIdx.x / (32 * block.warps_of_row)),
        head(threadIdx.x % (32 * block.warps_of_row) / lanes),
        lane(threadIdx.x % lanes),
        inside(head < heads) {}
  __device__ unsigned pair(unsigned e) const { return lane + e * lanes; }
  /// Reads a vector in global memory that no kernel writes meanwhile.
  template <class N>
  __device__ TwoPairs of(const N* vector, bool wanted) const {
    TwoPairs both{};
    unrolled<2>([&](unsigned e) {
      if (wanted) both.pair[e] = two_of(vector + 2 * pair(e));
    });
    return both;
  }
  template <class N>
  __device__ void put(const TwoPairs& both, N* vector, bool accumulate = false) const {
    unrolled<2>([&](unsigned e) { store_two(vector + 2 * pair(e), accumulate, both.pair[e].x, both.pair[e].y); });
  }
};

template <unsigned lanes, unsigned rotated_pairs, class T>
__global__ void __launch_bounds__(max_threads)
    rope_heads_kernel(RopeHeads<T> in, RowBlock block, const float* bias, float eps, T* out, float* scales) {
  wait_for_previous_kernel();
  constexpr unsigned states = 4 * lanes, together = forward_rows<rotated_pairs>;
  const OwnPairs<lanes> own(in.heads, block);
  const TwoPairs weight = own.of(in.weight, own.inside), offset = own.of(bias + own.head * states, own.inside);
  const unsigned step = together * block.side_by_side;
  for (unsigned first = blockIdx.x * step + own.row; first < in.rows; first += gridDim.x * step) {
    TwoPairs x[together];
    float angle[together][rotated_pairs];
    unrolled<together>([&](unsigned r) {
      const unsigned row = first + r * block.side_by_side;
      const bool inside = own.inside && row < in.rows;
      x[r] = own.of(in.x.data + row * in.x.stride, inside);
      unrolled<rotated_pairs>([&](unsigned e) {
        angle[r][e] = inside && own.pair(e) < in.pairs ? in.theta[in.angle_at(row, own.head, own.pair(e))] : 0.0f;
      });
    });
#pragma unroll
    for (unsigned r = 0; r < together; ++r) {
      const unsigned row = first + r * block.side_by_side;
      float squares = 0;
      unrolled<2>([&](unsigned e) { squares += x[r].pair[e].x * x[r].pair[e].x + x[r].pair[e].y * x[r].pair[e].y; });
      const float scale = 1.0f / sqrtf(sum_of_lanes<lanes>(squares) / float(states) + eps);
      if (!own.inside || row >= in.rows) continue;
      if (own.head == 0 && own.lane == 0) scales[row] = scale;
      TwoPairs y;
      unrolled<2>([&](unsigned e) {
        y.pair[e] = {x[r].pair[e].x * scale * weight.pair[e].x + offset.pair[e].x,
                     x[r].pair[e].y * scale * weight.pair[e].y + offset.pair[e].y};
        if (e < rotated_pairs && own.pair(e) < in.pairs) y.pair[e] = rope_forward(y.pair[e], angle[r][e]);
      });
      own.put(y, out + (std::size_t{row} * in.heads + own.head) * states);
    }
  }
}

/// What a thread reads of a row in the backward pass.
template <unsigned rotated_pairs>
struct RowGradient {
  TwoPairs up;
  float2 out[rotated_pairs];
  float angle[rotated_pairs], before[rotated_pairs];  // before: the angle's gradient so far

  template <unsigned lanes, class T>
  __device__ static RowGradient of(const RopeHeads<T>& in, const OwnPairs<lanes>& own, const Sink& to_theta,
                                   unsigned row) {
    RowGradient gradient;
    const bool inside = own.inside && row < in.rows;
    const std::size_t begin = (std::size_t{row} * in.heads + own.head) * in.states;
    gradient.up = own.of(in.dy + begin, inside);
    unrolled<rotated_pairs>([&](unsigned e) {
      const bool is_rotated = inside && own.pair(e) < in.pairs;
      const std::size_t at = in.angle_at(row, own.head, own.pair(e));
      gradient.angle[e] = is_rotated ? in.theta[at] : 0.0f;
      gradient.out[e] = is_rotated && to_theta.wanted() ? two_of(in.y + begin + 2 * own.pair(e)) : float2{0, 0};
      gradient.before[e] = is_rotated && to_theta.accumulate ? to_theta.rows.data[at] : 0.0f;
    });
    return gradient;
  }
  /// Returns the gradient of the vector before the rotation, zero outside; writes the gradients of its angles.
  template <unsigned lanes, class T>
  __device__ TwoPairs rotate_backward(const RopeHeads<T>& in, const OwnPairs<lanes>& own, const Sink& to_theta,
                                      unsigned row) const {
    TwoPairs straight = up;
    if (!own.inside || row >= in.rows) return straight;
    unrolled<rotated_pairs>([&](unsigned e) {
      if (own.pair(e) >= in.pairs) return;
      straight.pair[e] = rope_backward(up.pair[e], angle[e]);
      if (to_theta.wanted())
        to_theta.rows.data[in.angle_at(row, own.head, own.pair(e))] = before[e] + angle_gradient(up.pair[e], out[e]);
    });
    return straight;
  }
};

/// Adds the heads of a warp into one vector in shared memory.
template <unsigned lanes>
__device__ void leave_sums_of_warp(const TwoPairs& of, float* to) {
  float v[] = {of.pair[0].x, of.pair[0].y, of.pair[1].x, of.pair[1].y};
  const unsigned first = share_sums<16, int(lanes)>(v), lane = threadIdx.x % lanes;
  if (lanes < 8 && threadIdx.x % (2 * lanes) >= lanes) return;  // two lanes have each sum
  constexpr unsigned left = lanes < 8 ? 1 : lanes / 8;
  unrolled<left>([&](unsigned i) { to[2 * (lane + (first + i) / 2 * lanes) + (first + i) % 2] = v[i]; });
}

template <class T>
struct NormGradient {
  const float* scales;
  float* of_heads;  // [rows, states]: the sums over heads, if wanted
  SinkOf<T> to_x;
};

/// The row whose norm a thread handles in a round: the first threads of a block have two pairs of one row each.
template <unsigned lanes>
struct NormedRow {
  unsigned which, row;
  bool inside;
  TwoPairs x;
  float scale;

  template <class T>
  __device__ NormedRow(const RopeHeads<T>& in, const OwnPairs<lanes>& own, const float* scales, unsigned first,
                       unsigned rows)
      : which(threadIdx.x / lanes), row(first + which), inside(which < rows && row < in.rows) {
    x = own.of(in.x.data + row * in.x.stride, inside);
    scale = inside ? scales[row] : 0.0f;
  }
  /// Adds the sums of warps, `sums` [rows of the round, warps of a row, states], and writes the gradient of x; adds the
  /// thread's part of the weight's gradient. All lanes of a warp call.
  template <class T>
  __device__ void norm_backward(const NormGradient<T>& to, const OwnPairs<lanes>& own, const TwoPairs& weight,
                                const float* sums, unsigned warps_of_row, TwoPairs& to_weight) const {
    constexpr unsigned states = 4 * lanes;
    TwoPairs sum{};
    for (unsigned warp = 0; inside && warp < warps_of_row; ++warp) {
      unrolled<2>([&](unsigned e) {
        const float* from = sums + (which * warps_of_row + warp) * states + 2 * own.pair(e);
        const auto part = *reinterpret_cast<const float2*>(from);
        sum.add(e, part.x, part.y);
      });
    }
    float projection = 0;
    unrolled<2>([&](unsigned e) {
      const float2 product{sum.pair[e].x * x.pair[e].x, sum.pair[e].y * x.pair[e].y};
      projection += product.x * weight.pair[e].x + product.y * weight.pair[e].y;
      to_weight.add(e, product.x * scale, product.y * scale);
    });
    const float pull = sum_of_lanes<lanes>(projection) * scale * scale * scale / float(states);
    if (!inside) return;
    if (to.of_heads != nullptr) own.put(sum, to.of_heads + std::size_t{row} * states);
    if (!to.to_x.wanted()) return;
    TwoPairs dx;
    unrolled<2>([&](unsigned e) {
      dx.pair[e] = {sum.pair[e].x * weight.pair[e].x * scale - x.pair[e].x * pull,
                    sum.pair[e].y * weight.pair[e].y * scale - x.pair[e].y * pull};
    });
    own.put(dx, to.to_x.rows.data + row * to.to_x.rows.stride, to.to_x.accumulate);
  }
};

/// Adds `count` vectors that are `distance` apart in shared memory.
__device__ inline void add_vectors(const float* vectors, unsigned count, unsigned distance, unsigned columns,
                                   float* to) {
  for (unsigned column = threadIdx.x; column < columns; column += blockDim.x) {
    float sum = 0;
    for (unsigned i = 0; i < count; ++i) sum += vectors[i * distance + column];
    to[column] = sum;
  }
}

/// Writes the block's sums over its rows: of the bias of all heads, then of the weight, of which the first `parts`
/// groups of lanes have a part each. `shared` holds four numbers a thread.
template <unsigned lanes>
__device__ void leave_partials(const OwnPairs<lanes>& own, const RowBlock& block, unsigned heads, unsigned parts,
                               const TwoPairs& to_bias, const TwoPairs& to_weight, float* shared, float* partials) {
  constexpr unsigned states = 4 * lanes;
  const unsigned of_row = 4 * 32 * block.warps_of_row, columns = heads * states;
  __syncthreads();
  own.put(to_bias, shared + own.row * of_row + own.head * states);
  __syncthreads();
  add_vectors(shared, block.side_by_side, of_row, columns, partials);
  __syncthreads();
  own.put(to_weight, shared + threadIdx.x / lanes * states);
  __syncthreads();
  add_vectors(shared, parts, states, states, partials + columns);
}

// Sums over heads go through shared memory, double-buffered so that one barrier a round suffices. `partials` [blocks,
// heads + 1, states]: sums over the block's rows for the gradients of bias and weight, or null.
template <unsigned lanes, unsigned rotated_pairs, class T>
__global__ void __launch_bounds__(max_threads)
    rope_heads_backward_kernel(RopeHeads<T> in, RowBlock block, NormGradient<T> to, Sink to_theta, float* partials) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) float shared[];
  constexpr unsigned states = 4 * lanes, together = backward_rows<rotated_pairs>;
  const OwnPairs<lanes> own(in.heads, block);
  const TwoPairs weight = own.of(in.weight, true);
  const unsigned step = together * block.side_by_side, warp = threadIdx.x / 32 % block.warps_of_row;
  const bool norms = threadIdx.x / 32 * 32 < step * lanes;  // the whole warp
  float *sums = shared, *next = shared + step * block.warps_of_row * states;
  TwoPairs to_bias{}, to_weight{};
  for (unsigned first = blockIdx.x * step; first < in.rows; first += gridDim.x * step) {
    RowGradient<rotated_pairs> rows[together];
    unrolled<together>([&](unsigned r) {
      rows[r] = RowGradient<rotated_pairs>::of(in, own, to_theta, first + r * block.side_by_side + own.row);
    });
    const NormedRow<lanes> normed(in, own, to.scales, first, step);
    unrolled<together>([&](unsigned r) {
      const unsigned which = r * block.side_by_side + own.row;
      const TwoPairs straight = rows[r].rotate_backward(in, own, to_theta, first + which);
      unrolled<2>([&](unsigned e) { to_bias.add(e, straight.pair[e].x, straight.pair[e].y); });
      leave_sums_of_warp<lanes>(straight, sums + (which * block.warps_of_row + warp) * states);
    });
    __syncthreads();
    if (norms) normed.norm_backward(to, own, weight, sums, block.warps_of_row, to_weight);
    float* const used = sums;
    sums = next;
    next = used;
  }
  if (partials == nullptr) return;
  leave_partials(own, block, in.heads, step, to_bias, to_weight, shared,
                 partials + blockIdx.x * std::size_t{in.heads + 1} * states);
}

/// Sizes that the other kernel does not support: a warp a row.
template <class T>
void rotate_any_heads(const CudaBackend& backend, const RopeHeads<T>& in, const float* bias, float eps, T* out,
                      float* scales) {
  map_rows(backend, "rotate_heads", in.rows, [=] __device__(unsigned row, unsigned lane) {
    float sum = 0;
    for (unsigned n = lane; n < in.states; n += 32) sum += in.x_at(row, n) * in.x_at(row, n);
    const float scale = 1.0f / sqrtf(warp_sum(sum) / float(in.states) + eps);
    if (lane == 0) scales[row] = scale;
    const unsigned pairs = (in.states + 1) / 2;
    for (unsigned i = lane; i < in.heads * pairs; i += 32) {
      const unsigned h = i / pairs, pair = i % pairs, n = 2 * pair;
      const std::size_t at = (std::size_t{row} * in.heads + h) * in.states + n;
      const bool whole = n + 1 < in.states;
      const auto biased = [&](unsigned m) { return in.x_at(row, m) * scale * in.weight[m] + bias[h * in.states + m]; };
      float2 y{biased(n), whole ? biased(n + 1) : 0.0f};
      if (pair < in.pairs) y = rope_forward(y, in.theta[in.angle_at(row, h, pair)]);
      out[at] = static_cast<T>(y.x);
      if (whole) out[at + 1] = static_cast<T>(y.y);
    }
  });
}

// Adds the heads' gradients, rotated back; then the norm's gradient.
template <class T>
void rotate_any_heads_backward(const CudaBackend& backend, const RopeHeads<T>& in, const NormGradient<T>& to,
                               const Sink& to_theta) {
  map_rows(backend, "rotate_heads_backward", in.rows, [=] __device__(unsigned row, unsigned lane) {
    float projection = 0;
    float* mine = to.of_heads + std::size_t{row} * in.states;
    for (unsigned pair = lane; 2 * pair < in.states; pair += 32) {
      float2 sum{0, 0};
      for (unsigned h = 0; h < in.heads; ++h) {
        const float2 part = in.straight(row, h, pair);
        sum.x += part.x;
        sum.y += part.y;
        if (pair >= in.pairs || !to_theta.wanted()) continue;
        to_theta.put(unsigned(in.angle_at(row, h, pair)),
                     angle_gradient(in.load(in.dy, row, h, pair), in.load(in.y, row, h, pair)));
      }
      const unsigned n = 2 * pair;
      mine[n] = sum.x;
      projection += sum.x * in.weight[n] * in.x_at(row, n);
      if (n + 1 == in.states) continue;
      mine[n + 1] = sum.y;
      projection += sum.y * in.weight[n + 1] * in.x_at(row, n + 1);
    }
    const float scale = to.scales[row];
    const float pull = warp_sum(projection) * scale * scale * scale / float(in.states);
    __syncwarp();
    for (unsigned n = lane; to.to_x.wanted() && n < in.states; n += 32)
      to.to_x.put(row, n, mine[n] * in.weight[n] * scale - in.x_at(row, n) * pull);
  });
}

/// Whether pairs of vectors that are `stride` apart can be read at once; true for null.
template <class N>
bool in_pairs(const N* data, std::size_t stride = 2) {
  return data == nullptr || (reinterpret_cast<std::uintptr_t>(data) % (2 * sizeof(N)) == 0 && stride % 2 == 0);
}

/// Enough warps a row for all heads, and for the norms of `normed_rows` rows.
template <unsigned lanes>
RowBlock row_block(unsigned heads, unsigned normed_rows = 0) {
  const unsigned own = blocks_for(heads * lanes, 32), norms = blocks_for(normed_rows * lanes, 32);
  const unsigned warps_of_row = own < norms ? norms : own, side_by_side = unsigned{threads} / 32 / warps_of_row;
  return {warps_of_row, side_by_side == 0 ? 1 : side_by_side};
}

/// Calls body with the lanes of a head and the maximum of rotated pairs of each lane, as compile-time constants; false
/// when states are not a supported number of fours, or `whole` says that pairs cannot be read at once. Few rows are
/// processed one by one.
template <class T, class Body>
bool with_lanes(const RopeHeads<T>& in, bool whole, const Body& body) {
  if (!whole || !in_pairs(in.x.data, in.x.stride) || !in_pairs(in.weight) || !in_pairs(in.y) || !in_pairs(in.dy) ||
      in.heads * in.states > 4 * max_threads)
    return false;
  return with_lanes_of_fours(in.states, [&](auto lanes) {
    with_either<1u, 2u>(in.rows > max_narrow_rows && in.pairs <= lanes, [&](auto pairs) { body(lanes, pairs); });
    return true;
  });
}

/// Blocks of `many` rows each when there are many rows; otherwise, and at least, `at_once` rows.
template <class T>
unsigned blocks_of(const RopeHeads<T>& in, unsigned many, unsigned at_once) {
  return blocks_for(in.rows, in.rows > max_narrow_rows && many > at_once ? many : at_once);
}

/// The gradients of weight and bias in launches of their own.
template <class T>
void sum_weights(const CudaBackend& backend, const RopeHeads<T>& in, const NormGradient<T>& to, const Grad& dweight,
                 const Grad& dbias) {
  constexpr const char* what = "rotate_heads_backward sums";
  if (dweight.wanted()) {
    column_sums(backend, what, in.rows, in.states, dweight, [=] __device__(unsigned row, unsigned n) {
      return to.of_heads[std::size_t{row} * in.states + n] * in.x_at(row, n) * to.scales[row];
    });
  }
  if (dbias.wanted()) {
    column_sums(backend, what, in.rows, in.heads * in.states, dbias, [=] __device__(unsigned row, unsigned column) {
      const unsigned n = column % in.states;
      const float2 pair = in.straight(row, column / in.states, n / 2);
      return n % 2 == 0 ? pair.x : pair.y;
    });
  }
}

/// Shared memory of a backward block: the sums of a round's warps, twice, or all threads' sums over rows.
template <unsigned lanes>
std::size_t shared_bytes(const RowBlock& block, unsigned together) {
  const unsigned sums = 2 * together * block.side_by_side * block.warps_of_row * 4 * lanes, own = 4 * block.threads();
  return (sums < own ? own : sums) * sizeof(float);
}

template <class T>
void rope_heads_backward(CudaBackend& backend, const RopeHeads<T>& in, NormGradient<T> to, const Sink& to_theta,
                         const Grad& dweight, const Grad& dbias) {
  if (in.rows == 0) return;
  // A gradient to be accumulated may still be computed on the side stream, so the sums run there.
  const bool wanted = dweight.wanted() || dbias.wanted();
  const bool sums_weights = wanted && in.rows > max_narrow_rows && !dweight.accumulate && !dbias.accumulate;
  const bool whole = in_pairs(to.to_x.rows.data, to.to_x.rows.stride) && in_pairs(to.of_heads) && to_theta.rows.dense;
  const unsigned weights = (in.heads + 1) * in.states;
  float* partials = nullptr;
  unsigned blocks = 0;
  const bool by_rows = with_lanes(in, whole, [&](auto lanes, auto rotated_pairs) {
    constexpr unsigned together = backward_rows<rotated_pairs>;
    const RowBlock block = row_block<lanes>(in.heads, together);
    const std::size_t bytes = shared_bytes<lanes>(block, together);
    const auto kernel = rope_heads_backward_kernel<lanes, rotated_pairs, T>;
    if (bytes > default_shared_memory)
      allow_shared_memory(reinterpret_cast<const void*>(kernel), int(bytes), "Mamba-3");
    blocks = at_most(blocks_of(in, backward_block_rows, together * block.side_by_side), max_partials / weights);
    NormGradient<T> own = to;
    if (sums_weights) {
      partials = backend.scratch((std::size_t{blocks} + 2 * max_ranges) * weights);
      own.of_heads = nullptr;
    }
    launch(kernel, blocks, block.threads(), bytes, backend.stream(), in, block, own, to_theta, partials);
  });
  if (!by_rows) rotate_any_heads_backward(backend, in, to, to_theta);
  backend.launched("rotate_heads_backward");
  if (partials != nullptr) {
    ColumnSums sums;
    sums.add(in.heads * in.states, dbias);
    sums.add(in.states, dweight, in.heads * in.states);
    return add_partials(backend, "rotate_heads_backward sums", partials, blocks, weights, sums,
                        std::size_t{blocks} * weights);
  }
  const SideStream side(backend);
  sum_weights(backend, in, to, dweight, dbias);
}

}  // namespace

void CudaBackend::rotate_heads(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& theta,
                               double eps, const Tensor& y, const Tensor& inverse) {
  if (x.rows() == 0) return;
  with_stored_type(x, [&]<class T>(T) {
    const RopeHeads<T> in = rope_inputs<T>(x, weight, theta, y, {});
    const float* offset = bias.as<float>();
    const bool by_rows = with_lanes(in, in_pairs(offset), [&](auto lanes, auto rotated_pairs) {
      const RowBlock block = row_block<lanes>(in.heads);
      const unsigned at_once = forward_rows<rotated_pairs> * block.side_by_side;
      launch(*this, "rotate_heads", rope_heads_kernel<lanes, rotated_pairs, T>,
             blocks_of(in, forward_block_rows, at_once), block.threads(), in, block, offset, float(eps), y.as<T>(),
             inverse.as<float>());
    });
    if (!by_rows) rotate_any_heads(*this, in, offset, float(eps), y.as<T>(), inverse.as<float>());
  });
}

void CudaBackend::rotate_heads_backward(const Tensor& x, const Tensor& weight, const Tensor& theta, const Tensor& y,
                                        const Tensor& inverse, const Tensor& dy, const Tensor& sums, const Grad& dx,
                                        const Grad& dweight, const Grad& dbias, const Grad& dtheta) {
  with_stored_type(x, [&]<class T>(T) {
    rope_heads_backward(*this, rope_inputs<T>(x, weight, theta, y, dy),
                        NormGradient<T>{inverse.as<float>(), sums.as<float>(), sink_of<T>(dx)}, sink_of(dtheta),
                        dweight, dbias);
  });
}

}  // namespace afterglow
