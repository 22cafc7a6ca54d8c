// With mapped buffers a process reads what the other wrote as soon as both have reported completion.
#include "core/engine/training/ranks/piece_exchange.h"

#include <algorithm>
#include <array>
#include <fstream>

namespace afterglow {

namespace {

using MachineId = std::array<char, 36>;

/// Linux' boot id, the same in every container of a machine; zeros if it is not available.
MachineId machine_id() {
  MachineId id{};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  return file.read(id.data(), id.size()) ? id : MachineId{};
}

/// What a process tells the others about its buffers.
struct Offer {
  MemoryKey key{};
  MachineId machine{};

  /// Whether the process that offered `own` may try the key; a key from another machine could match by chance.
  bool is_for(const Offer& own) const { return key != MemoryKey{} && machine != MachineId{} && machine == own.machine; }
};

}  // namespace

PieceExchange::PieceExchange(Backend& backend, Ranks& ranks, std::size_t most)
    : backend_(&backend), ranks_(&ranks), max_bytes_(most) {
  for (int mask = 1; mask < ranks.size(); mask *= 2) others_.push_back({ranks.rank() ^ mask});
  if (!share_device_memory()) share_host_memory();
  if (has_places()) return;
  sent_ = static_cast<std::byte*>(backend.allocate_host(most));
  received_ = static_cast<std::byte*>(backend.allocate_host(most));
}

PieceExchange::~PieceExchange() {
  if (on_device_ != nullptr) close_device_memory();
  for (const std::span<std::byte> memory : on_host_) {
    if (!memory.empty()) backend_->unpin_host(memory.data());
  }
  for (std::byte* memory : {sent_, received_}) {
    if (memory != nullptr) backend_->release_host(memory);
  }
}

bool PieceExchange::has_places() const {
  return std::all_of(others_.begin(), others_.end(), [](const Other& other) { return other.theirs != nullptr; });
}

/// Whether all processes use this path. The buffers for the others are contiguous; both sides number them alike.
bool PieceExchange::share_device_memory() {
  on_device_ = static_cast<std::byte*>(backend_->allocate(others_.size() * 2 * max_bytes_));
  const Offer own{backend_->key_to(on_device_), machine_id()};
  for (std::size_t i = 0; i < others_.size(); ++i) {
    Offer theirs;
    ranks_->exchange(others_[i].rank, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(&theirs, 1)));
    auto* memory = theirs.is_for(own) ? static_cast<std::byte*>(backend_->open_memory(theirs.key)) : nullptr;
    if (memory == nullptr) continue;
    others_[i].own = on_device_ + i * 2 * max_bytes_;
    others_[i].theirs = memory + i * 2 * max_bytes_;
  }
  if (!ranks_->any(!has_places())) return true;
  close_device_memory();
  return false;
}

/// No other process reads these buffers any more: after each step the processes wait for each other's numbers.
void PieceExchange::close_device_memory() {
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (others_[i].theirs != nullptr) backend_->close_memory(others_[i].theirs - i * 2 * max_bytes_);
    others_[i] = {others_[i].rank};
  }
  backend_->release(on_device_);
  on_device_ = nullptr;
}

void PieceExchange::share_host_memory() {
  on_host_ = ranks_->share(others_.size() * 2 * max_bytes_);
  for (const std::span<std::byte> memory : on_host_) {
    if (!memory.empty()) backend_->pin_host(memory.data(), memory.size());
  }
  const std::span<std::byte> own = on_host_[static_cast<std::size_t>(ranks_->rank())];
  for (std::size_t i = 0; i < others_.size(); ++i) {
    const std::span<std::byte> theirs = on_host_[static_cast<std::size_t>(others_[i].rank)];
    if (own.empty() || theirs.empty()) continue;
    others_[i].own = own.data() + i * 2 * max_bytes_;
    others_[i].theirs = theirs.data() + i * 2 * max_bytes_;
  }
}

/// A process writes its next piece only after reading the previous one, so its report about that piece also says that
/// the buffer before it is free.
void PieceExchange::swap(int with, const Tensor& own, const Tensor& theirs) {
  const auto other =
      std::find_if(others_.begin(), others_.end(), [with](const Other& one) { return one.rank == with; });
  if (other->theirs == nullptr) {
    backend_->download(sent_, own);
    ranks_->exchange(with, {sent_, own.bytes()}, {received_, own.bytes()});
    return backend_->queue_upload(theirs, received_);
  }
  const std::size_t place = other->turn++ % 2 * max_bytes_;
  backend_->download(other->own + place, own);
  const std::byte written{1};
  std::byte answered{};
  ranks_->exchange(with, {&written, 1}, {&answered, 1});
  backend_->queue_upload(theirs, other->theirs + place);
}

}  // namespace afterglow
