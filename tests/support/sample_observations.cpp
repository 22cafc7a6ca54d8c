// Closed forms with a little reproducible noise, so that pictures of tests look like pictures of training.
#include "tests/support/sample_observations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "core/engine/analyses/costs/cost_view.h"
#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/inspection/solver_problems.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "tests/support/sample_causes.h"
#include "tests/support/sample_influence.h"

namespace afterglow::samples {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A number in [-1, 1) that depends on (a, b) only.
double noise(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ull + b * 0xBF58476D1CE4E5B9ull + 0x94D049BB133111EBull;
  x ^= x >> 31;
  x *= 0xD6E8FEB86659FD93ull;
  x ^= x >> 32;
  return static_cast<double>(x >> 11) / 4503599627370496.0 - 1.0;
}

double accuracy_at(double step) { return 1.0 / (1.0 + std::exp(-(step - 260) / 28.0)); }

Values curve(std::int64_t size, const std::function<double(double)>& value_at) {
  GrowingCurve grown;
  for (std::int64_t i = 0; i < size; ++i) grown.append(value_at(static_cast<double>(i + 1)));
  return grown.view();
}

ModelSummary tiny_model() {
  ModelSummary model{"tiny", {}, 61824};
  model.layers = {{"embedding", "embedding", "embedding", "128 × 64", 8192, 0, 0},
                  {"0 mamba2", "layers.0.mixer", "mamba2", "d 64 · N 16", 18320, 2, 8192},
                  {"0 koopman mlp", "layers.0.mlp", "koopman_mlp", "|λ| ≤ 1", 8384, 0, 0},
                  {"1 ska", "layers.1.mixer", "ska", "r 16 · K 2 · H 4", 18440, 4, 12560},
                  {"1 koopman mlp", "layers.1.mlp", "koopman_mlp", "|λ| ≤ 1", 8384, 0, 0},
                  {"head", "head", "head", "64 × 128", 8192, 0, 0}};
  return model;
}

RunCurves run_curves(std::int64_t steps, std::uint64_t seed, bool learns, const ModelSummary& model) {
  RunCurves run;
  run.run = "run " + std::to_string(seed);
  const auto accuracy = [=](double s) { return learns ? accuracy_at(s) : 0.04 + 0.16 * std::min(1.0, s / 700); };
  run.accuracy = curve(steps, [=](double s) {
    const double a = accuracy(s);
    return std::clamp(a + 0.09 * noise(seed, static_cast<std::uint64_t>(s)) * std::sqrt(a * (1 - a) + 0.01), 0.0, 1.0);
  });
  run.loss = curve(steps, [=](double s) {
    return (4.85 * std::pow(1 - 0.98 * accuracy(s), 1.2) + 0.004) *
           std::exp(0.12 * noise(seed + 9, static_cast<std::uint64_t>(s)));
  });
  run.learning_rate =
      curve(steps, [](double s) { return (s > 160 ? 1e-3 : 3e-4) * std::min(1.0, s / 50) * (1 - 0.0006 * s); });
  run.gradient_norm = curve(steps, [=](double s) {
    return 0.9 * std::exp(-s / 500) * std::exp(0.3 * noise(seed + 5, static_cast<std::uint64_t>(s)));
  });
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    run.layer_gradient_norms.push_back({model.layers[l].label, curve(steps, [=](double s) {
                                          return (0.05 + 0.11 * static_cast<double>(l)) *
                                                 std::exp(-s / (300.0 + 80.0 * static_cast<double>(l))) *
                                                 std::exp(0.25 * noise(seed + 20 + l, static_cast<std::uint64_t>(s)));
                                        })});
  }
  const std::int64_t evaluations = steps / 50;
  run.held_out_step = curve(evaluations, [](double i) { return 50 * i; });
  run.held_out_accuracy = curve(evaluations, [=](double i) { return accuracy(50 * i) * 0.99; });
  if (steps >= 160) run.marks.push_back({160, "rate 3e−4 → 1e−3"});
  return run;
}

using Complex = std::complex<double>;

HeadSpectrum head_spectrum(int layer, int head, int rank, double step) {
  HeadSpectrum spectrum;
  spectrum.layer = layer;
  spectrum.head = head;
  const double learnt = accuracy_at(step);
  std::vector<double> weights;
  for (int pair = 0; pair < rank / 2; ++pair) {
    const double p = pair;
    const double modulus =
        std::clamp(0.97 - 0.11 * p - 0.05 * head + 0.1 * learnt * (p < 3) - 0.06 * (1 - learnt), 0.02, 0.995);
    const double angle = 0.18 + 0.41 * p + 0.2 * head + 0.0006 * step * (pair % 2 ? 1 : -1) + 0.3;
    for (const int sign : {1, -1}) {
      spectrum.eigenvalues.push_back(std::polar(modulus, sign * angle));
      spectrum.identity.push_back(static_cast<int>(spectrum.identity.size()));
      weights.push_back(std::exp(-0.45 * p) * (1 + 0.4 * noise(7, static_cast<std::uint64_t>(pair + 31 * head))));
    }
  }
  if (rank % 2) {
    spectrum.eigenvalues.emplace_back(0.2, 0.0);
    spectrum.identity.push_back(rank - 1);
    weights.push_back(0.02);
  }
  double total = 0;
  for (const double w : weights) total += w;
  for (const double w : weights) spectrum.energy.push_back(w / total);
  spectrum.gamma = 1.21 + 0.02 * head;
  spectrum.eta = 1.5 - 0.1 * head;
  spectrum.sigma = 0.93;
  spectrum.scale = spectrum.gamma;
  spectrum.kappa = 900 * (head + 1.0);
  spectrum.lambda_min = 0.0011;
  spectrum.ridge = 1e-3;
  spectrum.power = 2;
  return spectrum;
}

std::shared_ptr<const Spectra> spectra_at(std::int64_t step, int heads, int rank) {
  auto spectra = std::make_shared<Spectra>();
  spectra->step = step;
  for (int h = 0; h < heads; ++h) spectra->heads.push_back(head_spectrum(3, h, rank, static_cast<double>(step)));
  for (const int layer : {2, 4}) {
    MlpSpectrum mlp{layer, {}};
    for (int i = 0; i < 32; ++i) {
      mlp.eigenvalues.push_back(
          std::polar(0.55 + 0.44 * std::abs(noise(11, static_cast<std::uint64_t>(i + 64 * layer))), 0.09 * i));
    }
    spectra->mlps.push_back(mlp);
  }
  return spectra;
}

