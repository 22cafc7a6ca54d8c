// Embedding and cross-entropy of the CPU back end.
#include <cmath>

#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/segments.h"

namespace afterglow {
namespace {

struct RowLosses {};
struct RowHits {};

/// Softmax of one row; returns the loss at `target` (0 when it does not count) and whether it is the first maximum.
template <class T>
double softmax_row(const ArrayMap<T>& logits, std::int32_t target, ArrayMap<T> probabilities, std::int32_t& hit) {
  const T largest = logits.maxCoeff();
  probabilities = (logits - largest).exp();
  const T sum = probabilities.sum();
  probabilities /= sum;
  hit = 0;
  if (target < 0) return 0.0;
  hit = logits[target] == largest && (target == 0 || logits.head(target).maxCoeff() < largest);
  return static_cast<double>(largest) + std::log(static_cast<double>(sum)) - static_cast<double>(logits[target]);
}

/// The same in place: the gradient of that loss overwrites the logits.
template <class T>
double differentiate_row(ArrayMap<T> logits, std::int32_t target, bool to_gradients, std::int32_t& hit) {
  hit = 0;
  if (target < 0) {
    if (to_gradients) logits.setZero();
    return 0.0;
  }
  const T largest = logits.maxCoeff(), own = logits[target];
  hit = own == largest && (target == 0 || logits.head(target).maxCoeff() < largest) ? 3 : 1;
  double sum = 0.0;
  if (to_gradients) {
    logits = (logits - largest).exp();
    const T all = logits.sum();
    logits /= all;
    logits[target] -= T{1};
    sum = static_cast<double>(all);
  } else {
    sum = static_cast<double>((logits - largest).exp().sum());
  }
  return static_cast<double>(largest) + std::log(sum) - static_cast<double>(own);
}

}  // namespace

void CpuBackend::gather_rows(const Tensor& places, const Tensor& a, const Tensor& b, const Tensor& y) {
  const std::int32_t* place = places.as<std::int32_t>();
  for_typed_rows(pool_, a, y.rows(), y.columns(), [&]<class T>(T, std::int64_t r) {
    ArrayMap<T> out = whole_row<T>(y, r);
    if (place[r] < 0) {
      out.setZero();
    } else if (b.defined()) {
      out = whole_row<T>(a, place[r]) + whole_row<T>(b, place[r]);
    } else {
      out = whole_row<T>(a, place[r]);
    }
  });
}

// Threads take rows of the table, not tokens: each row sums the gradients of its tokens from first to last.
void CpuBackend::embedding_backward(const Tensor& tokens, const Tensor& dy, const Grad& dtable) {
  if (!dtable.wanted()) return;
  const std::int32_t* token = tokens.as<std::int32_t>();
  const std::int64_t vocabulary = dtable.tensor.rows(), grain = std::max<std::int64_t>(1, (vocabulary + 15) / 16);
  with_type(dy, [&]<class T>(T) {
    pool_.for_ranges(vocabulary, grain, [&](std::int64_t begin, std::int64_t end) {
      if (!dtable.accumulate) {
        for (std::int64_t r = begin; r < end; ++r) whole_row<T>(dtable.tensor, r).setZero();
      }
      for (std::int64_t i = 0; i < tokens.elements(); ++i) {
        if (token[i] >= begin && token[i] < end) whole_row<T>(dtable.tensor, token[i]) += whole_row<T>(dy, i);
      }
    });
  });
}

void CpuBackend::cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& probabilities,
                               const Tensor& loss, const Tensor& correct, const Tensor& counted) {
  const std::int32_t* target = targets.as<std::int32_t>();
  const std::int64_t rows = logits.rows();
  double* losses = thread_scratch<double, RowLosses>(rows);
  std::int32_t* hits = thread_scratch<std::int32_t, RowHits>(rows);
  with_type(logits, [&]<class T>(T) {
    for_rows(pool_, rows, logits.columns(), [&](std::int64_t r) {
      losses[r] = softmax_row<T>(whole_row<T>(logits, r), target[r], whole_row<T>(probabilities, r), hits[r]);
    });
    double sum = 0.0;
    std::int32_t hit_count = 0, row_count = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      sum += losses[r];
      hit_count += hits[r];
      row_count += target[r] >= 0;
    }
    *loss.as<T>() = static_cast<T>(row_count > 0 ? sum / row_count : 0.0);
    *correct.as<std::int32_t>() = hit_count;
    *counted.as<std::int32_t>() = row_count;
  });
}

