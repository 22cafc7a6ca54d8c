// Properties of this GPU on which the sizes of launches depend.
#pragma once

namespace afterglow::device {

/// The number of multiprocessors.
unsigned multiprocessors();

}  // namespace afterglow::device
