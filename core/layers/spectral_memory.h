// Memory of training (Spectral Memory, sections 3.2 to 3.5): a history of batch summaries, its Karhunen-Loeve
// components, and the learned tokens made of them, which any model of token sequences can put in front of its input.
#pragma once
#include <span>
#include <vector>

#include "core/analysis/kl_decompose.h"
#include "core/io/json_file.h"
#include "core/layers/layer.h"
#include "core/ops/ops.h"

namespace afterglow {

/// How the M tokens are computed: the rows of the paper's comparison (appendix A.5).
enum class MemoryProjection : std::uint8_t {
  mlp,   ///< an MLP of all components (eqs. 31 to 35)
  none,  ///< the first M components unchanged: structure without adaptation
  free,  ///< learned tokens independent of the history: adaptation without structure
};

struct SpectralMemoryConfig {
  KlConfig kl;                ///< its `components` is K
  std::int64_t width = 64;    ///< d
  std::int64_t tokens = 4;    ///< M
  std::int64_t depth = 3000;  ///< most rows of the history, T
  /// After so many batches the history is emptied, and forecasts are scored with tokens of zeros, as in the published
  /// code, whose history is emptied at each epoch and before each evaluation; 0: never.
  std::int64_t epoch = 0;
  MemoryProjection projection = MemoryProjection::mlp;
  double gain = 1;  ///< where the gain of the tokens' norm starts, which is their root mean square
};
/// Reads `memory_tokens` (M, at least `min_tokens`; without a projection at most K), `memory_depth` (T),
/// `memory_epoch`, `memory_gain`, `n_components` (K), `memory_projection`, `kl_strategy`, `kl_kernel`, `kl_tau` and
/// `kl_lambda_scale`, with the published values where they are missing. Throws Error(bad_input) that names the field.
SpectralMemoryConfig read_spectral_memory(JsonFields& config, std::int64_t width, std::int64_t min_tokens);

/// How much of the memory is in use.
struct MemoryShare {
  int modes = 0;   ///< K'
  int tokens = 0;  ///< M'
  int rows = 0;    ///< T'
};

class SpectralMemory : Immovable {
 public:
  /// Parameters "norm" in `memory`, before it "projection_mlp.0" and "projection_mlp.3" or, of free tokens, "tokens";
  /// "weight" and "bias" in `pooling`.
  SpectralMemory(const SpectralMemoryConfig& config, const ParameterScope& memory, const ParameterScope& pooling);
  ~SpectralMemory();

  const SpectralMemoryConfig& config() const { return config_; }
  /// The first parameter that it added to `memory`.
  const Parameter& first_parameter() const;
  const KlHistory& history() const { return history_; }
  /// Appends a summary [d]; a full history drops its oldest row.
  void append(std::span<const double> summary) {
    if (config_.epoch > 0 && history_.appended() == config_.epoch) history_.assign({}, 0);
    history_.append(summary);
  }
  /// How many summaries the history has taken over since it was empty, after so many steps.
  std::int64_t appended_after(std::int64_t step) const {
    return config_.epoch > 0 && step > 0 ? (step - 1) % config_.epoch + 1 : step;
  }
  /// Replaces the history, as KlHistory::assign.
  void assign(std::span<const double> rows, std::int64_t appended) { history_.assign(rows, appended); }
  /// Decomposes the history and uploads the components for `memory_tokens`. Call it before a step whenever the history
  /// has changed. True when the tokens have become usable or unusable, so that a recorded step is invalid.
  bool refresh(Backend& backend, DType dtype);
  /// Whether the history is long enough: max(4, K) rows.
  bool usable() const { return usable_; }
  /// Of the last `refresh`; empty while unusable.
  const KlDecomposition& decomposition() const { return decomposition_; }

  /// Switches the memory off or on for later passes: its tokens are then zeros, as while unusable.
  void switch_off(bool is_off) { is_off_ = is_off; }
  /// Leaves one mode, 0 .. K - 1, out of later passes: zeros replace its component; -1 restores all modes. For analyses
  /// between two steps.
  void leave_out(int mode);

  /// Uses less than it was trained with in later passes: the first modes, the first tokens, the newest rows, each
  /// within the bounds of its setting. Unused modes and tokens are zeros; unused rows are left out. For analyses
  /// between two steps.
  void keep(const MemoryShare& share);
  /// The share in use, and the whole: K, M and T, or the most rows that the history can hold.
  const MemoryShare& kept() const { return kept_; }
  MemoryShare whole() const;
  /// Fewest rows that can be decomposed.
  int least_rows() const;
  /// [K, d], the components as the tokens get them: zeros for modes that are not used.
  std::vector<double> used_components() const;

  /// Strategy, kernel, its time scale, which mode is switched off, and how much of K, M and T is used; they apply from
  /// the next forward pass on.
  std::vector<LayerSetting> settings();
  void set(std::string_view key, double value);

  /// [M,d] = LayerNorm(MLP(components)) (eq. 11 to 14) or by another projection; zeros while unusable or switched off.
  /// Gradients end at the components. Captures `memory.tokens`.
  Var memory_tokens(Tape& tape, const DropoutSource& dropped, std::uint32_t site) const;
  /// [1,d]: mean over sequences of the sums of x [N,L,d] weighted by softmax over L of the pooling layer (eq. 3 to 5).
  /// Takes no gradient. Captures these weights, `memory.pooling` [N,L].
  Tensor summary(Tape& tape, const Tensor& x) const;

 private:
  /// Parameters that depend on the projection.
  struct Optional {
    const Parameter *expand_weight = nullptr, *expand_bias = nullptr, *project_weight = nullptr,
                    *project_bias = nullptr, *tokens = nullptr;
  };
  static Optional add_optional(const SpectralMemoryConfig& config, const ParameterScope& memory);
  /// [M,d] before the norm.
  Var plain_tokens(Tape& tape, const DropoutSource& dropped, std::uint32_t site) const;
  Var used_tokens(Tape& tape, const Var& tokens) const;
  std::vector<double> components_without(int mode) const;
  void upload(int left_out);
  void upload_mask();

  SpectralMemoryConfig config_;
  KlHistory history_;
  KlDecomposition decomposition_;
  bool usable_ = false, is_off_ = false;
  MemoryShare kept_;
  int without_ = 0;  ///< the mode that is switched off, from 1; 0: none
  Backend* backend_ = nullptr;
  Tensor components_;  // [1, K d] in the back end's memory
  Tensor token_mask_;  // [M], 1 for tokens that are used
  Optional optional_;
  const Parameter &norm_weight_, &norm_bias_, &pooling_weight_, &pooling_bias_;
};

}  // namespace afterglow
