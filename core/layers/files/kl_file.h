// `afterglow layer` for a Karhunen-Loeve decomposition, and the fields by which configurations describe one.
#pragma once
#include "core/analysis/kl_decompose.h"
#include "core/io/json_file.h"
#include "core/layers/files/file_run.h"

namespace afterglow {

/// Input `history` [T,d]; outputs `components` [K,d], `eigenvalues` [K], `modes` [T,K]. Config: `strategy`, `kernel`,
/// `tau`, `components` (K), `lambda_scaling`, `mode_sign`.
FileKind kl_decompose_file_kind();

/// What the fields called `strategy`, `kernel`, `tau`, `components` and `scaling` in `config` say; an unknown name is
/// an Error(bad_input).
struct KlFields {
  const char *strategy, *kernel, *tau, *components, *scaling;
};
KlConfig read_kl_config(JsonFields& config, const KlFields& names);
/// Throws for a `mode_sign` other than the only rule for the sign of a mode.
void check_mode_sign(JsonFields& config);

}  // namespace afterglow
