// Koopman MLP.
#include "core/layers/koopman_mlp.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {

// The eigenvalues gamma + i omega start with gamma in [0.8, 0.9] and omega in [-0.4, 0.4]: moduli from 0.8 to 0.985 and
// angles of up to 27 degrees in both directions: inside the unit disk, near the identity, all pairs different.
KoopmanMlp::KoopmanMlp(const KoopmanMlpConfig& config, const ParameterScope& parameters)
    : lift_(parameters.add("lift.weight", {config.inner, config.width}, fan_in_uniform())),
      gamma_(parameters.add("gamma", {config.inner / 2}, uniform(0.8, 0.9))),
      omega_(parameters.add("omega", {config.inner / 2}, uniform(-0.4, 0.4))),
      readout_(parameters.add("readout.weight", {config.width, config.inner}, fan_in_uniform())) {
  if (config.gated) gate_ = &parameters.add("gate.weight", {config.inner, config.width}, fan_in_uniform());
}

Var KoopmanMlp::forward(Tape& tape, const Var& x, const Tensor&) {
  if (tape.wants("lambda_modulus")) hook_moduli(tape);
  return answer(tape, x, tape.parameter(gamma_), tape.parameter(omega_));
}

Var KoopmanMlp::answer(Tape& tape, const Var& x, const Var& gamma, const Var& omega) {
  const Var lifted = linear(tape, x, tape.parameter(lift_), {}, Storage::narrow);
  const Var gate = gate_ ? linear(tape, x, tape.parameter(*gate_), {}, Storage::narrow) : Var{};
  const Var z = koopman_modes(tape, lifted, gamma, omega, gate);
  return linear(tape, z, tape.parameter(readout_));
}

std::vector<std::complex<double>> KoopmanMlp::eigenvalues(Backend& backend) const {
  const std::vector<double> gamma = to_host(backend, gamma_.value), omega = to_host(backend, omega_.value);
  std::vector<std::complex<double>> lambda(gamma.size());
  for (std::size_t i = 0; i < lambda.size(); ++i) {
    const std::complex<double> raw(gamma[i], omega[i]);
    lambda[i] = raw / std::max(1.0, std::abs(raw));
  }
  return lambda;
}

Var KoopmanMlp::forward_edited(Tape& tape, const Var& x, std::span<const ModeEdit> edits) {
  if (tape.wants("lambda_modulus")) hook_moduli(tape);
  const EditedModes modes = edit_pairs(eigenvalues(tape.backend()), edits);
  std::vector<double> gamma, omega;
  for (std::size_t i = 0; i < modes.eigenvalues.size(); ++i) {
    gamma.push_back(modes.is_off[i] ? 0.0 : modes.eigenvalues[i].real());
    omega.push_back(modes.is_off[i] ? 0.0 : modes.eigenvalues[i].imag());
  }
  const auto given = [&](const std::vector<double>& values) {
    return tape.constant(to_device(tape, gamma_.shape, gamma_.value.dtype, values));
  };
  return answer(tape, x, given(gamma), given(omega));
}

void KoopmanMlp::hook_moduli(Tape& tape) const {
  std::vector<double> moduli;
  for (const std::complex<double>& lambda : eigenvalues(tape.backend())) moduli.push_back(std::abs(lambda));
  tape.hook("lambda_modulus", to_device(tape, gamma_.shape, gamma_.value.dtype, moduli));
}

LayerKind koopman_mlp_kind() {
  return {.name = "koopman_mlp",
          .description = "Koopman MLP: readout(damped rotations of silu(lift x)), optionally gated",
          .source = "Echo 3.3",
          .mixes_tokens = false,
          .make = [](const nlohmann::json& config, const ParameterScope& parameters) -> std::unique_ptr<Layer> {
            const std::string where = "koopman_mlp";
            refuse_unknown_keys(config, {"d", "dk", "gated"}, where);
            KoopmanMlpConfig c;
            c.width = get_integer(config, "d", std::nullopt, 1, 65536, where);
            c.inner = get_integer(config, "dk", (8 * c.width + 191) / 192 * 64, 2, 1 << 20, where);
            c.gated = get_bool(config, "gated", false, where);
            if (c.inner % 2 != 0) {
              throw Error(ExitCode::bad_input, "koopman_mlp: dk must be even, because its numbers turn in pairs; " +
                                                   std::to_string(c.inner + 1) + " would do");
            }
            return std::make_unique<KoopmanMlp>(c, parameters);
          },
          .small_config = [](const SmallSizes& s) -> nlohmann::json {
            return {{"d", s.width}};
          },
          .ink = 4,
          .readers = {.modes = [](const Layer& layer) { return static_cast<const KoopmanMlp&>(layer).pairs(); },
                      .edit =
                          [](Layer& layer, Tape& tape, const Var& x, const Tensor&, const LayerEdit& edit) {
                            return static_cast<KoopmanMlp&>(layer).forward_edited(tape, x, edit.heads.front().modes);
                          },
                      .spectrum = [](const Layer& layer, Backend& backend,
                                     int) { return static_cast<const KoopmanMlp&>(layer).eigenvalues(backend); }},
          .shows = LayerTrait::koopman_modes,
          .benchmarks = {{R"({"d":128})", 16, 64}}};
}

}  // namespace afterglow