std::vector<TokenView> prompt(int length) {
  std::vector<TokenView> tokens{{1, "▸", TokenRole::start, -1}};
  const int keys[] = {3, 7, 1, 5}, values[] = {9, 2, 4, 8};
  for (int i = 0; i < 4; ++i) {
    tokens.push_back({16 + keys[i], "k" + std::to_string(keys[i]), TokenRole::key, -1});
    tokens.push_back({48 + values[i], "v" + std::to_string(values[i]), TokenRole::value, -1});
  }
  tokens.push_back({2, "│", TokenRole::separator, -1});
  while (static_cast<int>(tokens.size()) < length - 2)
    tokens.push_back({80 + static_cast<int>(tokens.size()) % 48, "·", TokenRole::filler, -1});
  tokens.push_back({3, "?", TokenRole::query, -1});
  tokens.push_back({23, "k7", TokenRole::key, 50});
  return tokens;
}

HeadStep head_step(int head, int rank, int width, int t) {
  HeadStep step;
  for (int i = 0; i < rank; ++i) {
    for (int j = 0; j < rank; ++j) {
      const double grown = 1 - std::exp(-(t + 1) / 9.0);
      step.G.push_back(static_cast<float>(
          (i == j ? 1.2 + 0.2 * noise(1, static_cast<std::uint64_t>(i))
                  : 0.3 * noise(2 + head, static_cast<std::uint64_t>(std::min(i, j) * 64 + std::max(i, j)))) *
          grown));
      step.M.push_back(static_cast<float>(0.6 * noise(40 + head, static_cast<std::uint64_t>(i * 64 + j)) * grown *
                                          std::cos(0.1 * t)));
    }
  }
  for (int i = 0; i < width * rank; ++i)
    step.C.push_back(
        static_cast<float>(0.8 * noise(80 + head, static_cast<std::uint64_t>(i)) * (t < 9 ? t / 9.0 : 1.0)));
  step.m = 1.4;
  step.sigma = 0.92;
  step.kappa = 1 + (900 + 900 * head) * (1 - std::exp(-t * (5.0 + head) / 64)) * (1 + 0.15 * std::sin(t / 3.2 + head));
  step.lambda_min = 1e-3 * (1 + 0.3 * std::sin(0.2 * t));
  step.jitter = head == 1 && t == 3 ? 1 : 0;
  step.ridge = 1e-3;
  for (int i = 0; i < rank; ++i) step.gram.push_back(0.3 * (t + 1) * std::exp(-0.7 * i));  // tr G below T
  for (const auto& lambda : head_spectrum(3, head, rank, 6.0 * t).eigenvalues) {
    step.identity.push_back(static_cast<int>(step.eigenvalues.size()));
    step.eigenvalues.push_back(lambda);
  }
  return step;
}

/// Of the very state that the step shows.
std::vector<StepPicture> pictures_of(const HeadStep& step, int rank) {
  const auto square = [&](const char* symbol, const char* about, const std::vector<float>& cells) {
    return StepPicture{symbol, about, rank, rank, cells};
  };
  return {{"z", "the key of this token, normalised", 1, rank, {step.G.begin(), step.G.begin() + rank}},
          square("G", "Σ z zᵀ: which keys were seen", step.G),
          square("M", "Σ z₊ zᵀ: which key follows which", step.M)};
}

std::shared_ptr<Trace> trace_of(std::int64_t training_step, int length, int heads, int rank, int width) {
  auto trace = std::make_shared<Trace>();
  trace->step = training_step;
  trace->layer = 3;
  trace->rank = rank;
  trace->value_width = width;
  trace->tokens = prompt(length);
  trace->state_bytes = 12560;
  for (int id = 0; id < 128; ++id) {
    trace->labels.push_back(id >= 80   ? "·"
                            : id >= 48 ? "v" + std::to_string(id - 48)
                            : id >= 16 ? "k" + std::to_string(id - 16)
                                       : "?");
  }
  for (int t = 0; t < length; ++t) {
    TokenStep step;
    for (int h = 0; h < heads; ++h) {
      step.heads.push_back(head_step(h, rank, width, t));
      step.pictures.push_back(pictures_of(step.heads.back(), rank));
    }
    const bool asked = trace->tokens[static_cast<std::size_t>(t)].target >= 0;
    const double sure = asked ? 0.05 + 0.941 * accuracy_at(static_cast<double>(training_step)) : 0.2;
    step.top_tokens = {50, 57, 52, 56, 83};
    step.top_probabilities = {sure, (1 - sure) * 0.45, (1 - sure) * 0.25, (1 - sure) * 0.12, (1 - sure) * 0.06};
    trace->steps.push_back(std::move(step));
  }
  return trace;
}

/// Weights that fade with distance and jump at the keys; like softmax when `shares`.
std::shared_ptr<TokenWeights> token_weights_of(const Trace& trace, int heads, bool shares) {
  auto weights = std::make_shared<TokenWeights>();
  weights->step = trace.step;
  weights->layer = trace.layer;
  weights->heads = heads;
  weights->tokens = std::min(256, static_cast<int>(trace.tokens.size()));
  const int T = weights->tokens;
  for (int h = 0; h < heads; ++h) {
    std::vector<float>& own =
        weights->weights.emplace_back(static_cast<std::size_t>(T * T), std::numeric_limits<float>::quiet_NaN());
    for (int t = 0; t < T; ++t) {
      double sum = 0;
      std::vector<double> row;
      for (int s = 0; s <= t; ++s) {
        const double n = noise(60 + static_cast<std::uint64_t>(h), static_cast<std::uint64_t>(t * 700 + s));
        row.push_back((shares ? 1 + n : 0.4 * n) * std::exp(-(t - s) / 9.0) + (s % 2 && s < 9 ? 0.2 : 0.0));
        sum += row.back();
      }
      for (int s = 0; s <= t; ++s)
        own[static_cast<std::size_t>(t * T + s)] =
            static_cast<float>(shares ? row[static_cast<std::size_t>(s)] / sum : row[static_cast<std::size_t>(s)]);
    }
  }
  return weights;
}

std::vector<Setting> settings() {
  return {
      {"learning_rate", "learning rate", "", "Step size of AdamW after warm-up.", 1e-3, 1e-6, 1e-1, 3e-4, true, false},
      {"batch", "batch", "", "Sequences in one training step.", 64, 1, 512, 64, false, true},
      {"clip", "clip", "", "Largest norm of the whole gradient.", 1.0, 0.01, 10, 1.0, true, false},
      {"weight_decay", "weight decay", "", "Decoupled weight decay of AdamW.", 0.01, 0, 0.5, 0.01, false, false},
      {"power", "power K", "", "How often the operator filters the query.", 2, 0, 8, 2, false, true},
      {"ridge", "ridge ε", "", "Added to the Gram matrix before it is factorised.", 1e-3, 1e-8, 1, 1e-3, true, false}};
}

