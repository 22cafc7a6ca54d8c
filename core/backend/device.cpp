// Names of what a device may compute in.
#include "core/backend/device.h"

namespace afterglow {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp32:
      break;
  }
  return "fp32";
}

}  // namespace afterglow
