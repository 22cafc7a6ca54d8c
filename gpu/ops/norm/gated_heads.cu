// The gate of heads, y = x silu(z), or y = RMSNorm(x) weight silu(z) over each head. Memory-bound: a block takes whole
// rows of all heads, a few lanes a head, and with many rows also sums the gradient of the weight. Heads of other sizes
// run one warp each.
#include "gpu/tile/columns.cuh"
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

// With many rows: rows of a block at a time, and in all when it sums their gradient (few, so that blocks that start
// late, after work of other streams, have little left to do); threads of a block.
constexpr unsigned many_together = 4, many_rows = 8, max_block = 512;
constexpr unsigned max_sums = 1024,
                   max_partials = 1 << 22;  // blocks that sum a gradient of few rows; size of all partial sums

/// T is the stored type of x, z and y.
template <class T>
struct GatedHeads {
  Rows<T> x, z, dy;  // of x and dy a row is a head
  const float* weight;
  float* inverse;
  unsigned rows, heads, width;
  bool one_weight;  // for all heads

  __device__ unsigned columns() const { return heads * width; }
  /// Number p of head i, counted over all rows: of x, dy and z.
  __device__ float x_of(unsigned i, unsigned p) const { return float(x.at(i, p)); }
  __device__ float dy_of(unsigned i, unsigned p) const { return float(dy.at(i, p)); }
  __device__ float z_of(unsigned i, unsigned p) const { return float(z.at(i / heads, i % heads * width + p)); }
  /// The weight's index for a column of all heads.
  __device__ unsigned weight_of(unsigned column) const { return one_weight ? column % width : column; }
};

template <class T>
GatedHeads<T> gated_inputs(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                           const Tensor& dy) {
  return {rows_of<T>(x),        rows_of<T>(z),         rows_of<T>(dy),
          weight.as<float>(),   inverse.as<float>(),   unsigned(z.rows()),
          unsigned(x.shape[2]), unsigned(x.columns()), weight.defined() && weight.elements() == x.columns()};
}

__device__ inline float inverse_root(float squares, unsigned width, float eps) {
  return 1.0f / sqrtf(squares / float(width) + eps);
}

/// Gradients of x and z for one number, with `pull` as in the kernels.
struct ToGated {
  float x, z;
  __device__ ToGated(float x_of, const Silu& gate, float above, float factor, float pull)
      : x(above * gate.value * factor - x_of * pull), z(above * x_of * factor * gate.slope) {}
};

/// Heads of four numbers a lane; a thread has the same columns of every row.
template <unsigned lanes>
struct OwnColumns {
  using P = Piece<4>;
  unsigned column, head;
  bool inside;
  P weight;

  template <class T>
  __device__ explicit OwnColumns(const GatedHeads<T>& in) : column(4 * threadIdx.x), head(threadIdx.x / lanes) {
    inside = column < in.columns();
    weight = {{1, 1, 1, 1}};
    if (in.weight != nullptr) weight = P::of(in.weight + in.weight_of(column), inside);
  }
  /// A thread's numbers of a row of all heads, in a tensor whose rows are heads.
  template <class T>
  __device__ P of_heads(const Rows<T>& rows, const GatedHeads<T>& in, unsigned row) const {
    return P::of(rows.data + std::size_t{row} * in.columns() + column, inside && row < in.rows);
  }
  template <class T>
  __device__ P of_gate(const GatedHeads<T>& in, unsigned row) const {
    return P::of(in.z, row, column, inside && row < in.rows);
  }
};

template <unsigned lanes, unsigned together, class T>
__global__ void __launch_bounds__(max_block) gated_heads_kernel(GatedHeads<T> in, float eps, Rows<T> y) {
  wait_for_previous_kernel();
  using P = Piece<4>;
  const OwnColumns<lanes> own(in);
  for (unsigned row = blockIdx.x * together; row < in.rows; row += gridDim.x * together) {
    P x[together], z[together];
    unrolled<together>([&](unsigned r) {
      x[r] = own.of_heads(in.x, in, row + r);
      z[r] = own.of_gate(in, row + r);
    });
#pragma unroll
    for (unsigned r = 0; r < together; ++r) {
      float scale = 1;
      const bool inside = own.inside && row + r < in.rows;
      if (in.weight != nullptr) {
        scale = inverse_root(sum_of_lanes<lanes>(product_of(x[r], x[r])), in.width, eps);
        if (inside && threadIdx.x % lanes == 0) in.inverse[(row + r) * in.heads + own.head] = scale;
      }
      if (!inside) continue;
      unrolled<4>([&](unsigned e) { x[r].v[e] *= scale * own.weight.v[e] * silu<T>(z[r].v[e]); });
      x[r].store(y.data + std::size_t{row + r} * in.columns() + own.column);
    }
  }
}

