// Runs the layer from a file, and compares it with an exact solver.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/analysis/solvers/solvers.h"
#include "core/layers/files/file_run.h"
#include "core/layers/gka.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

/// Inputs of the core, on the host; keys [B,T,H,D], the numbers [B,T,H].
struct CoreValues {
  std::vector<double> q, k, log_gate, lambda, fro;
  std::int64_t batch, tokens, heads, width;
  std::size_t row(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>((b * tokens + t) * heads + h);
  }
};

CoreValues download(Tape& tape) {
  const CaptureReader read(tape, tape.backend());
  const Shape shape = read.shape("queries");
  return {read.values("queries"),
          read.values("keys"),
          read.values("log_gate"),
          read.values("lambda"),
          read.values("fro"),
          shape[0],
          shape[1],
          shape[2],
          shape[3]};
}

/// Calls see(t, H_t) for every token of one head, in order.
template <class See>
void walk(const CoreValues& values, bool decay, std::int64_t b, std::int64_t h, const See& see) {
  const std::int64_t n = values.width;
  std::vector<double> H(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t t = 0; t < values.tokens; ++t) {
    const std::size_t row = values.row(b, t, h);
    const double gate = decay && !values.log_gate.empty() ? std::exp(values.log_gate[row]) : 1.0;
    const double* k = &values.k[row * static_cast<std::size_t>(n)];
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) H[i * n + j] = gate * H[i * n + j] + k[i] * k[j];
    see(t, H);
  }
}

std::vector<double> condition_numbers(const CoreValues& values, bool decay) {
  std::vector<double> kappa(values.lambda.size());
  for (std::int64_t b = 0; b < values.batch; ++b) {
    for (std::int64_t h = 0; h < values.heads; ++h) {
      walk(values, decay, b, h, [&](std::int64_t t, const std::vector<double>& H) {
        const SymmetricRange range = symmetric_range(H, static_cast<int>(values.width));
        const double lambda = values.lambda[values.row(b, t, h)];
        kappa[values.row(b, t, h)] = (range.largest + lambda) / (std::max(range.smallest, 0.0) + lambda);
      });
    }
  }
  return kappa;
}

class GkaFile final : public FileSubject {
 public:
  explicit GkaFile(std::unique_ptr<Layer> layer) : layer_(std::move(layer)) {}

  void run(FileRun& run) override {
    const Var x = run.input("x", {FileRun::any, FileRun::any, FileRun::any});
    // In float32 the difference to an exact solver is smaller than rounding errors.
    if (x.value.dtype == DType::f64) put_exact(run, x.value);
    const Var y = layer_->forward(run.tape(), x, {});
    const CoreValues values = download(run.tape());
    run.output("probe.kappa", {values.batch, values.tokens, values.heads}, condition_numbers(values, decay()));
    put_residuals(run, values);
    run.output("y", y);
  }

 private:
  Gka& gka() const { return static_cast<Gka&>(*layer_); }
  const GkaConfig& config() const { return gka().config(); }
  bool decay() const { return config().core.decay_keys; }

  void put_residuals(FileRun& run, const CoreValues& values) const {
    const int iterations = config().core.iterations;
    struct Named {
      const char* name;
      SolverKind solver;
    };
    constexpr Named solvers[] = {{"probe.residual_cheb", SolverKind::chebyshev},
                                 {"probe.residual_gd", SolverKind::gradient_descent},
                                 {"probe.residual_agd", SolverKind::nesterov},
                                 {"probe.residual_cg", SolverKind::conjugate_gradient}};
    for (const Named& one : solvers) {
      std::vector<double> residuals;
      walk(values, decay(), 0, 0, [&](std::int64_t t, const std::vector<double>& H) {
        const std::size_t row = values.row(0, t, 0);
        const auto q = values.q.begin() + static_cast<std::ptrdiff_t>(row) * values.width;
        const double lambda = values.lambda[row];
        const RidgeProblem problem{H, {q, q + values.width}, lambda, lambda, values.fro[row] + lambda};
        SolverRun found = run_solver(one.solver, problem, iterations, Arithmetic::fp64);
        found.residuals.resize(static_cast<std::size_t>(iterations) + 1, 0.0);
        residuals.insert(residuals.end(), found.residuals.begin(), found.residuals.end());
      });
      run.output(one.name, {values.tokens, iterations + 1}, residuals);
    }
  }

  /// Runs so many iterations that nothing is left to solve: the error falls by e^-2/sqrt(kappa) with each step.
  void put_exact(FileRun& run, const Tensor& x) {
    const int iterations = config().core.iterations;
    const bool follows = config().core.lambda_grad;
    gka().follow_lambda(true);
    const double needed = 20.0 * std::sqrt(kappa_bound(config().core.ridge));
    layer_->set("r", std::isfinite(needed) ? std::clamp(std::ceil(needed), 0.0, 4000.0) : 4000.0);
    Arena arena(run.tape().backend());
    Tape tape(run.tape().backend(), arena);
    tape.begin(true);
    const Var input = tape.input(x), y = layer_->forward(tape, input, {});
    run.output("probe.y_exact", y.shape(), to_host(tape.backend(), y.value));
    if (run.has("grad_y")) {
      const std::vector<double> upstream = run.numbers("grad_y", y.shape());
      tape.backward(y, to_device(tape, y.shape(), run.dtype(), upstream));
      run.output("probe.grad_x_exact", x.shape, to_host(tape.backend(), tape.gradient_of(input)));
    }
    layer_->set("r", iterations);
    gka().follow_lambda(follows);
  }

  std::unique_ptr<Layer> layer_;
};

}  // namespace

/// In addition to the layer's captures: `kappa` [B,T,H], the condition numbers of H_t + lambda_t I; for the first head
/// of the first sequence `residual_cheb`, `residual_gd`, `residual_agd`, `residual_cg` [T, num_iter + 1], in float64
/// (those of conjugate gradient amplify the rounding of their sums near convergence); and, in a float64 run, `y_exact`
/// and, given `grad_y`, `grad_x_exact`, with so many iterations that the solve has converged, and with the gradient
/// through lambda for any `bp_lambda`.
FileKind gka_file_kind() {
  return {"gka", [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<FileSubject> {
            return std::make_unique<GkaFile>(make_layer("gka", config, parameters));
          }};
}

}  // namespace afterglow