/// Systems of two tokens for each head, λ_t = 0.02 |H_t|_F, and gates of different strength.
/// A few pairs of a head whose channels fade apart.
PairSequence pairs_of(int head, int tokens) {
  PairSequence pairs;
  pairs.tokens = tokens;
  for (int t = 0; t < tokens; ++t) {
    const auto at = static_cast<std::uint64_t>(16 * t + head);
    for (std::uint64_t i = 0; i < 4; ++i) {
      pairs.keys.push_back(0.2 + noise(7, at + i));
      pairs.queries.push_back(noise(8, at + i));
      pairs.values.push_back(noise(9, at + i));
      pairs.log_decay.push_back(-0.02 * static_cast<double>(i + 1));
    }
    pairs.noise.push_back(0.5);
  }
  return pairs;
}

std::shared_ptr<const SolverView> solvers_of(std::int64_t step, int heads, int length) {
  auto view = std::make_shared<SolverView>();
  view->step = step;
  view->layer = 3;
  view->gate_layer = view->pair_layer = 1;
  view->half_lives = {{1, std::vector<double>(static_cast<std::size_t>(heads), 12)}};
  view->half_lives[0].of_heads.back() = 250;
  view->own_iterations = 8;
  view->strength = 0.02;
  view->iterations = 12;
  for (int h = 0; h < heads; ++h) {
    HeadConditioning conditioning{h, {}, {}, {}, {}, {}};
    for (const int token : {length / 2, length - 1}) {
      MadeProblem made;
      for (int i = 0; i < 6; ++i) made.eigenvalues.push_back(std::exp(-0.6 * i * (1 + 0.1 * h)));
      const RidgeProblem problem = system_of(made);
      RidgeProblem ridged = bounded_problem(problem.H, problem.q, 0.02 * frobenius_norm(problem.H));
      view->problems.push_back(race(h, token, ridged, view->iterations));
      if (view->gradients.empty()) {
        view->gradients = check_gradients(ridged, view->strength, view->iterations);
        view->reversals = check_reversals(ridged, view->iterations);
      }
      conditioning.tokens.push_back(token);
      conditioning.smallest.push_back(made.eigenvalues.back());
      conditioning.largest.push_back(1);
      conditioning.norm.push_back(frobenius_norm(problem.H));
      conditioning.ridge.push_back(ridged.ridge);
    }
    view->conditioning.push_back(std::move(conditioning));
    view->gates.push_back({h, std::vector<double>(static_cast<std::size_t>(length), -0.2 / (h + 1))});
    view->filters.push_back(filters_of(h, pairs_of(h, std::min(length, 32))));
  }
  return view;
}

std::shared_ptr<const DepthView> depth_of(std::int64_t step) {
  DepthView d;
  d.step = step;
  d.layers = {1, 2, 3, 4};
  d.branch_norms = {1.4, 0.8, 2.1, 0.9};
  d.branch_bounds = {nan, nan, nan, 3.4};
  d.gradient = {0.31, 0.22, 0.17, 0.09, 0.07};
  d.residual_bound = {1.61, 0.67, 0.41, 0.13, 0.07};
  d.residual_floor = {0, 0, 0, 0.007, 0.07};
  d.query_bounds = {nan, nan, 5.2, nan};
  d.branch_product = {0.15, 0.106, 0.13, 0.063, 0.07};
  d.closed_product = {1.386, 0.99, 1.238, 0.238, 0.07};
  return std::make_shared<const DepthView>(d);
}

std::shared_ptr<const TheoryView> theory_of(std::int64_t step) {
  TheoryView t;
  t.step = step;
  t.layer = 3;
  t.rank = t.value_width = 16;
  t.heads = 4;
  t.layers = 1;
  t.ridge = 1e-3;
  t.gamma = 1.24;
  t.kappa = 412;
  t.state_bytes = 12560;
  t.cache_bytes = 512;
  t.crossing = 24.5;
  for (int i = 0; i <= 10; ++i) {
    const double size = std::pow(10, -6 + 0.5 * i);
    t.noise.push_back(size);
    t.operator_change.push_back(3 * size);
    t.sharp_operator_bound.push_back(40 * size);
    t.operator_bound.push_back(900 * size);
    t.eigenvalue_change.push_back(2 * size);
    t.bauer_fike.push_back(24 * size);
    t.combined_bound.push_back(9000 * size);
    t.pencil_bound.push_back(300 * size);
  }
  t.eigenvector_condition = 11;
  t.powers.sigma = 0.94;
  t.risk.explained = 3.2;
  t.regime.persistent = 3;
  t.regime.transient = 13;
  t.regime.applies = true;
  for (int k = 0; k <= 8; ++k) {
    t.powers.norms.push_back(std::pow(0.94, k));
    t.powers.restored.push_back(std::pow(1.24 * 0.94, k));
    t.powers.paper_bounds.push_back(std::pow(1.24, k));
    t.powers.bounds.push_back(std::pow(1.24 * 0.95, k));
    t.risk.excess.push_back(0.3 * k);
    t.risk.with_gain.push_back(0.2 + 0.35 * k);
    t.regime_error.push_back(0.2 + 0.6 * std::pow(0.5, k) + 0.03 * k);
    t.regime_bound.push_back(2 * (0.2 + 0.6 * std::pow(0.5, k) + 0.05 * k));
  }
  for (int i = 0; i < 16; ++i) {
    t.gap.push_back(0.4 + 0.1 * noise(3, static_cast<std::uint64_t>(i)));
    t.shared_gap.push_back(t.gap.back() + 0.2);
    t.gap_bound.push_back(4);
    t.jacobian.singular_values.push_back(2 * std::pow(0.7, i));
  }
  t.gradient_step_gap = 3e-8;
  t.linearity_gap = 2e-16;
  t.softmax.linearity_gap = 0.43;
  t.jacobian.bound = 90;
  t.jacobian.sharp_bound = 7;
  t.jacobian.lower_bound = 1e-4;
  t.jacobian.rank = 16;
  t.softmax.bound = 5;
  t.softmax.rank = t.softmax.rank_bound = 16;
  for (int i = 0; i < 16; ++i) {
    const double m = 0.1 + 0.85 * noise(5, static_cast<std::uint64_t>(i));
    t.softmax.max_weight.push_back(m);
    t.softmax.saturation_bound.push_back(20 * (1 - m));
    t.softmax.sharp_bound.push_back(10 * std::min(m, 2 * m * (1 - m)));
    t.softmax.norm.push_back(0.4 * t.softmax.sharp_bound.back());
    t.softmax.last.push_back(t.softmax.norm.front() * std::pow(0.6, i));
  }
  return std::make_shared<const TheoryView>(std::move(t));
}

