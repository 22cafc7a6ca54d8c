// Every file of the fuzz corpus, whole, cut short and changed at random: each is read or refused with a sentence, for
// no more memory than it is worth.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/io/atomic_file.h"
#include "core/random/random.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/folders.h"
#include "tests/support/fuzz_targets.h"

namespace afterglow {
namespace {

/// Of each file; more of them with AFTERGLOW_MUTATIONS=100000.
int mutations() {
  const char* asked = std::getenv("AFTERGLOW_MUTATIONS");
  return asked != nullptr ? std::atoi(asked) : 200;
}

std::vector<std::string> corpus_of(const FuzzTarget& target) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "tests/fuzz/corpus" / target.name))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> files;
  for (const auto& path : paths) files.push_back(read_file(path, std::size_t{1} << 20));
  return files;
}

/// What numbers and texts of a file become.
constexpr std::string_view pieces[] = {"-1",    "1e999", "99999999999999999999",
                                       "null",  "[]",    "{}",
                                       "\"\"",  "true",  "\\u0000",
                                       "\xff",  "0.5",   "..",
                                       "\"/\"", "1e-5",  "\"a\": 1,"};

/// Changes one to four places.
std::string mutated(std::string bytes, Random& random) {
  const auto place = [&] { return static_cast<std::size_t>(random.uniform_int(bytes.size() + 1)); };
  for (std::uint64_t i = random.uniform_int(4) + 1; i > 0 && !bytes.empty(); --i) {
    const std::size_t at = place(), count = static_cast<std::size_t>(random.uniform_int(8));
    switch (random.uniform_int(6)) {
      case 0:
        bytes[std::min(at, bytes.size() - 1)] ^= static_cast<char>(1 << random.uniform_int(8));
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(at, bytes.substr(place(), 4 * count));
        break;
      case 3:
        bytes.resize(at);
        break;
      default: {  // another value in the place of a number or text
        const std::size_t colon = bytes.find(':', at);
        if (colon == std::string::npos) break;
        const std::size_t end = std::min(bytes.find_first_of(",}]", colon), bytes.size());
        bytes.replace(colon + 1, end - colon - 1, pieces[random.uniform_int(std::size(pieces))]);
      }
    }
  }
  return bytes;
}

class FuzzCorpus : public testing::TestWithParam<FuzzTarget> {
 protected:
  bool opens_cheaply(const std::string& bytes) {
    start_counting_memory();
    const bool opened = opens(GetParam(), bytes);
    EXPECT_LE(max_memory_since_start(), 16 * bytes.size() + (std::size_t{64} << 20));
    return opened;
  }
};

TEST_P(FuzzCorpus, IsReadOrRefused) {
  int opened = 0, refused = 0;
  for (const std::string& bytes : corpus_of(GetParam())) (opens_cheaply(bytes) ? opened : refused) += 1;
  EXPECT_GT(opened, 0) << "a corpus begins with files that are whole";
  EXPECT_GT(refused, 0) << "and holds what was once a defect or could be";
}

TEST_P(FuzzCorpus, MutatedIsReadOrRefused) {
  Random random(11, 0, 0);
  for (const std::string& bytes : corpus_of(GetParam())) {
    for (int cut = 0; cut < 8; ++cut) opens_cheaply(bytes.substr(0, bytes.size() * static_cast<std::size_t>(cut) / 8));
    for (int i = 0; i < mutations(); ++i) opens_cheaply(mutated(bytes, random));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus, testing::ValuesIn(fuzz_targets().begin(), fuzz_targets().end()),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace afterglow
