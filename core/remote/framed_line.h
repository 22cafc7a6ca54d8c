// Whole messages over a pair of file descriptors: never blocks, compresses both ways, and believes no length before the
// bytes are there.
#pragma once
#include <poll.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/temporary_file.h"

namespace afterglow {

/// Seconds of a clock that never goes back.
double line_clock();

class FramedLine {
 public:
  /// `in` and `out` may be the same socket. Both stop blocking.
  FramedLine(Descriptor in, Descriptor out);

  /// Queues a message.
  void send(std::string_view message);
  /// Appends what this line waits for.
  void wait_for(std::vector<pollfd>& waits) const {
    waits.push_back({in_.get(), POLLIN, 0});
    if (!is_idle()) waits.push_back({out_.get(), POLLOUT, 0});
  }
  /// Reads and writes what can be read and written at once.
  void move() {
    read_all();
    write_all();
  }
  /// The next whole message. Throws Error(bad_input) if the peer sends anything else.
  std::optional<std::string> receive();

  /// Whether everything queued has been written.
  bool is_idle() const { return outgoing_.size() == written_; }
  /// Whether the peer may still send or read.
  bool is_open() const { return is_open_; }
  std::uint64_t bytes_received() const { return received_; }
  /// What the peer wrote before its first message: a greeting of its shell, or why there is no session.
  const std::string& preamble() const { return preamble_; }

 private:
  bool skip_to_start();
  void read_all();
  void write_all();

  Descriptor in_, out_;
  std::string incoming_, outgoing_, preamble_;
  std::size_t written_ = 0, taken_ = 0;  // bytes at their beginnings
  std::uint64_t received_ = 0;
  bool is_open_ = true, has_begun_ = false;
};

}  // namespace afterglow
