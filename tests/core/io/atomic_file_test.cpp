// Whole files: round trips, and every way in which writing can fail leaves the old file and no stray one.
#include "core/io/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "core/io/temporary_file.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class AtomicFile : public TemporaryFolder {};

TEST_F(AtomicFile, ReadsBackWhatWasWritten) {
  const std::string content("zero \0 and bytes \xff\n", 19);
  write_file_atomically(file("a.bin"), content);
  EXPECT_EQ(read_file(file("a.bin"), 19), content);
  write_file_atomically(file("empty"), "");
  EXPECT_EQ(read_file(file("empty"), 0), "");
  EXPECT_THAT(names(), UnorderedElementsAre("a.bin", "empty"));
}

TEST_F(AtomicFile, WritesPiecesInOrder) {
  const std::string first = "one ", second = "two";
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(first)), {}, std::as_bytes(std::span(second))};
  write_file_atomically(file("a"), pieces);
  EXPECT_EQ(content_of(file("a")), "one two");
}

TEST_F(AtomicFile, ReplacesAndKeepsPermissionsOfTheOldFile) {
  const fs::path path = put("a", "a long old content");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_write);
  write_file_atomically(path, "new");
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_write);
}

TEST_F(AtomicFile, NewFilesFollowTheUmask) {
  const mode_t old = ::umask(0027);
  write_file_atomically(file("a"), "x");
  ::umask(old);
  EXPECT_EQ(static_cast<int>(fs::status(file("a")).permissions()), 0640);
}

TEST_F(AtomicFile, ReplacesWhatALinkPointsTo) {
  fs::create_directory(file("there"));
  put("there/real", "old");
  fs::create_symlink("there/real", file("link"));
  write_file_atomically(file("link"), "new");
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(content_of(file("there/real")), "new");
}

TEST_F(AtomicFile, AcceptsTheLongestFileName) {
  const std::string name(255, 'n');
  write_file_atomically(file(name), "x");
  EXPECT_EQ(content_of(file(name)), "x");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { write_file_atomically(file(name + "n"), "x"); }),
              HasSubstr("shorter"));
}

TEST_F(AtomicFile, MissingFolderIsNamed) {
  EXPECT_THAT(
      message_of(ExitCode::bad_input, [&] { write_file_atomically(file("no/such/plot.svg"), "x"); }),
      AllOf(HasSubstr("plot.svg"), HasSubstr(file("no/such").string() + " does not exist"), HasSubstr("create")));
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(AtomicFile, PathUnderAFileIsNamed) {
  put("file", "content");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { write_file_atomically(file("file/plot.svg"), "x"); }),
              HasSubstr("not a folder"));
  EXPECT_EQ(content_of(file("file")), "content");
}

TEST_F(AtomicFile, FoldersAndEmptyNamesAreRefused) {
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { write_file_atomically(folder_, "x"); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { write_file_atomically(folder_ / "", "x"); }),
              HasSubstr("is a folder"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [] { write_file_atomically("", "x"); }), HasSubstr("no file name"));
}

/// Runs in a child process, as a user without the rights of the superuser.
[[noreturn]] void write_into_read_only_folder(const fs::path& path) {
  if (::geteuid() == 0 && ::setuid(65534) != 0) std::_Exit(3);
  try {
    write_file_atomically(path, "new");
  } catch (const Error& error) {
    const bool told = std::string(error.what()).find("no permission") != std::string::npos;
    std::_Exit(told && error.code() == ExitCode::bad_input ? 0 : 2);
  }
  std::_Exit(1);
}

TEST_F(AtomicFile, ReadOnlyFolderKeepsTheOldFile) {
  put("a", "old");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  EXPECT_EXIT(write_into_read_only_folder(file("a")), ::testing::ExitedWithCode(0), "");
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(content_of(file("a")), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

/// Runs in a child process whose files may not grow beyond 64 KiB: writing stops midway, as on a full disk.
[[noreturn]] void write_more_than_the_limit(const fs::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{65536, 65536};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    write_file_atomically(path, std::string(1000000, 'x'));
  } catch (const Error& error) {
    const bool told = std::string(error.what()).find("what was there before is unchanged") != std::string::npos;
    std::_Exit(told && error.code() == ExitCode::failure ? 0 : 2);
  }
  std::_Exit(1);
}

TEST_F(AtomicFile, DiskThatFillsMidwayKeepsTheOldFile) {
  put("a", "old");
  EXPECT_EXIT(write_more_than_the_limit(file("a")), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(content_of(file("a")), "old");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(AtomicFile, FullDiskIsToldWithARemedyAndDevicesAreNotReplaced) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  EXPECT_THAT(message_of(ExitCode::failure, [] { write_file_atomically("/dev/full", std::string(2048, 'x')); }),
              AllOf(HasSubstr("2.0 KB to /dev/full"), HasSubstr("disk is full"), HasSubstr("free some space")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(AtomicFile, ReadingNamesWhatIsWrong) {
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_file(file("none.csv"), 10); }),
              AllOf(HasSubstr("none.csv"), HasSubstr("no such file")));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_file(folder_, 10); }), HasSubstr("is a folder"));
  const fs::path path = put("large", std::string(2049, 'x'));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_file(path, 2048); }), HasSubstr("more than the 2.0 KB"));
  EXPECT_EQ(read_file(path, 2049).size(), 2049);
}

