// The tables of Echo's transfer study (Koopman attention): trained on two tasks, asked six, at lengths of up to 64
// times those of training.
#pragma once
#include "core/engine/studies/table.h"

namespace afterglow {

/// Tables 2 and 3 and figure 1; the small one ends within two minutes on two cores and shows only that all of it works.
Table echo_transfer_table(bool is_small = false);

}  // namespace afterglow
