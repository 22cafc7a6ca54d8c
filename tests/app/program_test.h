// A folder with a small recipe, and the program run in it.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/run_program.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() : folder_(std::string("program_") + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    write("small.json", small_recipe_json().dump());
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  ProgramResult run(const std::string& arguments, const std::string& before = "") {
    return run_program(arguments, folder_.path(), before);
  }
  /// A training on the processor without figures, into out/.
  ProgramResult train(const std::string& more, const std::string& before = "") {
    return run("train --recipe small.json --device cpu --threads 1 --no-figures --out out " + more, before);
  }
  /// A training that gets a signal other than INT when it has made so many steps, however busy the machine is.
  ProgramResult signalled(const std::string& training, const std::string& signal, int steps = 1) {
    return run_line("rm -f seen; $AFTERGLOW " + training +
                        " --follow > seen & until [ -e seen ] && [ $(wc -l < seen) -ge " + std::to_string(steps) +
                        " ] || ! kill -0 $!; do sleep 0.01; done; kill -" + signal +
                        " $!; wait $!; code=$?; cat seen; exit $code",
                    folder_.path());
  }
  /// The object on stdout.
  static nlohmann::json parsed(const ProgramResult& result) {
    nlohmann::json value = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_FALSE(value.is_discarded()) << "stdout is not one JSON object: " << result.out << "\nstderr: " << result.err;
    return value;
  }
  /// Names of the files below a folder whose names end so.
  std::vector<std::string> files(const std::string& folder, const std::string& ending) const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(folder_ / folder)) return names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name.ends_with(ending)) names.push_back(name);
    }
    return names;
  }
  ScratchFolder folder_;
};

}  // namespace afterglow
