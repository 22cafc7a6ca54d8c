// A phase map as plain values: a sweep over two fields that fills while the window is open.
#pragma once
#include "core/engine/observation/table_view.h"

namespace afterglow {

struct PhaseMapView {
  SweepView sweep;
  std::size_t shown = 0;          ///< the metric shown as colour, an index into the metrics
  std::int64_t steps = 0;         ///< of each run
  std::int64_t first_run_at = 0;  ///< step of the first run, until it has finished
  std::string x, y;               ///< the axes as requested: "learning_rate=log:1e-4:1e-1:16"
};

}  // namespace afterglow
