// Messages over pipes: whole, in order, after any greeting; and lengths that a hostile peer makes up.
#include "core/remote/framed_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/io/error.h"
#include "core/random/random.h"
#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

struct Ends {
  Ends() {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    first = Descriptor(ends[0]);
    second = Descriptor(ends[1]);
  }
  Descriptor first, second;
};

FramedLine line_on(Descriptor end) {
  Descriptor out(::dup(end.get()));
  return {std::move(end), std::move(out)};
}

std::string next(FramedLine& to, FramedLine& from) {
  for (int i = 0; i < 100'000; ++i) {
    from.move();
    to.move();
    if (const auto message = to.receive()) return *message;
  }
  return "nothing came";
}

TEST(FramedLine, PassesMessagesOfAnySizeInOrder) {
  Ends ends;
  FramedLine here = line_on(std::move(ends.first)), there = line_on(std::move(ends.second));
  Random random(3, 0, 0);
  std::string noise(3'000'000, '\0');
  for (char& c : noise) c = static_cast<char>(random.uniform_int(256));
  const std::string messages[] = {"", "one", noise, std::string(1'000'000, 'a'), "last"};
  for (const std::string& message : messages) here.send(message);
  for (const std::string& message : messages) ASSERT_TRUE(next(there, here) == message) << message.size();
  EXPECT_TRUE(here.is_idle());
  there.send("back");
  EXPECT_EQ(next(here, there), "back");
}

/// A flood of them costs no more than their bytes.
TEST(FramedLine, TakesManySmallMessagesAtOnce) {
  Ends ends;
  FramedLine here = line_on(std::move(ends.first)), there = line_on(std::move(ends.second));
  constexpr int many = 1'000'000;
  for (int i = 0; i < many; ++i) here.send("!");
  while (!here.is_idle()) {
    here.move();
    there.move();
  }
  int taken = 0;
  while (there.receive()) ++taken;
  EXPECT_EQ(taken, many);
}

TEST(FramedLine, SkipsWhatAShellSaysFirst) {
  Ends ends;
  const std::string greeting = "Welcome to gpu1!\nLast login: Monday\n";
  ASSERT_EQ(::write(ends.second.get(), greeting.data(), greeting.size()), static_cast<ssize_t>(greeting.size()));
  FramedLine here = line_on(std::move(ends.first)), there = line_on(std::move(ends.second));
  there.send("hello");
  EXPECT_EQ(next(here, there), "hello");
  EXPECT_EQ(here.preamble(), greeting);
}

TEST(FramedLine, NoticesThatThePeerHasGone) {
  Ends ends;
  FramedLine here = line_on(std::move(ends.first));
  ends.second.close();
  here.move();
  EXPECT_FALSE(here.is_open());
  EXPECT_FALSE(here.receive().has_value());
}

/// Whether what a peer sends after its first line is refused with a sentence.
bool is_refused(const std::string& bytes) {
  Ends ends;
  FramedLine here = line_on(std::move(ends.first));
  const std::string all = "\nafterglow session, protocol 1\n" + bytes;
  EXPECT_EQ(::write(ends.second.get(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
  here.move();
  try {
    while (here.receive()) {
    }
    return false;
  } catch (const Error& error) {
    return error.code() == ExitCode::bad_input;
  }
}

TEST(FramedLine, RefusesWhatIsNoMessage) {
  EXPECT_TRUE(is_refused("\xff\xff\xff\xff"));                 // 4 GiB
  EXPECT_TRUE(is_refused(std::string("\4\0\0\0abcd", 8)));     // not packed
  EXPECT_TRUE(is_refused(std::string("\0\0\0\0", 4)));         // nothing at all
  EXPECT_FALSE(is_refused(std::string("\377\0\0\0abcd", 8)));  // the rest may come
  EXPECT_TRUE(
      is_refused(std::string("\x0d\0\0\0\x28\xb5\x2f\xfd\xe0\0\0\0\0\1\0\0\0", 17)));  // says that it unpacks to 4 GiB
  start_counting_memory();
  EXPECT_TRUE(is_refused(std::string("\x0d\0\0\0\x28\xb5\x2f\xfd\xe0\0\0\0\x08\0\0\0\0", 17)));  // to 128 MiB
  EXPECT_LT(max_memory_since_start(), 1 << 20) << "17 bytes cannot hold that";
  Ends ends;
  FramedLine here = line_on(std::move(ends.first));
  const std::string chatter(100'000, 'x');
  EXPECT_GT(::write(ends.second.get(), chatter.data(), chatter.size()), 0);
  here.move();
  EXPECT_THROW(here.receive(), Error);
}

}  // namespace
}  // namespace afterglow
