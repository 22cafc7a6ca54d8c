// Fixed-grain parallel loops: work is cut into the same pieces whatever the number of threads, so results never depend
// on it. No allocation per call.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace afterglow {

/// How many threads the machine runs at once, at least 1.
int processors();

class ThreadPool {
 public:
  /// threads <= 0 takes the number of cores. The calling thread works too. The system may grant fewer threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int threads() const;

  /// Sets other work of the calling thread, which the pool does between two pieces of a loop; it must not use this
  /// pool. An empty function ends that.
  void set_yield(std::function<void()> work);
  /// Does some of that other work, between two pieces of what the calling thread computes by itself.
  void yield();

  /// Calls body(i) for each i in [0, count), in any order, and waits. `body` must not start another loop of the same
  /// pool; one thread at a time may call. When a body throws, the threads leave out the pieces that none of them has
  /// begun, and the calling thread throws the same, or one of several, once no thread works any more.
  template <class Body>
  void for_each(std::int64_t count, const Body& body) {
    run(
        count, [](const void* context, std::int64_t i) { (*static_cast<const Body*>(context))(i); }, &body);
  }
  /// Calls body(begin, end) for pieces of `grain` elements of [0, count).
  template <class Body>
  void for_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
    for_each((count + grain - 1) / grain, [&](std::int64_t piece) {
      const std::int64_t begin = piece * grain;
      body(begin, begin + grain < count ? begin + grain : count);
    });
  }

 private:
  void run(std::int64_t count, void (*body)(const void*, std::int64_t), const void* context);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterglow
