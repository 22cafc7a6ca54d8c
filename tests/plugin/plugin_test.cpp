// The CUDA plugin as the program meets it: found, refused, or missing something, each said in one line. The plugins and
// their libraries are made up (tests/fakes/fakes.cmake), so no GPU is needed.
#include "gpu/plugin/plugin.h"

#include <gmock/gmock.h>

#include "core/io/error.h"
#include "gpu/plugin/build.h"
#include "tests/app/run_program.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::filesystem::path fake(const std::string& name) { return build_folder() / "lib/fakes" / name; }

PluginPlaces places(const std::filesystem::path& plugin) {
  return {{plugin}, {}, (fake("driver") / "libcuda.so.1").string()};
}

std::string why_none(const PluginPlaces& where) {
  const FoundPlugin found = load_plugin(where, plugin_build);
  EXPECT_EQ(found.functions, nullptr);
  EXPECT_THAT(found.why_none, Not(HasSubstr("\n")));
  return found.why_none;
}

TEST(Plugin, AnswersForTheGpu) {
  const FoundPlugin found = load_plugin(places(fake("plugin")), plugin_build);
  ASSERT_NE(found.functions, nullptr) << found.why_none;
  EXPECT_THAT(found.why_none, IsEmpty());
  EXPECT_EQ(found.functions->devices().devices.at(0).name, "A made-up GPU");
  std::string why_not;
  EXPECT_EQ(found.functions->make_backend(3, &why_not), nullptr);
  EXPECT_EQ(why_not, "GPU 3 is made up");
}

TEST(Plugin, ItsErrorsKeepTheirExitCode) {
  const FoundPlugin found = load_plugin(places(fake("plugin")), plugin_build);
  ASSERT_NE(found.functions, nullptr) << found.why_none;
  try {
    found.functions->symmetric_eigen(1, nullptr, nullptr);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("made-up"));
  }
}

TEST(Plugin, OfAnotherBuildIsRefusedBeforeItIsAskedAnything) {
  EXPECT_THAT(why_none(places(fake("other_build"))),
              AllOf(HasSubstr("another build"), HasSubstr("0.0.9-000000000000"), HasSubstr(plugin_build),
                    HasSubstr(fake("other_build").string())));
}

TEST(Plugin, WithoutADriverNothingIsLoaded) {
  PluginPlaces where = places(fake("other_build"));
  where.driver = "libafterglow-no-driver.so.1";
  EXPECT_THAT(why_none(where), AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libafterglow-no-driver.so.1")));
}

TEST(Plugin, ThatIsNotThereIsSaidWithThePlaces) {
  PluginPlaces where = places("/nonexistent/one");
  where.plugin.push_back("/nonexistent/two");
  EXPECT_THAT(why_none(where), AllOf(HasSubstr("no CUDA plugin"), HasSubstr("/nonexistent/one or /nonexistent/two"),
                                     HasSubstr("AFTERGLOW_PLUGIN_PATH")));
}

TEST(Plugin, TheFirstFolderThatHoldsOneCounts) {
  PluginPlaces where = places("/nonexistent");
  where.plugin.push_back(fake("plugin"));
  where.plugin.push_back(fake("other_build"));
  EXPECT_NE(load_plugin(where, plugin_build).functions, nullptr);
}

TEST(Plugin, ThatIsSomethingElseOrDamagedIsRefused) {
  EXPECT_THAT(why_none(places(fake("stranger"))), HasSubstr("is no plugin of Afterglow"));
  const ScratchFolder folder("damaged_plugin");
  std::ofstream(folder / plugin_file) << "no library";
  EXPECT_THAT(why_none(places(folder.path())),
              AllOf(HasSubstr("cannot be loaded"), HasSubstr((folder / plugin_file).string())));
}

// In this order: a library that was loaded stays in the process.
TEST(Plugin, ItsLibrariesAreNamedWhereTheyAreMissingAndFoundWherePipPutsThem) {
  PluginPlaces where = places(fake("lacking"));
  EXPECT_THAT(why_none(where), AllOf(HasSubstr("needs libafterglow-needed.so.13"), HasSubstr("LD_LIBRARY_PATH")));
  where.libraries = {fake("nvidia/first/lib")};
  EXPECT_THAT(why_none(where), HasSubstr("needs libafterglow-deep.so.2"));
  where.libraries.push_back(fake("nvidia/second/lib"));
  const FoundPlugin found = load_plugin(where, plugin_build);
  EXPECT_NE(found.functions, nullptr) << found.why_none;
}

/// The program's devices with a driver that is made up and the plugin of a folder.
std::string info(const std::filesystem::path& plugin, const std::string& environment = "") {
  const ScratchFolder folder("plugin_info");
  const ProgramResult result = run_program("info", folder.path(),
                                           "LD_LIBRARY_PATH='" + fake("driver").string() + "' AFTERGLOW_PLUGIN_PATH='" +
                                               plugin.string() + "' " + environment);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

TEST(PluginOfTheProgram, IsLoadedAndItsDevicesListed) {
  EXPECT_THAT(info(fake("plugin")), HasSubstr("  cuda  A made-up GPU, compute capability 9.0"));
}

TEST(PluginOfTheProgram, IsSaidToBeMissingOrOfAnotherBuildInOneLine) {
  EXPECT_THAT(info("/nonexistent"), HasSubstr("  cuda  none: this installation has no CUDA plugin"));
  EXPECT_THAT(info(fake("other_build")), HasSubstr("  cuda  none: the CUDA plugin " + fake("other_build").string()));
}

TEST(PluginOfTheProgram, FindsTheLibrariesOfThePythonEnvironmentThatIsSwitchedOn) {
  EXPECT_THAT(info(fake("lacking")), HasSubstr("  cuda  none: the CUDA plugin needs libafterglow-needed.so.13"));
  const ScratchFolder environment("plugin_environment");
  const std::filesystem::path site = environment / "lib/python3.99/site-packages";
  std::filesystem::create_directories(site);
  std::filesystem::create_directory_symlink(fake("nvidia"), site / "nvidia");
  const std::string variable = "VIRTUAL_ENV='" + environment.path().string() + "'";
  EXPECT_THAT(info(fake("lacking"), variable), HasSubstr("  cuda  A made-up GPU"));
}

// The real one, whose libraries are here where it was built. The driver is made up, so it finds no GPU.
TEST(PluginOfTheProgram, ThatWasBuiltHereIsLoadedAndAsked) {
  const std::filesystem::path folder = build_folder() / "lib/afterglow";
  if (!std::filesystem::exists(folder / plugin_file)) GTEST_SKIP() << "no CUDA plugin was built here";
  EXPECT_THAT(info(folder), HasSubstr("  cuda  none: no NVIDIA driver answers here"));
}

TEST(PluginOfTheProgram, ItsReasonIsTheErrorOfDeviceCuda) {
  const ScratchFolder folder("plugin_error");
  const ProgramResult result =
      run_program("train --preset tiny --until 1 --device cuda", folder.path(),
                  "LD_LIBRARY_PATH='" + fake("driver").string() + "' AFTERGLOW_PLUGIN_PATH=/nonexistent");
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no CUDA plugin"), HasSubstr("--device cpu")));
}

TEST(PluginOfTheProgram, NothingOfNvidiaIsNeededToStart) {
  const ScratchFolder folder("plugin_links");
  const ProgramResult result = run_line("ldd \"$AFTERGLOW\"", folder.path());
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* library : {"libcuda", "libcublas", "libcusolver", "libcusparse", "libnvJitLink"})
    EXPECT_THAT(result.out, Not(HasSubstr(library)));
}

}  // namespace
}  // namespace afterglow
