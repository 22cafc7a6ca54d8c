// Mamba-1's selective scan, h_t = exp(dt_t A) h_{t-1} + dt_t x_t B_t, y_t = C_t . h_t + D x_t for each channel [B,T,C]
// with N states. Grid: (eight channels, sequences); 16 lanes a channel, each with some of its states. The backward pass
// keeps the state before every 32 tokens and computes the states between again; sums over channels are partial sums of
// a block, which a second kernel adds in order.
#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr int lanes = 16, channels_of_block = 8, max_states = 256, states_of_lane = max_states / lanes, piece = 32;

struct ChannelSizes {
  int batch, tokens, channels, states;
  int blocks() const { return (channels + channels_of_block - 1) / channels_of_block; }
  int pieces() const { return (tokens + piece - 1) / piece; }
  __host__ __device__ std::size_t all_states() const { return std::size_t(batch) * channels * states; }
};

struct ChannelArrays {
  Rows<const float> x, dt, B, C;
  const float *A_log, *D;
};

/// The place of a thread: a lane of channel c of sequence b. A channel behind the last computes as the last does.
struct Lane {
  int b, c, lane;
  bool is_there;
  std::size_t index;  // of the channel among those of all sequences
  __device__ explicit Lane(const ChannelSizes& s)
      : b(int(blockIdx.y)),
        c(int(blockIdx.x) * channels_of_block + int(threadIdx.x) / lanes),
        lane(int(threadIdx.x) % lanes),
        is_there(c < s.channels) {
    c = is_there ? c : s.channels - 1;
    index = std::size_t(b) * s.channels + c;
  }
};

/// The states of a lane, of one channel.
struct LaneStates {
  const ChannelSizes& s;
  const ChannelArrays& in;
  const Lane& own;
  float h[states_of_lane] = {}, rate[states_of_lane] = {};

  __device__ LaneStates(const ChannelSizes& sizes, const ChannelArrays& arrays, const Lane& place)
      : s(sizes), in(arrays), own(place) {
    each([&](int i, int n) { rate[i] = -expf(in.A_log[own.c * std::size_t(s.states) + n]); });
  }
  /// Calls body(i, n) for state n, which this lane holds as its i-th.
  template <class Body>
  __device__ void each(const Body& body) const {
    unrolled<states_of_lane>([&](int i) {
      if (own.lane + i * lanes < s.states) body(i, own.lane + i * lanes);
    });
  }
  __device__ void load(const float* from) {
    each([&](int i, int n) { h[i] = own.is_there ? from[own.index * s.states + n] : 0.0f; });
  }
  __device__ void store(float* to) const {
    each([&](int i, int n) {
      if (own.is_there) to[own.index * s.states + n] = h[i];
    });
  }
  __device__ void advance(std::size_t row, float x, float step) {
    each([&](int i, int n) { h[i] = expf(rate[i] * step) * h[i] + step * x * in.B.at(row, n); });
  }
};

__global__ void __launch_bounds__(lanes* channels_of_block)
    channel_kernel(ChannelSizes s, ChannelArrays in, float* y, float* state, bool resume) {
  const Lane own(s);
  LaneStates states(s, in, own);
  if (resume) states.load(state);
  for (int t = 0; t < s.tokens; ++t) {
    const std::size_t row = std::size_t(own.b) * s.tokens + t;
    const float x = in.x.at(row, own.c);
    states.advance(row, x, in.dt.at(row, own.c));
    float sum = 0;
    states.each([&](int i, int n) { sum += states.h[i] * in.C.at(row, n); });
    sum = sum_of_lanes<lanes>(sum);
    if (own.is_there && own.lane == 0) y[row * s.channels + own.c] = sum + in.D[own.c] * x;
  }
  if (state != nullptr) states.store(state);
}