// With c = dy silu(z) weight: dx = inverse c - x inverse^3 mean(c x). `partials` [blocks, weights]: sums over the
// block's rows for the gradient of the weight, or null.
template <unsigned lanes, unsigned together, class T>
__global__ void __launch_bounds__(max_block)
    gated_heads_backward_kernel(GatedHeads<T> in, SinkOf<T> to_x, SinkOf<T> to_z, float* partials) {
  wait_for_previous_kernel();
  using P = Piece<4>;
  const OwnColumns<lanes> own(in);
  P to_weight = {};
  for (unsigned row = blockIdx.x * together; row < in.rows; row += gridDim.x * together) {
    P x[together], z[together], above[together];
    float scale[together];
    unrolled<together>([&](unsigned r) {
      x[r] = own.of_heads(in.x, in, row + r);
      z[r] = own.of_gate(in, row + r);
      above[r] = own.of_heads(in.dy, in, row + r);
      const bool has_scale = in.weight != nullptr && own.inside && row + r < in.rows;
      scale[r] = has_scale ? in.inverse[(row + r) * in.heads + own.head] : 1.0f;
    });
#pragma unroll
    for (unsigned r = 0; r < together; ++r) {
      Silu gate[4];
      unrolled<4>([&](unsigned e) { gate[e] = silu_with_slope<T>(z[r].v[e]); });
      float pull = 0;
      if (in.weight != nullptr) {
        unrolled<4>([&](unsigned e) {
          const float product = above[r].v[e] * gate[e].value * x[r].v[e];
          pull += product * own.weight.v[e];
          to_weight.v[e] += product * scale[r];
        });
        pull = sum_of_lanes<lanes>(pull) * scale[r] * scale[r] * scale[r] / float(in.width);
      }
      if (!own.inside || row + r >= in.rows) continue;
      P of_x, of_z;
      unrolled<4>([&](unsigned e) {
        const ToGated to(x[r].v[e], gate[e], above[r].v[e], own.weight.v[e] * scale[r], pull);
        of_x.v[e] = to.x;
        of_z.v[e] = to.z;
      });
      if (to_x.wanted()) of_x.put(to_x, (row + r) * in.heads + own.head, own.column % in.width);
      if (to_z.wanted()) of_z.put(to_z, row + r, own.column);
    }
  }
  if (partials == nullptr) return;
  if (!in.one_weight) {
    if (own.inside) to_weight.store(partials + blockIdx.x * std::size_t{in.columns()} + own.column);
    return;
  }
  __shared__ __align__(16) float sums[4 * max_block];
  to_weight.store(sums + own.column);
  __syncthreads();
  for (unsigned p = threadIdx.x; p < in.width; p += blockDim.x) {
    float sum = 0;
    for (unsigned head = 0; head < in.heads; ++head) sum += sums[head * in.width + p];
    partials[blockIdx.x * std::size_t{in.width} + p] = sum;
  }
}

// Heads of other sizes, a warp each.
template <class T>
void gate_any_heads(const CudaBackend& backend, const GatedHeads<T>& in, float eps, const Rows<T>& y) {
  map_rows(backend, "gated_heads", std::int64_t{in.rows} * in.heads, [=] __device__(unsigned i, unsigned lane) {
    const unsigned first = i % in.heads * in.width;
    float scale = 1;
    if (in.weight != nullptr) {
      float squares = 0;
      for (unsigned p = lane; p < in.width; p += 32) squares += in.x_of(i, p) * in.x_of(i, p);
      scale = inverse_root(warp_sum(squares), in.width, eps);
      if (lane == 0) in.inverse[i] = scale;
    }
    for (unsigned p = lane; p < in.width; p += 32) {
      const float factor = in.weight != nullptr ? scale * in.weight[in.weight_of(first + p)] : 1.0f;
      y.at(i, p) = static_cast<T>(in.x_of(i, p) * factor * silu<T>(in.z_of(i, p)));
    }
  });
}

template <class T>
void gate_any_heads_backward(const CudaBackend& backend, const GatedHeads<T>& in, const SinkOf<T>& to_x,
                             const SinkOf<T>& to_z) {
  map_rows(backend, "gated_heads_backward", std::int64_t{in.rows} * in.heads,
           [=] __device__(unsigned i, unsigned lane) {
             const unsigned row = i / in.heads, first = i % in.heads * in.width;
             const float scale = in.weight != nullptr ? in.inverse[i] : 1.0f;
             float pull = 0;
             if (in.weight != nullptr) {
               for (unsigned p = lane; p < in.width; p += 32) {
                 const float gated = in.dy_of(i, p) * silu<T>(in.z_of(i, p));
                 pull += gated * in.weight[in.weight_of(first + p)] * in.x_of(i, p);
               }
               pull = warp_sum(pull) * scale * scale * scale / float(in.width);
             }
             for (unsigned p = lane; p < in.width; p += 32) {
               const float factor = in.weight != nullptr ? in.weight[in.weight_of(first + p)] * scale : 1.0f;
               const ToGated to(in.x_of(i, p), silu_with_slope<T>(in.z_of(i, p)), in.dy_of(i, p), factor, pull);
               if (to_x.wanted()) to_x.put(i, p, to.x);
               if (to_z.wanted()) to_z.put(row, first + p, to.z);
             }
           });
}

