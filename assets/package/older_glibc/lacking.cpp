// What program and libraries ask of glibc and 2.28 has not, as a library that the loader asks last: where glibc has a
// function of its own, that one is taken. x86-64, where the kernel's `struct stat` is the one of glibc.
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

extern "C" {

// From 2.38 on the headers ask for these names, which also read 0b11. Under theirs the older functions are reached: the
// usual names would lead back here.
int older_vsscanf(const char* text, const char* format, va_list values) asm("__isoc99_vsscanf");
long older_strtol(const char* text, char** end, int base) asm("strtol");
unsigned long older_strtoul(const char* text, char** end, int base) asm("strtoul");

int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int count = older_vsscanf(text, format, values);
  va_end(values);
  return count;
}

long __isoc23_strtol(const char* text, char** end, int base) { return older_strtol(text, end, base); }

long long __isoc23_strtoll(const char* text, char** end, int base) { return older_strtol(text, end, base); }

unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return older_strtoul(text, end, base); }

unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return older_strtoul(text, end, base); }

/// Shared pointers count without atomic operations where this is true; that a second thread began, only glibc could
/// tell.
char __libc_single_threaded = 0;

int stat(const char* path, struct stat* result) noexcept { return static_cast<int>(syscall(SYS_stat, path, result)); }

int lstat(const char* path, struct stat* result) noexcept { return static_cast<int>(syscall(SYS_lstat, path, result)); }

int fstat(int file, struct stat* result) noexcept { return static_cast<int>(syscall(SYS_fstat, file, result)); }

int fstatat(int folder, const char* path, struct stat* result, int flags) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, result, flags));
}

int fstat64(int file, struct stat64* result) noexcept { return static_cast<int>(syscall(SYS_fstat, file, result)); }

pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

void arc4random_buf(void* bytes, size_t size) noexcept {
  for (auto* next = static_cast<unsigned char*>(bytes); size > 0;) {
    const ssize_t got = getrandom(next, size, 0);
    if (got <= 0) continue;  // a signal came
    next += got;
    size -= static_cast<size_t>(got);
  }
}

uint32_t arc4random() noexcept {
  uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

/// Waits until a time of `clock`, which the older function knows as the same distance from now on the clock of the day.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  constexpr long second = 1'000'000'000;
  timespec now{}, day{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &day);
  day.tv_sec += until->tv_sec - now.tv_sec;
  day.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (day.tv_nsec < 0) {
    day.tv_nsec += second;
    --day.tv_sec;
  } else if (day.tv_nsec >= second) {
    day.tv_nsec -= second;
    ++day.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &day);
}
}
