// Device choice, memory, transfers and captured graphs of the CUDA back end.
#include "gpu/runtime/cuda_backend.h"

#include <cublas_v2.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>
#include <utility>

#include "core/io/error.h"
#include "core/io/number_text.h"
#include "gpu/runtime/properties.h"

namespace afterglow {
namespace {

constexpr std::size_t scratch_bytes = std::size_t{32} << 20;
constexpr std::size_t spare_share = 32;  // the cache of released memory may hold this part of the GPU's memory
constexpr std::size_t blas_workspace_bytes = std::size_t{32} << 20;
constexpr int ticket_count = 4096;
constexpr std::size_t min_sharing_backends = 3;  // back ends that count as sharing the GPU; two have room enough

std::atomic<unsigned> living = 0;  // back ends of this process, on all GPUs

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool is_missing(cudaError_t status) {
  return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || status == cudaErrorInvalidDevice ||
         status == cudaErrorSystemDriverMismatch || status == cudaErrorNoKernelImageForDevice ||
         status == cudaErrorUnsupportedPtxVersion || status == cudaErrorDevicesUnavailable;
}

cudaError_t make_current(int device) {
  thread_local int current = -1;
  if (current == device) return cudaSuccess;
  const cudaError_t status = cudaSetDevice(device);
  if (status == cudaSuccess) current = device;
  return status;
}

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "preparing a captured graph");
  }
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  void run() override { check_cuda(cudaGraphLaunch(executable_, stream_), "launching a captured graph"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_;
};

/// False after an error, which the next call then does not report again.
bool succeeds(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess;
}

bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "asking whether a graph is captured");
  return status != cudaStreamCaptureStatusNone;
}

/// In a captured graph the event is a node that each launch records again for external waiters.
class CudaEvent final : public DeviceEvent {
 public:
  explicit CudaEvent(CudaBackend& backend) : backend_(&backend) {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void set() override { backend_->set(event_); }
  void wait() override { check_cuda(cudaEventSynchronize(event_), "waiting for an event"); }

 private:
  CudaBackend* backend_;
  cudaEvent_t event_ = nullptr;
};

CudaSystem ask_for_devices() {
  CudaSystem system;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) system.toolkit = version_text(version);
  version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0) system.driver = version_text(version);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (status != cudaSuccess || count == 0) {
    system.why_none = system.driver.empty() ? "no NVIDIA driver answers here"
                                            : std::string("the driver shows no usable GPU (") +
                                                  cudaGetErrorString(status) + "); check with nvidia-smi";
    return system;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    system.devices.push_back({index, properties.name, properties.totalGlobalMem, properties.major, properties.minor,
                              properties.multiProcessorCount});
  }
  return system;
}

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that a refused launch is not reported twice
  const std::string reason = std::string(what) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) {
    throw Error(ExitCode::out_of_memory, "the GPU has too little memory (" + reason +
                                             "); take a smaller batch, sequence or model, or use --device cpu");
  }
  if (is_missing(status)) {
    throw Error(ExitCode::no_gpu,
                "no usable GPU (" + reason + "); check the driver with nvidia-smi, or use --device cpu");
  }
  throw Error(ExitCode::no_gpu,
              "the GPU failed or was lost (" + reason +
                  "); what was saved is safe: start again from the last snapshot, or use --device cpu");
}

CudaBackend::CudaBackend(int device, Rank rank) : device_(device) {
  check_cuda(make_current(device_), "choosing the GPU");
  int lowest = 0, highest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for priorities");
  priority_ = rank == Rank::first ? highest : lowest;
  for (const CudaDevice& known : cuda_devices().devices) {
    if (known.index != device_) continue;
    description_ = known.name;
    spare_ = SpareMemory(known.memory / spare_share);
  }
  found_ = static_cast<std::int64_t*>(allocate(sizeof(std::int64_t)));
  open(main_);
  open(side_);
  enter(main_);
  synchronize();
  ++living;
}

CudaBackend::~CudaBackend() {
  --living;
  make_current(device_);
  for (StreamContext* context : {&main_, &side_, &transfers_}) close(*context);
  for (const auto& [address, bytes] : sizes_) cudaFree(address);
  give_back_spare();
}

void CudaBackend::open_stream(StreamContext& context) {
  check_cuda(cudaStreamCreateWithPriority(&context.stream, cudaStreamNonBlocking, priority_), "making a stream");
  check_cuda(cudaEventCreateWithFlags(&context.reached, cudaEventDisableTiming), "making an event");
}