std::shared_ptr<InspectedView> inspected_of(const Observation& o) {
  auto view = std::make_shared<InspectedView>();
  view->step = o.step;
  view->tokens = o.trace->tokens;
  view->labels = std::make_shared<const std::vector<std::string>>(o.trace->labels);
  view->examples = 64;
  view->accuracy_before = view->accuracy_after = 0.984;
  for (std::size_t t = 0; t < view->tokens.size(); ++t) {
    InspectedAnswer answer;
    for (int i = 0; i < 6; ++i) {
      answer.tokens.push_back(i + 3);
      answer.before.push_back(0.62 * std::pow(0.4, i));
    }
    answer.after = answer.before;
    view->answers.push_back(std::move(answer));
  }
  return view;
}

TrajectoryModes temporal_modes(const std::string& strategy, int rows, double loss_of_error) {
  TrajectoryModes modes;
  modes.strategy = strategy;
  modes.reconstruction_error = {1};
  for (int k = 0; k < 12; ++k) {
    modes.eigenvalues.push_back(9 * std::pow(0.3, k));
    modes.reconstruction_error.push_back(std::pow(0.3, 0.5 * loss_of_error * (k + 1)));
    if (k >= 8) continue;
    std::vector<double>& mode = modes.modes.emplace_back();
    for (int t = 0; t < rows; ++t)
      mode.push_back(std::sqrt(2.0 / rows) * std::cos(3.14159265 * (k + 1) * (t + 0.5) / rows));
  }
  return modes;
}

/// Twelve batches, of which nine have been left out; one repetition ended without an answer.
/// Longer sequences and more bindings are harder; some cells do not fit, others are still to come.
std::shared_ptr<AccuracyView> accuracy_of(std::int64_t step) {
  auto view = std::make_shared<AccuracyView>();
  view->step = step;
  view->own_length = 64;
  view->examples = 64;
  for (const char* task : {"sysprompt", "niah", "commonword"}) {
    AccuracyGrid grid{
        task, R"({"kind":")" + std::string(task) + R"("})", view->grids.empty(), {1, 2, 4, 8}, {64, 128, 256, 512}, {}};
    for (const int bindings : grid.bindings) {
      for (const int length : grid.lengths) {
        AccuracyCell cell{bindings, length, bindings * 8 < length};
        if (cell.fits && length < 512) {
          cell.examples = cell.asked = 64;
          cell.right = std::lround(64.0 / (1.0 + 0.02 * bindings * std::log2(length / 32.0)));
          cell.accuracy = static_cast<double>(cell.right) / 64.0;
          ++view->measured;
        }
        view->planned += cell.fits ? 1 : 0;
        grid.cells.push_back(cell);
      }
    }
    view->grids.push_back(std::move(grid));
  }
  return view;
}

std::shared_ptr<BlameView> blame_of(std::int64_t step) {
  auto view = std::make_shared<BlameView>();
  view->name = "tiny";
  view->last = std::max<std::int64_t>(12, step);
  view->first = view->last - 11;
  view->until = view->last;
  view->metrics = {{"loss", "nats"}, {"accuracy", "", true}};
  view->whole = {0.5, 0.8};
  for (int i = 0; i < 12; ++i) view->loss.push_back(0.7 - 0.02 * i);
  for (int i = 0; i < 9; ++i) {
    const double change = i == 5 ? std::nan("") : 0.01 * std::cos(i);
    const auto row = static_cast<std::size_t>(view->first + i);
    view->without.push_back({row, 7, 110068, "4f2a91c1d07be355", {0.5 + change, 0.8 - change}, {}});
  }
  view->batch = {view->first + 2, {"^ k17 v11 k1 v23 | · · k1", "^ k2 v5 k9 v1 | · · k9"}};
  return view;
}

/// Twins that part in every part of the model but the embedding.
std::shared_ptr<MicroscopeView> microscope_of(const Observation& o) {
  auto view = std::make_shared<MicroscopeView>();
  view->name = "tiny";
  view->change = "one bit of head.weight[0]";
  view->from = o.step;
  view->until = o.step + 20;
  for (const LayerSummary& layer : o.model.layers) {
    view->parts.push_back(layer.label);
    view->kinds.push_back(layer.kind);
  }
  view->distance.resize(view->parts.size());
  for (int i = 0; i < 12; ++i) {
    view->step.push_back(static_cast<double>(o.step + i));
    view->whole.push_back(1e-8 * std::exp(0.4 * i));
    for (std::size_t part = 0; part < view->parts.size(); ++part)
      view->distance[part].push_back(part == 0 ? 0 : view->whole.back() * (1 + static_cast<double>(part)));
  }
  view->slope = 0.4;
  view->first = {o.step + 1, "layers.1.ska.readout", "ridge_readout", 5, 2, 18};
  return view;
}

/// Half of the repetitions; without the second part the condition never holds.
std::shared_ptr<BisectView> bisect_of(const Observation& o) {
  auto view = std::make_shared<BisectView>();
  view->name = "tiny";
  view->condition = "accuracy > 0.5";
  view->until = 1000;
  view->parts.push_back({"", "", 212});
  for (std::size_t i = 0; i < o.model.layers.size() / 2; ++i) {
    const LayerSummary& layer = o.model.layers[i];
    view->parts.push_back({layer.label, layer.kind, i == 1 ? -1 : 212 + 40 * static_cast<std::int64_t>(i)});
  }
  view->planned = o.model.layers.size() + 1;
  view->at = 77;
  return view;
}

std::shared_ptr<OverTrainingView> over_training_of(const Observation& o) {
  auto view = std::make_shared<OverTrainingView>();
  view->name = "tiny";
  view->number = "half_life";
  for (std::int64_t step = 0; step <= o.step; step += std::max<std::int64_t>(1, o.step / 20)) {
    view->step.push_back(static_cast<double>(step));
    view->value.push_back(view->step.size() == 3 ? nan : 2 + std::sqrt(static_cast<double>(step)));
  }
  view->missing = 4;
  return view;
}

