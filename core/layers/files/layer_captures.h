// Captures on the host, as result files and tests hold them: downloaded, with the eigen-diagnostics of an SKA layer
// added.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow {

struct HostCapture {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// Downloads the floating captures that a tape has collected.
std::vector<HostCapture> download_captures(Backend& backend, const std::vector<Capture>& captures);

/// Where `G` and `A_w` [..,r,r] were captured, adds `kappa`, `lambda_min` [..] of G + ridge I and `eig_real`,
/// `eig_imag` [..,r] of A_w, modulus descending, then angle ascending; NaN where a matrix is not finite.
void add_spectra(std::vector<HostCapture>& captures, double ridge);

/// Keeps the given steps of the captures of statistics, whose third axis counts the tokens of recurrent mode.
void select_steps(std::vector<HostCapture>& captures, std::span<const std::int64_t> steps);

}  // namespace afterglow
