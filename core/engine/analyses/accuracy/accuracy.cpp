// The accuracy grid: each task that the model understands, over numbers of bindings and lengths, measured on a copy of
// the weights, cell by cell with few examples first.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/session/analysis_table.h"
#include "core/engine/training/inspected_example.h"
#include "core/engine/training/saved/model_copy.h"
#include "core/io/error.h"
#include "core/ops/ops.h"
#include "core/tasks/prefixed_task.h"
#include "core/tasks/task.h"

namespace afterglow {
namespace {

struct AccuracyConfig {
  std::int64_t examples = 64;  ///< of each cell
  int longest = 4096;          ///< tokens
  static constexpr const char* command = "accuracy_grid";
  static constexpr ConfigField<AccuracyConfig> fields[] = {{"examples", &AccuracyConfig::examples, 1, 4096},
                                                           {"longest", &AccuracyConfig::longest, 16, 65536}};
};

constexpr std::int64_t first_examples = 8;            // of every cell, before any cell gets more
constexpr std::int64_t tokens_in_a_cell_pass = 4096;  // in a pass
constexpr std::int64_t logits_in_a_cell_pass = std::int64_t{1} << 24;
const std::vector<int> all_bindings{1, 2, 3, 4, 8};  // Echo, table 2
constexpr int shortest_length = 64;

/// A grid without any valid cell counts as missing.
std::vector<AccuracyCell> cells_of(const nlohmann::json& task, const std::vector<int>& lengths) {
  std::vector<AccuracyCell> cells;
  try {
    for (const EvalCell& cell : evaluation_grid(task, all_bindings, lengths))
      cells.push_back({cell.bindings, cell.length, cell.fits()});
  } catch (const Error&) {
    cells.clear();
  }
  return cells;
}

class AccuracyMeasurement : public CopyMeasurement<AccuracyView> {
 public:
  using CopyMeasurement::CopyMeasurement;
  /// Copies weights and settings. `task` is the recipe's.
  void begin(const nlohmann::json& task, const AccuracyConfig& config);
  /// Evaluates some sequences of one cell: a few of every cell first, short ones before long ones. False if no work is
  /// left.
  bool advance();
  /// Whether every cell has a first result.
  bool has_overview() const { return !working() || turns_[done_].until == now_.examples; }

 private:
  /// One visit of a cell, until it has `examples` examples.
  struct Turn {
    std::size_t grid, cell;
    std::int64_t until;
  };
  void plan(const nlohmann::json& task, const AccuracyConfig& config);
  void ask(const Turn& turn);
  void publish();

