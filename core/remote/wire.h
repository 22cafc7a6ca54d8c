// What passes between a window and a session elsewhere, as plain values, and their bytes. Parts of an observation that
// the peer already has are sent as numbers, of a curve only what it has grown by.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/engine/session/observation_source.h"
#include "core/recipe/recipe.h"

namespace afterglow {

/// The largest snapshot that travels.
inline constexpr std::size_t max_snapshot_bytes = std::size_t{4} << 30;

/// The first message of a window.
struct Hello {
  std::string version;       ///< "afterglow 0.1.0"
  std::string schema;        ///< `wire_schema()`
  std::uint64_t client = 0;  ///< a random number that names the window
  std::uint64_t sent = 0;    ///< number of the last command before the first one of this line
  bool opens = false;        ///< also a session that has a run opens the start; otherwise it goes on with its run
  std::string recipe;        ///< the start: JSON text
  std::string path;          ///< or a file of the far machine
  std::string folder;        ///< which the names of its files mean, from the user's home there; empty: as it began
  std::string device;
  int threads = 0;
};
struct Order {
  Command command;
  std::uint64_t number = 0;  ///< among those of its window, from 1
};
/// Lets the session send `observations` more. One without any, once a second, is answered by `Pong`.
struct Wish {
  std::uint32_t observations = 0;
  AnalysisSet analyses = 0;
  double sent_at = 0;
  std::string beginning{};  ///< of paths of the far machine
  bool is_slow = false;     ///< the line: the session sends `Bulk` by and by
};
using Request = std::variant<Hello, Order, Wish>;

struct Welcome {
  std::uint64_t received = 0;    ///< commands that it has from all windows
  std::uint64_t last_order = 0;  ///< the number of the last one from this window
  bool is_new = false;           ///< it began with this window's start
  bool trains_on = false;        ///< it outlives the line
  std::shared_ptr<const Machine> machine{};
};
struct Sight {
  std::uint64_t taken = 0;  ///< commands whose effects it shows
  std::shared_ptr<const Observation> now;
};
struct Pong {
  double sent_at = 0;
  std::string beginning{};           ///< as in the wish
  std::vector<std::string> paths{};  ///< that begin so
};
struct Refusal {
  int code = 0;  ///< an ExitCode
  std::string sentence;
  bool is_final = false;  ///< the window need not try again
};
/// The largest parts of observations of the run `opened`, which those on a slow line lack.
struct Bulk {
  std::uint64_t opened = 0;
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const TokenWeights> token_weights;
};
/// The next bytes of a snapshot that goes to the window's machine, or of a `Bulk`: small messages go in between.
struct Piece {
  std::uint64_t save = 0;  ///< the number of the command; 0: a `Bulk`
  std::string bytes;       ///< none in all: the snapshot could not be made
  bool is_last = false;
};
using Answer = std::variant<Welcome, Sight, Pong, Refusal, Piece, Bulk>;

/// A value behind a shared pointer that both sides hold; what an observation no longer holds, both forget after it.
struct SharedPart {
  std::shared_ptr<const void> value;
  const void* type = nullptr;  ///< received ones: so that a peer cannot pass one part as another
  std::uint64_t number = 0;
  std::size_t size = 0, capacity = 0;  ///< of a curve: numbers sent or received, and room for them
  std::size_t bytes = 0;               ///< of memory, received
  bool is_used = true;
};
using SentParts = std::unordered_map<const void*, SharedPart>;  ///< by address
struct ReceivedParts {
  std::unordered_map<std::uint64_t, SharedPart> by_number;
  std::size_t bytes = 0;  ///< of all
};

std::string encode(const Request& request);
std::string encode(const Answer& answer, SentParts& parts);
/// Both throw Error(bad_input) for bytes that are no message, or would unpack to more than 1 GiB.
Request decode_request(std::string_view bytes);
Answer decode_answer(std::string_view bytes, ReceivedParts& parts);

/// Whether the command is `save {"at": "here"}`: the file goes to the window's machine.
bool saves_here(const Command& command);

/// Changes with the declaration of anything that travels.
std::string_view wire_schema();

}  // namespace afterglow