void CudaBackend::open(StreamContext& context) {
  open_stream(context);
  context.scratch = static_cast<float*>(allocate(scratch_bytes));
  context.tickets = static_cast<unsigned*>(allocate(ticket_count * sizeof(unsigned)));
  check_cuda(cudaMemset(context.tickets, 0, ticket_count * sizeof(unsigned)), "clearing the tickets");
  // With its own workspace cuBLAS allocates nothing during a capture and gives the same bits.
  void* workspace = allocate(blas_workspace_bytes);
  if (cublasCreate(&context.blas) != CUBLAS_STATUS_SUCCESS ||
      cublasSetStream(context.blas, context.stream) != CUBLAS_STATUS_SUCCESS ||
      cublasSetWorkspace(context.blas, workspace, blas_workspace_bytes) != CUBLAS_STATUS_SUCCESS ||
      cublasSetAtomicsMode(context.blas, CUBLAS_ATOMICS_NOT_ALLOWED) != CUBLAS_STATUS_SUCCESS) {
    throw Error(ExitCode::no_gpu, "cuBLAS could not be started on " + description_ +
                                      "; check the CUDA installation, or use --device cpu");
  }
}

void CudaBackend::close(StreamContext& context) {
  if (context.stream == nullptr) return;
  cudaStreamSynchronize(context.stream);
  if (context.blas != nullptr) cublasDestroy(context.blas);
  cudaEventDestroy(context.reached);
  cudaStreamDestroy(context.stream);
}

void CudaBackend::enter(StreamContext& context) {
  context_ = &context;
  tickets_ = context.tickets;
}

// Events order the two streams; in a captured graph they become edges.
void CudaBackend::begin_side_stream() {
  check_cuda(cudaEventRecord(main_.reached, stream()), "marking the order");
  check_cuda(cudaStreamWaitEvent(side_.stream, main_.reached), "starting on the side stream");
  joined_ = false;
  enter(side_);
}

void CudaBackend::end_side_stream() { enter(main_); }

void CudaBackend::join_side_stream() {
  products_.launch_kept_gradients();
  sum_norm_weights(true);
  wait_for_side_stream();
  stream();
}

void CudaBackend::wait_for_side_stream() {
  side_reads_operands_ = false;
  if (joined_) return;
  check_cuda(cudaEventRecord(side_.reached, side_.stream), "marking the end of the side stream");
  check_cuda(cudaStreamWaitEvent(main_.stream, side_.reached), "joining the side stream");
  joined_ = true;
}

std::unique_ptr<DeviceEvent> CudaBackend::make_event() {
  stream();
  return std::make_unique<CudaEvent>(*this);
}

