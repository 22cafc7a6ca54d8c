// Systems from probes, races and gradient checks.
#include "core/engine/probing/solver_problems.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/training/trainer.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/capture_reader.h"
#include "core/layers/ska.h"

namespace afterglow {

namespace {

constexpr double jitter_step = 1e-4;  // added to the diagonal each time a factorisation fails

constexpr std::size_t max_eigenvalues = 128;
constexpr double smallest_eigenvalue = 1e-12, max_eigenvalue = 1e12;

using See = std::function<void(int, int, RidgeProblem)>;

struct Source {
  Trainer& trainer;
  const ModelPart& part;
  const CaptureReader& read;

  std::string name(const char* probe) const { return part.scope + "." + probe; }
  const Layer& layer() const { return *trainer.model().branches()[static_cast<std::size_t>(part.branch)].layer; }
  int tokens() const { return static_cast<int>(read.shape(name("keys"))[1]); }
  /// Row `token` of a probe [1,T,H,width], one head.
  std::vector<double> row(const char* probe, int token, int head) const {
    const std::vector<double>& all = read.values(name(probe));
    const auto heads = static_cast<std::size_t>(part.heads);
    const std::size_t width = all.size() / (static_cast<std::size_t>(tokens()) * heads);
    const auto begin =
        all.begin() +
        static_cast<std::ptrdiff_t>((static_cast<std::size_t>(token) * heads + static_cast<std::size_t>(head)) * width);
    return {begin, begin + static_cast<std::ptrdiff_t>(width)};
  }
};

/// Which group of statistics answers a token; -1 for none (the first chunk).
int group_of(const SkaConfig& config, int token) {
  switch (config.core.mode) {
    case RidgeConfig::Mode::chunk:
      return token / config.core.chunk == 0 ? -1 : token / config.core.chunk;
    case RidgeConfig::Mode::recurrent:
      return token;
    default:
      return 0;
  }
}

/// A layer sums in float32, whose two triangles differ by rounding.
std::vector<double> symmetrised(std::span<const double> G, std::size_t n) {
  std::vector<double> H(G.begin(), G.end());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) H[i * n + j] = H[j * n + i] = (G[i * n + j] + G[j * n + i]) / 2;
  }
  return H;
}

double ska_systems(const Source& source, std::span<const int> tokens, const See& see) {
  const SkaConfig& config = static_cast<const Ska&>(source.layer()).config();
  const auto square = static_cast<std::size_t>(config.rank * config.rank);
  for (int head = 0; head < source.part.heads; ++head) {
    const auto of_head = [&](const char* probe) {
      return source.read.block(source.name(probe), head, source.part.heads);
    };
    const std::vector<double> G = of_head("G"), m = of_head("m"), jitter = of_head("jitter");
    for (const int token : tokens) {
      const int group = group_of(config, token);
      const auto at = static_cast<std::size_t>(std::max(group, 0));
      if (group < 0 || (at + 1) * square > G.size()) continue;
      std::vector<double> q = source.row("queries", token, head);
      for (double& value : q) value /= m[at];
      std::vector<double> H = symmetrised(std::span(G).subspan(at * square, square), q.size());
      see(head, token, bounded_problem(std::move(H), std::move(q), config.core.ridge + jitter_step * jitter[at]));
    }
  }
  return 0;
}

double setting_of(const Layer& layer, std::string_view key) {
  for (const LayerSetting& setting : layer.settings()) {
    if (setting.key == key) return setting.value;
  }
  return 0;
}

/// Log decays of one head, no less than the floor that the layer sets; zeros without a gate.
std::vector<double> gka_decay(const Source& source, int head) {
  std::vector<double> decay(static_cast<std::size_t>(source.tokens()), 0.0);
  if (source.read.values(source.name("log_gate")).empty()) return decay;
  const double floor = setting_of(source.layer(), "gate_floor");
  for (int t = 0; t < source.tokens(); ++t) {
    const double g = source.row("log_gate", t, head).front();
    decay[static_cast<std::size_t>(t)] = floor > 0 ? std::max(g, std::log(floor)) : g;
  }
  return decay;
}

/// H_t of every token in turn: H_t = e^g H_{t-1} + k k^T.
template <class Visit>
void walk_keys(const Source& source, int head, const std::vector<double>& decay, const Visit& visit) {
  const std::size_t width = source.row("keys", 0, head).size();
  std::vector<double> H(width * width, 0.0);
  for (int t = 0; t < source.tokens(); ++t) {
    const std::vector<double> k = source.row("keys", t, head);
    const double kept = std::exp(decay[static_cast<std::size_t>(t)]);
    for (std::size_t i = 0; i < H.size(); ++i) H[i] = kept * H[i] + k[i / width] * k[i % width];
    visit(t, H);
  }
}

