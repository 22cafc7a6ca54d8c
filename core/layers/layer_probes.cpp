// Probes on the host.
#include "core/layers/layer_probes.h"

#include <algorithm>
#include <array>
#include <complex>
#include <limits>

#include "core/analysis/spectrum.h"
#include "core/layers/host_probe.h"

namespace afterglow {

namespace {

const HostProbe* find(const std::vector<HostProbe>& probes, std::string_view name) {
  const auto found = std::find_if(probes.begin(), probes.end(), [&](const HostProbe& p) { return p.name == name; });
  return found == probes.end() ? nullptr : &*found;
}

std::vector<std::int64_t> without_last(std::vector<std::int64_t> shape, std::size_t axes) {
  shape.resize(shape.size() - axes);
  return shape;
}

/// The square matrices [r*r] of a probe, one after the other.
template <class Body>
void for_each_matrix(const HostProbe& probe, const Body& body) {
  const std::int64_t r = probe.shape.back(), size = r * r;
  for (std::size_t i = 0; i + size <= probe.values.size(); i += size)
    body(std::span<const double>(probe.values).subspan(i, size), static_cast<int>(r));
}

void add_conditioning(std::vector<HostProbe>& probes, const HostProbe& G, double ridge) {
  HostProbe kappa{"kappa", without_last(G.shape, 2), {}}, lambda_min{"lambda_min", without_last(G.shape, 2), {}};
  for_each_matrix(G, [&](std::span<const double> gram, int r) {
    std::vector<double> regular(gram.begin(), gram.end());
    for (int i = 0; i < r; ++i) regular[i * r + i] += ridge;
    const SymmetricRange range = symmetric_range(regular, r);
    kappa.values.push_back(range.largest / range.smallest);
    lambda_min.values.push_back(range.smallest);
  });
  probes.push_back(std::move(kappa));
  probes.push_back(std::move(lambda_min));
}

void add_eigenvalues(std::vector<HostProbe>& probes, const HostProbe& A) {
  HostProbe real{"eig_real", without_last(A.shape, 1), {}}, imaginary{"eig_imag", without_last(A.shape, 1), {}};
  for_each_matrix(A, [&](std::span<const double> matrix, int r) {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    std::vector<std::complex<double>> values = eigenvalues(matrix, r);
    values.resize(static_cast<std::size_t>(r), {unknown, unknown});
    for (const std::complex<double>& value : values) {
      real.values.push_back(value.real());
      imaginary.values.push_back(value.imag());
    }
  });
  probes.push_back(std::move(real));
  probes.push_back(std::move(imaginary));
}

}  // namespace

std::vector<HostProbe> download_probes(Backend& backend, const std::vector<Probe>& probes) {
  std::vector<HostProbe> result;
  for (const Probe& probe : probes) {
    if (probe.value.dtype != DType::f32 && probe.value.dtype != DType::f64) continue;
    result.push_back({probe.name, probe.value.shape.extents(), to_host(backend, probe.value)});
  }
  return result;
}

void add_spectra(std::vector<HostProbe>& probes, double ridge) {
  const HostProbe *G = find(probes, "G"), *A = find(probes, "A_w");
  if (!G || !A) return;
  const HostProbe gram = *G, transition = *A;  // copies: adding moves the list
  add_conditioning(probes, gram, ridge);
  add_eigenvalues(probes, transition);
}

void select_steps(std::vector<HostProbe>& probes, std::span<const std::int64_t> steps) {
  constexpr std::array<std::string_view, 4> of_tokens{"keys", "queries", "values", "readout"};
  for (HostProbe& probe : probes) {
    if (std::find(of_tokens.begin(), of_tokens.end(), probe.name) != of_tokens.end()) continue;
    const std::int64_t rows = probe.shape[0] * probe.shape[1], tokens = probe.shape[2];
    const std::int64_t size = static_cast<std::int64_t>(probe.values.size()) / (rows * tokens);
    std::vector<double> kept;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const std::int64_t step : steps) {
        const auto begin = probe.values.begin() + (row * tokens + step) * size;
        kept.insert(kept.end(), begin, begin + size);
      }
    }
    probe.values = std::move(kept);
    probe.shape[2] = static_cast<std::int64_t>(steps.size());
  }
}

}  // namespace afterglow
