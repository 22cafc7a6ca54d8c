// A session in another process as the window has it: the same numbers as here, through every loss of the line.
#include "core/remote/remote.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "app/cli/version.h"
#include "core/engine/session/session.h"
#include "core/engine/training/saved/snapshot.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/random/random.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr AnalysisSet looked_at = Analysis::spectra | Analysis::trace;

/// Looks as a window does until `is_enough`, at most two minutes.
template <class Enough>
std::shared_ptr<const Observation> watch(ObservationSource& source, const Enough& is_enough) {
  source.request_analyses(looked_at);
  for (int i = 0; i < 24'000; ++i) {
    const auto now = source.observe();
    if (is_enough(*now)) return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "waited in vain: " << source.line().problem;
  return source.observe();
}

bool is_finished(const Observation& now) {
  return now.step == 40 && !now.running && now.checksum_step == 40 && now.spectra && now.spectra->step == 40;
}

class RemoteProgram : public ProgramTest {
 protected:
  RemoteProgram() {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    ::setenv("TMPDIR", folder_.path().c_str(), 1);
    ::setenv("XDG_DATA_HOME", folder_.path().c_str(), 1);
    ::setenv("XDG_RUNTIME_DIR", (folder_ / "runtime").c_str(), 1);  // where a test makes it
  }
  ~RemoteProgram() override {
    run("session --stop");
    ::unsetenv("TMPDIR");
    ::unsetenv("XDG_DATA_HOME");
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  static RemoteOptions through(const std::string& arguments) {
    RemoteOptions options{{"sh", "-c", "exec '" + program_file().string() + "' " + arguments}, "there", {}};
    options.hello.version = version_line();
    options.hello.recipe = small_recipe_json().dump();
    options.hello.device = "cpu";
    options.hello.threads = 1;
    return options;
  }
  static std::string sentence_of(RemoteOptions options) {
    try {
      connect_to_remote(std::move(options));
      return "connected";
    } catch (const Error& error) {
      return error.what();
    }
  }
  int sessions() { return static_cast<int>(parsed(run("session --list --json"))["sessions"].size()); }
  static std::shared_ptr<const Observation> here() {
    Session session(small_recipe_json().dump(), {.device = "cpu", .threads = 1});
    return watch(session, is_finished);
  }
};

void expect_same(const Observation& there, const Observation& here) {
  EXPECT_EQ(there.checksum, here.checksum);
  EXPECT_EQ(there.recipe, here.recipe);
  ASSERT_EQ(there.runs.back().loss.size(), here.runs.back().loss.size());
  for (std::size_t i = 0; i < here.runs.back().loss.size(); ++i)
    EXPECT_EQ(there.runs.back().loss[i], here.runs.back().loss[i]);
  ASSERT_EQ(there.spectra->heads.size(), here.spectra->heads.size());
  for (std::size_t i = 0; i < here.spectra->heads.size(); ++i)
    EXPECT_EQ(there.spectra->heads[i].eigenvalues, here.spectra->heads[i].eigenvalues);
}

TEST_F(RemoteProgram, ShowsTheSameNumbersThroughAPipe) {
  const auto local = here();
  const auto source = connect_to_remote(through("session"));
  expect_same(*watch(*source, is_finished), *local);
  EXPECT_EQ(source->line().host, "there");
  ASSERT_TRUE(source->line().machine);
  EXPECT_EQ(source->line().machine->devices.front().first, "cpu");
  EXPECT_EQ(names_of(source->line().machine->presets, &PresetName::name), names_of(presets(), &Preset::name));
}

TEST_F(RemoteProgram, CommandsAndTheirUndoArrive) {
  const auto source = connect_to_remote(through("session"));
  watch(*source, is_finished);
  source->send({"rewind", R"({"step": 20})"_json});
  watch(*source, [](const Observation& now) { return now.step == 20; });
  source->send(SetNumber{"learning_rate", 0.001});
  const auto changed = watch(*source, [&](const Observation&) { return source->taken_commands() == 2; });
  EXPECT_EQ(changed->journal.undo, std::optional<std::uint64_t>(2));
  source->send({"save", json{{"path", (folder_ / "there.safetensors").string()}}});
  watch(*source, [&](const Observation&) { return std::filesystem::exists(folder_ / "there.safetensors"); });
}

TEST_F(RemoteProgram, TrainsOnWithoutAWindowAndIsFoundAgain) {
  {
    const auto source = connect_to_remote(through("session --connect"));
    watch(*source, [](const Observation& now) { return now.step > 0; });
  }
  EXPECT_EQ(sessions(), 1);
  const auto again = connect_to_remote(through("session --connect"));
  expect_same(*watch(*again, is_finished), *here());
  EXPECT_THAT(sentence_of(through("session --connect")), HasSubstr("another window shows this session"));
  EXPECT_EQ(run("session --stop").code, 0);
  EXPECT_EQ(sessions(), 0);
  EXPECT_EQ(run("session --stop").code, 3);
  EXPECT_FALSE(files("afterglow/runs", ".safetensors").empty()) << "the run is kept";
}

TEST_F(RemoteProgram, ASessionIsForItsUserAlone) {
  const auto source = connect_to_remote(through("session --connect"));
  const std::filesystem::path folder = folder_ / ("afterglow-" + std::to_string(::getuid()));
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(folder).permissions(), perms::owner_all);
  EXPECT_EQ(std::filesystem::status(folder / "main.sock").permissions(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(run("session --listen main").code, 1) << "there is one of this name";
  EXPECT_EQ(run("session --listen ../main").code, 2);
  std::filesystem::permissions(folder, perms::others_read, std::filesystem::perm_options::add);
  EXPECT_EQ(run("session --list").code, 1);
  std::filesystem::permissions(folder, perms::owner_all);
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(folder.c_str(), 12345, 12345), 0);
  EXPECT_THAT(run("session --list").err, HasSubstr("others may enter this folder"));
  ASSERT_EQ(::chown(folder.c_str(), 0, 0), 0);
}

/// The user's runtime folder ends with the last login; the session does not.
TEST_F(RemoteProgram, ASessionInTheRuntimeFolderOutlivesALogout) {
  using std::filesystem::perms;
  const std::filesystem::path runtime = folder_ / "runtime", socket = runtime / "afterglow" / "main.sock";
  std::filesystem::create_directory(runtime);
  std::filesystem::permissions(runtime, perms::owner_all);
  const auto source = connect_to_remote(through("session --connect"));
  watch(*source, is_finished);
  EXPECT_EQ(std::filesystem::status(socket).permissions(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(std::filesystem::status(socket.parent_path()).permissions(), perms::owner_all);
  EXPECT_FALSE(std::filesystem::exists(folder_ / ("afterglow-" + std::to_string(::getuid())) / "main.sock"));
  const auto process = parsed(run("session --list --json"))["sessions"][0]["process"];
  std::filesystem::remove_all(runtime);
  watch(*source, [&](const Observation&) { return sessions() == 1; });
  std::filesystem::create_directory(runtime);
  std::filesystem::permissions(runtime, perms::owner_all);
  EXPECT_THAT(run("session --listen main").err, HasSubstr("session --stop main"));
  EXPECT_EQ(parsed(run("session --list --json"))["sessions"][0]["process"], process) << "after the next login";
  EXPECT_EQ(run("session --stop").code, 0);
}

/// 24 lines and two sessions are killed during one training; AFTERGLOW_KILLS=300 kills more often.
TEST_F(RemoteProgram, NothingIsLostWhenLineOrSessionIsKilled) {
  const char* wanted = std::getenv("AFTERGLOW_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 24;
  RemoteOptions options = through("session --connect");
  options.words[2] = "cd '" + folder_.path().string() + "' && echo $$ > relay && " + options.words[2];
  options.hello.recipe.replace(options.hello.recipe.find("\"steps\":40"), 10, "\"steps\":3000");
  const auto source = connect_to_remote(options);
  Random random(1, 0, 0);
  for (int i = 1; i <= kills; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random.uniform_int(60)));
    const std::string target = i % 12 == 0
                                   ? "$($AFTERGLOW session --list --json | grep -o '\"process\":[0-9]*' | cut -d: -f2)"
                                   : "$(cat relay)";
    run_line("kill -9 " + target, folder_.path());
    source->send({i % 2 ? "pause" : "run"});
    if (i % 6 == 0)
      watch(*source, [&](const Observation&) {
        return source->line().problem.empty() && source->taken_commands() >= static_cast<std::uint64_t>(i);
      });
  }
  source->send({"run"});
  const auto end = watch(
      *source, [](const Observation& now) { return now.step == 3000 && !now.running && now.checksum_step == 3000; });
  Session alone(options.hello.recipe, {.device = "cpu", .threads = 1});
  EXPECT_EQ(end->checksum, watch(alone, [](const Observation& now) { return now.checksum_step == 3000; })->checksum);
  EXPECT_EQ(sessions(), 1);
  EXPECT_THAT(source->line().said, HasSubstr("session there had ended. A new one repeats the"));
  run("session --stop");
  const char* const orphans =
      "for p in /proc/[0-9]*; do grep -qszx \"TMPDIR=$PWD\" $p/environ && readlink $p/exe; done | "
      "grep -c '/afterglow$'";
  EXPECT_EQ(run_line(orphans, folder_.path()).out, "0\n");
}

/// Also when a window that did not begin the run is alone with it, and it is lost again before it has been repeated.
TEST_F(RemoteProgram, ARunThatIsBeingRepeatedIsNotLost) {
  RemoteOptions options = through("session --connect");
  options.hello.recipe.replace(options.hello.recipe.find("\"steps\":40"), 10, "\"steps\":3000");
  const auto kill_session = [&] {
    run_line("kill -9 $($AFTERGLOW session --list --json | grep -o '\"process\":[0-9]*' | cut -d: -f2)",
             folder_.path());
  };
  const auto is_at_end = [](const Observation& now) { return now.step == 3000 && !now.running; };
  auto source = connect_to_remote(options);
  const std::string recipe = watch(*source, is_at_end)->recipe;
  const auto has_begun_again = [&](const Observation& now) {
    return source->line().said.find("had ended") != std::string::npos && now.rebuilds_to >= 0;
  };
  options.hello.recipe = find_preset("tiny").text;
  for (int i = 0; i < 3; ++i) {
    kill_session();
    watch(*source, has_begun_again);
    source.reset();
    source = connect_to_remote(options);
    watch(*source, [](const Observation& now) { return now.step > 0; });
  }
  kill_session();
  watch(*source, has_begun_again);
  EXPECT_EQ(watch(*source, is_at_end)->recipe, recipe);
}

/// Another window has the session meanwhile, whose commands are counted too; one that stays is not pushed away.
TEST_F(RemoteProgram, CommandsThatWaitForTheLineAreCarriedOutOrNamed) {
  RemoteOptions options = through("session --connect");
  const std::string cuttable = "; while [ -e cut ]; do sleep 0.05; done; echo $$ > relay; ";
  options.words[2] = "cd '" + folder_.path().string() + "'" + cuttable + options.words[2];
  const auto source = connect_to_remote(options);
  watch(*source, is_finished);
  const auto cut = [&](std::int64_t then_rewinds_to) {
    write("cut", "");
    run_line("kill -9 $(cat relay)", folder_.path());
    watch(*source, [&](const Observation&) { return !source->line().problem.empty(); });
    source->send({"rewind", json{{"step", then_rewinds_to}}});
    EXPECT_THAT(source->line().problem, HasSubstr("training there goes on meanwhile"));
    EXPECT_THAT(source->line().problem, HasSubstr("Not carried out yet: rewind."));
    auto other = connect_to_remote(through("session --connect"));
    const std::uint64_t before = other->taken_commands();
    for (int i = 1; i <= 3; ++i) other->send({"note", json{{"text", std::to_string(i)}}});
    watch(*other, [&](const Observation&) { return other->taken_commands() == before + 3; });
    return other;
  };
  cut(20).reset();
  std::filesystem::remove(folder_ / "cut");
  watch(*source, [](const Observation& now) { return now.step == 20; });
  EXPECT_EQ(source->taken_commands(), 4u);
  EXPECT_EQ(source->line().problem, "");
  const auto other = cut(10);
  std::filesystem::remove(folder_ / "cut");
  watch(*source, [&](const Observation&) { return source->line().problem.find("no longer") != std::string::npos; });
  EXPECT_THAT(source->line().problem, HasSubstr("another window shows this session"));
  EXPECT_THAT(source->line().problem, HasSubstr("Perhaps not carried out: rewind."));
  EXPECT_EQ(other->observe()->step, 20);
}

/// Each line breaks down with noise in a message, the later ones after more bytes of one direction, so that one of them
/// carries the whole first picture; `dd`, because `head` keeps what it has read.
TEST_F(RemoteProgram, ADamagedLineIsMadeAgain) {
  write("noise", std::string(64, '\xa7'));
  const auto broken_after = [&](int bytes) {
    return "{ dd bs=1 count=$((" + std::to_string(bytes) + " * $(wc -c < '" + (folder_ / "lines").string() +
           "'))) status=none; cat '" + (folder_ / "noise").string() + "'; cat; }";
  };
  const std::string connects = "'" + program_file().string() + "' session --connect";
  for (const std::string& line : {connects + " | " + broken_after(40'000), broken_after(20'000) + " | " + connects}) {
    RemoteOptions options = through("");
    options.words[2] = "echo >> '" + (folder_ / "lines").string() + "'; " + line;
    auto source = connect_to_remote(options);
    expect_same(*watch(*source, is_finished), *here());
    source->request_analyses(all_analyses);
    for (int i = 0; i < 4000 && text_of(folder_ / "lines").size() < 3; ++i) {
      source->observe();
      source->send({"set", json{{"key", "learning_rate"}, {"to", 0.001 + 1e-6 * i}}});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GE(text_of(folder_ / "lines").size(), 3u) << "the line was damaged and made again";
    source.reset();  // a line that is just being made would begin a session again
    run("session --stop");
    std::filesystem::remove(folder_ / "lines");
  }
}

TEST_F(RemoteProgram, SavesHereWhatIsTrainedThere) {
  std::filesystem::create_directories(folder_ / "there");
  RemoteOptions options = through("session");
  options.words[2] = "cd '" + (folder_ / "there").string() + "' && " + options.words[2];
  const auto source = connect_to_remote(options);
  const auto end = watch(*source, is_finished);
  for (int i = 1; i <= 2; ++i) {
    source->send({"save", json{{"at", "here"}, {"path", (folder_ / "run.safetensors").string()}}});
    const std::filesystem::path file = folder_ / (i == 1 ? "run.safetensors" : "run_2.safetensors");
    watch(*source, [&](const Observation&) { return source->line().said == "snapshot written: " + file.string(); });
    EXPECT_EQ(read_snapshot(file).checksum, end->checksum);
  }
  source->send({"save", json{{"at", "here"}, {"path", (folder_ / "missing" / "run.safetensors").string()}}});
  watch(*source, [&](const Observation&) { return !source->line().said.ends_with("run_2.safetensors"); });
  EXPECT_THAT(source->line().said, HasSubstr("missing"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "there")) << "nothing stays there";
}

TEST_F(RemoteProgram, PathsOfTheFarMachineAreCompleted) {
  std::filesystem::create_directories(folder_ / "there" / "search");
  write("there/seen.json", "");
  RemoteOptions options = through("session");
  options.hello.folder = folder_.path().string();  // as of --on host:folder
  const auto source = connect_to_remote(options);
  std::vector<std::string> found;
  watch(*source, [&](const Observation&) { return !(found = source->paths("there/se")).empty(); });
  EXPECT_EQ(found, (std::vector<std::string>{"there/search/", "there/seen.json"}));
  watch(*source, [&](const Observation&) { return source->paths("/nowhere/").empty(); });
}

TEST_F(RemoteProgram, AMissingProgramIsInstalledByTheCommandInTheSentence) {
  write("ssh", "#!/bin/sh\necho 'sh: 1: exec: afterglow: not found' >&2\nexit 127\n");
  std::filesystem::permissions(folder_ / "ssh", std::filesystem::perms::owner_all);
  const ProgramResult result = run("--on ann@gpu1 tiny", "PATH=\"$PWD:$PATH\"");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("afterglow: not found"));
  EXPECT_THAT(result.err, HasSubstr("-linux-x86_64.tar.zst"));
  EXPECT_THAT(result.err, HasSubstr("| ssh -- 'ann@gpu1' 'mkdir -p $HOME/.local/afterglow"));
  write("ssh", "#!/bin/sh\necho 'ssh: connect to host gpu1: refused' >&2\nexit 255\n");
  EXPECT_THAT(run("--on ann@gpu1 tiny", "PATH=\"$PWD:$PATH\"").err, testing::Not(HasSubstr("tar.zst")));
}

TEST_F(RemoteProgram, SaysWhyNoSessionAnswers) {
  EXPECT_THAT(sentence_of(through("--version")).substr(0, 40), HasSubstr("no session answers"));
  RemoteOptions missing = through("");
  missing.words = {"sh", "-c", "no-such-program session"};
  EXPECT_THAT(sentence_of(missing), HasSubstr("not found"));
  missing.words = {"no-such-program"};
  EXPECT_THAT(sentence_of(missing), HasSubstr("no-such-program"));
  missing.words = {"sh", "-c", "yes 'not a session'"};
  EXPECT_THAT(sentence_of(missing), HasSubstr("no session of Afterglow"));
  RemoteOptions other = through("session");
  other.hello.version = "afterglow 99";
  EXPECT_THAT(sentence_of(other), HasSubstr("install the same version"));
  RemoteOptions lost = through("session");
  lost.hello.path = "/no/such/file";
  EXPECT_THAT(sentence_of(lost), HasSubstr("/no/such/file"));
  lost.hello.folder = "~/no/such/folder";
  EXPECT_THAT(sentence_of(lost), HasSubstr("no/such/folder: the session's machine has no such folder"));
}

/// Nothing that was asked for is left out in silence.
TEST_F(RemoteProgram, AFileThereOpensUnchanged) {
  for (const char* words : {"--seed 3", "--set steps=2", "--data a.csv", "--precision bf16", "--preset tiny"}) {
    const ProgramResult result = run("--through true there.safetensors " + std::string(words));
    EXPECT_EQ(result.code, 2) << words << ": " << result.err;
  }
}

TEST_F(RemoteProgram, WorksThroughSshWhereAServerIsInstalled) {
  const std::string keys =
      "mkdir -p /run/sshd; ssh-keygen -qt ed25519 -N '' -f host && ssh-keygen -qt ed25519 -N '' -f user && ";
  const std::string server =
      "$(command -v /usr/sbin/sshd) -f /dev/null -h \"$PWD/host\" -p 22922 -o PidFile=\"$PWD/pid\" "
      "-o AuthorizedKeysFile=\"$PWD/user.pub\" -o StrictModes=no -o UsePAM=no";
  if (run_line("test -x /usr/sbin/sshd && " + keys + server, folder_.path()).code != 0) GTEST_SKIP() << "no sshd here";
  RemoteOptions options = through("session");
  const std::string there = "cd " + folder_.path().string() + " && " + options.words[2];
  options.words = {"ssh", "-T",
                   "-p",  "22922",
                   "-o",  "BatchMode=yes",
                   "-o",  "StrictHostKeyChecking=no",
                   "-o",  "UserKnownHostsFile=/dev/null",
                   "-i",  (folder_ / "user").string(),
                   "--",  "127.0.0.1",
                   there};
  EXPECT_EQ(watch(*connect_to_remote(options), is_finished)->checksum, here()->checksum);
  run_line("kill $(cat pid)", folder_.path());
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Also where the line takes no bytes any more.
TEST_F(RemoteProgram, AWindowClosesWhateverTheLineDoes) {
  auto source = connect_to_remote(through("session"));
  watch(*source, [](const Observation& now) { return now.step > 0; });
  run_line("pkill -STOP -P " + std::to_string(::getpid()) + " afterglow", folder_.path());
  Random random(1, 0, 0);
  for (int i = 0; i < 100'000; ++i) source->send({"note", json{{"text", std::to_string(random.next_u64())}}});
  const auto start = Clock::now();
  source.reset();
  EXPECT_LT(seconds_since(start), 8);
}

}  // namespace
}  // namespace afterglow