/// Some runs of a small map, one of them without an answer.
std::shared_ptr<PhaseMapView> phase_map_of(std::int64_t steps) {
  auto map = std::make_shared<PhaseMapView>();
  map->steps = steps;
  map->shown = 1;
  map->x = "learning_rate=log:1e-4:1e-1:4";
  map->y = "layers.1.ska.ridge=0.001,0.01,0.1";
  map->sweep = {
      "tiny",
      {{"learning_rate", {"1e-4", "1e-3", "1e-2", "1e-1"}, true}, {"layers.1.ska.ridge", {"0.001", "0.01", "0.1"}}},
      {{"loss", "nats"}, {"accuracy", "", true}, {"half-life", "tokens"}},
      {},
      R"({"preset":"tiny"})"};
  for (const std::size_t row : {0u, 2u, 6u, 8u}) {
    const double share = static_cast<double>(row) / 8;
    map->sweep.results.push_back(
        {row, 7, 110068, "4f2a91c1d07be355", {3 - share, row == 2 ? std::nan("") : share, 4 + share}, {}});
    map->sweep.results.back().sketch = {{50, 100, 150, 200}, {4, 3.6 - share, 3.2 - share, 3 - share}, {}, {}};
    map->sweep.results.back().spectrum = {"1 ska · head 2",
                                          {{0.6, 0.6 + share / 8}, {0.6, -0.6 - share / 8}, {0.4, 0}}};
  }
  return map;
}

/// A row every fourth step; one row only for a run of fewer than eight steps.
std::shared_ptr<TrajectoryView> trajectory_of(std::int64_t step) {
  auto view = std::make_shared<TrajectoryView>();
  view->summary = "mean last hidden state of a batch";
  for (std::int64_t at = 4; at <= std::max<std::int64_t>(4, step) && view->steps.size() < 256; at += 4)
    view->steps.push_back(at);
  view->step = view->steps.back();
  const int rows = static_cast<int>(view->steps.size());
  if (rows < 2) return view;
  view->width = 64;
  view->empirical = temporal_modes("A: covariance", rows, 1);
  view->kernel = temporal_modes("B: exponential kernel, τ 64 rows", rows, 0.6);
  for (const double eigenvalue : view->empirical.eigenvalues) view->variance += eigenvalue;
  for (const double error : view->empirical.reconstruction_error) view->explained.push_back(1 - error * error);
  view->explained.erase(view->explained.begin());
  for (std::size_t k = 0; k < 3; ++k) {
    std::vector<double>& coordinate = view->path.emplace_back(view->empirical.modes[k]);
    for (double& value : coordinate) value *= std::sqrt(rows * view->empirical.eigenvalues[k]);
  }
  return view;
}

std::shared_ptr<ForecastView> forecast_of(std::int64_t step) {
  auto view = std::make_shared<ForecastView>();
  view->step = step;
  view->input_length = 72;
  view->horizon = 24;
  view->time_unit = "h";
  for (int w = 0; w < 4; ++w) {
    ForecastWindow& window = view->windows.emplace_back();
    window.index = 100 * w;
    window.first = "2018-02-20 00:00";
    window.last = "2018-02-23 23:00";
    window.mse = 0.4 + 0.1 * w;
    window.mae = 0.3 + 0.1 * w;
    window.mse_without_memory = 0.6 + 0.1 * w;
    for (const char* name : {"HUFL", "daily + weekly", "OT"}) {
      ForecastChannel& channel = window.channels.emplace_back();
      channel.name = name;
      channel.mse = 0.3 + 0.1 * w;
      channel.mae = 0.2;
      const auto value = [&](int t) { return 10 + 4 * std::sin(0.26 * t + w) + noise(w, static_cast<unsigned>(t)); };
      for (int t = 0; t < view->input_length; ++t) channel.input.push_back(value(t));
      for (int t = 0; t < view->horizon; ++t) {
        channel.truth.push_back(value(view->input_length + t));
        channel.prediction.push_back(channel.truth.back() + noise(9, static_cast<unsigned>(t)));
      }
    }
  }
  return view;
}

std::shared_ptr<MemoryView> memory_of(std::int64_t step) {
  auto view = std::make_shared<MemoryView>();
  view->step = step;
  view->tokens = 4;
  view->input_length = 72;
  view->history_rows = step;
  for (int k = 0; k < 8; ++k) {
    view->eigenvalues.push_back(std::pow(0.5, k));
    view->explained.push_back(1 - std::pow(0.5, k + 1));
  }
  MemoryAttention& attention = view->attention.emplace_back();
  attention.reads.assign(4, std::vector<double>(72));
  attention.is_read.assign(72, std::vector<double>(4));
  for (std::size_t m = 0; m < 4; ++m) {
    for (std::size_t t = 0; t < 72; ++t) {
      attention.reads[m][t] = (1 + noise(m, t)) / 76;
      attention.is_read[t][m] = (1 + noise(m + 4, t)) / 76;
    }
  }
  view->width = 6;
  view->buffer_rows = 9;
  view->buffer_columns = 6;
  for (std::uint64_t i = 0; i < 54; ++i) view->buffer.push_back(static_cast<float>(noise(20, i)));
  for (std::uint64_t i = 0; i < 48; ++i) view->components.push_back(static_cast<float>(noise(21, i)));
  for (std::uint64_t i = 0; i < 24; ++i) view->token_values.push_back(static_cast<float>(noise(22, i)));
  view->modes.assign(4, {0.5, 0.5, -0.5, -0.5});
  view->pooling.assign(72, 1.0 / 72);
  for (int k = 0; k < 8; ++k) view->change_without.push_back(0.1 / (k + 1));
  view->is_of_error = true;
  view->less = {{"modes K'", 8, 4, {0, 1, 2, 4, 8}, {0.3, 0.2, 0.1, 0.05, 0}},
                {"tokens M'", 4, 4, {0, 1, 2, 4}, {0.4, 0.1, 0.02, 0}},
                {"rows T'", 400, 400, {8, 50, 100, 200, 400}, {0.2, 0.02, -0.01, 0, 0}}};
  view->change_now = 0.05;
  return view;
}

std::shared_ptr<const CostView> costs_of() {
  auto view = std::make_shared<CostView>();
  view->width = 128;
  view->layers = {
      {"attention, RoPE",
       "attention",
       {64, 256, 1024},
       {0.3, 2, 17},
       {1e6, 6e6, 6e7},
       {0.006, 0.008, 0.02},
       {65536, 262144, 1048576},
       2,
       1},
      {"Mamba-2",
       "mamba2",
       {64, 256, 1024},
       {0.5, 1.7, 8},
       {1e6, 4e6, 16e6},
       {0.012, 0.009, 0.009},
       {19840, 19840, 19840},
       1,
       0},
      {"SKA", "ska", {64, 256, 1024}, {0.2, 1.1}, {1e6, 4e6}, {0.036, 0.032, 0.035}, {31000, 31000, 31000}, 1, 0}};
  return view;
}

