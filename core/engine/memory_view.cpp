// The memory of training, as figures see it.
#include "core/engine/memory_view.h"

#include <algorithm>

#include "core/layers/spectral_memory.h"

namespace afterglow {

MemoryView view_of_history(const SpectralMemory& memory, std::int64_t step) {
  MemoryView view;
  view.step = step;
  view.tokens = static_cast<int>(memory.config().tokens);
  view.history_rows = memory.history().rows();
  const KlDecomposition& kl = memory.decomposition();
  view.eigenvalues = kl.eigenvalues;
  double sum = 0;
  for (const double eigenvalue : kl.eigenvalues) {
    sum += eigenvalue;
    view.explained.push_back(kl.variance > 0 ? std::min(1.0, sum / kl.variance) : 0.0);
  }
  return view;
}

}  // namespace afterglow
