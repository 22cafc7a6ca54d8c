// Downloads captures and computes their spectra.
#include "core/layers/files/layer_captures.h"

#include <algorithm>
#include <array>
#include <complex>
#include <limits>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/layers/host_values.h"

namespace afterglow {

namespace {

const HostCapture* find(const std::vector<HostCapture>& captures, std::string_view name) {
  const auto found =
      std::find_if(captures.begin(), captures.end(), [&](const HostCapture& p) { return p.name == name; });
  return found == captures.end() ? nullptr : &*found;
}

std::vector<std::int64_t> without_last(std::vector<std::int64_t> shape, std::size_t axes) {
  shape.resize(shape.size() - axes);
  return shape;
}

/// Calls body for each square matrix [r*r] of a capture.
template <class Body>
void for_each_matrix(const HostCapture& capture, const Body& body) {
  const std::int64_t r = capture.shape.back(), size = r * r;
  for (std::size_t i = 0; i + size <= capture.values.size(); i += size)
    body(std::span<const double>(capture.values).subspan(i, size), static_cast<int>(r));
}

void add_conditioning(std::vector<HostCapture>& captures, const HostCapture& G, double ridge) {
  HostCapture kappa{"kappa", without_last(G.shape, 2), {}}, lambda_min{"lambda_min", without_last(G.shape, 2), {}};
  for_each_matrix(G, [&](std::span<const double> gram, int r) {
    std::vector<double> regular(gram.begin(), gram.end());
    for (int i = 0; i < r; ++i) regular[i * r + i] += ridge;
    const SymmetricRange range = symmetric_range(regular, r);
    kappa.values.push_back(range.largest / range.smallest);
    lambda_min.values.push_back(range.smallest);
  });
  captures.push_back(std::move(kappa));
  captures.push_back(std::move(lambda_min));
}

void add_eigenvalues(std::vector<HostCapture>& captures, const HostCapture& A) {
  HostCapture real{"eig_real", without_last(A.shape, 1), {}}, imaginary{"eig_imag", without_last(A.shape, 1), {}};
  for_each_matrix(A, [&](std::span<const double> matrix, int r) {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    std::vector<std::complex<double>> values = eigenvalues(matrix, r);
    values.resize(static_cast<std::size_t>(r), {unknown, unknown});
    for (const std::complex<double>& value : values) {
      real.values.push_back(value.real());
      imaginary.values.push_back(value.imag());
    }
  });
  captures.push_back(std::move(real));
  captures.push_back(std::move(imaginary));
}

}  // namespace

std::vector<HostCapture> download_captures(Backend& backend, const std::vector<Capture>& captures) {
  std::vector<HostCapture> result;
  for (const Capture& capture : captures) {
    if (capture.value.dtype != DType::f32 && capture.value.dtype != DType::f64) continue;
    result.push_back({capture.name, capture.value.shape.extents(), to_host(backend, capture.value)});
  }
  return result;
}

void add_spectra(std::vector<HostCapture>& captures, double ridge) {
  const HostCapture *G = find(captures, "G"), *A = find(captures, "A_w");
  if (!G || !A) return;
  const HostCapture gram = *G, transition = *A;  // copies, because adding captures moves the list
  add_conditioning(captures, gram, ridge);
  add_eigenvalues(captures, transition);
}

void select_steps(std::vector<HostCapture>& captures, std::span<const std::int64_t> steps) {
  constexpr std::array<std::string_view, 4> of_tokens{"keys", "queries", "values", "readout"};
  for (HostCapture& capture : captures) {
    if (std::find(of_tokens.begin(), of_tokens.end(), capture.name) != of_tokens.end()) continue;
    const std::int64_t rows = capture.shape[0] * capture.shape[1], tokens = capture.shape[2];
    const std::int64_t size = static_cast<std::int64_t>(capture.values.size()) / (rows * tokens);
    std::vector<double> kept;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const std::int64_t step : steps) {
        const auto begin = capture.values.begin() + (row * tokens + step) * size;
        kept.insert(kept.end(), begin, begin + size);
      }
    }
    capture.values = std::move(kept);
    capture.shape[2] = static_cast<std::int64_t>(steps.size());
  }
}

}  // namespace afterglow
