// A device: memory, transfers, streams, and captured work.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/tensor/tensor.h"

namespace afterglow {

/// Arithmetic of `gemm` and of the products inside attention and feedback_solve: float32, or tensor cores with rounded
/// operands. Statistics, solves and every other kernel stay in float32.
enum class Precision { fp32, tf32, bf16 };
const char* name_of(Precision precision);

/// Repeatable work: a captured CUDA graph, or on the CPU the function itself.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  virtual void run() = 0;
};

/// A point in the queued work for which the host can wait. A device whose calls return when the work is done needs
/// none.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Records the event after everything queued before, in both streams, without delaying either. In a captured graph
  /// each run records it again.
  virtual void set() {}
  /// Returns when the device has reached the last recorded point; at once if none was recorded.
  virtual void wait() {}
};

/// A contiguous array to be copied between host and device.
struct Transfer {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};
inline Transfer brought_to(const Tensor& destination, const void* source) {
  return {destination.data, source, destination.bytes()};
}
inline Transfer brought_from(const Tensor& source, void* destination) {
  return {destination, source.data, source.bytes()};
}

/// Handle by which another process of this machine opens a device's memory; zeros if the system does not support that.
using MemoryKey = std::array<std::byte, 64>;

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         ///< "cpu" or "cuda"
  virtual std::string description() const = 0;  ///< for people: "CPU, 2 threads", "NVIDIA H200"
  virtual bool supports(DType dtype) const = 0;
  virtual Precision precision() const { return Precision::fp32; }
  /// False when the back end offers only exact products. Graphs captured before keep theirs.
  virtual bool set_precision(Precision wanted) { return wanted == Precision::fp32; }
  /// Whether projections and the embedding read weights that are stored as bfloat16, with the results of the same
  /// numbers in float32.
  virtual bool reads_narrow_weights() const { return false; }
  /// The number of back ends of this process that will compute on the device at the same time. With several, kernels
  /// use few resources instead of ending early; with many, waiting threads sleep. Applies to all back ends and to what
  /// is queued from now on; graphs captured before keep their kernels. The bits are the same.
  virtual void expect_side_by_side(std::size_t /*back_ends*/) {}
  /// Bytes that this back end holds; 0 when it does not count them.
  virtual std::size_t held_bytes() const { return 0; }
  /// Throws Error(out_of_memory) with both numbers unless so many more bytes are free. `unwritten` bytes of the back
  /// end's memory were never written: a device that hands out empty pages still needs memory for them. A device without
  /// a limit does not call `bytes`.
  virtual void require_free(const std::function<std::size_t()>& /*bytes*/, std::size_t /*unwritten*/) const {}

  // Memory. Addresses are aligned to 256 bytes. Transfers of contiguous tensors; `download` waits for the result.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* address) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;  ///< pinned memory, for fast transfers
  virtual void release_host(void* address) = 0;
  void upload(const Tensor& destination, const void* source) {
    queue_upload(destination, source);
    synchronize();
  }
  virtual void download(void* destination, const Tensor& source) {
    queue_download(destination, source);
    synchronize();
  }
  /// As `upload` and `download`, but only queued in the stream; in captured steps the host side must be pinned memory.
  /// Small arrays of one call may be combined.
  virtual void queue_uploads(std::span<const Transfer> arrays) = 0;
  virtual void queue_downloads(std::span<const Transfer> arrays) = 0;
  void queue_upload(const Tensor& destination, const void* source) {
    const Transfer array = brought_to(destination, source);
    queue_uploads({&array, 1});
  }
  void queue_download(void* destination, const Tensor& source) {
    const Transfer array = brought_from(source, destination);
    queue_downloads({&array, 1});
  }
  virtual void synchronize() = 0;
  /// Whether everything queued in the main stream is done; does not wait.
  virtual bool is_idle() { return true; }
  /// Sets other work of the host: the device calls it again and again while the host waits for a result, or between
  /// pieces of a call where the call itself computes; an empty function ends that. It must not use this back end nor
  /// take long.
  virtual void set_yield(std::function<void()> /*work*/) {}
  /// Work queued between these two may run in parallel to everything queued later, until `join_side_stream` or
  /// `synchronize`; for results that no later kernel of the step reads, such as the gradients of parameters. It sees
  /// everything queued before. The two streams must not write one tensor. See `SideStream`.
  virtual void begin_side_stream() {}
  virtual void end_side_stream() {}
  virtual void join_side_stream() {}
  virtual std::unique_ptr<DeviceEvent> make_event() { return std::make_unique<DeviceEvent>(); }
  /// Work queued between these two, elementwise kernels and transfers, runs in a stream of its own, in parallel to
  /// everything queued before: it sees only what the host has waited for. `synchronize` in between waits for it alone,
  /// and work queued after the end runs after it. Not allowed in a captured graph. See `TransferStream`.
  virtual void begin_transfers() {}
  virtual void end_transfers() {}
  /// Pins memory that this device did not allocate, for fast transfers, where the system allows that; until
  /// `unpin_host`.
  virtual void pin_host(void* /*address*/, std::size_t /*bytes*/) {}
  virtual void unpin_host(void* /*address*/) {}
  /// The handle of memory that `allocate` returned. The owner must not release it while another process has it open.
  virtual MemoryKey key_to(void* /*address*/) { return {}; }
  /// The memory of another process's handle, for transfers as with host memory; null if this device cannot reach it.
  /// Until `close_memory`.
  virtual void* open_memory(const MemoryKey& /*key*/) { return nullptr; }
  virtual void close_memory(void* /*address*/) {}
  /// Calls `work` once and returns a graph that repeats it with the same addresses; the graph has run once.
  virtual std::unique_ptr<DeviceGraph> capture(std::function<void()> work) = 0;
};

/// Work queued in its lifetime runs on the side stream.
class SideStream : Immovable {
 public:
  explicit SideStream(Device& device) : device_(&device) { device.begin_side_stream(); }
  ~SideStream() { device_->end_side_stream(); }

 private:
  Device* device_;
};

/// Work queued in its lifetime runs on the transfer stream.
class TransferStream : Immovable {
 public:
  explicit TransferStream(Device& device) : device_(&device) { device.begin_transfers(); }
  ~TransferStream() { device_->end_transfers(); }

 private:
  Device* device_;
};

}  // namespace afterglow
