// Sizes that follow from the configuration of the SKA core, for every back end.
#include "core/backend/ridge.h"

namespace afterglow {

std::int64_t RidgeConfig::groups(std::int64_t length) const {
  switch (mode) {
    case Mode::chunk:
      return (length + chunk - 1) / chunk;
    case Mode::recurrent:
      return length;
    default:
      return 1;
  }
}

}  // namespace afterglow
