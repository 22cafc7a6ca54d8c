// A binary counter: two sums of equally many parts become one.
#include "core/ranks/shard_sum.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <utility>

namespace afterglow {
namespace {

/// Bytes sent to another process at once: large enough that the transfer outweighs its latency.
constexpr std::size_t piece_bytes = std::size_t{8} << 20;

void add_to(std::vector<double>& sum, std::span<const double> other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

Tensor part_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  auto* address = tensor.as<std::byte>() + first * static_cast<std::int64_t>(size_of(tensor.dtype));
  return Tensor(address, {count}, tensor.dtype);
}

}  // namespace

ShardSum::~ShardSum() {
  for (const Tensor& tensor : levels_) {
    if (tensor.defined()) backend_->release(tensor.data);
  }
  if (theirs_.defined()) backend_->release(theirs_.data);
}

Tensor ShardSum::level(std::size_t i, const Tensor& like) {
  if (levels_.size() <= i) levels_.resize(i + 1);
  if (!levels_[i].defined()) levels_[i] = Tensor(backend_->allocate(like.bytes()), like.shape, like.dtype);
  return levels_[i];
}

void ShardSum::begin() { added_ = 0; }

void ShardSum::add(const Tensor& gradient) {
  std::size_t i = 0;
  for (; (added_ >> i & 1) != 0; ++i) backend_->add(level(i, gradient), gradient, gradient);
  ++added_;
  backend_->copy(level(i, gradient), gradient);
}

void ShardSum::finish(const Tensor& slice, std::int64_t offset) {
  for (std::size_t i = 0; (added_ >> i & 1) != 0; ++i)
    backend_->add(part_of(levels_[i], offset, slice.elements()), slice, slice);
  if (ranks_ == nullptr || ranks_->size() == 1) return;
  if (!exchange_) {
    exchange_ = std::make_unique<PieceExchange>(*backend_, *ranks_, piece_bytes);
    const auto most = static_cast<std::int64_t>(piece_bytes / size_of(slice.dtype));
    theirs_ = Tensor(backend_->allocate(piece_bytes), {most}, slice.dtype);
  }
  const std::int64_t most = theirs_.elements();
  for (std::int64_t first = 0; first < slice.elements(); first += most)
    add_others(part_of(slice, first, std::min(most, slice.elements() - first)));
}

/// Two processes add the same two numbers, so that both get the same sum.
void ShardSum::add_others(const Tensor& piece) {
  const Tensor theirs = part_of(theirs_, 0, piece.elements());
  for (int mask = 1; mask < ranks_->size(); mask *= 2) {
    exchange_->swap(ranks_->rank() ^ mask, piece, theirs);
    backend_->add(piece, theirs, piece);
  }
}

std::vector<double> ShardSum::sum(std::vector<std::vector<double>> numbers) {
  for (std::size_t step = 1; step < numbers.size(); step *= 2) {
    for (std::size_t i = 0; i < numbers.size(); i += 2 * step) add_to(numbers[i], numbers[i + step]);
  }
  std::vector<double> all = std::move(numbers.front()), theirs(all.size());
  for (int mask = 1; ranks_ && mask < ranks_->size(); mask *= 2) {
    ranks_->exchange(ranks_->rank() ^ mask, std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(theirs)));
    add_to(all, theirs);
  }
  return all;
}

/// Cuts from the end to the beginning, between parameters.
std::vector<GradientBucket> gradient_buckets(const ParameterStore& store) {
  constexpr std::int64_t max_buckets = 8;
  const Tensor all = store.gradients();
  const std::int64_t enough = (all.elements() + max_buckets - 1) / max_buckets;
  std::vector<GradientBucket> buckets;
  std::int64_t end = all.elements();
  int end_parameter = static_cast<int>(store.all().size());
  for (int i = end_parameter - 1; i >= 0; --i) {
    const std::int64_t offset = store.all()[i].offset;
    if (i > 0 && end - offset < enough) continue;
    auto* address = all.as<std::byte>() + offset * static_cast<std::int64_t>(size_of(all.dtype));
    buckets.push_back(
        {i, end_parameter, offset, Tensor(address, {end - offset}, all.dtype), store.backend().make_event()});
    end = offset;
    end_parameter = i;
  }
  return buckets;
}

// With mapped buffers a process reads what the other wrote as soon as both have reported completion.
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
  return std::ranges::all_of(others_, [](const Other& other) { return other.theirs != nullptr; });
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
  const std::span<std::byte> own = on_host_[ranks_->rank()];
  for (std::size_t i = 0; i < others_.size(); ++i) {
    const std::span<std::byte> theirs = on_host_[others_[i].rank];
    if (own.empty() || theirs.empty()) continue;
    others_[i].own = own.data() + i * 2 * max_bytes_;
    others_[i].theirs = theirs.data() + i * 2 * max_bytes_;
  }
}

/// A process writes its next piece only after reading the previous one, so its report about that piece also says that
/// the buffer before it is free.
void PieceExchange::swap(int with, const Tensor& own, const Tensor& theirs) {
  const auto other = std::ranges::find(others_, with, &Other::rank);
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
