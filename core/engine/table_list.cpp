// The tables there are. Another one is a function and a line in the list at the end.
#include <cmath>
#include <limits>

#include "core/engine/table.h"
#include "core/engine/training_run.h"

namespace afterglow {

namespace {

double held_out_accuracy(TrainingRun& run) { return run.trainer().evaluate(512); }

/// The first evaluation during training with at least nine answers of ten right; NaN when there was none.
double steps_to_ninety_percent(TrainingRun& run) {
  const RunCurves curves = run.curves();
  for (std::size_t i = 0; i < curves.held_out_step.size; ++i) {
    if (curves.held_out_accuracy[i] >= 0.9) return static_cast<double>(curves.held_out_step[i]);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// GKA fig. 3a in miniature: how many pairs do two blocks of one kind remember?
Table mqar_table() {
  Table table;
  table.name = "mqar";
  table.title = "Multi-query associative recall";
  table.about = "two blocks of one mixer each, matched in size; accuracy on held-out sequences";
  table.x_label = "pairs of key and value";
  table.x_logarithmic = true;
  struct Series {
    const char *name, *kind, *preset;
  };
  for (const Series& series :
       {Series{"attention", "attention", "mqar-attention"}, {"Mamba-2", "mamba2", "mqar-mamba2"}}) {
    for (const int pairs : {4, 8, 16})
      table.rows.push_back({series.name,
                            series.kind,
                            static_cast<double>(pairs),
                            series.preset,
                            {"task.bindings=" + std::to_string(pairs)}});
  }
  table.metrics = {{"accuracy", "", held_out_accuracy}, {"steps to 90 %", "steps", steps_to_ninety_percent}};
  return table;
}

}  // namespace

const std::vector<Table>& tables() {
  static const std::vector<Table> all{mqar_table()};
  return all;
}

}  // namespace afterglow
