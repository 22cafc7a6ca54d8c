// Selects between the two code paths of kernels, so that tests reach both on one GPU.
#pragma once

namespace afterglow {

/// Enables or disables warp-group kernels for all back ends of this process; enabled from the start. Applies to what is
/// queued from now on; graphs captured before keep theirs. Returns whether the GPU has warp groups.
bool cuda_use_warpgroups(bool wanted);

}  // namespace afterglow
