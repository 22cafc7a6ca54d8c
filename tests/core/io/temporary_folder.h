// A folder of its own for every test, removed with everything in it afterwards.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/io/error.h"

namespace afterglow {

class TemporaryFolder : public ::testing::Test {
 protected:
  TemporaryFolder() {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) / (std::string("afterglow_") + info->test_suite_name() + "_" +
                                                             info->name() + "_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TemporaryFolder() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path file(const std::string& name) const { return folder_ / name; }

  std::filesystem::path put(const std::string& name, const std::string& content) const {
    std::filesystem::remove(file(name));  // overwriting would wait for the disk
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

  static std::string content_of(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) result.push_back(entry.path().filename());
    return result;
  }

  std::filesystem::path folder_;
};

/// The message of the Error that `action` throws; fails the test if it throws none or another code.
template <typename Action>
std::string message_of(ExitCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

}  // namespace afterglow
