// The picture reaches the desktop's helper whole; without a helper the message says what to do.
#include "app/window/display/picture_clipboard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/io/error.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;

/// A folder that is the whole PATH, in which helpers are scripts that keep what they are given.
class PictureClipboard : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    for (const char* name : {"PATH", "DISPLAY", "WAYLAND_DISPLAY"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
    setenv("PATH", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    fs::remove_all(folder_);
  }
  void add_helper(const std::string& name, int result = 0) {
    const fs::path path = folder_ / name;
    std::ofstream(path) << "#!/bin/sh\n/bin/cat > " << (folder_ / (name + ".got")).string() << "\necho \"$@\" > "
                        << (folder_ / (name + ".asked")).string() << "\nexit " << result << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "picture_clipboard";

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

std::string some_picture() {
  std::string bytes;
  for (int i = 0; i < 200000; ++i) bytes += static_cast<char>(i * 31 >> 3);
  return bytes;
}

TEST_F(PictureClipboard, TakesTheHelperOfTheDisplay) {
  add_helper("xclip");
  add_helper("wl-copy");
  setenv("DISPLAY", ":1", 1);
  copy_picture(some_picture());
  EXPECT_EQ(text_of("xclip.got"), some_picture());
  EXPECT_NE(text_of("xclip.asked").find("image/png"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "wl-copy.got"));
  setenv("WAYLAND_DISPLAY", "wayland-0", 1);
  copy_picture(some_picture());
  EXPECT_EQ(text_of("wl-copy.got"), some_picture());
}

TEST_F(PictureClipboard, GoesOnToTheNextHelperWhenOneFails) {
  add_helper("wl-copy", 1);
  add_helper("xclip");
  setenv("DISPLAY", ":1", 1);
  setenv("WAYLAND_DISPLAY", "wayland-0", 1);
  copy_picture("png");
  EXPECT_EQ(text_of("xclip.got"), "png");
}

TEST_F(PictureClipboard, SaysWhatToInstallWithoutAHelper) {
  setenv("DISPLAY", ":1", 1);
  try {
    copy_picture("png");
    FAIL() << "the helper did not take it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    EXPECT_NE(std::string(error.what()).find("xclip"), std::string::npos);
  }
}

}  // namespace
}  // namespace afterglow
