// Memory and identity of the CPU back end: all memory is host memory, and every call returns when its work is done.
#include "core/backend/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "core/backend/host_memory.h"
#include "core/backend/level/cpu_level.h"

namespace afterglow {
namespace {

constexpr std::align_val_t alignment{256};
constexpr std::size_t large_block = std::size_t{4} << 20;  // larger blocks are mapped pages

/// Zeroed memory, in huge pages where the system has them: a training touches all of its memory at its start, and a
/// sweep does so for every run.
void* map_pages(std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  ::madvise(address, bytes, MADV_HUGEPAGE);  // only a hint
  return address;
}

class RepeatedCall final : public DeviceGraph {
 public:
  explicit RepeatedCall(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

}  // namespace

std::unique_ptr<Backend> make_compiled_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

std::string CpuBackend::name() const { return "cpu"; }
std::string CpuBackend::description() const {
  const std::string level(cpu_level());
  return "CPU" + (level.empty() ? "" : " " + level) + ", " + std::to_string(pool_.threads()) +
         (pool_.threads() == 1 ? " thread" : " threads");
}
bool CpuBackend::supports(DType) const { return true; }

void CpuBackend::require_free(const std::function<std::size_t()>& bytes, std::size_t unwritten) const {
  require_host_memory(bytes() + unwritten);
}

void* CpuBackend::allocate(std::size_t bytes) {
  require_host_memory(bytes);
  const bool is_mapped = bytes >= large_block;
  void* address = is_mapped ? map_pages(bytes) : allocate_host(bytes);
  blocks_[address] = {bytes, is_mapped};
  held_ += bytes;
  return address;
}
Tensor CpuBackend::allocate_zeros(std::int64_t count, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  if (bytes < large_block) return Backend::allocate_zeros(count, dtype);
  require_host_memory(bytes);
  void* address = map_pages(bytes);
  blocks_[address] = {bytes, true};
  held_ += bytes;
  return {address, {count}, dtype};
}
void CpuBackend::release(void* address) {
  const auto entry = blocks_.find(address);
  if (entry == blocks_.end()) return;
  const HeldMemory block = entry->second;
  held_ -= block.bytes;
  blocks_.erase(entry);
  if (block.is_mapped) {
    ::munmap(address, block.bytes);
  } else {
    release_host(address);
  }
}
void* CpuBackend::allocate_host(std::size_t bytes) { return ::operator new(bytes, alignment); }
void CpuBackend::release_host(void* address) { ::operator delete(address, alignment); }
void CpuBackend::queue_uploads(std::span<const Transfer> arrays) {
  for (const Transfer& array : arrays) std::memcpy(array.to, array.from, array.bytes);
}
void CpuBackend::queue_downloads(std::span<const Transfer> arrays) { queue_uploads(arrays); }
void CpuBackend::synchronize() {}

std::unique_ptr<DeviceGraph> CpuBackend::capture(std::function<void()> work) {
  work();
  return std::make_unique<RepeatedCall>(std::move(work));
}

}  // namespace afterglow