std::shared_ptr<const RetrievalView> retrieval_of() {
  auto view = std::make_shared<RetrievalView>();
  view->beta = 0.5;
  view->leak = 1e-4;
  view->freeze_step = 0.2;
  view->tokens = 256;
  view->jumps = 2;
  view->source = 4;
  view->kind = "sessa";
  view->roles.assign(15, "copies");
  view->low = 1.5;
  view->high = 2.5;
  view->copy_errors = {1e-16, 1e-16, 2e-16};
  view->others = {{"2 diffuse attention", "attention", 2, {}},
                  {"2 failed freeze", "mamba2", 2, {}},
                  {"15 diffuse attention", "attention", 15, {}},
                  {"15 failed freeze", "mamba2", 15, {}}};
  for (double lag = 1; lag < 250; lag = std::ceil(lag * 1.3)) {
    view->lags.push_back(lag);
    view->scores.push_back(2 + 0.4 * std::sin(lag));
    view->competitors.push_back(1e-4 * lag);
    for (RetrievalStack& stack : view->others)
      stack.scores.push_back(stack.kind == "mamba2" ? std::exp(-0.2 * lag / stack.blocks) : stack.blocks / lag);
  }
  view->fit = fit_influence(view->lags, view->scores, 8);
  for (int t = 0; t < view->tokens; ++t) {
    view->profile.push_back(2 * std::sqrt(t + 1.0));
    view->position.push_back(1000 + 20 * t);
  }
  return view;
}

Observation training(std::int64_t step, int heads, int rank, int length) {
  Observation o;
  o.preset = "tiny";
  o.title = "Associative recall · Mamba-2 with Koopman attention";
  o.seed = 7;
  o.step = step;
  o.final_step = 800;
  o.running = step < o.final_step;
  o.finished = step >= o.final_step;
  o.checksum = "4f2a91c1d07be355";
  o.checksum_step = step;
  o.device = "CPU · 2 threads";
  o.precision = "fp32";
  o.device_bytes = 41'000'000;
  o.history_bytes = 96'000'000;
  o.steps_per_second = 12.4;
  o.model = tiny_model();
  o.task = "system prompt · 4 bindings · T 64";
  o.settings = settings();
  o.runs.push_back(run_curves(step, 1, true, o.model));
  for (std::int64_t at = std::max<std::int64_t>(0, step - 59 * 4); at <= step; at += 4) {
    o.spectrum_history.push_back(spectra_at(at, heads, rank));
  }
  o.spectra = o.spectrum_history.back();
  o.trace = trace_of(step, length, heads, rank, rank);
  o.token_weights = token_weights_of(*o.trace, heads, false);
  o.solvers = solvers_of(step, std::min(heads, 4), length);
  o.influence = influence_of(o);
  o.race = race_of(o);
  o.inspected = inspected_of(o);
  o.theory = theory_of(o.step);
  o.depth = depth_of(o.step);
  o.trajectory = trajectory_of(step);
  o.phase_map = phase_map_of(step);
  o.accuracy = accuracy_of(step);
  o.blame = blame_of(step);
  o.retrieval = retrieval_of();
  o.costs = costs_of();
  o.microscope = microscope_of(o);
  o.bisect = bisect_of(o);
  o.over_training = over_training_of(o);
  add_causes(o);
  o.made_at.fill(step);
  o.recipe = R"({"preset":"tiny","seed":7})";
  return o;
}

}  // namespace

Observation training_at(std::int64_t step) { return training(step, 4, 16, 64); }

Observation seen_by(Observation o, AnalysisSet analyses) {
  if (!has(analyses, Analysis::spectra)) {
    o.spectra = nullptr;
    o.spectrum_history.clear();
  }
  if (!has(analyses, Analysis::trace)) {
    o.trace = nullptr;
    o.token_weights = nullptr;
    o.trajectory = nullptr;
    o.forecast = nullptr;
    o.memory = nullptr;
  }
  if (!has(analyses, Analysis::inspected)) o.inspected = nullptr;
  if (!has(analyses, Analysis::solvers)) o.solvers = nullptr;
  if (!has(analyses, Analysis::theory)) {
    o.theory = nullptr;
    o.depth = nullptr;
  }
  if (!has(analyses, Analysis::influence)) o.influence = nullptr;
  if (!has(analyses, Analysis::race)) o.race = nullptr;
  if (!has(analyses, Analysis::phase_map)) o.phase_map = nullptr;
  if (!has(analyses, Analysis::accuracy)) o.accuracy = nullptr;
  if (!has(analyses, Analysis::blame)) o.blame = nullptr;
  if (!has(analyses, Analysis::retrieval)) o.retrieval = nullptr;
  if (!has(analyses, Analysis::costs)) o.costs = nullptr;
  if (!has(analyses, Analysis::forces)) o.forces = nullptr;
  if (!has(analyses, Analysis::bisect)) o.bisect = nullptr;
  if (!has(analyses, Analysis::over_training)) o.over_training = nullptr;
  if (!has(analyses, Analysis::microscope)) o.microscope = nullptr;
  if (!has(analyses, Analysis::patch)) o.patch = nullptr;
  if (!has(analyses, Analysis::ablation)) o.ablation = nullptr;
  if (!has(analyses, Analysis::logit_lens)) o.logit_lens = nullptr;
  if (!has(analyses, Analysis::transplant)) o.transplant = nullptr;
  if (!has(analyses, Analysis::readout)) o.readout = nullptr;
  return o;
}

Observation nothing() { return {}; }

Observation one_step() {
  Observation o = training_at(1);
  o.spectrum_history.resize(1);
  o.spectra = o.spectrum_history.back();
  o.running = false;
  return o;
}

Observation mid_training() { return training_at(428); }

Observation rewound() {
  Observation o = training_at(150);
  o.running = false;
  o.latest_step = 428;
  o.ahead = run_curves(428, 1, true, o.model);
  o.ahead->marks = {{100, "learning rate 0.003 → 0.01"}, {100, "clip 1 → 0.5"}, {300, "batch 16 → 32"}};
  o.runs.back().marks = {o.ahead->marks[0], o.ahead->marks[1]};
  return o;
}

