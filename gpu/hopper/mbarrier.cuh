// mbarriers in shared memory (compute capability 9.0), through which a copying thread and computing warps hand the
// stages of a ring to one another.
#pragma once
#include <cstdint>

namespace afterglow::device {

/// Counts arrivals and transferred bytes in shared memory; its phase flips when all expected ones have come.
struct Mbarrier {
  std::uint32_t address;
  __device__ explicit Mbarrier(const std::uint64_t* mbarrier)
      : address(static_cast<std::uint32_t>(__cvta_generic_to_shared(mbarrier))) {}
  __device__ void init(unsigned arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ void arrive() const { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory"); }
  __device__ void arrive_expect_tx(unsigned bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  __device__ void wait(unsigned phase) const {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}\n" ::"r"(address),
        "r"(phase)
        : "memory");
  }
  /// Begins a bulk copy from global to shared memory in multiples of 16 bytes; the bytes arrive at this mbarrier.
  __device__ void copy(void* to, const void* from, unsigned bytes) const {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(bytes), "r"(address)
                 : "memory");
  }
};

/// The thread that initialised mbarriers calls this; after the block's next barrier all threads may use them.
__device__ inline void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Stages that are filled and emptied in a ring: the next stage and its phase.
template <unsigned count>
struct Ring {
  static constexpr unsigned mbarrier_count = 2 * count;
  std::uint64_t* mbarriers;  // the full ones, then the empty ones
  unsigned stage = 0, phase = 0;

  __device__ Mbarrier full() const { return Mbarrier(mbarriers + stage); }
  __device__ Mbarrier empty() const { return Mbarrier(mbarriers + count + stage); }
  /// One thread fills stages; `readers` arrive when they have finished with one.
  __device__ void init(unsigned readers) const {
    for (unsigned i = 0; i < count; ++i) {
      Mbarrier(mbarriers + i).init(1);
      Mbarrier(mbarriers + count + i).init(readers);
    }
  }
  __device__ void advance() {
    if (++stage == count) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace afterglow::device
