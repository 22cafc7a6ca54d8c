// Chooses among the two paths that kernels have, so that tests reach both on one GPU.
#pragma once

namespace afterglow {

/// Lets kernels multiply by warp groups where the GPU has them, as they do from the start, or run what other GPUs run.
/// For all back ends of this process, and what is queued from now on; programs captured before keep theirs. Answers
/// whether the GPU has warp groups.
bool cuda_use_warpgroups(bool wanted);

}  // namespace afterglow
