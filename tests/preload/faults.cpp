// Loaded before the C library: lets chosen calls fail, so that tests see what the program makes of it. The variable
// AFTERGLOW_FAULT says which: "malloc 120" fails the 120th allocation, "malloc 120 on" that one and all after it,
// "malloc 0" none; "rename 2 kill" kills the program in the place of the call; `names` below lists the kinds of calls.
// AFTERGLOW_FAULT_ERRNO is the error that they fail with in the place of the usual one. AFTERGLOW_NO_LINKS makes the
// drive one without links and without names that are never replaced: both always fail with this error. With
// AFTERGLOW_FAULT_OWN only calls out of the program's own code count, not those of the libraries that draw. How many
// calls of the kind there were is written, as eight bytes, into the file that AFTERGLOW_FAULT_SEEN names, however the
// program ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

extern "C" {
// The C library's own, which need not be looked up: looking up allocates.
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

enum class Call {
  none,
  memory,
  thread,
  open,
  read,
  write,
  fsync,
  close,
  rename,
  mkdir,
  mmap,
  gpu_memory,
  gpu_copy,
  gpu_launch,
  gpu_graph,
  gpu_wait  // of the CUDA runtime library
};
constexpr const char* names[] = {"",         "malloc",     "thread",    "open",    "read", "write",
                                 "fsync",    "close",      "rename",    "mkdir",   "mmap", "gpu_memory",
                                 "gpu_copy", "gpu_launch", "gpu_graph", "gpu_wait"};

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// Addresses of a program or library in memory.
struct Range {
  std::uintptr_t begin = UINTPTR_MAX, end = 0;
  bool holds(const void* address) const {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    return value >= begin && value < end;
  }
};

Call fault_call = Call::none;
long fault_number = 0;
bool goes_on = false, kills = false, is_own_only = false;
int fault_errno = 0, no_links = 0;
Range program, standard_library;
std::atomic<long> unseen_calls = 0;
std::atomic<long>* calls = &unseen_calls;
std::atomic<bool> has_begun = false;  // main: what CUDA's libraries do before it crashes without memory
int (*real_main)(int, char**, char**) = nullptr;

Range range_of(const dl_phdr_info& info) {
  Range range;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    range.begin = std::min<std::uintptr_t>(range.begin, info.dlpi_addr + part.p_vaddr);
    range.end = std::max<std::uintptr_t>(range.end, info.dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  return range;
}

/// The first one is the program.
int note_range(dl_phdr_info* info, std::size_t, void*) {
  if (program.end == 0) program = range_of(*info);
  if (std::strstr(info->dlpi_name, "/libstdc++.so") != nullptr) standard_library = range_of(*info);
  return 0;
}

void share_calls(const char* path) {
  const long file = ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || ::syscall(SYS_ftruncate, file, sizeof(long)) != 0) return;
  const long memory = ::syscall(SYS_mmap, nullptr, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
  if (memory != -1) calls = reinterpret_cast<std::atomic<long>*>(memory);
  ::syscall(SYS_close, file);
}

void read_fault() {
  char name[16] = "", on[5] = "";
  const auto number = [](const char* variable) {
    const char* digits = std::getenv(variable);
    return digits == nullptr ? 0 : std::atoi(digits);
  };
  fault_errno = number("AFTERGLOW_FAULT_ERRNO");
  no_links = number("AFTERGLOW_NO_LINKS");
  const char* text = std::getenv("AFTERGLOW_FAULT");
  if (text == nullptr || std::sscanf(text, "%15s %ld %4s", name, &fault_number, on) < 2) return;
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (std::strcmp(name, names[i]) == 0) fault_call = static_cast<Call>(i);
  }
  goes_on = std::strcmp(on, "on") == 0;
  kills = std::strcmp(on, "kill") == 0;
  is_own_only = std::getenv("AFTERGLOW_FAULT_OWN") != nullptr;
  ::dl_iterate_phdr(note_range, nullptr);
  if (const char* path = std::getenv("AFTERGLOW_FAULT_SEEN")) share_calls(path);
}

int counted_main(int argc, char** argv, char** environment) {
  read_fault();
  has_begun = true;
  return real_main(argc, argv, environment);
}

/// Whether this call is one that has to fail. Threads and files are asked for through the standard library.
bool must_fail(Call call, const void* caller) {
  if (!has_begun || call != fault_call) return false;
  if (is_own_only && !program.holds(caller) && (call == Call::memory || !standard_library.holds(caller))) return false;
  const long number = ++*calls;
  if (kills && number == fault_number) ::kill(::getpid(), SIGKILL);
  return fault_number > 0 && (number == fault_number || (goes_on && number > fault_number));
}

bool fails_with(Call call, const void* caller, int error) {
  if (!must_fail(call, caller)) return false;
  errno = fault_errno != 0 ? fault_errno : error;
  return true;
}

/// As the language wants it: the handler that was set throws, or memory is there after it.
void* allocate(std::size_t alignment, std::size_t size, const void* caller) {
  for (;;) {
    const bool fails = must_fail(Call::memory, caller);
    void* memory = fails ? nullptr : alignment == 0 ? __libc_malloc(size) : __libc_memalign(alignment, size);
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

// What the CUDA runtime library declares; its headers are not everywhere where this is compiled.
constexpr int gpu_success = 0, gpu_out_of_memory = 2, gpu_launch_failure = 719;
struct Extent {
  unsigned x, y, z;
};
/// A launch tells its failure only through the next question for the last error.
thread_local int launch_error = gpu_success;

/// The program loads that library itself, out of sight of RTLD_NEXT.
template <class Function>
Function next_on_gpu(const char* name) {
  for (const char* library : {"libcudart.so.13", "libcudart.so.12"}) {
    if (void* loaded = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD))
      return reinterpret_cast<Function>(::dlsym(loaded, name));
  }
  return next<Function>(name);
}

/// Calls what really does it, unless the call has to fail.
template <class... Parameters, class... Arguments>
int on_gpu(Call call, int error, int (*real)(Parameters...), Arguments... arguments) {
  return must_fail(call, nullptr) ? error : real(arguments...);
}

}  // namespace

// What an inlined container asks for counts as the program's own, which a call through the standard library would not.
void* operator new(std::size_t size) { return allocate(0, size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return allocate(0, size, __builtin_return_address(0)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(static_cast<std::size_t>(alignment), size, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" {

// Called by the program's first instructions.
int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*end)(), void* stack) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  return next<Start>("__libc_start_main")(counted_main, argc, argv, init, fini, end, stack);
}

void* malloc(std::size_t size) {
  return fails_with(Call::memory, __builtin_return_address(0), ENOMEM) ? nullptr : __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  return fails_with(Call::memory, __builtin_return_address(0), ENOMEM) ? nullptr : __libc_calloc(count, size);
}

void* realloc(void* memory, std::size_t size) {
  return fails_with(Call::memory, __builtin_return_address(0), ENOMEM) ? nullptr : __libc_realloc(memory, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails_with(Call::memory, __builtin_return_address(0), ENOMEM) ? nullptr : __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  if (must_fail(Call::memory, __builtin_return_address(0))) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return fails_with(Call::open, __builtin_return_address(0), EMFILE) ? -1 : real(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static const auto real = next<int (*)(int, const char*, int, ...)>("openat");
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return fails_with(Call::open, __builtin_return_address(0), EMFILE) ? -1 : real(folder, path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  return fails_with(Call::open, __builtin_return_address(0), EMFILE) ? nullptr : real(path, mode);
}

ssize_t read(int file, void* data, std::size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, std::size_t)>("read");
  return fails_with(Call::read, __builtin_return_address(0), EIO) ? -1 : real(file, data, size);
}

ssize_t write(int file, const void* data, std::size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, std::size_t)>("write");
  const bool is_message = file <= STDERR_FILENO;
  return !is_message && fails_with(Call::write, __builtin_return_address(0), ENOSPC) ? -1 : real(file, data, size);
}

int fsync(int file) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails_with(Call::fsync, __builtin_return_address(0), EIO) ? -1 : real(file);
}

// Network file systems report a full disk only here; the descriptor is gone all the same.
int close(int file) {
  static const auto real = next<int (*)(int)>("close");
  const int result = real(file);
  return fails_with(Call::close, __builtin_return_address(0), EIO) ? -1 : result;
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails_with(Call::rename, __builtin_return_address(0), EACCES) ? -1 : real(from, to);
}

int link(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("link");
  if (no_links != 0) errno = no_links;
  return no_links != 0 ? -1 : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  if (no_links != 0) errno = no_links;
  if (no_links != 0) return -1;
  return fails_with(Call::rename, __builtin_return_address(0), EACCES) ? -1
                                                                       : real(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return fails_with(Call::mkdir, __builtin_return_address(0), ENOSPC) ? -1 : real(path, mode);
}

void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) {
  static const auto real = next<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
  return fails_with(Call::mmap, __builtin_return_address(0), ENOMEM)
             ? MAP_FAILED
             : real(address, size, protection, flags, file, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  static const auto real = next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return must_fail(Call::thread, __builtin_return_address(0)) ? EAGAIN : real(thread, attributes, body, argument);
}

int cudaMalloc(void** memory, std::size_t size) {
  static const auto real = next_on_gpu<int (*)(void**, std::size_t)>("cudaMalloc");
  return on_gpu(Call::gpu_memory, gpu_out_of_memory, real, memory, size);
}

int cudaMallocHost(void** memory, std::size_t size) {
  static const auto real = next_on_gpu<int (*)(void**, std::size_t)>("cudaMallocHost");
  return on_gpu(Call::gpu_memory, gpu_out_of_memory, real, memory, size);
}

int cudaMemcpyAsync(void* to, const void* from, std::size_t size, int kind, void* stream) {
  static const auto real = next_on_gpu<int (*)(void*, const void*, std::size_t, int, void*)>("cudaMemcpyAsync");
  return on_gpu(Call::gpu_copy, gpu_launch_failure, real, to, from, size, kind, stream);
}

int __cudaLaunchKernel(void* kernel, Extent grid, Extent block, void** arguments, std::size_t shared, void* stream) {
  static const auto real =
      next_on_gpu<int (*)(void*, Extent, Extent, void**, std::size_t, void*)>("__cudaLaunchKernel");
  const int error = on_gpu(Call::gpu_launch, gpu_launch_failure, real, kernel, grid, block, arguments, shared, stream);
  if (error != gpu_success) launch_error = error;
  return error;
}

int cudaLaunchKernelExC(const void* configuration, const void* kernel, void** arguments) {
  static const auto real = next_on_gpu<int (*)(const void*, const void*, void**)>("cudaLaunchKernelExC");
  const int error = on_gpu(Call::gpu_launch, gpu_launch_failure, real, configuration, kernel, arguments);
  if (error != gpu_success) launch_error = error;
  return error;
}

int cudaGetLastError() {
  static const auto real = next_on_gpu<int (*)()>("cudaGetLastError");
  const int error = real();
  return std::exchange(launch_error, gpu_success) != gpu_success ? gpu_launch_failure : error;
}

int cudaStreamBeginCapture(void* stream, int mode) {
  static const auto real = next_on_gpu<int (*)(void*, int)>("cudaStreamBeginCapture");
  return on_gpu(Call::gpu_graph, gpu_launch_failure, real, stream, mode);
}

int cudaGraphInstantiate(void** program, void* graph, unsigned long long flags) {
  static const auto real = next_on_gpu<int (*)(void**, void*, unsigned long long)>("cudaGraphInstantiate");
  return on_gpu(Call::gpu_graph, gpu_out_of_memory, real, program, graph, flags);
}

int cudaGraphLaunch(void* program, void* stream) {
  static const auto real = next_on_gpu<int (*)(void*, void*)>("cudaGraphLaunch");
  return on_gpu(Call::gpu_graph, gpu_launch_failure, real, program, stream);
}

int cudaStreamSynchronize(void* stream) {
  static const auto real = next_on_gpu<int (*)(void*)>("cudaStreamSynchronize");
  return on_gpu(Call::gpu_wait, gpu_launch_failure, real, stream);
}

}  // extern "C"
