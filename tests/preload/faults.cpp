// Loaded before the C library: lets chosen calls fail, so that tests see what the program makes of it. The variable
// AFTERGLOW_FAULT says which: "malloc 120" fails the 120th allocation, "malloc 120 on" that one and all after it; the
// other names are open, write, fsync, rename and thread. A file named by AFTERGLOW_FAULT_FIRED is made when it
// happened.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Fault {
  char name[16] = "";
  long number = 0;
  bool goes_on = false;
};

Fault read_fault() {
  Fault fault;
  char on[4] = "";
  const char* text = std::getenv("AFTERGLOW_FAULT");
  if (text == nullptr || std::sscanf(text, "%15s %ld %3s", fault.name, &fault.number, on) < 2) fault.number = 0;
  fault.goes_on = std::strcmp(on, "on") == 0;
  return fault;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

std::atomic<long> calls = 0;
std::atomic<bool> has_begun = false;  // main: what CUDA's libraries do before it crashes without memory
int (*real_main)(int, char**, char**) = nullptr;

int counted_main(int argc, char** argv, char** environment) {
  has_begun = true;
  return real_main(argc, argv, environment);
}

void note_that_it_happened() {
  const char* path = std::getenv("AFTERGLOW_FAULT_FIRED");
  if (path == nullptr) return;
  static const auto real_open = next<int (*)(const char*, int, ...)>("open");
  const int file = real_open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
}

/// Whether this call is one that has to fail.
bool must_fail(const char* name) {
  static const Fault fault = read_fault();
  if (!has_begun || fault.number == 0 || std::strcmp(fault.name, name) != 0) return false;
  const long call = ++calls;
  if (call != fault.number && !(fault.goes_on && call > fault.number)) return false;
  if (call == fault.number) note_that_it_happened();
  return true;
}

bool fails_with(const char* name, int error) {
  if (!must_fail(name)) return false;
  errno = error;
  return true;
}

}  // namespace

extern "C" {

// Called by the program's first instructions.
int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*end)(), void* stack) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  return next<Start>("__libc_start_main")(counted_main, argc, argv, init, fini, end, stack);
}

void* malloc(std::size_t size) {
  static const auto real = next<void* (*)(std::size_t)>("malloc");
  return fails_with("malloc", ENOMEM) ? nullptr : real(size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  static const auto real = next<void* (*)(std::size_t, std::size_t)>("aligned_alloc");
  return fails_with("malloc", ENOMEM) ? nullptr : real(alignment, size);
}

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const bool writes = (flags & (O_WRONLY | O_RDWR)) != 0;
  return writes && fails_with("open", EMFILE) ? -1 : real(path, flags, mode);
}

ssize_t write(int file, const void* data, std::size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, std::size_t)>("write");
  return file > STDERR_FILENO && fails_with("write", ENOSPC) ? -1 : real(file, data, size);
}

int fsync(int file) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails_with("fsync", EIO) ? -1 : real(file);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails_with("rename", EACCES) ? -1 : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return fails_with("rename", EACCES) ? -1 : real(from_folder, from, to_folder, to, flags);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  static const auto real = next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return must_fail("thread") ? EAGAIN : real(thread, attributes, body, argument);
}

}  // extern "C"
