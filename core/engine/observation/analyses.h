// What can be found out of a model beside its training. Each analysis takes time, so the worker makes only those that
// are requested (core/engine/session/analysis_table.h has a row for each).
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace afterglow {

/// One bit each, so that a set of them is a sum.
enum class Analysis : unsigned {
  spectra = 1,
  trace = 2,  ///< with token weights and the path of training; of a forecaster its forecasts
  probe = 4,
  solvers = 8,
  theory = 16,  ///< with the gradient by depth
  influence = 32,
  race = 64,        ///< all layers on one input
  phase_map = 128,  ///< other trainings, over two fields of the recipe: minutes or hours
  patch = 256,      ///< clean values put into a corrupted run, cell by cell: seconds to minutes
  ablation = 512,   ///< each part of the model switched off in turn
  logit_lens = 1024,
  readout = 2048,          ///< what can be read out of the state after each token
  transplant = 4096,       ///< the state of one sequence in the other
  blame = 8192,            ///< the training repeated without one batch after the other
  accuracy = 16384,        ///< right answers over tasks, bindings and lengths: seconds to minutes
  retrieval = 32768,       ///< theorem 12's network with written weights; it belongs to no run
  forces = 65536,          ///< where the next step moves the eigenvalues
  microscope = 131072,     ///< two trainings in lockstep that differ in one thing
  bisect = 262144,         ///< when a condition begins to hold, with one block frozen at a time
  over_training = 524288,  ///< one number of every kept state of the run
  costs = 1048576          ///< time and memory of three mixers over the length; it belongs to no run
};
constexpr Analysis last_analysis = Analysis::race;

using AnalysisSet = unsigned;
constexpr AnalysisSet set_of(Analysis one) { return static_cast<AnalysisSet>(one); }
constexpr AnalysisSet operator|(Analysis a, Analysis b) { return set_of(a) | set_of(b); }
constexpr AnalysisSet operator|(AnalysisSet a, Analysis b) { return a | set_of(b); }
constexpr bool has(AnalysisSet analyses, Analysis one) { return (analyses & set_of(one)) != 0; }

/// Of the present moment: all but those that train runs of their own or go through many interventions, which are made
/// where they are asked for by name.
constexpr AnalysisSet all_analyses = 2 * set_of(last_analysis) - 1;
/// Its place among all that there are, 0 for the first.
constexpr std::size_t place_of(Analysis one) { return static_cast<std::size_t>(std::countr_zero(set_of(one))); }
constexpr std::size_t analysis_count = place_of(Analysis::costs) + 1;

constexpr std::array<std::int64_t, analysis_count> no_steps() {
  std::array<std::int64_t, analysis_count> steps{};
  steps.fill(-1);
  return steps;
}

struct Spectra;           ///< observation.h: eigenvalues of every layer's operator
struct Trace;             ///< observation.h: the recurrent form of the traced layer, token by token
struct TokenWeights;      ///< observation.h: equivalent attention of the traced layer
struct ProbeView;         ///< probe_view.h: the probe sequence's answer with and without interventions
struct TheoryView;        ///< theory_view.h: theorems of one head held against measurements
struct DepthView;         ///< depth_view.h: gradients in front of every layer and their bounds
struct RaceView;          ///< influence_view.h: all layers on one input
struct InfluenceView;     ///< influence_view.h: influence against lag of the layers compared
struct SolverView;        ///< solver_view.h: residuals, conditioning and gates of the solvers compared
struct TrajectoryView;    ///< trajectory_view.h: the path of training in its Karhunen-Loeve modes
struct ForecastView;      ///< forecast_view.h: input, truth and prediction of a series
struct ForcesView;        ///< forces_view.h: where loss and optimiser move the eigenvalues of Koopman operators
struct MicroscopeView;    ///< microscope_view.h: how far two trainings that differ in one thing are apart
struct BisectView;        ///< bisect_view.h: the step at which a condition begins to hold without each block's learning
struct OverTrainingView;  ///< over_training_view.h: a number of the model over the steps that are kept
struct BlameView;         ///< blame_view.h: what came of a training without each of its batches
struct PhaseMapView;      ///< phase_map_view.h: what other trainings over two fields of the recipe came to
struct PatchView;         ///< causes_view.h: which place, at which token, carries the answer
struct AblationView;      ///< causes_view.h: what each part of the model is worth
struct LogitLensView;     ///< causes_view.h: what the stream would answer at each depth
struct ReadoutView;       ///< causes_view.h: which values can be read out of the state
struct TransplantView;    ///< causes_view.h: the state of one sequence in the other
struct MemoryView;        ///< memory_view.h: the memory of training, and who reads its tokens
struct AccuracyView;      ///< accuracy_view.h: right answers over tasks, bindings and lengths
struct RetrievalView;     ///< influence_view.h: the network of theorem 12 beside diffuse stacks
struct CostView;          ///< cost_view.h: what token mixers cost over the length of their sequence

/// What is to be expected of one before it begins.
struct AnalysisWork {
  std::string_view name;  ///< as the command `measure` takes it
  double seconds = 0;     ///< that the whole takes, about; 0: not worth a word
  double part = 1;        ///< share of it that is made, 0 to 1; 0: it waits to be asked for
};

/// What they found last; null before the first time, and where the model has no such thing.
struct AnalysisResults {
  AnalysisSet current = 0;  ///< those that belong to this very step and are complete
  std::array<std::int64_t, analysis_count> made_at = no_steps();  ///< step of each; -1: not made, or not yet
  std::array<AnalysisWork, analysis_count> work{};
  std::shared_ptr<const Spectra> spectra;
  std::vector<std::shared_ptr<const Spectra>> spectrum_history;  ///< oldest first, the current one last
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const TokenWeights> token_weights;  ///< of the traced layer
  std::shared_ptr<const ProbeView> probe;
  std::shared_ptr<const TheoryView> theory;  ///< of the chosen head as trained; may be older than the probe
  std::shared_ptr<const DepthView> depth;    ///< of the model as trained; may be older than the probe
  std::shared_ptr<const InfluenceView> influence;
  std::shared_ptr<const RaceView> race;  ///< null until the first layer has arrived
  std::shared_ptr<const SolverView> solvers;
  std::shared_ptr<const TrajectoryView> trajectory;
  std::shared_ptr<const ForecastView> forecast;
  std::shared_ptr<const MemoryView> memory;
  std::shared_ptr<const PhaseMapView> phase_map;
  std::shared_ptr<const BlameView> blame;  ///< null until it is asked for
  std::shared_ptr<const AccuracyView> accuracy;
  std::shared_ptr<const ForcesView> forces;
  std::shared_ptr<const MicroscopeView> microscope;       ///< null until it is asked for
  std::shared_ptr<const BisectView> bisect;               ///< null until it is asked for
  std::shared_ptr<const OverTrainingView> over_training;  ///< null until it is asked for
  std::shared_ptr<const PatchView> patch;
  std::shared_ptr<const AblationView> ablation;
  std::shared_ptr<const LogitLensView> logit_lens;
  std::shared_ptr<const ReadoutView> readout;
  std::shared_ptr<const TransplantView> transplant;
  std::shared_ptr<const RetrievalView> retrieval;
  std::shared_ptr<const CostView> costs;
};

}  // namespace afterglow