void CpuBackend::cross_entropy_backward(const Tensor& probabilities, const Tensor& targets, const Tensor& counted,
                                        const Tensor& dloss, const Grad& dlogits) {
  if (!dlogits.wanted()) return;
  const std::int32_t* target = targets.as<std::int32_t>();
  const std::int32_t count = std::max(1, *counted.as<std::int32_t>());
  with_type(probabilities, [&]<class T>(T) {
    const T share = *dloss.as<T>() / static_cast<T>(count);
    for_rows(pool_, probabilities.rows(), probabilities.columns(), [&](std::int64_t r) {
      const bool counts = target[r] >= 0;
      put_row<T>(dlogits, r, whole_row<T>(probabilities, r) * (counts ? share : T{0}));
      if (counts) row_of<T>(dlogits.tensor, r)[target[r]] -= share;
    });
  });
}

void CpuBackend::answered_rows(const Tensor& targets, const Tensor& places, const Tensor& own, const Tensor& ranks) {
  const std::int32_t* target = targets.as<std::int32_t>();
  std::int32_t *place = places.as<std::int32_t>(), *of_row = own.as<std::int32_t>(), *rank = ranks.as<std::int32_t>();
  const auto room = static_cast<std::int32_t>(places.elements());
  std::int32_t found = 0;
  for (std::int32_t r = 0; r < targets.elements(); ++r) {
    const bool has_place = target[r] >= 0 && found < room;
    rank[r] = has_place ? found : -1;
    if (!has_place) continue;
    place[found] = r;
    of_row[found++] = target[r];
  }
  std::fill(place + found, place + room, -1);
  std::fill(of_row + found, of_row + room, -1);
}

void CpuBackend::cross_entropy_rows(const Tensor& logits, const Tensor& targets, bool to_gradients,
                                    const Tensor& losses, const Tensor& hits) {
  const std::int32_t* target = targets.as<std::int32_t>();
  for_typed_rows(pool_, logits, logits.rows(), logits.columns(), [&]<class T>(T, std::int64_t r) {
    losses.as<T>()[r] = static_cast<T>(
        differentiate_row<T>(whole_row<T>(logits, r), target[r], to_gradients, hits.as<std::int32_t>()[r]));
  });
}

void CpuBackend::cross_entropy_mean(const Tensor& losses, const Tensor& hits, const Tensor& loss, const Tensor& correct,
                                    const Tensor& counted) {
  with_type(losses, [&]<class T>(T) {
    double sum = 0.0;
    std::int32_t right = 0, count = 0;
    for (std::int64_t r = 0; r < losses.elements(); ++r) {
      sum += static_cast<double>(losses.as<T>()[r]);
      right += hits.as<std::int32_t>()[r] / 2;
      count += hits.as<std::int32_t>()[r] % 2;
    }
    *loss.as<T>() = static_cast<T>(count > 0 ? sum / count : 0.0);
    *correct.as<std::int32_t>() = right;
    *counted.as<std::int32_t>() = count;
  });
}

void CpuBackend::cross_entropy_scale(const Tensor& sums, const Tensor& dloss, const Tensor& counted, const Grad& out) {
  if (!out.wanted()) return;
  const std::int32_t count = std::max(1, *counted.as<std::int32_t>());
  with_type(sums, [&]<class T>(T) {
    const T share = *dloss.as<T>() / static_cast<T>(count);
    for_segments(pool_, {sums, out.tensor}, [&](const Segment& s) { put<T>(out, s, share * part<T>(sums, s)); });
  });
}

}  // namespace afterglow
