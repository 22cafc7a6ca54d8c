// Koopman MLP: the non-linearity of a position-wise layer followed by damped rotations of pairs (Echo 3.3).
#include <algorithm>
#include <cmath>
#include <complex>
#include <nlohmann/json.hpp>
#include <numbers>
#include <span>

#include "core/analysis/koopman/edited_operator.h"
#include "core/io/json_file.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

/// What the learned eigenvalues are made of: gamma + i omega within the unit disk; e^(i theta); or that times
/// e^-softplus(s). The last two, as the last two options below, are those of the authors' later code.
enum class Rotation { clamp, angle, log_radius };

struct KoopmanMlpConfig : JsonFields {
  explicit KoopmanMlpConfig(const nlohmann::json& config) : JsonFields(config, "koopman_mlp") {
    refuse_others();
    if (mixer_block > 0 && (mixer_block % 2 != 0 || inner % mixer_block != 0))
      refuse(": mixer_block must be even and divide dk, ", inner, ", and is ", mixer_block);
    if (inner % 2 != 0) refuse(": dk must be even, because its numbers turn in pairs; ", inner + 1, " would do");
  }
  std::int64_t width = integer("d", {}, 1, 65536);
  std::int64_t inner = integer("dk", (8 * width + 191) / 192 * 64, 2, 1 << 20);  ///< even
  bool gated = flag("gated", false);
  Rotation rotation = choice("rotation", {"clamp", "angle", "log_radius"}, Rotation::clamp);
  /// Row i of the lift is lift_g_i lift_v_i / |lift_v_i|.
  bool norms_rows = word("lift", {"plain", "row_norm"}, "plain") == "row_norm";
  /// b of mixer "cayley": u <- (I + S)^-1 (I - S) u in blocks of b; 0: no mixer.
  std::int64_t mixer_block =
      integer("mixer_block", 64, 2, 1024) * (word("mixer", {"none", "cayley"}, "none") == "cayley");
};

constexpr double tiny_row = 1e-30;                   // in the place of the length of a row of zeros
const double first_radius = std::log(1 / 0.99 - 1);  // s of a modulus of 0.99

/// Captures `lambda_modulus` [dk/2]: moduli of the learned eigenvalues after the division by max(1, modulus); with a
/// mixer its matrices `mixer` [dk/b,b,b].
class KoopmanMlp final : public Layer {
 public:
  // The eigenvalues gamma + i omega start with gamma in [0.8, 0.9] and omega in [-0.4, 0.4]: moduli from 0.8 to 0.985
  // and angles of up to 27 degrees in both directions: inside the unit disk, near the identity, all pairs different.
  KoopmanMlp(const KoopmanMlpConfig& config, const ParameterScope& parameters)
      : config_(config),
        lift_(parameters.add(config.norms_rows ? "lift_v" : "lift.weight", {config.inner, config.width},
                             fan_in_uniform())),
        first_(config.rotation == Rotation::clamp ? parameters.add("gamma", {config.inner / 2}, uniform(0.8, 0.9))
                                                  : parameters.add("theta", {config.inner / 2}, normal(0.1))),
        second_(config.rotation == Rotation::clamp ? &parameters.add("omega", {config.inner / 2}, uniform(-0.4, 0.4))
                : config.rotation == Rotation::angle
                    ? nullptr
                    : &parameters.add("s", {config.inner / 2}, constant(first_radius))),
        readout_(parameters.add("readout.weight", {config.width, config.inner}, fan_in_uniform())) {
    if (config.gated) gate_ = &parameters.add("gate.weight", {config.inner, config.width}, fan_in_uniform());
    if (config.norms_rows) {
      const double gain =
          std::sqrt(2.0 * static_cast<double>(config.width) / static_cast<double>(config.inner + config.width));
      lift_g_ = &parameters.add("lift_g", {config.inner}, constant(gain));
      lift_.decay = false;
    }
    const std::int64_t b = config.mixer_block;
    if (b > 0) mixer_ = &parameters.add("mixer.A_raw", {config.inner / b, b, b}, normal(1e-3 / std::numbers::sqrt2));
  }
  bool projects_once() const override { return gate_ == nullptr && config_.inner % 8 == 0; }
  Var forward(Tape& tape, const Var& x, const Tensor&) override {
    if (tape.wants("lambda_modulus")) hook_moduli(tape);
    const Var first = tape.parameter(first_), second = second_ ? tape.parameter(*second_) : Var{};
    if (config_.rotation == Rotation::clamp) return answer(tape, x, first, second);
    Var gamma = unary(tape, Unary::sine, shifted(tape, first, std::numbers::pi / 2)),
        omega = unary(tape, Unary::sine, first);
    if (second_) {  // e^-softplus(s) = sigmoid(-s)
      const Var radius = unary(tape, Unary::sigmoid, scale(tape, second, -1.0));
      gamma = multiply(tape, gamma, radius);
      omega = multiply(tape, omega, radius);
    }
    return answer(tape, x, gamma, omega);
  }
  /// Number of rotating pairs, dk/2.
  std::int64_t pairs() const { return config_.inner / 2; }
  /// Lambda of each pair after the division by max(1, modulus); its conjugate is the other eigenvalue of the pair.
  std::vector<std::complex<double>> eigenvalues(Backend& backend) const {
    const std::vector<double> first = to_host(backend, first_.value),
                              second = second_ ? to_host(backend, second_->value) : std::vector<double>();
    std::vector<std::complex<double>> lambda(first.size());
    for (std::size_t i = 0; i < lambda.size(); ++i) {
      if (config_.rotation == Rotation::clamp) {
        const std::complex<double> raw(first[i], second[i]);
        lambda[i] = raw / std::max(1.0, std::abs(raw));
      } else {
        lambda[i] = std::polar(second_ ? 1.0 / (1.0 + std::exp(second[i])) : 1.0, first[i]);
      }
    }
    return lambda;
  }
  /// As `forward` without a gradient, with the eigenvalues that `edit_pairs` makes of these edits; a pair that is
  /// switched off gives zeros. The parameters stay unchanged.
  Var forward_edited(Tape& tape, const Var& x, std::span<const ModeEdit> edits) {
    if (tape.wants("lambda_modulus")) hook_moduli(tape);
    const EditedModes modes = edit_pairs(eigenvalues(tape.backend()), edits);
    std::vector<double> gamma, omega;
    for (std::size_t i = 0; i < modes.eigenvalues.size(); ++i) {
      gamma.push_back(modes.is_off[i] ? 0.0 : modes.eigenvalues[i].real());
      omega.push_back(modes.is_off[i] ? 0.0 : modes.eigenvalues[i].imag());
    }
    const auto given = [&](const std::vector<double>& values) {
      return tape.constant(to_device(tape, first_.shape, first_.value.dtype, values));
    };
    return answer(tape, x, given(gamma), given(omega));
  }

