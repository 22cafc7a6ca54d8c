// Where the CUDA plugin and NVIDIA's libraries are looked for.
#include "gpu/plugin/places.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "tests/app/run_program.h"

namespace afterglow {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

Environment of(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(PluginPlaces, BesideTheProgramOrInTheFolderOfLibraries) {
  EXPECT_THAT(plugin_places(of({}), "/opt/afterglow/bin").plugin,
              ElementsAre("/opt/afterglow/bin", "/opt/afterglow/lib/afterglow"));
}

TEST(PluginPlaces, OrWhereTheVariableSays) {
  EXPECT_THAT(plugin_places(of({{"AFTERGLOW_PLUGIN_PATH", "/one:not/absolute::/two/"}}), "/usr/bin").plugin,
              ElementsAre("/one", "/two/"));
  EXPECT_THAT(plugin_places(of({{"AFTERGLOW_PLUGIN_PATH", ""}}), "/usr/bin").plugin,
              ElementsAre("/usr/bin", "/usr/lib/afterglow"));
}

/// Creates a folder and answers with its path.
fs::path made(const fs::path& folder) {
  fs::create_directories(folder);
  return folder;
}

TEST(PluginPlaces, LibrariesLieWherePipCondaAndTheInstallerPutThem) {
  const ScratchFolder root("plugin_places");
  const fs::path beside_wheel = made(root / "wheel/nvidia/cu13/lib");
  const fs::path of_environment = made(root / "venv/lib/python3.12/site-packages/nvidia/cublas/lib");
  const fs::path of_conda = made(root / "conda/lib");
  const fs::path on_path = made(root / "tools/lib/python3.11/dist-packages/nvidia/cu13/lib");
  const fs::path own = made(root / "home/.local/lib/python3.11/site-packages/nvidia/cu13/lib");
  const fs::path toolkit = made(root / "toolkit/lib64");
  made(root / "tools/bin");
  const std::vector<fs::path> found =
      plugin_places(of({{"VIRTUAL_ENV", (root / "venv").string()},
                        {"CONDA_PREFIX", (root / "conda").string()},
                        {"PATH", (root / "tools/bin").string() + ":" + (root / "venv/bin").string()},
                        {"HOME", (root / "home").string()},
                        {"CUDA_HOME", (root / "toolkit").string()}}),
                    root / "wheel/afterglow/bin")
          .libraries;
  auto last = found.begin();
  for (const fs::path& folder : {beside_wheel, of_environment, of_conda, on_path, own, toolkit}) {
    const auto here = std::find(last, found.end(), folder);
    EXPECT_NE(here, found.end()) << folder << " is not there, or not after those that are nearer";
    if (here != found.end()) last = here;
    EXPECT_EQ(std::count(found.begin(), found.end(), folder), 1) << folder;
  }
}

TEST(PluginPlaces, WhatIsNotThereIsLeftOut) {
  const std::vector<fs::path> found =
      plugin_places(of({{"VIRTUAL_ENV", "/nonexistent/venv"}, {"PATH", "relative:/nonexistent/bin"}}),
                    "/nonexistent/bin")
          .libraries;
  for (const fs::path& folder : found) EXPECT_TRUE(fs::is_directory(folder)) << folder;
}

}  // namespace
}  // namespace afterglow
