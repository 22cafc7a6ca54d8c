// Each thread has its own listener.
#include "core/models/checkpoints/loading_watch.h"

namespace afterglow {

namespace {
thread_local const LoadingWatch::Told* watching = nullptr;
}  // namespace

LoadingWatch::LoadingWatch(Told told) : told_(std::move(told)) { watching = &told_; }
LoadingWatch::~LoadingWatch() { watching = nullptr; }

void LoadingWatch::tell(const Parameter& parameter) {
  if (watching != nullptr) (*watching)(parameter);
}

}  // namespace afterglow
