// The names of all analyses and their results. Each analysis takes time, so the worker runs only those that are
// requested (core/engine/session/analysis_table.h has a row for each).
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
  trace = 2,  ///< with token weights and the trajectory of training; for a forecaster its forecasts
  inspected = 4,
  solvers = 8,
  theory = 16,  ///< with the gradient by depth
  influence = 32,
  race = 64,        ///< all layers on one input
  phase_map = 128,  ///< other trainings, over two fields of the recipe: minutes or hours
  patch = 256,      ///< clean values put into a corrupted run, cell by cell: seconds to minutes
  ablation = 512,   ///< each part of the model switched off in turn
  logit_lens = 1024,
  readout = 2048,          ///< what a ridge read-out finds in the state after each token
  transplant = 4096,       ///< the state of one sequence in the other
  blame = 8192,            ///< the training repeated without one batch at a time
  accuracy = 16384,        ///< right answers over tasks, bindings and lengths: seconds to minutes
  retrieval = 32768,       ///< theorem 12's network with constructed weights; belongs to no run
  forces = 65536,          ///< where the next step moves the eigenvalues
  microscope = 131072,     ///< two trainings in lockstep that differ in one thing
  bisect = 262144,         ///< when a condition begins to hold, with one block frozen at a time
  over_training = 524288,  ///< one number of every saved state of the run
  costs = 1048576          ///< time and memory of three mixers over the length; belongs to no run
};
constexpr Analysis last_analysis = Analysis::race;

using AnalysisSet = unsigned;
constexpr AnalysisSet set_of(Analysis one) { return static_cast<AnalysisSet>(one); }
constexpr AnalysisSet operator|(Analysis a, Analysis b) { return set_of(a) | set_of(b); }
constexpr AnalysisSet operator|(AnalysisSet a, Analysis b) { return a | set_of(b); }
constexpr bool has(AnalysisSet analyses, Analysis one) { return (analyses & set_of(one)) != 0; }

/// Analyses of the present step, without those that train other runs or need many interventions, which run only when
/// requested by name.
constexpr AnalysisSet all_analyses = 2 * set_of(last_analysis) - 1;
/// Index in the order of the bits, 0 for the first.
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
struct InspectedView;     ///< inspected_view.h: the inspected sequence's answer with and without interventions
struct TheoryView;        ///< theory_view.h: theorems of one head compared with measurements
struct DepthView;         ///< depth_view.h: gradients before every layer and their bounds
struct RaceView;          ///< influence_view.h: all layers on one input
struct InfluenceView;     ///< influence_view.h: influence against lag of the layers compared
struct SolverView;        ///< solver_view.h: residuals, conditioning and gates of the solvers compared
struct TrajectoryView;    ///< trajectory_view.h: the trajectory of training in its Karhunen-Loève modes
struct ForecastView;      ///< forecast_view.h: input, truth and prediction of a series
struct ForcesView;        ///< forces_view.h: where loss and optimiser move the eigenvalues of Koopman operators
struct MicroscopeView;    ///< microscope_view.h: how far two trainings that differ in one thing are apart
struct BisectView;        ///< bisect_view.h: the step at which a condition begins to hold with each block frozen
struct OverTrainingView;  ///< over_training_view.h: a number of the model over the saved steps
struct BlameView;         ///< blame_view.h: results of the training without each of its batches
struct PhaseMapView;      ///< phase_map_view.h: results of other trainings over two fields of the recipe
struct PatchView;         ///< causes_view.h: which hook point, at which token, carries the answer
struct AblationView;      ///< causes_view.h: accuracy without each part of the model
struct LogitLensView;     ///< causes_view.h: the answer at each depth of the residual stream
struct ReadoutView;       ///< causes_view.h: which values a read-out finds in the state
struct TransplantView;    ///< causes_view.h: the state of one sequence in the other
struct MemoryView;        ///< memory_view.h: the memory of training, and which tokens read it
struct AccuracyView;      ///< accuracy_view.h: right answers over tasks, bindings and lengths
struct RetrievalView;     ///< influence_view.h: the network of theorem 12 compared with diffuse stacks
struct CostView;          ///< cost_view.h: what token mixers cost over the length of their sequence

/// The estimated work of an analysis.
struct AnalysisWork {
  std::string_view name;  ///< as in the command `measure`
  double seconds = 0;     ///< estimate for the whole; 0: negligible
  double part = 1;        ///< share of it that is computed, 0 to 1; 0: only on request
};

/// The last results; null before the first one, and if the model has no such analysis.
struct AnalysisResults {
  AnalysisSet current = 0;                                        ///< complete results of the present step
  std::array<std::int64_t, analysis_count> made_at = no_steps();  ///< step of each result; -1: none yet
  std::array<AnalysisWork, analysis_count> work{};
  std::shared_ptr<const Spectra> spectra;
  std::vector<std::shared_ptr<const Spectra>> spectrum_history;  ///< oldest first, the current one last
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const TokenWeights> token_weights;  ///< of the traced layer
  std::shared_ptr<const InspectedView> inspected;
  std::shared_ptr<const TheoryView>
      theory;  ///< of the chosen head without interventions; may be older than the inspected sequence
  std::shared_ptr<const DepthView>
      depth;  ///< of the model without interventions; may be older than the inspected sequence
  std::shared_ptr<const InfluenceView> influence;
  std::shared_ptr<const RaceView> race;  ///< null until the first layer has finished
  std::shared_ptr<const SolverView> solvers;
  std::shared_ptr<const TrajectoryView> trajectory;
  std::shared_ptr<const ForecastView> forecast;
  std::shared_ptr<const MemoryView> memory;
  std::shared_ptr<const PhaseMapView> phase_map;
  std::shared_ptr<const BlameView> blame;  ///< null until requested
  std::shared_ptr<const AccuracyView> accuracy;
  std::shared_ptr<const ForcesView> forces;
  std::shared_ptr<const MicroscopeView> microscope;       ///< null until requested
  std::shared_ptr<const BisectView> bisect;               ///< null until requested
  std::shared_ptr<const OverTrainingView> over_training;  ///< null until requested
  std::shared_ptr<const PatchView> patch;
  std::shared_ptr<const AblationView> ablation;
  std::shared_ptr<const LogitLensView> logit_lens;
  std::shared_ptr<const ReadoutView> readout;
  std::shared_ptr<const TransplantView> transplant;
  std::shared_ptr<const RetrievalView> retrieval;
  std::shared_ptr<const CostView> costs;
};

}  // namespace afterglow
