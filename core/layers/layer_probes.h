// Probes on the host, as result files and tests hold them: downloaded, with the eigen-diagnostics of an SKA layer
// added.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow {

struct HostProbe {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// Downloads the floating probes that a tape has collected.
std::vector<HostProbe> download_probes(Backend& backend, const std::vector<Probe>& probes);

/// Where `G` and `A_w` [..,r,r] were probed, adds `kappa`, `lambda_min` [..] of G + ridge I and `eig_real`, `eig_imag`
/// [..,r] of A_w, modulus descending, then angle ascending; NaN where a matrix is not finite.
void add_spectra(std::vector<HostProbe>& probes, double ridge);

/// Keeps the given steps of the probes of statistics, whose third axis counts the tokens of recurrent mode.
void select_steps(std::vector<HostProbe>& probes, std::span<const std::int64_t> steps);

}  // namespace afterglow