/// Calls body with the lanes of a head and the rows of a block at a time, as compile-time constants; false when heads
/// are not a supported number of fours, or `whole` says that rows cannot be read so.
template <class T, class Body>
bool with_head_lanes(const GatedHeads<T>& in, bool whole, const Body& body) {
  const auto is_wide = [](const Rows<T>& rows) { return rows.data == nullptr || (in_pieces<4>(rows) && rows.dense); };
  if (!whole || !is_wide(in.x) || !is_wide(in.dy) || !in_pieces<4>(in.z) || in.heads * in.width > 4 * max_block ||
      reinterpret_cast<std::uintptr_t>(in.weight) % 16 != 0)
    return false;
  return with_lanes_of_fours(in.width, [&](auto lanes) {
    with_either<many_together, 1u>(in.rows > max_narrow_rows, [&](auto together) { body(lanes, together); });
    return true;
  });
}

template <class T>
unsigned block_of(const GatedHeads<T>& in) {
  return blocks_for(in.heads * in.width, 4 * 32) * 32;
}

/// The number of gradient blocks; if they sum the weight's gradient, at most as many as partial sums have room for.
template <class T>
unsigned gradient_blocks(const GatedHeads<T>& in, bool sums_weight, unsigned weights) {
  if (in.rows <= max_narrow_rows) return sums_weight ? at_most(in.rows, max_sums) : in.rows;
  if (!sums_weight) return blocks_for(in.rows, many_together);
  return at_most(blocks_for(in.rows, many_rows), max_partials / weights);
}

/// The gradient of the weight in a launch of its own: over rows of all heads, or over heads if they share it.
template <class T>
void sum_head_weight(const CudaBackend& backend, const GatedHeads<T>& in, const Grad& dweight) {
  const unsigned columns = in.one_weight ? in.width : in.heads * in.width, heads_of_row = in.one_weight ? 1 : in.heads;
  column_sums(backend, "gated_heads_backward", in.rows * in.heads / heads_of_row, columns, dweight,
              [=] __device__(unsigned row, unsigned column) {
                const unsigned i = row * heads_of_row + column / in.width, p = column % in.width;
                return in.dy_of(i, p) * silu<T>(in.z_of(i, p)) * in.x_of(i, p) * in.inverse[i];
              });
}

/// The gradients of x, z and the weight; `weights`: size of the weight, if there is one.
template <class T>
void gate_heads_backward(CudaBackend& backend, const GatedHeads<T>& in, const SinkOf<T>& to_x, const SinkOf<T>& to_z,
                         const Grad& dweight, unsigned weights) {
  if (in.rows == 0) return;
  // A gradient to be accumulated may still be computed on the side stream, so its sum runs there. So does that of few
  // rows and many weights.
  const bool sums_weight = dweight.wanted() && !dweight.accumulate && (in.rows > max_narrow_rows || in.one_weight);
  const unsigned blocks = gradient_blocks(in, sums_weight, weights);
  float* partials = nullptr;
  const bool by_rows =
      with_head_lanes(in, in_pieces<4>(to_x.rows) && in_pieces<4>(to_z.rows), [&](auto lanes, auto together) {
        if (sums_weight) partials = backend.scratch((std::size_t{blocks} + max_ranges) * weights);
        launch(gated_heads_backward_kernel<lanes, together, T>, blocks, block_of(in), 0, backend.stream(), in, to_x,
               to_z, partials);
      });
  if (!by_rows) gate_any_heads_backward(backend, in, to_x, to_z);
  if (partials != nullptr) {
    ColumnSums sums;
    sums.add(weights, dweight);
    add_partials(backend, "gated_heads_backward", partials, blocks, weights, sums, std::size_t{blocks} * weights);
  } else if (dweight.wanted()) {
    const SideStream side(backend);
    sum_head_weight(backend, in, dweight);
  }
}

}  // namespace

void CudaBackend::gated_heads(const Tensor& x, const Tensor& z, const Tensor& weight, double eps, const Tensor& y,
                              const Tensor& inverse) {
  if (z.rows() == 0) return;
  with_stored_type(x, [&]<class T>(T) {
    const GatedHeads<T> in = gated_inputs<T>(x, z, weight, inverse, {});
    const Rows<T> to = rows_of<T>(y);
    const bool by_rows = with_head_lanes(in, in_pieces<4>(to) && to.dense, [&](auto lanes, auto together) {
      launch(*this, "gated_heads", gated_heads_kernel<lanes, together, T>, blocks_for(in.rows, together), block_of(in),
             in, float(eps), to);
    });
    if (!by_rows) gate_any_heads(*this, in, float(eps), to);
  });
}

void CudaBackend::gated_heads_backward(const Tensor& x, const Tensor& z, const Tensor& weight, const Tensor& inverse,
                                       const Tensor& dy, const Grad& dx, const Grad& dz, const Grad& dweight) {
  with_stored_type(x, [&]<class T>(T) {
    gate_heads_backward(*this, gated_inputs<T>(x, z, weight, inverse, dy), sink_of<T>(dx), sink_of<T>(dz), dweight,
                        unsigned(weight.defined() ? weight.elements() : 1));
  });
  launched("gated_heads_backward");
}

}  // namespace afterglow