  std::vector<Turn> turns_;
};

void AccuracyMeasurement::begin(const nlohmann::json& task, const AccuracyConfig& config) {
  copy_.take();
  plan(task, config);
  publish();
}

void AccuracyMeasurement::plan(const nlohmann::json& task, const AccuracyConfig& config) {
  std::vector<int> lengths;
  for (int length = std::min(shortest_length, config.longest); length <= config.longest; length *= 2)
    lengths.push_back(length);
  now_ = {};
  now_.step = copy_.step();
  now_.own_length = copy_.trainer().task().length();
  now_.examples = config.examples;
  turns_.clear();
  const std::size_t own = task.contains("tasks") ? task.at("tasks").size() : 1;
  for (const nlohmann::json& one : askable_tasks(task)) {
    AccuracyGrid grid{one.at("kind").get<std::string>(),
                      one.dump(),
                      now_.grids.size() < own,
                      all_bindings,
                      lengths,
                      cells_of(one, lengths)};
    if (!grid.cells.empty()) now_.grids.push_back(std::move(grid));
  }
  const std::size_t across = lengths.size();
  for (const std::int64_t until : {std::min(first_examples, config.examples), config.examples}) {
    if (!turns_.empty() && turns_.back().until == until) break;
    for (std::size_t cell = 0; cell < across * all_bindings.size(); ++cell) {
      const std::size_t place = cell % all_bindings.size() * across + cell / all_bindings.size();  // by length
      for (std::size_t grid = 0; grid < now_.grids.size(); ++grid) {
        if (now_.grids[grid].cells[place].fits) turns_.push_back({grid, place, until});
      }
    }
  }
  begin_work(turns_.size());
  for (const AccuracyGrid& grid : now_.grids)
    now_.planned += static_cast<int>(std::ranges::count_if(grid.cells, &AccuracyCell::fits));
}

bool AccuracyMeasurement::advance() {
  if (!working()) return false;
  const Turn& turn = turns_[done_];
  ask(turn);
  AccuracyCell& cell = now_.grids[turn.grid].cells[turn.cell];
  if (cell.examples == turn.until) {
    ++done_;
    now_.measured += turn.until == now_.examples ? 1 : 0;
  }
  publish();
  return working();
}

/// Evaluates as many of the remaining examples as one pass takes.
void AccuracyMeasurement::ask(const Turn& turn) {
  AccuracyCell& cell = now_.grids[turn.grid].cells[turn.cell];
  const Model& model = copy_.model();
  const auto config = nlohmann::json::parse(now_.grids[turn.grid].config);
  const PrefixedTask task(make_task(evaluation_config(config, {cell.bindings, cell.length})),
                          static_cast<int>(model.places()));
  const std::int64_t length = task.length(),
                     tokens = std::min(tokens_in_a_cell_pass, logits_in_a_cell_pass / model.vocab());
  const std::int64_t count = std::min(turn.until - cell.examples, std::max<std::int64_t>(1, tokens / length));
  const auto size = static_cast<std::size_t>(count * length);
  std::vector<std::int32_t> ids(size), targets(size);
  std::vector<std::uint8_t> context(size);
  fill_batch(task, copy_.trainer().seed(), static_cast<std::uint64_t>(cell.examples), static_cast<int>(count),
             ids.data(), targets.data(), context.data(), Split::held_out);
  tape_.begin(false);
  const auto upload = [&](DType dtype, const void* values) { return uploaded(tape_, {count, length}, dtype, values); };
  const Var logits = copy_.model().forward(tape_, upload(DType::i32, ids.data()), upload(DType::u8, context.data()));
  AnswerCount answers{cell.right, cell.asked};
  answers.add(tape_.backend(), cross_entropy(tape_, logits, upload(DType::i32, targets.data())));
  cell.right = answers.right;
  cell.asked = answers.asked;
  cell.examples += count;
  cell.accuracy = answers.share();
}

void AccuracyMeasurement::publish() {
  now_.is_complete = !working();
  CopyMeasurement::publish();
}

constexpr auto begin_accuracy = [](auto& measurement, const AnalysisSubject& of) {
  measurement.begin(of.run->recipe().task, of.chosen<AccuracyConfig>());
};

/// During training a cell grid of one step is finished before the next step's begins.
class AccuracyAnalysis final
    : public SpareTimeAnalysis<AccuracyMeasurement, Analysis::accuracy, begin_accuracy, &AnalysisResults::accuracy> {
 public:
  explicit AccuracyAnalysis(AnalysisSubject& of) : SpareTimeAnalysis(of, true) {}

 private:
  bool goes_on() const override { return is_of_now() || !measurement().has_overview(); }
};

/// All numbers of bindings at lengths that double from cell to cell.
ModelWork work_of_accuracy(const AnalysisSubject& subject) {
  const auto& [examples, longest] = subject.chosen<AccuracyConfig>();
  const std::size_t grids = askable_tasks(subject.run->recipe().task).size() * all_bindings.size();
  const double all = static_cast<double>(grids) * static_cast<double>(examples) * 2 * longest;
  return {all, 0, all > 0 ? static_cast<double>(first_examples * shortest_length) / all : 0};
}

}  // namespace

AnalysisInfo accuracy_row() {
  const auto settings = settings_of<Analysis::accuracy, AccuracyConfig>();
  return {{}, Analysis::accuracy, "accuracy grid", make_of_tokens<AccuracyAnalysis>, work_of_accuracy, settings};
}

}  // namespace afterglow
