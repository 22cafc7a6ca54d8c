// The memory of training, as figures see it.
#include "core/engine/observation/memory_view.h"

#include "core/layers/spectral_memory.h"

namespace afterglow {

MemoryView view_of_history(const SpectralMemory& memory, std::int64_t step) {
  MemoryView view;
  view.step = step;
  view.tokens = static_cast<int>(memory.config().tokens);
  view.history_rows = memory.history().rows();
  const KlDecomposition& kl = memory.decomposition();
  view.eigenvalues = kl.eigenvalues;
  view.explained = kl_explained_variance(kl);
  return view;
}

}  // namespace afterglow
