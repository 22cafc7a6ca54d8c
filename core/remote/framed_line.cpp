// A message is its length (4 bytes) and itself, packed by zstd.
#include "core/remote/framed_line.h"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr std::string_view start_mark = "\nafterglow session, protocol 1\n";
constexpr std::size_t most_preamble = std::size_t{64} << 10;
constexpr std::size_t most_message = std::size_t{256} << 20;  // bytes, unpacked
constexpr std::size_t most_growth = 1 << 15;                  // of zstd, whose blocks of 128 KiB take 4 bytes at least

[[noreturn]] void refuse(const std::string& what) { throw BadInput("the line to the session: " + what); }

void stop_blocking(int file) { ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK); }

}  // namespace

double line_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

FramedLine::FramedLine(Descriptor in, Descriptor out)
    : in_(std::move(in)), out_(std::move(out)), outgoing_(start_mark) {
  stop_blocking(in_.get());
  stop_blocking(out_.get());
}

void FramedLine::send(std::string_view message) {
  if (message.size() > most_message) refuse("an observation is larger than 256 MiB");
  std::string packed(sizeof(std::uint32_t) + ZSTD_compressBound(message.size()), '\0');
  const std::size_t room = packed.size() - sizeof(std::uint32_t);
  const std::size_t done =
      ZSTD_compress(packed.data() + sizeof(std::uint32_t), room, message.data(), message.size(), 1);
  const auto size = static_cast<std::uint32_t>(ZSTD_isError(done) ? 0 : done);
  std::memcpy(packed.data(), &size, sizeof size);
  outgoing_.erase(0, std::exchange(written_, 0U));
  outgoing_.append(packed, 0, sizeof size + size);
}

void FramedLine::read_all() {
  char piece[1 << 16];
  incoming_.erase(0, taken_);
  taken_ = 0;
  while (is_open_ && incoming_.size() <= most_message + sizeof(std::uint32_t)) {
    const ssize_t size = ::read(in_.get(), piece, sizeof piece);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    is_open_ = size > 0;
    if (size <= 0) return;
    incoming_.append(piece, static_cast<std::size_t>(size));
    received_ += static_cast<std::uint64_t>(size);
  }
}

void FramedLine::write_all() {
  while (is_open_ && !is_idle()) {
    const ssize_t size = ::write(out_.get(), outgoing_.data() + written_, outgoing_.size() - written_);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    is_open_ = size >= 0;
    if (size > 0) written_ += static_cast<std::size_t>(size);
  }
  if (!is_idle()) return;
  outgoing_.clear();
  written_ = 0;
}

/// Shells greet before the program starts: skips that.
bool FramedLine::skip_to_start() {
  if (has_begun_) return true;
  const std::size_t at = incoming_.find(start_mark);
  has_begun_ = at != std::string::npos;
  preamble_ = incoming_.substr(0, has_begun_ ? at : most_preamble);
  if (has_begun_) incoming_.erase(0, at + start_mark.size());
  if (!has_begun_ && incoming_.size() > most_preamble) refuse("what answers is no session of Afterglow");
  return has_begun_;
}

std::optional<std::string> FramedLine::receive() {
  std::uint32_t size = 0;
  if (outgoing_.size() > most_message) return std::nullopt;  // a peer that does not read is not heard
  if (!skip_to_start() || incoming_.size() - taken_ < sizeof size) return std::nullopt;
  std::memcpy(&size, incoming_.data() + taken_, sizeof size);
  if (size > most_message) refuse("a message is larger than 256 MiB");
  if (incoming_.size() - taken_ - sizeof size < size) return std::nullopt;
  const char* const packed = incoming_.data() + taken_ + sizeof size;
  const unsigned long long whole = ZSTD_getFrameContentSize(packed, size);  // unknown is huge
  if (whole > std::min(most_message, most_growth * size)) refuse("a message is damaged, or larger than 256 MiB");
  std::string message(static_cast<std::size_t>(whole), '\0');
  if (ZSTD_decompress(message.data(), message.size(), packed, size) != whole) refuse("a message is damaged");
  taken_ += sizeof size + size;
  return message;
}

}  // namespace afterglow