double gka_systems(const Source& source, std::span<const int> tokens, const See& see) {
  for (int head = 0; head < source.part.heads; ++head) {
    std::vector<double> decay = gka_decay(source, head);
    // Whether the gate acts on the keys, too, is an option of the layer; |H_t|_F tells.
    double norm = 0;
    walk_keys(source, head, decay, [&](int, const std::vector<double>& H) { norm = frobenius_norm(H); });
    const double probed = source.row("fro", source.tokens() - 1, head).front();
    if (std::abs(norm - probed) > 1e-2 * probed) std::fill(decay.begin(), decay.end(), 0.0);
    walk_keys(source, head, decay, [&](int token, const std::vector<double>& H) {
      if (!std::binary_search(tokens.begin(), tokens.end(), token)) return;
      see(head, token,
          bounded_problem(H, source.row("queries", token, head), source.row("lambda", token, head).front()));
    });
  }
  return setting_of(source.layer(), "lambda") > 0 ? 0 : setting_of(source.layer(), "a");
}

std::vector<HeadGate> gka_gates(const Source& source) {
  std::vector<HeadGate> gates;
  for (int head = 0; head < source.part.heads; ++head) gates.push_back({head, gka_decay(source, head)});
  return gates;
}

struct Reader {
  std::string_view kind;
  double (*systems)(const Source& source, std::span<const int> tokens, const See& see);
  std::vector<HeadGate> (*gates)(const Source& source);
};

std::vector<HeadGate> mamba2_gates(const Source& source) {
  const std::vector<double>& sums = source.read.values(source.name("log_decay_cumsum"));
  const auto heads = static_cast<std::size_t>(source.read.shape(source.name("dt")).last());
  std::vector<HeadGate> gates(heads);
  for (std::size_t head = 0; head < heads; ++head) {
    gates[head].head = static_cast<int>(head);
    for (std::size_t at = head; at < sums.size(); at += heads)
      gates[head].log_decay.push_back(sums[at] - (at >= heads ? sums[at - heads] : 0));
  }
  return gates;
}

constexpr std::array readers{Reader{"ska", ska_systems, nullptr}, Reader{"gka", gka_systems, gka_gates},
                             Reader{"mamba2", nullptr, mamba2_gates}};

const Reader* find_reader(std::string_view kind) {
  for (const Reader& reader : readers) {
    if (reader.kind == kind) return &reader;
  }
  return nullptr;
}

std::vector<double> shaped_spectrum(const std::string& shape, int count, double kappa) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const double place = count > 1 ? static_cast<double>(i) / (count - 1) : 1;
    const double spread = std::pow(kappa, place - 1);  // from 1/κ to 1
    if (shape == "geometric") values.push_back(spread);
    // Two groups, each within a factor 1.2.
    if (shape == "clustered") values.push_back(2 * i < count ? (1 + 0.4 * place) / kappa : 1 - 0.4 * (1 - place));
    if (shape == "outlier") values.push_back(i + 1 == count ? 1 : (1 + place) / kappa);
  }
  return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

bool solves_systems(std::string_view kind) {
  const Reader* reader = find_reader(kind);
  return reader && reader->systems;
}

bool has_gate(std::string_view kind) {
  const Reader* reader = find_reader(kind);
  return reader && reader->gates;
}

double for_each_system(Trainer& trainer, int part, const CaptureReader& read, std::span<const int> tokens,
                       const std::function<void(int, int, RidgeProblem)>& see) {
  const Source source{trainer, trainer.parts()[static_cast<std::size_t>(part)], read};
  return find_reader(source.part.kind)->systems(source, tokens, see);
}

std::vector<HeadGate> read_gates(Trainer& trainer, int part, const CaptureReader& read) {
  const Source source{trainer, trainer.parts()[static_cast<std::size_t>(part)], read};
  return find_reader(source.part.kind)->gates(source);
}

