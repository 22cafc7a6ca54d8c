// Gates in shared memory, through which a thread that copies and warps that compute hand stages to one another; from
// compute capability 9.0 on.
#pragma once
#include <cstdint>

namespace afterglow::device {

/// A count in shared memory of those who have arrived and of bytes that have: it waits for a turn of its phase.
struct Gate {
  std::uint32_t address;
  __device__ explicit Gate(const std::uint64_t* gate)
      : address(static_cast<std::uint32_t>(__cvta_generic_to_shared(gate))) {}
  __device__ void open(unsigned arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ void arrive() const { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory"); }
  /// Arrives, and so many bytes have to arrive as well.
  __device__ void expect(unsigned bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  __device__ void await(unsigned phase) const {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}\n" ::"r"(address),
        "r"(phase)
        : "memory");
  }
  /// Begins to copy from global to shared memory, whole pieces of 16 bytes; they arrive here.
  __device__ void copy(void* to, const void* from, unsigned bytes) const {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(bytes), "r"(address)
                 : "memory");
  }
};

/// Gates that were opened may be used, behind the block's next barrier; by the thread that opened them.
__device__ inline void announce_gates() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Stages that are filled and emptied in turn: which comes next, and how often it was there.
template <unsigned count>
struct Ring {
  static constexpr unsigned gate_count = 2 * count;
  std::uint64_t* gates;  // full ones, then empty ones
  unsigned stage = 0, phase = 0;

  __device__ Gate full() const { return Gate(gates + stage); }
  __device__ Gate empty() const { return Gate(gates + count + stage); }
  /// Of the stage before.
  __device__ Gate empty_before() const { return Gate(gates + count + (stage == 0 ? count : stage) - 1); }
  /// One thread fills stages; so many arrive when they need one no more.
  __device__ void open(unsigned readers) const {
    for (unsigned i = 0; i < count; ++i) {
      Gate(gates + i).open(1);
      Gate(gates + count + i).open(readers);
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
