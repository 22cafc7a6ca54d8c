// The table: every family adds its cases.
#include "tests/support/op_case.h"

namespace afterglow::testing {

std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_elementwise_cases(cases);
  add_gate_cases(cases);
  add_linear_cases(cases);
  add_norm_cases(cases);
  add_token_cases(cases);
  add_sequence_cases(cases);
  add_scan_cases(cases);
  add_koopman_cases(cases);
  add_delta_cases(cases);
  add_kalman_cases(cases);
  add_mamba3_cases(cases);
  add_ridge_cases(cases);
  add_feedback_cases(cases);
  add_forecast_cases(cases);
  add_chebyshev_cases(cases);
  return cases;
}

}  // namespace afterglow::testing
