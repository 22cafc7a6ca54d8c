// Softmax attention of the CPU back end: blocks of queries against all keys they may attend to, as matrix products.
// Only a block's rows of the score matrix exist at a time; the backward pass computes them again from the saved
// logarithms.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/product.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

constexpr std::int64_t block_rows = 64;

struct ForwardScores {};
struct BackwardScores {};
struct KeyGradients {};

std::int64_t padded(std::int64_t columns) { return (columns + 15) / 16 * 16; }

struct Sizes {
  std::int64_t batch, queries, keys, heads, key_heads, width;
  std::int64_t window;
  Sizes(const Tensor& q, const Tensor& k, std::int64_t newest)
      : batch(q.shape[0]),
        queries(q.shape[1]),
        keys(k.shape[1]),
        heads(q.shape[2]),
        key_heads(k.shape[2]),
        width(q.shape[3]),
        window(newest) {}
  std::int64_t blocks() const { return (queries + block_rows - 1) / block_rows; }
  std::int64_t visible(std::int64_t query) const { return window > 0 ? query + keys - queries + 1 : keys; }
  /// The first key that a query sees.
  std::int64_t first(std::int64_t query) const {
    return window > 0 ? std::max<std::int64_t>(0, visible(query) - window) : 0;
  }
  std::int64_t key_head(std::int64_t head) const { return head / (heads / key_heads); }
};

/// The matrix [time, width] of one head of one sequence in a tensor [B, T, H, D].
template <class T>
Block<T> head_of(const Tensor& tensor, std::int64_t batch, std::int64_t head) {
  const std::int64_t length = tensor.shape[1], heads = tensor.shape[2], width = tensor.shape[3];
  return {tensor.as<T>() + (batch * length * heads + head) * width, length, width, heads * width};
}

template <class T>
ArrayMap<T> row_of_block(const Block<T>& block, std::int64_t row) {
  return {block.data + row * block.stride, block.columns};
}

/// One block of queries of one head.
struct QueryBlock {
  std::int64_t batch, head, begin, count, keys;  // `keys`: how many the last of its queries attends to
  QueryBlock(const Sizes& n, std::int64_t b, std::int64_t h, std::int64_t index)
      : batch(b),
        head(h),
        begin(index * block_rows),
        count(std::min(block_rows, n.queries - begin)),
        keys(n.visible(begin + count - 1)) {}
};

template <class T>
void attend(const Sizes& n, const QueryBlock& at, const Tensor& q, const Tensor& k, const Tensor& v, T scale,
            const Tensor& y, T* log_sum) {
  const Block<T> scores(thread_scratch<T, ForwardScores>(block_rows * padded(n.keys)), at.count, at.keys,
                        padded(n.keys));
  const std::int64_t key_head = n.key_head(at.head);
  product(false, true, head_of<T>(q, at.batch, at.head).row_range(at.begin, at.count),
          head_of<T>(k, at.batch, key_head).row_range(0, at.keys), false, scores);
  for (std::int64_t i = 0; i < at.count; ++i) {
    const std::int64_t seen = n.visible(at.begin + i), first = n.first(at.begin + i);
    ArrayMap<T> row = row_of_block(scores, i);
    auto visible = row.segment(first, seen - first);
    visible *= scale;
    const T largest = visible.maxCoeff();
    visible = (visible - largest).exp();
    const T sum = visible.sum();
    visible *= T{1} / sum;
    row.head(first).setZero();
    row.tail(at.keys - seen).setZero();
    log_sum[at.begin + i] = largest + std::log(sum);
  }
  product(false, false, scores, head_of<T>(v, at.batch, key_head).row_range(0, at.keys), false,
          head_of<T>(y, at.batch, at.head).row_range(at.begin, at.count));
}

template <class T>
void put_block(const Block<T>& values, bool accumulate, const Block<T>& target) {
  for (std::int64_t i = 0; i < values.rows; ++i) put_into(row_of_block(target, i), row_of_block(values, i), accumulate);
}

struct AttentionGradients {
  const Tensor &q, &k, &v, &y, &log_sum, &dy;
  const Grad &dq, &dk, &dv;
};

