// Stands in for sessions on other machines in builds without Boost.PFR or zstd.
#include "core/engine/remote/remote.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

[[noreturn]] void throw_missing() {
  throw Error(ExitCode::failure,
              "this build has no sessions on other machines: install libboost-dev and libzstd-dev, and build again");
}

}  // namespace

std::unique_ptr<ObservationSource> connect_to_remote(RemoteOptions) { throw_missing(); }
Request decode_request(std::string_view) { throw_missing(); }
Answer decode_answer(std::string_view, ReceivedParts&) { throw_missing(); }
std::string encode(const Request&) { throw_missing(); }
std::string encode(const Answer&, SentParts&) { throw_missing(); }
void serve_window(const ServerOptions&, Descriptor, Descriptor) { throw_missing(); }
void serve_windows(const ServerOptions&, const std::string&) { throw_missing(); }

}  // namespace afterglow
