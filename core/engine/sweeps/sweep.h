// Sweeps: runs of one recipe with some of its fields as axes, and the metrics of each.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/observation/table_view.h"
#include "core/engine/sweeps/recipe_run.h"

namespace afterglow {

/// "learning_rate=log:1e-4:1e-2:24", "batch=lin:8:32:4" or a list, "layers.1.ska.K=1,2,4". Throws Error(usage) that
/// says what is wrong and how to write an axis.
SweepAxis parse_axis(const std::string& text);
/// The recipe's seed and the following ones.
SweepAxis seed_axis(const Recipe& recipe, int seeds);

/// All runs of the grid, named by their hashes. Throws Error for a value that its field cannot take, and for an unknown
/// field, with the nearest known one.
std::vector<PlannedRun> runs_of(const Recipe& recipe, const std::vector<SweepAxis>& axes, const Inquiry& inquiry);

/// Loss and accuracy at the end, steps to 90 % held-out accuracy, half-life of the slowest mode, condition number,
/// whether training diverged, and the number of trained steps. `enough`: held-out accuracy at which a run ends early.
Inquiry sweep_inquiry(const MeasureNames& names, double enough);
/// By its name or a prefix of it. Throws Error(usage) that lists the names.
std::size_t find_metric(const std::vector<RunMetric>& metrics, const std::string& name);

/// The grid point of a sweep over two fields to train next: on the coarsest grid with a missing point, where its
/// neighbours differ most, so that boundaries come first; the number of points if none is missing.
std::size_t next_place(const SweepView& sweep, std::size_t metric);

/// One row a run: the axes, the metrics, the run's hash and checksum.
void write_sweep_csv(const std::filesystem::path& path, const SweepView& sweep, const std::vector<PlannedRun>& runs);

}  // namespace afterglow
