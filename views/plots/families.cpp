// Gain and conditioning of the selected head in words.
#include "views/plots/families.h"

#include "core/figure/axis.h"

namespace afterglow {

std::string gamma_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  return head ? "A = " + number_text(head->gamma, 3) + " / max(" + number_text(head->sigma, 3) +
                    ", 1) · A_w = " + number_text(head->scale, 3) + " A_w"
              : "";
}

std::string kappa_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  return head ? "κ = " + number_text(head->kappa, 3) + ", λ_min = " + number_text(head->lambda_min, 3) +
                    ", ε = " + number_text(head->ridge, 3)
              : "";
}

}  // namespace afterglow
