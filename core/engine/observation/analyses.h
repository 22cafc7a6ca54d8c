// The registration of all analyses: a name, the place of the result, and the row. Each analysis takes time, so the
// worker runs only those that are requested.
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

/// The rows of the analyses (core/engine/session/analysis_table.h), in the order in which they are computed: an
/// analysis comes after those whose results it reads.
struct AnalysisInfo;
AnalysisInfo spectra_row(), trace_row(), inspected_row(), transplant_row(), solvers_row(), theory_row(),
    logit_lens_row(), influence_row(), race_row(), forces_row(), patch_row(), ablation_row(), readout_row(),
    accuracy_row(), blame_row(), microscope_row(), bisect_row(), over_training_row(), retrieval_row(), costs_row(),
    phase_map_row();
inline constexpr std::array analysis_rows{
    spectra_row,   trace_row,      inspected_row, transplant_row,    solvers_row,   theory_row,  logit_lens_row,
    influence_row, race_row,       forces_row,    patch_row,         ablation_row,  readout_row, accuracy_row,
    blame_row,     microscope_row, bisect_row,    over_training_row, retrieval_row, costs_row,   phase_map_row};
constexpr std::size_t analysis_count = analysis_rows.size();

constexpr std::array<std::int64_t, analysis_count> no_steps() {
  std::array<std::int64_t, analysis_count> steps{};
  steps.fill(-1);
  return steps;
}

enum class AnalysisPhase {
  idle,       ///< not asked for
  waiting,    ///< for its share of the time
  computing,  ///< between two pieces of a measurement
  current     ///< the result is complete and belongs to this step and the present choices
};

/// The work of an analysis, and how far it is.
struct AnalysisWork {
  std::string_view name;  ///< as in the command `measure`
  double seconds = 0;     ///< estimate for the whole; 0: negligible
  double part = 1;        ///< share of it that is computed, 0 to 1; 0: only on request
  AnalysisPhase phase = AnalysisPhase::idle;
  double share_done = 0;  ///< of the measurement in progress, 0 to 1
  double due_in = -1;     ///< seconds until its result is complete, as its last pieces suggest; -1: unknown
};

/// The last results; null before the first one, and if the model has no such analysis.
struct AnalysisResults {
  AnalysisSet current = 0;                                        ///< complete results of the present step
  std::array<std::int64_t, analysis_count> made_at = no_steps();  ///< step of each result; -1: none yet
  std::array<AnalysisWork, analysis_count> work{};
  std::shared_ptr<const struct Spectra> spectra;                 ///< eigenvalues of every layer's operator
  std::vector<std::shared_ptr<const Spectra>> spectrum_history;  ///< oldest first, the current one last
  std::shared_ptr<const struct Trace> trace;                     ///< the recurrent form of the traced layer
  std::shared_ptr<const struct TokenWeights> token_weights;      ///< equivalent attention of the traced layer
  std::shared_ptr<const struct InspectedView> inspected;         ///< the answer with and without interventions
  std::shared_ptr<const struct TheoryView> theory;  ///< theorems of one head, without interventions; may be older
  std::shared_ptr<const struct DepthView> depth;    ///< gradients before every layer and their bounds; may be older
  std::shared_ptr<const struct InfluenceView> influence;    ///< influence against lag of the layers compared
  std::shared_ptr<const struct RaceView> race;              ///< all layers on one input; null until the first is done
  std::shared_ptr<const struct SolverView> solvers;         ///< residuals, conditioning and gates
  std::shared_ptr<const struct TrajectoryView> trajectory;  ///< of training in its Karhunen-Loève modes
  std::shared_ptr<const struct ForecastView> forecast;      ///< input, truth and prediction of a series
  std::shared_ptr<const struct MemoryView> memory;          ///< the memory of training, and which tokens read it
  std::shared_ptr<const struct PhaseMapView> phase_map;     ///< other trainings over two fields of the recipe
  std::shared_ptr<const struct BlameView> blame;            ///< the training without each batch; null until requested
  std::shared_ptr<const struct AccuracyView> accuracy;      ///< right answers over tasks, bindings and lengths
  std::shared_ptr<const struct ForcesView> forces;          ///< where the next step moves the eigenvalues
  std::shared_ptr<const struct MicroscopeView> microscope;  ///< twin trainings; null until requested
  std::shared_ptr<const struct BisectView> bisect;          ///< with each block frozen; null until requested
  std::shared_ptr<const struct OverTrainingView> over_training;  ///< over the saved steps; null until requested
  std::shared_ptr<const struct PatchView> patch;                 ///< which hook point carries the answer
  std::shared_ptr<const struct AblationView> ablation;           ///< accuracy without each part of the model
  std::shared_ptr<const struct LogitLensView> logit_lens;        ///< the answer at each depth of the residual stream
  std::shared_ptr<const struct ReadoutView> readout;             ///< values that a read-out finds in the state
  std::shared_ptr<const struct TransplantView> transplant;       ///< the state of one sequence in the other
  std::shared_ptr<const struct RetrievalView> retrieval;         ///< theorem 12's network
  std::shared_ptr<const struct CostView> costs;                  ///< what token mixers cost over the length
};

}  // namespace afterglow