Observation non_finite() {
  Observation o = training_at(300);
  RunCurves& run = o.runs.back();
  run.loss = curve(300, [](double s) { return s > 280 ? nan : s == 200 ? infinity : 4 * std::exp(-s / 90); });
  run.gradient_norm = curve(300, [](double s) { return s > 270 ? infinity : 0.5; });
  auto spectra = std::make_shared<Spectra>(*o.spectra);
  spectra->heads[0].eigenvalues[0] = {nan, nan};
  spectra->heads[0].energy[0] = nan;
  spectra->heads[1].kappa = infinity;
  o.spectra = spectra;
  o.spectrum_history.back() = spectra;
  auto trace = std::make_shared<Trace>(*o.trace);
  for (HeadStep& head : trace->steps.back().heads) {
    head.G[3] = head.M[5] = head.C[7] = std::numeric_limits<float>::quiet_NaN();
    head.kappa = infinity;
    head.lambda_min = nan;
    head.gram.clear();
  }
  trace->steps.back().top_probabilities.assign(5, nan);
  o.trace = trace;
  auto weights = std::make_shared<TokenWeights>(*o.token_weights);
  weights->weights[0].clear();
  o.token_weights = weights;
  auto solvers = std::make_shared<SolverView>(*o.solvers);
  solvers->problems[0].eigenvalues.clear();
  for (std::vector<double>& residuals : solvers->problems[1].races[0]) residuals.assign(residuals.size(), nan);
  solvers->conditioning[0].smallest[0] = nan;
  solvers->gates[0].log_decay[3] = nan;
  solvers->filters[0].runs[0].recall[2] = nan;
  solvers->gradients[0].checks[0].implicit = {nan, infinity};
  o.solvers = solvers;
  o.running = false;
  o.stopped_non_finite = true;
  o.events.push_back(
      {281, Severity::failure,
       "loss became NaN at step 281: layer 1 ska, head 0, tensor G[0, 3]. Raise the ridge or go back with ←."});
  o.events.push_back(
      {120, Severity::warning, "layer 1 ska, head 1: the Gram matrix needed 1e−4 more ridge to be factorised."});
  return o;
}

Observation huge_values() {
  Observation o = training_at(300);
  RunCurves& run = o.runs.back();
  run.loss = curve(300, [](double s) { return s < 150 ? 1e30 : 1e-30; });
  run.gradient_norm = curve(300, [](double s) { return std::pow(10.0, s - 150); });
  run.learning_rate = curve(300, [](double) { return 1e-12; });
  o.step = o.checksum_step = 9'876'543'210;
  o.final_step = 10'000'000'000;
  o.seed = 18446744073709551615ull;
  o.steps_per_second = 1.23e7;
  o.model.parameters = 187'654'321'000;
  auto spectra = std::make_shared<Spectra>(*o.spectra);
  for (auto& lambda : spectra->heads[0].eigenvalues) lambda *= 1e6;
  spectra->heads[0].scale = 1e-30;
  o.spectra = spectra;
  auto trace = std::make_shared<Trace>(*o.trace);
  for (TokenStep& step : trace->steps) {
    step.heads[0].kappa = 1e300;
    for (float& g : step.heads[0].G) g *= 1e30f;
  }
  o.trace = trace;
  auto weights = std::make_shared<TokenWeights>(*o.token_weights);
  for (float& w : weights->weights[0]) w *= 1e30f;
  o.token_weights = weights;
  return o;
}

Observation million_points() {
  Observation o = training_at(428);
  constexpr std::int64_t steps = 1'000'000;
  const ModelSummary model = o.model;
  o.runs = {run_curves(steps, 1, true, model)};
  o.step = o.checksum_step = steps;
  o.final_step = 2 * steps;
  return o;
}

Observation several_runs() {
  Observation o = training_at(428);
  o.runs = {run_curves(800, 1, true, o.model), run_curves(800, 2, false, o.model), run_curves(428, 3, true, o.model)};
  o.runs[1].run = "run 2 · without SKA";
  o.runs[2].run = "branch of run 1 at 300";
  o.runs[2].first_step = 301;
  o.runs[2].marks = {{301, "branch"}, {400, "power K 2 → 4"}};
  o.step = o.checksum_step = 728;
  o.same_as = "run 1";
  return o;
}

Observation long_texts() {
  Observation o = training_at(428);
  const std::string words = "a name that is much longer than any label that was ever planned for this place";
  o.preset = o.title = o.task = o.device = words;
  o.same_as = words;
  o.model.name = words;
  for (LayerSummary& layer : o.model.layers) layer.label = layer.detail = words;
  for (Setting& setting : o.settings) setting.label = words;
  for (RunCurves& run : o.runs) run.run = words;
  for (Mark& mark : o.runs.back().marks) mark.text = words;
  for (int i = 0; i < 40; ++i) o.events.push_back({i, Severity::warning, words + ", and once more: " + words});
  return o;
}

Observation many_heads() {
  Observation o = training(300, 16, 64, 700);
  o.model.layers[3].heads = 16;
  return o;
}

Observation inspected() {
  Observation o = training_at(428);
  auto view = inspected_of(o);
  LayerIntervention& layer = view->setup.interventions.layers[3];
  layer.power = 4;
  auto& edits = layer.heads[0].modes;
  edits[{true, 0}] = {0, false, std::complex<double>(0.7, 0.6), true};
  edits[{true, 4}] = {4, true, {}, true};
  layer.heads[2].is_off = true;
  for (const HeadSpectrum& head : o.spectra->heads) {
    InspectedHead inspected{head, std::vector<bool>(head.eigenvalues.size(), false), head.head == 2};
    inspected.spectrum.power = 4;
    if (head.head == 0 && head.eigenvalues.size() > 4) {
      const EditedModes modes = edit_modes(head.eigenvalues, std::vector<ModeEdit>{edits[{true, 0}], edits[{true, 4}]});
      inspected.spectrum.eigenvalues = modes.eigenvalues;
      inspected.is_off = modes.is_off;
    }
    view->heads.push_back(std::move(inspected));
  }
  ModeEdit& moved = view->setup.interventions.layers[2].heads[0].modes[{false, 3}];
  moved = {3, false, std::complex<double>(-0.4, 0.3)};
  ModeEdit& off = view->setup.interventions.layers[2].heads[0].modes[{false, 9}];
  off = {9, true, {}};
  const EditedModes pairs = edit_pairs(o.spectra->mlps.at(0).eigenvalues, std::vector<ModeEdit>{moved, off});
  view->mlps.push_back({{2, pairs.eigenvalues}, pairs.is_off});
  for (InspectedAnswer& answer : view->answers) std::reverse(answer.after.begin(), answer.after.end());
  view->accuracy_after = 0.61;
  view->weights = *o.token_weights;
  for (std::vector<float>& head : view->weights.weights) {
    for (float& weight : head) weight *= 0.4f;
  }
  o.inspected = view;
  return o;
}

