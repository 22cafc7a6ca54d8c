// The figures of a table: one for each metric, a curve for each series through the means, a dot for each run; and the
// training of the series, mean and spread over seeds, at each place of the axis.
#pragma once
#include <vector>

#include "core/engine/observation/table_view.h"
#include "core/figure/figure.h"

namespace afterglow {

std::vector<Figure> table_figures(const TableView& table, const std::vector<RunResult>& results);

}  // namespace afterglow
