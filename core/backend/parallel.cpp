// A small pool of waiting threads that share an atomic counter of pieces.
#include "core/backend/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace afterglow {
namespace {
/// How often an idle worker polls for work before it sleeps: the kernels of a step follow each other within
/// microseconds, and waking a sleeping thread takes longer than most of them.
constexpr int patience = 100;
}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake, finished;
  std::atomic<std::uint64_t> generation{0};
  int taking_part = 0;  // workers inside `body`
  bool open = false;    // a worker that comes now still takes part
  bool stopping = false;
  void (*body)(const void*, std::int64_t) = nullptr;
  const void* context = nullptr;
  std::int64_t count = 0;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;       // of the first body that threw
  std::function<void()> meanwhile;  // of the calling thread

  void work(const std::function<void()>& between) {
    try {
      for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        body(context, i);
        if (between) between();
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void serve() {
    std::uint64_t seen = 0;
    while (true) {
      for (int poll = 0; poll < patience && generation.load(std::memory_order_relaxed) == seen; ++poll)
        std::this_thread::yield();
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping) return;
      seen = generation;
      if (!open) continue;
      ++taking_part;
      lock.unlock();
      work({});
      lock.lock();
      if (--taking_part == 0) finished.notify_one();
    }
  }
};

int processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads <= 0) threads = processors();
  state_->workers.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) state_->workers.emplace_back([this] { state_->serve(); });
  } catch (const std::system_error&) {
    // The system grants no more threads; the work is shared among those there are, with the same results.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::set_yield(std::function<void()> work) { state_->meanwhile = std::move(work); }

void ThreadPool::yield() {
  if (state_->meanwhile) state_->meanwhile();
}

int ThreadPool::threads() const { return static_cast<int>(state_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t count, void (*body)(const void*, std::int64_t), const void* context) {
  if (count <= 0) return;
  State& state = *state_;
  if (count == 1 || state.workers.empty()) {
    for (std::int64_t i = 0; i < count; ++i) {
      body(context, i);
      yield();
    }
    return;
  }
  {
    const std::lock_guard lock(state.mutex);
    state.body = body;
    state.context = context;
    state.count = count;
    state.next = 0;
    state.open = true;
    ++state.generation;
  }
  state.wake.notify_all();
  state.work(state.meanwhile);
  // A worker that has not begun by now finds nothing to do: only those inside are waited for.
  std::unique_lock lock(state.mutex);
  state.open = false;
  state.finished.wait(lock, [&] { return state.taking_part == 0; });
  if (state.failure) std::rethrow_exception(std::exchange(state.failure, nullptr));
}

}  // namespace afterglow
