// Softmax attention of a few queries in float32, y = sum over j of softmax_j(scale q . k_j) v_j. Eight lanes process a
// key, a block 16 keys at a time. Long caches are split into pieces; a second kernel adds their sums in order. Grid:
// (queries of all heads and sequences, pieces).
#include <algorithm>

#include "gpu/ops/attention/decoding.cuh"
#include "gpu/tile/lanes.cuh"

namespace afterglow::device {
namespace {

constexpr int block = 128, lanes = 8, groups = block / lanes;
constexpr int min_keys = 256;     // of a piece
constexpr int max_blocks = 1024;  // more pieces than that do not make the GPU busier

struct DecodingPosition {
  int query, h, b;
  __device__ explicit DecodingPosition(const Decoding& in)
      : query(int(blockIdx.x) % in.queries),
        h(int(blockIdx.x) / in.queries % in.heads),
        b(int(blockIdx.x) / in.queries / in.heads) {}
  __device__ std::size_t row(const Decoding& in) const { return std::size_t(b) * in.queries + query; }
};

/// The reference of weights; 0 when no key was seen.
__device__ float finite(float largest) { return largest == -INFINITY ? 0.0f : largest; }

/// Partial softmax over some keys: the maximum score (in base 2), the sum of weights 2^{score - largest}, and this
/// lane's columns of the sum of weights times values.
template <int columns>
struct Sum {
  static constexpr int fours = columns / (4 * lanes);
  using Part = float[fours][4];

  Part values = {};
  float largest = -INFINITY, total = 0;

  static __device__ int column(int four) { return (four * lanes + int(threadIdx.x) % lanes) * 4; }
  static __device__ void read(const tiles::Operand& from, std::size_t row, int head, bool valid, Part& to) {
    const float* numbers = from.at(row, head);
    unrolled<fours>([&](int i) { tiles::read_part(from, numbers, column(i), valid, to[i]); });
  }
  /// Adds one key for every group of lanes with a `valid` one.
  __device__ void add(const Decoding& in, const Part& q, std::size_t row, int head, bool valid) {
    Part k, v;
    read(in.k, row, head, valid, k);
    read(in.v, row, head, valid, v);
    float score = 0;
    unrolled<fours, 4>([&](int i, int j) { score += q[i][j] * k[i][j]; });
    score = sum_of_lanes<lanes>(score);  // of all lanes, also those without a valid key
    score = valid ? in.scale * 1.44269504f * score : -INFINITY;
    const float before = largest;
    largest = fmaxf(largest, score);
    const float shrink = exp2f(before - finite(largest)), weight = exp2f(score - finite(largest));
    total = shrink * total + weight;
    unrolled<fours, 4>([&](int i, int j) { values[i][j] = shrink * values[i][j] + weight * v[i][j]; });
  }
};

/// Joint maximum and sum of weights of `count` partial sums; of(i) returns those of one.
struct Joined {
  float largest = -INFINITY, total = 0;
  template <class Of>
  __device__ Joined(int count, const Of& of) {
    for (int i = 0; i < count; ++i) largest = fmaxf(largest, of(i).x);
    for (int i = 0; i < count; ++i) total += weight(of(i).x) * of(i).y;
  }
  __device__ float weight(float other) const { return exp2f(other - finite(largest)); }
};

/// Writes y and log_sum from the sums of all keys; value(c) is that of column c.
template <class Value>
__device__ void put_answer(const Decoding& in, const Joined& all, const Value& value) {
  const DecodingPosition at(in);
  for (int c = int(threadIdx.x); c < in.v.width; c += block)
    in.y.at(at.row(in), at.h * in.v.width + c) = all.total > 0 ? value(c) / all.total : 0.0f;
  if (threadIdx.x == 0)
    in.log_sum[(std::size_t(at.b) * in.heads + at.h) * in.queries + at.query] =
        (all.largest + log2f(all.total)) * 0.693147181f;
}

/// The sums of this block's piece of the keys, one for each group of lanes.
template <int columns>
__device__ Sum<columns> sum_piece(const Decoding& in) {
  const DecodingPosition at(in);
  const int pieces = int(gridDim.y), share = (in.keys - in.first_key() + pieces - 1) / pieces;
  const int piece = in.first_key() + int(blockIdx.y) * share, begin = max(piece, at.query + in.since);
  const int end = min(min(in.keys, at.query + in.offset), piece + share);
  typename Sum<columns>::Part q;
  Sum<columns>::read(in.q, at.row(in), at.h, true, q);
  Sum<columns> sum;
#pragma unroll 2
  for (int first = begin; first < end; first += groups) {
    const int key = first + int(threadIdx.x) / lanes;
    const std::size_t row = std::size_t(at.b) * in.keys + min(key, end - 1);
    sum.add(in, q, row, at.h / (in.heads / in.key_heads), key < end);
  }
  return sum;
}

/// blockIdx.x counts queries, blockIdx.y pieces. With several pieces each writes its sums to `partials`
/// [places,pieces,2 + D].
template <int columns>
__global__ void __launch_bounds__(block) decode_kernel(Decoding in, float* partials) {
  wait_for_previous_kernel();
  __shared__ float2 scores[groups];
  __shared__ alignas(16) float values[groups][columns];
  const Sum<columns> sum = sum_piece<columns>(in);
  const int group = int(threadIdx.x) / lanes;
  if (threadIdx.x % lanes == 0) scores[group] = {sum.largest, sum.total};
  unrolled<sum.fours>([&](int i) {
    *reinterpret_cast<float4*>(&values[group][sum.column(i)]) = {sum.values[i][0], sum.values[i][1], sum.values[i][2],
                                                                 sum.values[i][3]};
  });
  __syncthreads();
  const Joined all(groups, [&](int i) { return scores[i]; });
  const auto value = [&](int c) {
    float whole = 0;
    for (int i = 0; i < groups; ++i) whole += all.weight(scores[i].x) * values[i][c];
    return whole;
  };
  if (gridDim.y == 1) return put_answer(in, all, value);
  float* partial = partials + (std::size_t(blockIdx.x) * gridDim.y + blockIdx.y) * (in.v.width + 2);
  for (int c = int(threadIdx.x); c < in.v.width; c += block) partial[2 + c] = value(c);
  if (threadIdx.x != 0) return;
  partial[0] = all.largest;
  partial[1] = all.total;
}

/// Adds the sums of the pieces of one query.
__global__ void __launch_bounds__(block) join_kernel(Decoding in, const float* partials, int pieces) {
  wait_for_previous_kernel();
  const int stride = in.v.width + 2;
  partials += std::size_t(blockIdx.x) * pieces * stride;
  const Joined all(pieces, [&](int i) { return float2{partials[i * stride], partials[i * stride + 1]}; });
  put_answer(in, all, [&](int c) {
    float whole = 0;
    for (int i = 0; i < pieces; ++i) whole += all.weight(partials[i * stride]) * partials[i * stride + 2 + c];
    return whole;
  });
}

int pieces_of(const Decoding& in) {
  const int keys = in.keys - in.first_key();
  return std::max(1, std::min((keys + min_keys - 1) / min_keys, max_blocks / in.places()));
}

}  // namespace

std::size_t decoding_elements(const Decoding& in) {
  const int pieces = pieces_of(in);
  return pieces > 1 ? std::size_t(in.places()) * pieces * (in.v.width + 2) : 0;
}

void decode(cudaStream_t stream, const Decoding& in, float* partials) {
  const int pieces = pieces_of(in);
  const dim3 grid(unsigned(in.places()), unsigned(pieces));
  with_capacity<32, 64, 128, max_few_width>(
      in.v.width, [&](auto columns) { launch(decode_kernel<columns()>, grid, block, 0, stream, in, partials); });
  if (pieces > 1) launch(join_kernel, grid.x, block, 0, stream, in, partials, pieces);
}

}  // namespace afterglow::device
