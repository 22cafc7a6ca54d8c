// The core of Gated KalmaNet on the CPU, forward. The first parallel loop, over heads, computes the states
// before each chunk; the second, over chunks, the norms, the Chebyshev iteration for all tokens, and the readout.
#include "core/backend/cpu/chebyshev.h"

#include "core/backend/cpu/cpu_backend.h"

namespace afterglow {
namespace {

using namespace chebyshev;

struct Forward {};
struct Advance {};

/// H <- e^G H + sum_i e^{G - G_i} k_i k_i^T over the chunk, and the same for S with v_i instead of the second k_i.
template <class T>
void advance_state(const Chunk<T>& chunk, const T* gate, const Block<T>& right, const Block<T>& state) {
  T* memory = thread_scratch<T, Advance>(chunk.count * chunk.width);
  const Block<T> weighted(memory, chunk.count, chunk.width);
  const T last = gate[chunk.count - 1];
  for (std::int64_t i = 0; i < chunk.count; ++i)
    map_of(weighted).row(i) = std::exp(last - gate[i]) * map_of(chunk.k).row(i);
  map_of(state) *= std::exp(last);
  product(true, false, weighted, right, true, state);
}

/// The states before every chunk of one head, one after the other.
template <class T>
void scan_head(const ChebyshevConfig& config, const ChebyshevInputs& in, const Sizes& s, const ChebyshevSaved& saved,
               std::int64_t batch_head) {
  const std::int64_t size = s.width * s.width;
  T* H = saved.H.as<T>() + batch_head * s.chunks * size;
  T* S = saved.S.as<T>() + batch_head * s.chunks * size;
  std::fill_n(H, size, T{0});
  std::fill_n(S, size, T{0});
  for (std::int64_t n = 0; n + 1 < s.chunks; ++n, H += size, S += size) {
    Pieces<T> pieces(thread_scratch<T, Forward>(Chunk<T>::memory(s, 1)));
    const Chunk<T> chunk(config, in, s, batch_head / s.heads, batch_head % s.heads, n, H, S, pieces);
    std::copy_n(H, size, H + size);
    std::copy_n(S, size, S + size);
    advance_state(chunk, chunk.key_gate, chunk.k, {H + size, s.width, s.width});
    advance_state(chunk, chunk.value_gate, chunk.v, {S + size, s.width, s.width});
  }
}

/// p = q + alpha (x - q), then y = scale S^T p, for the tokens of a chunk.
template <class T>
void read_out(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevSaved& saved, Chunk<T>& chunk,
              const Block<T>& p, const Tensor& y) {
  const Block<T> x = chunk.panel(saved.x);
  for (std::int64_t c = 0; c < chunk.count; ++c) {
    const auto q = map_of(chunk.q).row(c);
    map_of(p).row(c) = q + chunk.alpha_of(in.alpha, c) * (map_of(x).row(c) - q);
  }
  chunk.read(chunk.value_gate, chunk.value_mask, p, chunk.S0, false, chunk.k, chunk.v, static_cast<T>(config.scale),
             chunk.panel(y));
}

template <class T>
void solve_chunk(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevSaved& saved, Chunk<T>& chunk,
                 Pieces<T>& pieces, const Tensor& y) {
  chunk.measure(saved.fro, saved.lambda);
  chunk.solve(saved.fro, saved.lambda, chunk.q, chunk.panel(saved.x));
  read_out(config, in, saved, chunk, pieces.block(chunk.count, chunk.width), y);
}

}  // namespace

void CpuBackend::chebyshev_readout(const ChebyshevConfig& config, const ChebyshevInputs& in,
                                   const ChebyshevSaved& saved, const Tensor& y) {
  const Sizes s(config, in);
  with_type(in.q, [&]<class T>(T) {
    const std::int64_t size = s.width * s.width;
    pool_.for_each(s.batch * s.heads, [&](std::int64_t i) { scan_head<T>(config, in, s, saved, i); });
    pool_.for_each(s.pieces(), [&](std::int64_t i) {
      const std::int64_t batch_head = i / s.chunks;
      Pieces<T> pieces(thread_scratch<T, Forward>(Chunk<T>::memory(s, 1)));
      Chunk<T> chunk(config, in, s, batch_head / s.heads, batch_head % s.heads, i % s.chunks,
                     saved.H.as<T>() + i * size, saved.S.as<T>() + i * size, pieces);
      solve_chunk(config, in, saved, chunk, pieces, y);
    });
  });
}

// One token: a chunk of length 1 whose initial state is `state`.
void CpuBackend::chebyshev_step(const ChebyshevConfig& config, const ChebyshevInputs& in, const ChebyshevState& state,
                                const ChebyshevSaved& saved, const Tensor& y) {
  const Sizes s(config, in);
  with_type(in.q, [&]<class T>(T) {
    const std::int64_t size = s.width * s.width;
    pool_.for_each(s.batch * s.heads, [&](std::int64_t i) {
      Pieces<T> pieces(thread_scratch<T, Forward>(Chunk<T>::memory(s, 1)));
      Chunk<T> chunk(config, in, s, i / s.heads, i % s.heads, 0, state.H.as<T>() + i * size, state.S.as<T>() + i * size,
                     pieces);
      solve_chunk(config, in, saved, chunk, pieces, y);
      advance_state(chunk, chunk.key_gate, chunk.k, chunk.H0);
      advance_state(chunk, chunk.value_gate, chunk.v, chunk.S0);
    });
  });
}

}  // namespace afterglow
