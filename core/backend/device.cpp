// Names of what a device may compute in.
#include "core/backend/device.h"

namespace afterglow {

const char* name_of(Precision precision) {
  static constexpr std::array names{"fp32", "tf32", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

}  // namespace afterglow
