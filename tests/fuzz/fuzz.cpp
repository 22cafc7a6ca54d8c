// libFuzzer's entry: the environment variable AFTERGLOW_FUZZ names the target (tests/support/fuzz_targets.h).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "tests/support/fuzz_targets.h"

namespace {

const afterglow::FuzzTarget* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("AFTERGLOW_FUZZ");
  try {
    target = &afterglow::find_fuzz_target(name != nullptr ? name : "");
  } catch (const std::out_of_range& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    opens(*target, std::string(reinterpret_cast<const char*>(bytes), size));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
