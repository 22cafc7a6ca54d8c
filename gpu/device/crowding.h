// Whether several back ends share the GPU, which decides between kernels that end early and those that take little.
#pragma once

namespace afterglow::device {

/// As `Device::expect_side_by_side` has it.
void set_crowded(bool crowded);
bool is_crowded();

}  // namespace afterglow::device