void CudaBackend::set(cudaEvent_t event) {
  products_.launch_kept_gradients();
  sum_norm_weights(false);
  const SideStream side(*this);
  const unsigned flags = is_recorded(side_.stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
  check_cuda(cudaEventRecordWithFlags(event, side_.stream, flags), "recording an event");
}

void CudaBackend::begin_transfers() {
  stream();
  if (transfers_.stream == nullptr) open_stream(transfers_);
  enter(transfers_);
}

// Also runs while an error unwinds: the next call that can report a lost device does so.
void CudaBackend::end_transfers() {
  enter(main_);
  cudaEventRecord(transfers_.reached, transfers_.stream);
  cudaStreamWaitEvent(main_.stream, transfers_.reached);
}

void CudaBackend::pin_host(void* address, std::size_t bytes) {
  stream();
  succeeds(cudaHostRegister(address, bytes, cudaHostRegisterDefault));
}

void CudaBackend::unpin_host(void* address) {
  stream();
  succeeds(cudaHostUnregister(address));
}

// Where the system or the GPUs do not allow sharing, the error is ignored and the caller copies through the host.
MemoryKey CudaBackend::key_to(void* address) {
  stream();
  cudaIpcMemHandle_t handle{};
  static_assert(sizeof(handle) == sizeof(MemoryKey));
  return succeeds(cudaIpcGetMemHandle(&handle, address)) ? std::bit_cast<MemoryKey>(handle) : MemoryKey{};
}

void* CudaBackend::open_memory(const MemoryKey& key) {
  stream();
  void* address = nullptr;
  const auto handle = std::bit_cast<cudaIpcMemHandle_t>(key);
  return succeeds(cudaIpcOpenMemHandle(&address, handle, cudaIpcMemLazyEnablePeerAccess)) ? address : nullptr;
}

void CudaBackend::close_memory(void* address) {
  stream();
  succeeds(cudaIpcCloseMemHandle(address));
}

cudaStream_t CudaBackend::stream() const {
  check_cuda(make_current(device_), "choosing the GPU");
  if (waiting_norm) launch_norm(*std::exchange(waiting_norm, {}));
  if (waiting_projections) std::exchange(waiting_projections, {})->launch(nullptr);
  return context_->stream;
}

void CudaBackend::launched(const char* kernel, bool is_short) const {
  check_cuda(cudaGetLastError(), kernel);
  ++context_->launches;
  if (!is_short) ++context_->in_order;
}

// The previous kernel may still write what was queued before the weights were held; the kernel before that one has
// ended.
bool CudaBackend::is_pinned(const float* number) const {
  const Tensor& held = weights_of_step_.values;
  if (!held.defined() || context_->in_order == context_->in_order_before_hold) return false;
  const auto* first = held.as<float>();
  return number >= first && number < first + held.elements();
}

float* CudaBackend::scratch(std::size_t elements) const {
  if (elements * sizeof(float) > scratch_bytes) {
    throw Error(ExitCode::out_of_memory, "a kernel needs " + bytes_text(elements * sizeof(float)) +
                                             " of scratch memory and there are " + bytes_text(scratch_bytes) +
                                             "; take a smaller batch or sequence");
  }
  return context_->scratch;
}

void* CudaBackend::operand_memory(std::size_t bytes) {
  if (context_ == &main_ && side_reads_operands_) wait_for_side_stream();
  return grown(context_->operands, bytes);
}

void* CudaBackend::grown(GrowingMemory& memory, std::size_t bytes) {
  if (bytes > memory.bytes) {
    // Memory that captured graphs use stays until the end. The new block is larger than needed, so that few such blocks
    // pile up.
    const std::size_t room = memory.recorded ? bytes + bytes / 2 : bytes;
    if (memory.data != nullptr && !memory.recorded) free_memory(memory.data);
    memory = {};
    memory = {allocate(room), room};
  }
  if (is_recorded(context_->stream)) memory.recorded = true;
  return memory.data;
}

bool CudaBackend::give_back_operands() {
  bool any = false;
  for (GrowingMemory* memory : {&main_.operands, &side_.operands, &wide_weights_}) {
    if (memory->data == nullptr || memory->recorded) continue;
    free_memory(std::exchange(*memory, {}).data);
    any = true;
  }
  return any;
}

// Threads that wait by spinning are quickest but occupy a processor each, so many back ends sleep instead.
void CudaBackend::expect_side_by_side(std::size_t back_ends) {
  device::set_gpu_shared(back_ends >= min_sharing_backends);
  stream();
  const std::size_t expected = std::max<std::size_t>(back_ends, living);
  const bool are_many = back_ends > 1 && 2 * expected > std::thread::hardware_concurrency();
  succeeds(
      cudaSetDeviceFlags(are_many ? cudaDeviceScheduleBlockingSync : cudaDeviceScheduleAuto));  // or wait as before
}

std::string CudaBackend::name() const { return "cuda"; }
std::string CudaBackend::description() const { return description_; }
bool CudaBackend::supports(DType dtype) const { return dtype != DType::f64; }

void CudaBackend::refuse_memory(std::size_t bytes, std::size_t free, std::size_t total) const {
  throw Error(
      ExitCode::out_of_memory,
      "the GPU has too little memory: " + bytes_text(bytes) + " asked for, " + bytes_text(free) + " of " +
          bytes_text(total) + " free, " + bytes_text(held_) +
          " held here; take a smaller batch, sequence or model, compute blocks twice (--set recompute=16), or use "
          "--device cpu");
}

void CudaBackend::require_free(const std::function<std::size_t()>& bytes, std::size_t) const {
  stream();
  const std::size_t needed = bytes();
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
  if (needed > free + spare_.bytes()) refuse_memory(needed, free + spare_.bytes(), total);
}

void* CudaBackend::allocate(std::size_t bytes) {
  stream();
  void* address = spare_.holds(bytes) && may_reuse() ? spare_.take(bytes) : nullptr;
  cudaError_t status = address != nullptr ? cudaSuccess : cudaMalloc(&address, bytes > 0 ? bytes : 1);
  for (const auto give_back : {&CudaBackend::give_back_operands, &CudaBackend::give_back_spare}) {
    if (status != cudaErrorMemoryAllocation || !(this->*give_back)()) continue;
    cudaGetLastError();
    status = cudaMalloc(&address, bytes > 0 ? bytes : 1);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    refuse_memory(bytes, free, total);
  }
  check_cuda(status, "allocating memory");
  sizes_[address] = bytes;
  held_ += bytes;
  return address;
}

void CudaBackend::release(void* address) {
  if (!sizes_.contains(address)) return;
  // Memory is released while sums are pending only when a backward pass was broken off.
  norm_weights_.clear();
  products_.drop_kept_gradients();
  stream();
  free_memory(address);
}

void CudaBackend::free_memory(void* address) {
  const std::size_t bytes = sizes_.extract(address).mapped();
  held_ -= bytes;
  if (!spare_.keep(address, bytes)) cudaFree(address);  // the next call that can report a lost device does so
}

bool CudaBackend::may_reuse() {
  if (is_recorded(main_.stream)) return false;
  for (const StreamContext* context : {&main_, &side_})
    check_cuda(cudaStreamSynchronize(context->stream), "waiting for the GPU");
  return true;
}

bool CudaBackend::give_back_spare() {
  const bool any = spare_.clear([](void* address) { cudaFree(address); });
  return host_spare_.clear([](void* address) { cudaFreeHost(address); }) || any;
}

void* CudaBackend::allocate_host(std::size_t bytes) {
  stream();
  void* address = host_spare_.holds(bytes) && may_reuse() ? host_spare_.take(bytes) : nullptr;
  cudaError_t status = address != nullptr ? cudaSuccess : cudaMallocHost(&address, bytes > 0 ? bytes : 1);
  if (status == cudaErrorMemoryAllocation && give_back_spare()) {
    cudaGetLastError();
    status = cudaMallocHost(&address, bytes > 0 ? bytes : 1);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ExitCode::out_of_memory, "the host has too little memory to pin " + bytes_text(bytes) +
                                             "; close other programs or take a smaller batch");
  }
  check_cuda(status, "allocating pinned memory");
  host_sizes_[address] = bytes;
  return address;
}