std::optional<MadeProblem> parse_made_problem(const nlohmann::json& value) {
  const std::string where = "solver_problem";
  refuse_unknown_keys(value, {"eigenvalues", "shape", "count", "kappa", "mu", "L"}, where);
  if (value.empty()) return std::nullopt;
  MadeProblem made;
  if (value.contains("eigenvalues")) {
    const nlohmann::json& list = value["eigenvalues"];
    const bool numbers = list.is_array() && std::all_of(list.begin(), list.end(), [](const auto& v) {
                           return v.is_number() && v.template get<double>() >= smallest_eigenvalue &&
                                  v.template get<double>() <= max_eigenvalue;
                         });
    if (!numbers || list.empty() || list.size() > max_eigenvalues)
      throw Error(ExitCode::bad_input, where + ": eigenvalues are 1 to 128 numbers between 1e-12 and 1e12");
    made.eigenvalues = list.get<std::vector<double>>();
  } else {
    const std::string shape = get_choice(value, "shape", {"geometric", "clustered", "outlier"}, std::nullopt, where);
    made.eigenvalues =
        shaped_spectrum(shape, static_cast<int>(get_integer(value, "count", 24, 2, max_eigenvalues, where)),
                        get_number(value, "kappa", 51, 2, max_eigenvalue, where));
  }
  made.mu = get_number(value, "mu", 0, 0, max_eigenvalue, where);
  made.L = get_number(value, "L", 0, 0, max_eigenvalue, where);
  return made;
}

RidgeProblem system_of(const MadeProblem& made) {
  const std::size_t n = made.eigenvalues.size();
  // A reflection whose direction has no symmetry: eigenvectors e_j - 2 v_j v, whose rounding errors are those of a
  // matrix at large, not of a diagonal.
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = std::sin(1 + 2.4 * static_cast<double>(i)) + 1.5;
  const double length = std::sqrt(dot(v, v));
  for (double& x : v) x /= length;
  const auto basis = [&](std::size_t i, std::size_t j) { return (i == j ? 1.0 : 0.0) - 2 * v[i] * v[j]; };
  RidgeProblem problem;
  problem.H.assign(n * n, 0);
  problem.q.assign(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t e = 0; e < n; ++e) {
      problem.q[i] += basis(i, e) / std::sqrt(static_cast<double>(n));
      for (std::size_t j = 0; j < n; ++j) problem.H[i * n + j] += basis(i, e) * made.eigenvalues[e] * basis(j, e);
    }
  }
  const auto [low, high] = std::minmax_element(made.eigenvalues.begin(), made.eigenvalues.end());
  problem.mu = made.mu > 0 ? made.mu : *low;
  problem.L = std::max(made.L > 0 ? made.L : *high, problem.mu);
  return problem;
}

RacedProblem race(int head, int token, const RidgeProblem& problem, int iterations) {
  RacedProblem raced{head, token, problem.ridge, problem.mu, problem.L, ridge_eigenvalues(problem), {}};
  const double length = std::sqrt(dot(problem.q, problem.q));
  for (std::size_t a = 0; a < all_arithmetics.size(); ++a) {
    for (std::size_t s = 0; s < all_solvers.size(); ++s) {
      raced.races[a][s] = run_solver(all_solvers[s], problem, iterations, all_arithmetics[a]).residuals;
      for (double& residual : raced.races[a][s]) residual /= length;
    }
  }
  return raced;
}

SolverView with_made(SolverView view, const std::optional<MadeProblem>& made) {
  view.made_of = made;
  view.made.reset();
  view.made_gradients.clear();
  view.made_reversals = {};
  if (!made) return view;
  const RidgeProblem problem = system_of(*made);
  view.made = race(0, -1, problem, view.iterations);
  view.made_gradients = check_gradients(problem, 0, view.iterations);
  view.made_reversals = check_reversals(problem, view.iterations);
  return view;
}

std::array<ChebyshevReversal, all_arithmetics.size()> check_reversals(const RidgeProblem& problem, int iterations) {
  std::array<ChebyshevReversal, all_arithmetics.size()> reversals;
  for (std::size_t a = 0; a < all_arithmetics.size(); ++a)
    reversals[a] = reverse_chebyshev(problem, iterations, all_arithmetics[a]);
  return reversals;
}

std::vector<GradientLine> check_gradients(const RidgeProblem& problem, double strength, int iterations) {
  std::vector<double> upstream;
  for (std::size_t i = 0; i < problem.q.size(); ++i) upstream.push_back(i % 2 ? -1 : 1);
  std::vector<int> counts;
  for (int count = 1; count <= iterations; count += count < 6 ? 1 : 3) counts.push_back(count);
  std::vector<GradientLine> lines;
  for (const SolverKind solver : {SolverKind::chebyshev, SolverKind::conjugate_gradient}) {
    for (const Arithmetic arithmetic : all_arithmetics)
      lines.push_back({solver, arithmetic, gradient_check(solver, problem, strength, upstream, counts, arithmetic)});
  }
  return lines;
}

}  // namespace afterglow