Observation broken_inspected() {
  Observation o = inspected();
  auto view = std::make_shared<InspectedView>(*o.inspected);
  view->labels = nullptr;
  auto theory = std::make_shared<TheoryView>(*o.theory);
  auto depth = std::make_shared<DepthView>(*o.depth);
  depth->layers = {1, 99, 3, 4};
  depth->gradient[2] = nan;
  depth->residual_bound.resize(1);
  depth->branch_norms[0] = infinity;
  depth->branch_bounds.resize(9, infinity);
  depth->query_bounds.clear();
  depth->closed_product[0] = infinity;
  o.depth = depth;
  theory->layer = 99;
  theory->operator_bound.clear();
  theory->gap[3] = nan;
  theory->gap_bound.resize(2);
  theory->jacobian.bound = infinity;
  theory->softmax.saturation_bound.resize(2);
  theory->softmax.norm[1] = nan;
  theory->softmax.last.clear();
  theory->crossing = theory->gradient_step_gap = theory->linearity_gap = nan;
  theory->kappa = -1;
  o.theory = theory;
  view->accuracy_after = nan;
  view->heads[0].is_off.clear();
  view->heads[0].spectrum.eigenvalues.resize(2);
  view->heads[0].spectrum.scale = nan;
  view->heads[1].spectrum.identity.clear();
  view->mlps[0].is_off.clear();
  view->mlps[0].spectrum.eigenvalues.resize(40, nan);
  view->weights.weights.resize(1);
  view->weights.weights[0].resize(7);
  view->answers.back() = {{1, -4, 9999999}, {nan, 2}, {infinity}, -1, -1};
  o.inspected = view;
  return o;
}

Observation forecast() {
  Observation o = training_at(428);
  o.preset = "forecast";
  o.task = "forecast · built-in · 72 → 24";
  o.measures = {"mean squared error", "", "explained variance"};
  o.model.layers = {{"embedding", "enc_embedding", "embedding", "d 32", 2000, 0, 0},
                    {"0 attention", "encoder.layers.0", "attention", "H 4", 12000, 4, 0},
                    {"memory", "memory", "spectral_memory", "K 8 · M 4", 240000, 0, 0},
                    {"head", "head", "head", "P 24", 9000, 0, 0}};
  o.model.is_forecaster = true;
  o.spectra = nullptr;
  o.spectrum_history.clear();
  o.trace = nullptr;
  o.token_weights = nullptr;
  o.solvers = nullptr;
  o.influence = nullptr;
  o.inspected = nullptr;
  o.theory = nullptr;
  o.depth = nullptr;
  o.forecast = forecast_of(428);
  o.memory = memory_of(428);
  return o;
}

Observation broken_forecast() {
  Observation o = forecast();
  auto path = trajectory_of(428);
  path->step = 12;
  path->path[1].resize(5);
  path->path[0][2] = path->empirical.modes[1][4] = nan;
  path->path[2].clear();
  path->explained = {nan, infinity};
  path->empirical.eigenvalues[0] = 0;
  path->empirical.eigenvalues[1] = nan;
  path->empirical.modes[0].resize(3);
  path->kernel = {};
  o.trajectory = path;
  auto view = forecast_of(400);
  ForecastWindow& window = view->windows.front();
  window.channels[0] = {};
  window.channels[1].prediction[3] = nan;
  window.channels[2].truth.clear();
  window.mse = infinity;
  view->windows[1].channels.clear();
  o.forecast = view;
  auto memory = memory_of(400);
  memory->attention[0].reads[1].clear();
  memory->attention[0].is_read.resize(3, {nan});
  memory->attention.push_back({});
  memory->explained.resize(1, nan);
  memory->change_without[0] = nan;
  memory->less[0].change[1] = nan;
  memory->less[1] = {"tokens M'", 0, 0, {}, {}};
  memory->change_now = nan;
  memory->buffer[0] = static_cast<float>(nan);
  o.memory = memory;
  return o;
}

Observation softmax_weights() {
  Observation o = training_at(428);
  o.model.layers[1] = {"0 attention", "layers.0.mixer", "attention", "H 2", 16384, 2, 32768};
  auto trace = std::make_shared<Trace>(*o.trace);
  trace->layer = 1;
  o.trace = trace;
  o.token_weights = token_weights_of(*trace, 2, true);
  o.solvers =
      std::make_shared<const SolverView>(with_made(*o.solvers, MadeProblem{{1e-3, 0.02, 0.5, 1, 1, 1e-5}, 0.01, 0}));
  return o;
}

Observation attention_trace() {
  Observation o = training_at(428);
  auto trace = std::make_shared<Trace>(*o.trace);
  trace->layer = 1;
  trace->rank = trace->value_width = 0;
  trace->state_rows = 32;
  trace->state_columns = 16;
  for (std::size_t t = 0; t < trace->steps.size(); ++t) {
    trace->steps[t].heads.clear();
    for (int i = 0; i < 32 * 16; ++i)
      trace->steps[t].state.push_back(
          static_cast<float>(noise(5, static_cast<std::uint64_t>(i)) * std::sin(0.1 * static_cast<double>(t))));
    trace->steps[t].state_norm = {std::sqrt(1.0 + static_cast<double>(t)), 1.0};
    trace->steps[t].state_rank = {1 + 0.2 * static_cast<double>(t), 1.0};
  }
  o.trace = trace;
  o.token_weights = token_weights_of(*trace, 2, false);
  auto spectra = std::make_shared<Spectra>();
  spectra->step = o.step;
  spectra->states = {{1, 0, {std::polar(0.98, 0.3), std::polar(0.98, -0.3)}}, {1, 1, {1.0, 0.2}}};
  o.spectra = spectra;
  o.spectrum_history.clear();
  return o;
}

std::shared_ptr<const Observation> Sample::observation() const {
  static std::map<std::string, std::shared_ptr<const Observation>> made;
  std::shared_ptr<const Observation>& mine = made[name];
  if (!mine) mine = std::make_shared<const Observation>(make());
  return mine;
}

const std::vector<Sample>& all() {
  static const std::vector<Sample> samples{
      {"nothing", nothing},
      {"one step", one_step},
      {"mid training", mid_training},
      {"rewound", rewound},
      {"non-finite", non_finite},
      {"huge values", huge_values},
      {"million points", million_points},
      {"several runs", several_runs},
      {"long texts", long_texts},
      {"many heads", many_heads},
      {"probed", inspected},
      {"broken probe", broken_inspected},
      {"attention trace", attention_trace},
      {"softmax weights", softmax_weights},
      {"forecast", forecast},
      {"broken forecast", broken_forecast},
  };
  return samples;
}

}  // namespace afterglow::samples
