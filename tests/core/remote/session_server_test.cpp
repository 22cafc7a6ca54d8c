// The session's end of a line: what it sends to a window that asks for little.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/remote/framed_line.h"
#include "core/remote/remote.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

/// A session on a thread of this process, and a window's end of the line to it.
class Served {
 public:
  Served() {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    line_.emplace(Descriptor(ends[0]), Descriptor(::dup(ends[0])));
    thread_ = std::thread([end = ends[1]] {
      const auto machine = machine_with({{"cpu", "CPU, 2 threads"}, {"cuda", "NVIDIA H200"}});
      ServerOptions options{.session = {}, .version = "test", .machine = machine, .is_over = [] { return false; }};
      serve_window(options, Descriptor(end), Descriptor(::dup(end)));
    });
  }
  ~Served() {
    line_.reset();
    thread_.join();
  }
  void send(const Request& request) { line_->send(encode(request)); }
  /// The next answer of this kind; none within so many seconds.
  template <class T>
  std::optional<T> next(double seconds = 60) {
    for (const double end = line_clock() + seconds; line_clock() < end;) {
      line_->move();
      while (const auto message = line_->receive()) {
        const Answer answer = decode_answer(*message, parts_);
        if (const T* const found = std::get_if<T>(&answer)) return *found;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  }

 private:
  std::optional<FramedLine> line_;
  ReceivedParts parts_;
  std::thread thread_;
};

Hello greeting() {
  Hello hello;
  hello.version = "test";
  hello.schema = wire_schema();
  hello.client = 7;
  hello.recipe = small_recipe_json().dump();
  hello.device = "cpu";
  hello.threads = 1;
  return hello;
}

TEST(SessionServer, NamesTheDevicesAndPresetsOfItsMachine) {
  Served session;
  session.send(greeting());
  const auto welcome = session.next<Welcome>();
  ASSERT_TRUE(welcome && welcome->machine);
  EXPECT_EQ(welcome->machine->devices.back().second, "NVIDIA H200");
  ASSERT_EQ(welcome->machine->presets.size(), presets().size());
  EXPECT_EQ(welcome->machine->presets.back().title, presets().back().title);
}

/// The wish for the next observation may be half a round trip away; of those before the window knows nothing yet.
TEST(SessionServer, ACommandIsAnsweredWithoutAWish) {
  Served session;
  session.send(greeting());
  ASSERT_TRUE(session.next<Welcome>());
  session.send(Wish{.observations = 1});
  ASSERT_TRUE(session.next<Sight>());
  EXPECT_FALSE(session.next<Sight>(0.5)) << "it wished no more";
  for (std::uint64_t number = 1; number <= 2; ++number) {
    session.send(Order{{"note", nlohmann::json{{"text", "a"}}}, number});
    const auto answer = session.next<Sight>();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->taken, number);
  }
  session.send(Order{{"note", nlohmann::json{{"text", "b"}}}, 3});
  EXPECT_FALSE(session.next<Sight>(0.5)) << "a window that takes nothing is not flooded";
  session.send(Wish{.observations = 3});
  const auto answer = session.next<Sight>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->taken, 3u);
}

TEST(SessionServer, SaysWhichCommandsOfTheWindowItHas) {
  Served session;
  session.send(greeting());
  EXPECT_EQ(session.next<Welcome>()->last_order, 0u);
  session.send(Order{{"note", nlohmann::json{{"text", "a"}}}, 5});
  session.send(greeting());
  const auto again = session.next<Welcome>();
  EXPECT_EQ(again->last_order, 5u);
  EXPECT_EQ(again->received, 1u);
}

/// On a long line they would come faster than it carries them.
TEST(SessionServer, ASlowLineGetsFifteenObservationsASecond) {
  Served session;
  Hello hello = greeting();
  hello.recipe.replace(hello.recipe.find("\"steps\":40"), 10, "\"steps\":100000");
  session.send(hello);
  ASSERT_TRUE(session.next<Welcome>());
  session.send(Wish{.observations = 2, .is_slow = true});
  ASSERT_TRUE(session.next<Sight>());
  const double begin = line_clock();
  for (int i = 0; i < 20; ++i) {
    session.send(Wish{.observations = 1, .is_slow = true});
    ASSERT_TRUE(session.next<Sight>());
  }
  EXPECT_GT(line_clock() - begin, 19 / 15.0);
}

}  // namespace
}  // namespace afterglow
