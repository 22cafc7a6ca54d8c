// Readers of Gated KalmaNet's captures: token weights, the systems that it solved, the decay of its memory.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/analysis/solvers/solver_steps.h"
#include "core/layers/captured_layer.h"
#include "core/layers/gka.h"

namespace afterglow {

namespace {

/// Log decays of one head, at least the floor of the layer; zeros without a gate.
std::vector<double> log_decay_of(const CapturedLayer& layer, int head) {
  std::vector<double> decay(static_cast<std::size_t>(layer.tokens), 0.0);
  if (layer.values("log_gate").empty()) return decay;
  const double floor = layer.as<Gka>().config().core.gate_floor;
  for (int t = 0; t < layer.tokens; ++t) {
    const double g = layer.row("log_gate", t, head).front();
    decay[static_cast<std::size_t>(t)] = floor > 0 ? std::max(g, std::log(floor)) : g;
  }
  return decay;
}

WeightMatrix token_weights(const CapturedLayer& layer, int head) {
  const GkaConfig& config = layer.as<Gka>().config();
  const std::vector<double> keys = layer.of_head("keys", head), queries = layer.of_head("queries", head),
                            solutions = layer.of_head("xhat", head);
  std::vector<double> alpha(static_cast<std::size_t>(layer.tokens),
                            config.alpha_override >= 0 ? config.alpha_override : config.core.alpha);
  if (config.alpha && config.alpha_override < 0) alpha = layer.of_head("alpha", head);
  std::vector<double> readers = queries, log_gate;
  const std::size_t width = readers.size() / alpha.size();
  for (std::size_t i = 0; i < readers.size(); ++i) readers[i] += alpha[i / width] * (solutions[i] - queries[i]);
  if (config.forget) log_gate = layer.of_head("log_gate", head);
  for (double& gate : log_gate) gate = std::max(gate, std::log(config.core.gate_floor));
  return solved_token_weights(keys, readers, log_gate, config.core.scale, layer.tokens);
}

/// Calls visit for H_t of every token in order: H_t = e^g H_{t-1} + k k^T.
template <class Visit>
void walk_keys(const CapturedLayer& layer, int head, const std::vector<double>& decay, const Visit& visit) {
  const std::size_t width = layer.row("keys", 0, head).size();
  std::vector<double> H(width * width, 0.0);
  for (int t = 0; t < layer.tokens; ++t) {
    const std::vector<double> k = layer.row("keys", t, head);
    const double kept = std::exp(decay[static_cast<std::size_t>(t)]);
    for (std::size_t i = 0; i < H.size(); ++i) H[i] = kept * H[i] + k[i / width] * k[i % width];
    visit(t, H);
  }
}

double systems(const CapturedLayer& layer, std::span<const int> tokens, const SeeSystem& see) {
  for (int head = 0; head < layer.heads(); ++head) {
    std::vector<double> decay = log_decay_of(layer, head);
    // An option of the layer applies the gate to the keys, too; the captured |H_t|_F shows whether it is on.
    double norm = 0;
    walk_keys(layer, head, decay, [&](int, const std::vector<double>& H) { norm = frobenius_norm(H); });
    const double captured = layer.row("fro", layer.tokens - 1, head).front();
    if (std::abs(norm - captured) > 1e-2 * captured) std::fill(decay.begin(), decay.end(), 0.0);
    walk_keys(layer, head, decay, [&](int token, const std::vector<double>& H) {
      if (!std::binary_search(tokens.begin(), tokens.end(), token)) return;
      see(head, token, bounded_problem(H, layer.row("queries", token, head), layer.row("lambda", token, head).front()));
    });
  }
  const ChebyshevConfig& core = layer.as<Gka>().config().core;
  return core.fixed_lambda > 0 ? 0 : core.ridge;
}

/// Keys and values contain β already, so every measurement has the noise 1.
PairSequence pairs(const CapturedLayer& layer, int head) {
  const ChebyshevConfig& core = layer.as<Gka>().config().core;
  PairSequence of;
  of.tokens = layer.tokens;
  of.keys = layer.of_head("keys", head);
  of.queries = layer.of_head("queries", head);
  of.values = layer.of_head("values", head);
  of.noise.assign(static_cast<std::size_t>(layer.tokens), 1.0);
  of.log_decay = log_decay_of(layer, head);
  of.strength = core.ridge;
  of.ridge = core.fixed_lambda;
  return of;
}

double distance_to(const std::vector<double>& read, const std::vector<double>& q) {
  double square = 0, length = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    square += (read[i] - q[i]) * (read[i] - q[i]);
    length += q[i] * q[i];
  }
  return std::sqrt(square / length);
}

/// All iterates as the rows of one picture, and their residuals: of the system that is solved, and of H x = q, which
/// the ridge keeps above 0 even for the solution.
std::vector<StepPicture> iteration_pictures(const RidgeProblem& problem, int iterations) {
  const steps::Matrix<double> solved(problem, Arithmetic::fp64);
  std::vector<double> iterates, residuals, true_residuals;
  steps::chebyshev(solved, problem, iterations, [&](const std::vector<double>& x) {
    iterates.insert(iterates.end(), x.begin(), x.end());
    std::vector<double> read = solved.times(x);
    residuals.push_back(distance_to(read, problem.q));
    for (std::size_t i = 0; i < x.size(); ++i) read[i] -= problem.ridge * x[i];
    true_residuals.push_back(distance_to(read, problem.q));
  });
  const std::string last = std::to_string(iterations);
  StepPicture missed =
      step_picture("|r_i| / |q|",
                   "after " + last + " iterations: " + caption_number(residuals.back()) + " of the ridge system, " +
                       caption_number(true_residuals.back()) + " of H x = q",
                   residuals, iterations + 1);
  missed.cells.insert(missed.cells.end(), true_residuals.begin(), true_residuals.end());
  missed.rows = 2;
  missed.across = "iteration";
  missed.curves = {"|(H + λI) x_i − q|", "|H x_i − q|"};
  return {
      step_picture("x_i", "(H + λI) x = q: x_0 in the first row, x_" + last + " in the last", iterates, problem.size()),
      std::move(missed)};
}

/// From the key to the output: the memory, the iterates, and the readout with the last (Gated KalmaNet 4.1).
std::vector<StepPicture> step_pictures(const CapturedLayer& layer, int head) {
  const GkaConfig& config = layer.as<Gka>().config();
  const std::vector<double> k = layer.row("keys", 0, head), q = layer.row("queries", 0, head),
                            H = layer.block("H", head), U = layer.block("S", head), y = layer.row("readout", 0, head),
                            lambda = layer.row("lambda", 0, head);
  const auto width = static_cast<int>(k.size());
  if (k.empty() || lambda.empty() || H.size() != k.size() * k.size()) return {};
  const RidgeProblem problem = bounded_problem(H, q, lambda[0]);
  if (!is_solvable(problem)) return {};
  std::vector<StepPicture> pictures{
      step_picture("k", "the key of this token, of length 1 but for its β", k), step_picture("q", "its query", q),
      step_picture("H", "H = γ H + k kᵀ: which keys are remembered; λ = " + caption_number(lambda[0]), H, width)};
  for (StepPicture& picture : iteration_pictures(problem, config.core.iterations))
    pictures.push_back(std::move(picture));
  double alpha = config.alpha_override >= 0 ? config.alpha_override : config.core.alpha;
  if (config.alpha && config.alpha_override < 0) alpha = layer.row("alpha", 0, head).front();
  std::vector<double> reader = layer.row("xhat", 0, head);
  for (std::size_t i = 0; i < reader.size(); ++i) reader[i] = q[i] + alpha * (reader[i] - q[i]);
  pictures.push_back(step_picture("q'", "q + α (x − q), α = " + caption_number(alpha) + ": what reads U", reader));
  pictures.push_back(step_picture("Uᵀ", "U = γ U + v kᵀ: which value, across, belongs to which key", U, width));
  pictures.push_back(step_picture("y", "U read with q': the answer", y));
  return pictures;
}

std::vector<HeadGate> gates(const CapturedLayer& layer) {
  std::vector<HeadGate> all;
  for (int head = 0; head < layer.heads(); ++head) all.push_back({head, log_decay_of(layer, head)});
  return all;
}

std::vector<std::complex<double>> state_modes(const CapturedLayer& layer, int head) {
  const std::vector<double> decay = log_decay_of(layer, head);
  return {std::exp(std::accumulate(decay.begin(), decay.end(), 0.0) / layer.tokens)};
}

}  // namespace

LayerReaders gka_readers() {
  return {.token_weights = token_weights,
          .systems = systems,
          .iterations = [](const CapturedLayer& layer) { return layer.as<Gka>().config().core.iterations; },
          .gates = gates,
          .state_modes = state_modes,
          .pairs = pairs,
          .step_pictures = step_pictures};
}

}  // namespace afterglow