TEST_F(AtomicFile, EndlessDevicesStopAtTheLimit) {
  EXPECT_THAT(message_of(ExitCode::bad_input, [] { read_file("/dev/zero", 1000000); }), HasSubstr("more than"));
}

TEST_F(AtomicFile, FreePathCountsOnInsteadOfOverwriting) {
  EXPECT_EQ(free_path(file("spectrum.svg")), file("spectrum.svg"));
  put("spectrum.svg", "");
  EXPECT_EQ(free_path(file("spectrum.svg")), file("spectrum_2.svg"));
  put("spectrum_2.svg", "");
  EXPECT_EQ(free_path(file("spectrum.svg")), file("spectrum_3.svg"));
  fs::create_symlink("nowhere", file("dangling"));
  EXPECT_EQ(free_path(file("dangling")), file("dangling_2"));
}

TEST_F(AtomicFile, KeepingGivesTheNextFreeNameAndReturnsIt) {
  put("a.txt", "old");
  EXPECT_EQ(write_file_atomically(file("a.txt"), "new", Existing::keep), file("a_2.txt"));
  EXPECT_EQ(write_file_atomically(file("b.txt"), "first", Existing::keep), file("b.txt"));
  EXPECT_EQ(content_of(file("a.txt")), "old");
  EXPECT_EQ(content_of(file("a_2.txt")), "new");
}

// All begin at once, so that many find the same name free.
TEST_F(AtomicFile, WritersBesideEachOtherNeverReplaceAnothersFile) {
  constexpr int writers = 8, rounds = 20;
  std::vector<std::thread> threads;
  std::atomic<int> ready = 0;
  for (int i = 0; i < writers; ++i) {
    threads.emplace_back([&, i] {
      for (ready++; ready < writers;) std::this_thread::yield();
      for (int round = 0; round < rounds; ++round)
        write_file_atomically(file("a"), std::to_string(i * rounds + round), Existing::keep);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> contents;
  for (const std::string& name : names()) contents.insert(content_of(file(name)));
  EXPECT_EQ(contents.size(), static_cast<std::size_t>(writers * rounds));
}

TEST_F(AtomicFile, CreatingWritesNothingWhereSomethingIs) {
  EXPECT_TRUE(create_file_atomically(file("a"), "first"));
  EXPECT_FALSE(create_file_atomically(file("a"), "second"));
  EXPECT_EQ(content_of(file("a")), "first");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(AtomicFile, LinksThatLeadElsewhereAreRefusedWhenAsked) {
  fs::create_directory(file("there"));
  put("there/real", "old");
  put("near", "old");
  fs::create_symlink("there/real", file("far"));
  fs::create_symlink("near", file("other"));
  EXPECT_THAT(
      message_of(ExitCode::bad_input, [&] { write_file_atomically(file("far"), "new", Existing::replace_in_folder); }),
      AllOf(HasSubstr("symbolic link"), HasSubstr("there/real"), HasSubstr("remove")));
  write_file_atomically(file("other"), "new", Existing::replace_in_folder);
  EXPECT_EQ(content_of(file("there/real")), "old");
  EXPECT_EQ(content_of(file("near")), "new");
}

TEST_F(AtomicFile, PipesAreRefusedInsteadOfWaitedFor) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { read_file(file("pipe"), 100); }), HasSubstr("pipe"));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { write_file_atomically(file("pipe"), "x"); }),
              HasSubstr("nothing reads"));
}

TEST_F(AtomicFile, WhatAKilledProgramLeftIsRemovedAndWhatIsBeingWrittenStays) {
  put(".afterglow-1-0.tmp", "half");
  put(".afterglow-notes.txt", "mine");
  const Descriptor busy(::open(put(".afterglow-2-0.tmp", "half").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(busy.get(), LOCK_EX), 0);
  write_file_atomically(file("a"), "x");
  EXPECT_THAT(names(), UnorderedElementsAre("a", ".afterglow-2-0.tmp", ".afterglow-notes.txt"));
}

TEST_F(AtomicFile, PathsThatTheSystemWouldCutAreRefused) {
  const fs::path kept = put("kept", "old");
  const fs::path cut = kept.string() + std::string("\0_seed7.json", 12);
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { write_file_atomically(cut, "new"); }),
              AllOf(HasSubstr("NUL"), HasSubstr("kept")));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { free_path(cut); }), HasSubstr("NUL"));
  EXPECT_EQ(content_of(kept), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("kept"));
}

}  // namespace
}  // namespace afterglow