void CudaBackend::release_host(void* address) {
  stream();
  const auto found = host_sizes_.extract(address);
  if (found.empty() || !host_spare_.keep(address, found.mapped())) cudaFreeHost(address);
}

void CudaBackend::synchronize() {
  if (context_ != &transfers_) join_side_stream();
  while (meanwhile_ && !is_idle()) meanwhile_();
  check_cuda(cudaStreamSynchronize(stream()), "waiting for the GPU");
}

// A failure counts as idle; the next wait reports it.
bool CudaBackend::is_idle() {
  if (cudaStreamQuery(stream()) != cudaErrorNotReady) return true;
  if (cudaPeekAtLastError() == cudaErrorNotReady)
    cudaGetLastError();  // otherwise the next launch would count as refused
  return false;
}

std::unique_ptr<DeviceGraph> CudaBackend::capture(std::function<void()> work) {
  synchronize();
  // Relaxed mode lets an arena allocate during the captured pass; allocations are not part of the graph.
  check_cuda(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "beginning to capture a graph");
  cudaGraph_t graph = nullptr;
  try {
    work();
    join_side_stream();
  } catch (...) {
    joined_ = true;
    norm_weights_.clear();
    waiting_norm.reset();
    waiting_projections.reset();
    products_.drop_kept_gradients();
    cudaStreamEndCapture(main_.stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(main_.stream, &graph), "capturing a graph");
  auto captured = std::make_unique<CudaGraph>(graph, main_.stream);
  captured->run();
  return captured;
}

// The driver takes milliseconds for each GPU and the answer does not change, so it is asked once.
CudaSystem cuda_devices() {
  static const CudaSystem system = ask_for_devices();
  return system;
}

std::unique_ptr<Backend> make_cuda_backend(int device, std::string* why_not) {
  const CudaSystem system = cuda_devices();
  std::string reason;
  if (system.devices.empty()) {
    reason = system.why_none;
  } else if (device < 0 || device >= static_cast<int>(system.devices.size())) {
    reason = "there is no GPU " + std::to_string(device) + "; this machine has " +
             std::to_string(system.devices.size()) + ", counted from 0 (see afterglow info)";
  } else {
    try {
      return std::make_unique<CudaBackend>(device);
    } catch (const Error& error) {
      reason = error.what();
    }
  }
  if (why_not != nullptr) *why_not = reason;
  return nullptr;
}

CudaMemory cuda_device_memory(int device) {
  CudaMemory memory;
  const bool is_known = succeeds(make_current(device)) && succeeds(cudaMemGetInfo(&memory.free, &memory.total));
  return is_known ? memory : CudaMemory{};
}

}  // namespace afterglow
