// What the engine publishes: plain host values, each with its step. Panels read observations only; no tensor and no
// device pointer is part of one.
#pragma once
#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/analyses.h"
#include "core/engine/observation/curve.h"
#include "core/io/training_log.h"
#include "core/layers/layer_traits.h"
#include "core/layers/step_picture.h"
#include "core/recipe/journal.h"
#include "core/recipe/run_notes.h"
#include "core/tasks/token_role.h"

namespace afterglow {

struct LayerSummary {
  std::string label;   ///< "1 ska"
  std::string scope;   ///< "layers.1.mixer": prefix of its parameters and captures
  std::string kind;    ///< "ska", "embedding", "head"; `shows(kind, ..)` says what can be analysed
  std::string detail;  ///< "r 16 · K 2 · H 4"
  std::int64_t parameters = 0;
  int heads = 0;                 ///< 0 if it has none
  std::int64_t state_bytes = 0;  ///< recurrent state of one sequence of the task's length
};

struct ModelSummary {
  std::string name;
  std::vector<LayerSummary> layers;
  std::int64_t parameters = 0;
  bool is_forecaster = false;  ///< reads rows of a series instead of tokens
  bool reads_text = false;     ///< its tokenizer makes tokens of any text
};

struct TokenView {
  int id = 0;
  std::string label;  ///< "k3", "v9", "·"
  TokenRole role = TokenRole::blank;
  int target = -1;  ///< token that should follow, -1 if it does not count for the loss
};

struct Mark {
  std::int64_t step = 0;
  std::string text;      ///< "rate 3e-4 → 1e-3"
  std::size_t note = 0;  ///< number of the user's note that it shows; 0: a change
};

struct NamedCurve {
  std::string name;
  Values values;
};

/// Value i belongs to training step first_step + i (steps count from 1).
struct RunCurves {
  std::string run;       ///< "run 1", "branch of run 1 at 120"
  std::string siblings;  ///< the same text in runs of one recipe that differ in their seed alone
  std::uint64_t seed = 0;
  std::int64_t first_step = 1;
  Values loss, accuracy, learning_rate, gradient_norm;
  std::vector<NamedCurve> layer_gradient_norms;  ///< one for each layer, same order as ModelSummary::layers
  Values held_out_step, held_out_accuracy;       ///< own abscissa: evaluated at some steps
  std::vector<Mark> marks;
  std::int64_t parted = -1;  ///< the step at which the present run branched off; -1: no common past
};

/// A complete saved state, from which rewinding starts.
struct KeptState {
  std::int64_t step = 0;
  std::string checksum;  ///< 16 hex digits of its weights
};

/// A run that another program writes into a folder.
struct FolderView {
  std::string name;
  std::vector<std::int64_t> states, deleted;  ///< steps, ascending; deleted ones cannot be opened, their numbers stay
  std::vector<LoggedCurve> curves;
};

/// Koopman operator of one head, from the inspected sequence.
struct HeadSpectrum {
  int layer = 0, head = 0;                        ///< index into ModelSummary::layers
  std::vector<std::complex<double>> eigenvalues;  ///< of A_w (before scaling), modulus descending
  std::vector<int> identity;   ///< number of each eigenvalue, which names the mode in texts, colours and commands
  std::vector<double> energy;  ///< share of the query's energy in each mode; the sum is 1
  double scale = 1.0;          ///< gamma / max(sigma, 1): A = scale * A_w
  double gamma = 1.0, eta = 1.0, sigma = 0.0;
  double kappa = 1.0, lambda_min = 0.0;  ///< of G + ridge I
  double ridge = 0.0;
  int power = 0;   ///< K
  int jitter = 0;  ///< how often the factorisation needed a larger ridge
};

/// Learned eigenvalues of a Koopman MLP.
struct MlpSpectrum {
  int layer = 0;
  std::vector<std::complex<double>> eigenvalues;  ///< one of each conjugate pair
};

/// For layers without a Koopman operator: how much of a head's memory a token keeps, mean over the inspected sequence.
struct StateSpectrum {
  int layer = 0, head = 0;
  std::vector<std::complex<double>> eigenvalues;
};

struct Spectra {
  std::int64_t step = 0;
  std::int64_t numbered_at =
      0;  ///< the step at which the modes were numbered by modulus; they have kept their numbers since
  std::vector<HeadSpectrum> heads;
  std::vector<MlpSpectrum> mlps;
  std::vector<StateSpectrum> states;
};

/// The recurrent form of one head of the traced layer after one token.
struct HeadStep {
  std::vector<float> G, M, C;                   ///< [r*r], [r*r], [P*r] normalised by the running m, row-major
  double m = 0;                                 ///< the largest norm of a key so far, or a frozen value
  double sigma = 0, kappa = 1, lambda_min = 0;  ///< of A_w; of G + ridge I
  int jitter = 0;
  std::vector<double> gram;  ///< [r] eigenvalues of G, without ridge, descending; empty if G is not finite
  double ridge = 0;          ///< what the factorisation added to each of them: ε and its jitter
  std::vector<std::complex<double>> eigenvalues;  ///< of A_w
  /// Number of each eigenvalue: after the last token as in HeadSpectrum, and tracked back from there.
  std::vector<int> identity;
};

struct TokenStep {
  std::vector<HeadStep> heads;  ///< empty if the traced layer is no `ska`
  std::vector<float> state;     ///< generic state of the traced layer, first state tensor flattened [rows*columns]
  /// Of each head's matrix in that tensor: |S|_F, and its effective rank |S|_F^4 / |S S^T|_F^2; empty if the layer's
  /// state has no matrix for each head.
  std::vector<double> state_norm, state_rank;
  std::vector<int> top_tokens;  ///< the five most probable next tokens
  std::vector<double> top_probabilities;
  /// The computation of each head at this token, in order; empty if the layer has no such pictures and, for a large
  /// layer, for all tokens but the last.
  std::vector<std::vector<StepPicture>> pictures;
};

/// One sequence through the recurrent form of the whole model, token by token.
struct Trace {
  std::int64_t step = 0;          ///< training step of the weights
  int layer = 0;                  ///< traced layer, index into ModelSummary::layers
  int rank = 0, value_width = 0;  ///< r and P of the traced `ska`
  int scale_kept_behind = -1;     ///< token after which `ska`'s m stays fixed; -1: never
  int state_rows = 0, state_columns = 0;
  std::vector<TokenView> tokens;
  std::vector<TokenStep> steps;  ///< one for each token
  std::int64_t state_bytes = 0;
  std::vector<std::string> labels;  ///< text of the token ids in `steps`, for the answer distribution
};

/// Equivalent attention of the traced layer: the weight of each token's value in a head's output at each token, before
/// gate and output projection (core/analysis/attention/token_weights.h).
struct TokenWeights {
  std::int64_t step = 0;  ///< training step of the weights
  int layer = -1;         ///< index into ModelSummary::layers
  int heads = 0;          ///< 0: not defined for the layer
  int tokens = 0;         ///< T, the first tokens of the inspected sequence, at most 256
  /// For each head [T*T], row = reading token, column = token that is read; NaN in the future of a causal layer. Empty
  /// for a head whose weights are not finite.
  std::vector<std::vector<float>> weights;
};

enum class Severity { info, warning, failure };
struct Event {
  std::int64_t step = 0;
  Severity severity = Severity::info;
  std::string text;  ///< what, where, what to do
};

/// A hyperparameter for controls: key as in `set`, value, range and meaning.
struct Setting {
  std::string key, label, unit, meaning;
  double value = 0, minimum = 0, maximum = 0, initial = 0;
  bool logarithmic = false, integer = false;
};

/// Names of a training's measures on axes and in files.
struct MeasureNames {
  std::string loss = "cross-entropy", loss_unit = "nats", quality = "accuracy";
};

/// The present run: model, progress and history.
struct RunStatus {
  std::string preset, title;
  std::uint64_t seed = 0;
  std::int64_t step = 0, final_step = 0;
  std::int64_t oldest_step =
      0;  ///< the earliest step that can be reached: 0, or that of the snapshot that the run started from
  std::int64_t latest_step = 0;                        ///< the last trained step: beyond `step` after a rewind
  std::shared_ptr<const std::vector<KeptState>> kept;  ///< ascending steps; null: unknown
  std::shared_ptr<const FolderView> folder;            ///< what another program trains; null: this run is trained here
  bool follows = false;           ///< the newest checkpoint of the folder is shown as soon as it is written
  Journal::Times journal;         ///< counted in the session's commands, the first is 1
  std::int64_t rebuilds_to = -1;  ///< the step up to which training is being repeated; -1: none
  bool running = false, finished = false, stopped_non_finite = false;
  std::string checksum;  ///< 16 hex digits of the weights at `checksum_step`
  std::int64_t checksum_step = 0;
  std::string same_as;  ///< "run 1" if that earlier run had the same checksum at this step
  std::string device, precision;
  std::int64_t device_bytes = 0, history_bytes = 0;
  double steps_per_second = 0;
  double speed_limit = 0;  ///< maximal steps per second; 0: unlimited
  std::string task;        ///< "system prompt · 4 bindings · T 64"
  MeasureNames measures;
  std::vector<Setting> settings;
  std::vector<RunCurves> runs;     ///< the current run last, up to `step`; earlier ones and branches before it
  std::optional<RunCurves> ahead;  ///< the current run up to `latest_step` if that is beyond `step`
  std::vector<Event> events;
  std::vector<RunNote> notes;
  std::string stop_when;     ///< the condition at which training stops by itself; empty: none
  std::string recipe;        ///< JSON text that reproduces this state
  std::uint64_t opened = 0;  ///< number of runs opened, including this one
  std::string view;          ///< JSON of the window's view if the run was opened from a figure; else empty
};

/// Everything that panels can show of one moment.
struct Observation : RunStatus, AnalysisResults {
  ModelSummary model;
};

}  // namespace afterglow