/// Parts of the workspace.
struct ChannelParts {
  float *dB, *dC;      // [B,blocks,T,N]
  float *dA_log, *dD;  // [B,c,N], [B,c]
  float* before;       // [pieces,B,c,N]: the states in front of each piece
  float* inside;       // [piece,B,c,N]: the states behind each token of a piece
  ChannelParts(float* workspace, const ChannelSizes& s) : dB(workspace) {
    const std::size_t shared = std::size_t(s.batch) * s.blocks() * s.tokens * s.states;
    dC = dB + shared;
    dA_log = dC + shared;
    dD = dA_log + s.all_states();
    before = dD + std::size_t(s.batch) * s.channels;
    inside = before + s.pieces() * s.all_states();
  }
  static std::size_t count(const ChannelSizes& s) {
    return 2 * std::size_t(s.batch) * s.blocks() * s.tokens * s.states + std::size_t(s.batch) * s.channels +
           (1 + s.pieces() + piece) * s.all_states();
  }
};

struct ChannelSinks {
  Sink x, dt, B, C, A_log, D;
};

// Each lane reads the states that it wrote itself.
__global__ void __launch_bounds__(lanes* channels_of_block)
    channel_backward_kernel(ChannelSizes s, ChannelArrays in, const float* dy, ChannelParts parts, ChannelSinks out) {
  __shared__ float shares[2][channels_of_block][max_states];
  const Lane own(s);
  LaneStates states(s, in, own);
  const std::size_t all = s.all_states(), base = own.index * s.states;
  const int channel_of_block = int(threadIdx.x) / lanes;
  float flow[states_of_lane] = {}, dA[states_of_lane] = {}, dD = 0;
  const auto advance = [&](int t) {
    const std::size_t row = std::size_t(own.b) * s.tokens + t;
    states.advance(row, in.x.at(row, own.c), in.dt.at(row, own.c));
  };
  for (int t = 0; t < s.tokens; ++t) {
    if (t % piece == 0) states.store(parts.before + t / piece * all);
    advance(t);
  }
  for (int end = s.tokens; end > 0;) {
    const int begin = (end - 1) / piece * piece;
    const float* const first = parts.before + begin / piece * all;
    states.load(first);
    for (int t = begin; t < end; ++t) {
      advance(t);
      states.store(parts.inside + (t - begin) * all);
    }
    for (int t = end - 1; t >= begin; --t) {
      const std::size_t row = std::size_t(own.b) * s.tokens + t;
      const float x = in.x.at(row, own.c), step = in.dt.at(row, own.c),
                  up = own.is_there ? dy[row * s.channels + own.c] : 0.0f;
      const float *here = parts.inside + (t - begin) * all + base, *before = t == begin ? first + base : here - all;
      float dinput = 0, fading = 0;
      __syncthreads();
      states.each([&](int i, int n) {
        flow[i] += up * in.C.at(row, n);
        shares[0][channel_of_block][n] = step * x * flow[i];
        shares[1][channel_of_block][n] = own.is_there ? up * here[n] : 0.0f;
        dinput += flow[i] * in.B.at(row, n);
        flow[i] *= expf(states.rate[i] * step);
        const float fade = own.is_there ? states.rate[i] * flow[i] * before[n] : 0.0f;
        fading += fade;
        dA[i] += step * fade;
      });
      dinput = sum_of_lanes<lanes>(dinput);
      fading = sum_of_lanes<lanes>(fading);
      dD += up * x;
      if (own.is_there && own.lane == 0) {
        if (out.x.wanted()) out.x.put(row, unsigned(own.c), step * dinput + in.D[own.c] * up);
        if (out.dt.wanted()) out.dt.put(row, unsigned(own.c), x * dinput + fading);
      }
      __syncthreads();
      const std::size_t place = ((std::size_t(own.b) * gridDim.x + blockIdx.x) * s.tokens + t) * s.states;
      for (int i = int(threadIdx.x); i < 2 * s.states; i += lanes * channels_of_block) {
        float sum = 0;
        for (int k = 0; k < channels_of_block; ++k) sum += shares[i / s.states][k][i % s.states];
        (i < s.states ? parts.dB : parts.dC)[place + i % s.states] = sum;
      }
    }
    end = begin;
  }
  states.each([&](int i, int n) {
    if (own.is_there) parts.dA_log[base + n] = dA[i];
  });
  if (own.is_there && own.lane == 0) parts.dD[own.index] = dD;
}