 private:
  Var answer(Tape& tape, const Var& x, const Var& gamma, const Var& omega) {
    const Storage stored = mixer_ ? Storage::wide : Storage::narrow;
    Var lift = tape.parameter(lift_);
    if (lift_g_) {
      lift = multiply_rows(tape, unit_norm(tape, lift, tiny_row), tape.parameter(*lift_g_), 0.0);
      tape.hook("lift_gain", lift_g_->value);
    }
    const Var lifted = linear(tape, x, lift, {}, stored);
    const Var gate = gate_ ? linear(tape, x, tape.parameter(*gate_), {}, stored) : Var{};
    if (!mixer_) return linear(tape, koopman_modes(tape, lifted, gamma, omega, gate), tape.parameter(readout_));
    Tensor mixer;
    Var z = mixed_modes(tape, unary(tape, Unary::silu, lifted), tape.parameter(*mixer_), gamma, omega, &mixer);
    tape.hook("mixer", mixer);
    if (gate_) z = multiply(tape, z, unary(tape, Unary::sigmoid, gate));
    return linear(tape, z, tape.parameter(readout_));
  }
  void hook_moduli(Tape& tape) const {
    std::vector<double> moduli;
    for (const std::complex<double>& lambda : eigenvalues(tape.backend())) moduli.push_back(std::abs(lambda));
    tape.hook("lambda_modulus", to_device(tape, first_.shape, first_.value.dtype, moduli));
  }

  KoopmanMlpConfig config_;
  Parameter& lift_;
  const Parameter& first_;             // first: gamma or theta, [dk/2]
  const Parameter* second_ = nullptr;  // omega or s, [dk/2]
  const Parameter& readout_;
  const Parameter *gate_ = nullptr, *lift_g_ = nullptr, *mixer_ = nullptr;
};

}  // namespace

LayerKind koopman_mlp_kind() {
  return {.name = "koopman_mlp",
          .description = "Koopman MLP: readout(damped rotations of silu(lift x)), optionally gated",
          .source = "Echo 3.3",
          .mixes_tokens = false,
          .make = make_read<KoopmanMlp, KoopmanMlpConfig>,
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
