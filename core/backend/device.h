// Where kernels run: memory, transfers, the order of what is queued, and captured work.
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/tensor/tensor.h"

namespace afterglow {

/// Arithmetic of `gemm` and of the products inside attention and feedback_solve: float32, or matrix units fed with
/// rounded operands. Statistics, solves and every other kernel stay in float32.
enum class Precision { fp32, tf32, bf16 };
const char* name_of(Precision precision);

/// A repeatable piece of work: a captured CUDA graph, or on the CPU the function itself.
class Program {
 public:
  virtual ~Program() = default;
  virtual void run() = 0;
};

/// A point among what is queued, for which the host can wait. A device that has done everything when a call returns
/// needs none.
class Milestone {
 public:
  virtual ~Milestone() = default;
  /// Moves it here: behind all that was queued before, in order and beside, where it holds up neither. Inside a
  /// captured program it moves with each run.
  virtual void set() {}
  /// Returns when the device has come to where the milestone was set last, at once where it never was.
  virtual void wait() {}
};

/// A contiguous array on its way between the two sides.
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

/// What another process of this machine opens a device's memory by; zeros where the system has no such way.
using MemoryKey = std::array<std::byte, 64>;

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         ///< "cpu" or "cuda"
  virtual std::string description() const = 0;  ///< for people: "CPU, 2 threads", "NVIDIA H200"
  virtual bool supports(DType dtype) const = 0;
  virtual Precision precision() const { return Precision::fp32; }
  /// False when the back end offers only exact products. Programs captured before keep theirs.
  virtual bool set_precision(Precision wanted) { return wanted == Precision::fp32; }
  /// How many back ends of this process will compute on the device at the same time: among several, a kernel should
  /// take little of it rather than end early, and among many a thread that waits should sleep. For all of them, and
  /// what is queued from now on; programs captured before keep their kernels. The bits are the same.
  virtual void expect_side_by_side(std::size_t /*back_ends*/) {}
  /// Bytes that this back end holds in its memory; 0 when it does not count them.
  virtual std::size_t held_bytes() const { return 0; }
  /// Throws Error(out_of_memory) with both numbers where so many bytes more are not free. Of what it gave,
  /// `unwritten` bytes were never written: a device that gives empty pages still needs memory for them. A device
  /// without a limit does not ask how many bytes.
  virtual void require_free(const std::function<std::size_t()>& /*bytes*/, std::size_t /*unwritten*/) const {}

  // Memory. Addresses are aligned to 256 bytes. Transfers of contiguous tensors; `download` waits for the result.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* address) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;  ///< memory that both sides transfer from quickly (pinned)
  virtual void release_host(void* address) = 0;
  virtual void upload(const Tensor& destination, const void* source) = 0;
  virtual void download(void* destination, const Tensor& source) = 0;
  /// As `upload` and `download` but only queued in the stream, for captured steps: the host side must be pinned memory.
  /// Small arrays of one call may go together.
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
  /// Whether all that was queued in order has been done; asks and does not wait.
  virtual bool is_idle() { return true; }
  /// Whenever the host waits for the device, it calls `work` again and again meanwhile, which must not use this back
  /// end nor wait long. An empty one ends it. A device that works in its calls may do so between pieces of one.
  virtual void set_meanwhile(std::function<void()> /*work*/) {}
  /// What is queued between these two may run beside all that is queued later, until `join_side_stream` or
  /// `synchronize`: for results that nothing waits for, such as the gradients of parameters. It sees all that was
  /// queued before. One tensor must not be written both beside and in order. See `SideStream`.
  virtual void begin_side_stream() {}
  virtual void end_side_stream() {}
  virtual void join_side_stream() {}
  virtual std::unique_ptr<Milestone> make_milestone() { return std::make_unique<Milestone>(); }
  /// What is queued between these two, elementwise kernels and transfers, runs in an order of its own beside all that
  /// was queued before: it finds finished only what the host has waited for. `synchronize` in between waits for it
  /// alone, and what is queued after the end comes after it. Never inside a captured program. See `TransferStream`.
  virtual void begin_transfers() {}
  virtual void end_transfers() {}
  /// Lets this device transfer quickly from and to memory that it did not give, where the system allows that; until
  /// `unpin_host`.
  virtual void pin_host(void* /*address*/, std::size_t /*bytes*/) {}
  virtual void unpin_host(void* /*address*/) {}
  /// The key to what `allocate` gave as a whole. It must not be released while another process has it open.
  virtual MemoryKey key_to(void* /*address*/) { return {}; }
  /// The memory that the key of another process belongs to, for transfers as host memory is; null where this device
  /// cannot reach it. Until `close_memory`.
  virtual void* open_memory(const MemoryKey& /*key*/) { return nullptr; }
  virtual void close_memory(void* /*address*/) {}
  /// A program that repeats `work` with the same addresses, and has run once. `work` is called once.
  virtual std::unique_ptr<Program> capture(std::function<void()> work) = 0;
};

/// Queues what happens in its lifetime beside the rest.
class SideStream {
 public:
  explicit SideStream(Device& device) : device_(&device) { device.begin_side_stream(); }
  ~SideStream() { device_->end_side_stream(); }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

 private:
  Device* device_;
};

/// Queues what happens in its lifetime in the order of transfers.
class TransferStream {
 public:
  explicit TransferStream(Device& device) : device_(&device) { device.begin_transfers(); }
  ~TransferStream() { device_->end_transfers(); }
  TransferStream(const TransferStream&) = delete;
  TransferStream& operator=(const TransferStream&) = delete;

 private:
  Device* device_;
};

}  // namespace afterglow