/// Adds the parts, a number a thread: dB and dC, then dA_log, then dD.
void sum_channel_parts(const CudaBackend& backend, const ChannelSizes& s, const ChannelParts& parts,
                       const ChannelSinks& out) {
  const std::size_t rows = std::size_t(s.batch) * s.tokens * s.states, weights = std::size_t(s.channels) * s.states;
  const auto count = std::int64_t(2 * rows + weights) + s.channels;
  map(backend, "channel_scan_backward", count, [=, blocks = s.blocks()] __device__(std::size_t i) {
    const auto sum_of = [](const float* first, int several, std::size_t stride) {
      float sum = 0;
      for (int k = 0; k < several; ++k) sum += first[k * stride];
      return sum;
    };
    if (i < 2 * rows) {
      const Sink& to = i < rows ? out.B : out.C;
      const float* from = i < rows ? parts.dB : parts.dC;
      i %= rows;
      const std::size_t row = i / s.states, of_block = std::size_t(s.tokens) * s.states,
                        place = row / s.tokens * blocks * of_block + row % s.tokens * s.states + i % s.states;
      if (to.wanted()) to.put(row, unsigned(i % s.states), sum_of(from + place, blocks, of_block));
      return;
    }
    i -= 2 * rows;
    const bool is_rate = i < weights;
    const Sink& to = is_rate ? out.A_log : out.D;
    const std::size_t stride = is_rate ? weights : std::size_t(s.channels), at = is_rate ? i : i - weights;
    if (to.wanted()) to.put(unsigned(at), sum_of((is_rate ? parts.dA_log : parts.dD) + at, s.batch, stride));
  });
}

ChannelSizes sizes_of(const ChannelScanInputs& in) {
  const ChannelSizes s{int(in.x.shape[0]), int(in.x.shape[1]), int(in.x.shape[2]), int(in.B.shape[2])};
  if (s.states > max_states)
    throw Error(ExitCode::bad_input, "Mamba-1's scan has " + std::to_string(s.states) +
                                         " states a channel, and the GPU kernel holds " + std::to_string(max_states) +
                                         "; take fewer, or the CPU");
  return s;
}

ChannelArrays arrays_of(const ChannelScanInputs& in) {
  return {rows_of<const float>(in.x), rows_of<const float>(in.dt), rows_of<const float>(in.B),
          rows_of<const float>(in.C), in.A_log.as<float>(),        in.D.as<float>()};
}

dim3 grid_of(const ChannelSizes& s) { return {unsigned(s.blocks()), unsigned(s.batch)}; }

}  // namespace

void CudaBackend::channel_scan(const ChannelScanInputs& in, const Tensor& y, const Tensor& state, bool resume) {
  const ChannelSizes s = sizes_of(in);
  channel_kernel<<<grid_of(s), lanes * channels_of_block, 0, stream()>>>(s, arrays_of(in), y.as<float>(),
                                                                         state.as<float>(), resume);
  launched("channel_scan");
}

Plan CudaBackend::plan(const ChannelScanInputs& in) const {
  return {.workspace = std::int64_t(ChannelParts::count(sizes_of(in)))};
}

void CudaBackend::channel_scan_backward(const ChannelScanInputs& in, const Tensor& dy, const Tensor& workspace,
                                        const ChannelScanGrads& out) {
  const ChannelSizes s = sizes_of(in);
  const ChannelParts parts(workspace.as<float>(), s);
  const ChannelSinks sinks{sink_of(out.x), sink_of(out.dt),    sink_of(out.B),
                           sink_of(out.C), sink_of(out.A_log), sink_of(out.D)};
  channel_backward_kernel<<<grid_of(s), lanes * channels_of_block, 0, stream()>>>(s, arrays_of(in), dy.as<float>(),
                                                                                  parts, sinks);
  launched("channel_scan_backward");
  sum_channel_parts(*this, s, parts, sinks);
}

}  // namespace afterglow