/// Gradients of one block of queries: its dq, and its share of dk and dv.
template <class T>
void attend_backward(const Sizes& n, const QueryBlock& at, const AttentionGradients& g, T scale, const Block<T>& dk,
                     const Block<T>& dv) {
  const std::int64_t stride = padded(n.keys), key_head = n.key_head(at.head);
  T* memory = thread_scratch<T, BackwardScores>(block_rows * (2 * stride + n.width));
  const Block<T> weights(memory, at.count, at.keys, stride);
  const Block<T> slopes(memory + block_rows * stride, at.count, at.keys, stride);
  const Block<T> dq(memory + 2 * block_rows * stride, at.count, n.width);
  const Block<T> q = head_of<T>(g.q, at.batch, at.head).row_range(at.begin, at.count);
  const Block<T> y = head_of<T>(g.y, at.batch, at.head).row_range(at.begin, at.count);
  const Block<T> dy = head_of<T>(g.dy, at.batch, at.head).row_range(at.begin, at.count);
  const Block<T> k = head_of<T>(g.k, at.batch, key_head).row_range(0, at.keys);
  product(false, true, q, k, false, weights);
  product(false, true, dy, head_of<T>(g.v, at.batch, key_head).row_range(0, at.keys), false, slopes);
  const T* log_sum = g.log_sum.as<T>() + (at.batch * n.heads + at.head) * n.queries + at.begin;
  for (std::int64_t i = 0; i < at.count; ++i) {
    const std::int64_t seen = n.visible(at.begin + i), hidden = at.keys - seen, first = n.first(at.begin + i);
    ArrayMap<T> weight = row_of_block(weights, i), slope = row_of_block(slopes, i);
    const T mean = (row_of_block(dy, i) * row_of_block(y, i)).sum();
    weight.head(seen) = (weight.head(seen) * scale - log_sum[i]).exp();
    slope.head(seen) = weight.head(seen) * (slope.head(seen) - mean) * scale;
    for (ArrayMap<T>* row : {&weight, &slope}) {
      row->head(first).setZero();
      row->tail(hidden).setZero();
    }
  }
  if (g.dv.wanted()) product(true, false, weights, dy, true, dv.row_range(0, at.keys));
  if (g.dk.wanted()) product(true, false, slopes, q, true, dk.row_range(0, at.keys));
  if (!g.dq.wanted()) return;
  product(false, false, slopes, k, false, dq);
  put_block(dq, g.dq.accumulate, head_of<T>(g.dq.tensor, at.batch, at.head).row_range(at.begin, at.count));
}

}  // namespace

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, std::int64_t window,
                           const Tensor& y, const Tensor& log_sum) {
  const Sizes n(q, k, window);
  with_type(q, [&]<class T>(T) {
    pool_.for_each(n.batch * n.heads * n.blocks(), [&](std::int64_t i) {
      const std::int64_t sequence = i / n.blocks();  // batch and head
      const QueryBlock at(n, sequence / n.heads, sequence % n.heads, i % n.blocks());
      attend(n, at, q, k, v, static_cast<T>(scale), y, log_sum.as<T>() + sequence * n.queries);
    });
  });
}

// One thread computes one key head of one sequence, so the sums over its queries have a fixed order.
void CpuBackend::attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                    std::int64_t window, const Tensor& y, const Tensor& log_sum, const Tensor& dy,
                                    const Grad& dq, const Grad& dk, const Grad& dv) {
  const Sizes n(q, k, window);
  const AttentionGradients gradients{q, k, v, y, log_sum, dy, dq, dk, dv};
  with_type(q, [&]<class T>(T) {
    pool_.for_each(n.batch * n.key_heads, [&](std::int64_t i) {
      const std::int64_t batch = i / n.key_heads, key_head = i % n.key_heads, group = n.heads / n.key_heads;
      T* memory = thread_scratch<T, KeyGradients>(2 * n.keys * n.width);
      std::fill_n(memory, 2 * n.keys * n.width, T{0});
      const Block<T> key_sums(memory, n.keys, n.width), value_sums(memory + n.keys * n.width, n.keys, n.width);
      for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
        for (std::int64_t block = 0; block < n.blocks(); ++block)
          attend_backward(n, QueryBlock(n, batch, head, block), gradients, static_cast<T>(scale), key_sums, value_sums);
      }
      if (dk.wanted()) put_block(key_sums, dk.accumulate, head_of<T>(dk.tensor, batch, key_head));
      if (dv.wanted()) put_block(value_sums, dv.accumulate, head_of<T>(dv.tensor, batch, key_head));
    });
  });
}

}  // namespace afterglow
