// Where memory is shared, a process reads what the other wrote there as soon as both have said that it is written.
#include "core/engine/training/ranks/piece_exchange.h"

#include <algorithm>
#include <bit>

namespace afterglow {

namespace {

int others_of(const Ranks& ranks) { return std::countr_zero(static_cast<unsigned>(ranks.size())); }

}  // namespace

PieceExchange::PieceExchange(Backend& backend, Ranks& ranks, std::size_t most)
    : backend_(&backend),
      ranks_(&ranks),
      most_(most),
      shared_(ranks.share(static_cast<std::size_t>(others_of(ranks)) * 2 * most)) {
  for (const std::span<std::byte> memory : shared_) {
    if (!memory.empty()) backend.pin_host(memory.data(), memory.size());
  }
  bool is_all_shared = true;
  for (int i = 0; i < others_of(ranks); ++i) is_all_shared = is_all_shared && is_shared_with(ranks.rank() ^ (1 << i));
  if (is_all_shared) return;
  sent_ = static_cast<std::byte*>(backend.allocate_host(most));
  received_ = static_cast<std::byte*>(backend.allocate_host(most));
}

PieceExchange::~PieceExchange() {
  for (const std::span<std::byte> memory : shared_) {
    if (!memory.empty()) backend_->unpin_host(memory.data());
  }
  for (std::byte* memory : {sent_, received_}) {
    if (memory != nullptr) backend_->release_host(memory);
  }
}

bool PieceExchange::is_shared_with(int rank) const {
  const auto other = static_cast<std::size_t>(rank), own = static_cast<std::size_t>(ranks_->rank());
  return other < shared_.size() && !shared_[other].empty() && !shared_[own].empty();
}

/// Two places for each other process take turns: it writes its next piece after it has read the one before, so that
/// its word about that one says that the place before is free.
void PieceExchange::swap(int with, const Tensor& own, const Tensor& theirs) {
  if (!is_shared_with(with)) {
    backend_->download(sent_, own);
    ranks_->exchange(with, {sent_, own.bytes()}, {received_, own.bytes()});
    return backend_->queue_upload(theirs, received_);
  }
  const auto other = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(ranks_->rank() ^ with)));
  const std::size_t place = (other * 2 + turns_[other]++ % 2) * most_;
  backend_->download(shared_[static_cast<std::size_t>(ranks_->rank())].data() + place, own);
  const std::byte written{1};
  std::byte answered{};
  ranks_->exchange(with, {&written, 1}, {&answered, 1});
  backend_->queue_upload(theirs, shared_[static_cast<std::size_t>(with)].data() + place);
}

}  // namespace afterglow
