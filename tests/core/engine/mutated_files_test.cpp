// Files that hold a run, changed at random: each opens or is refused with a sentence, and nothing else happens. The
// same numbers every time; more of them with AFTERGLOW_MUTATIONS=100000.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "core/engine/training/objective.h"
#include "core/engine/training/saved_run.h"
#include "core/figure/files/figure_files.h"
#include "core/figure/files/page_writer.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/random/random.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

int mutations() {
  const char* asked = std::getenv("AFTERGLOW_MUTATIONS");
  return asked != nullptr ? std::atoi(asked) : 400;
}

/// What numbers and texts of a file become.
constexpr std::string_view pieces[] = {"-1",    "1e999", "99999999999999999999",
                                       "null",  "[]",    "{}",
                                       "\"\"",  "true",  "\\u0000",
                                       "\xff",  "0.5",   "..",
                                       "\"/\"", "1e-5",  "\"a\": 1,"};

class MutatedFiles : public TemporaryFolder {
 protected:
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

  /// Opens what became of `bytes` again and again, and declares the model of what opens.
  void expect_errors_alone(const std::string& name, const std::string& bytes) {
    Random random(7, 0, bytes.size());
    int opened = 0;
    for (int i = 0; i < mutations(); ++i) {
      const std::string now = mutated(bytes, random);
      put(name, now);
      try {
        const SavedRun saved = open_saved_run(file(name));
        ParameterStore store;
        make_objective(saved.recipe, store);
        if (saved.snapshot) check_weights(*saved.snapshot, store);
        ++opened;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_input) << name << ", mutation " << i << ": " << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << name << ", mutation " << i << ": " << error.what() << "\n" << now.substr(0, 600);
      }
    }
    EXPECT_LT(opened, mutations());
  }

  std::string recipe_ = small_recipe_json().dump();
};

TEST_F(MutatedFiles, Recipes) {
  nlohmann::json recipe = small_recipe_json();
  recipe["commands"] =
      nlohmann::json::parse(R"([{"step": 3, "name": "set", "value": {"key": "learning_rate", "to": 0.1}}])");
  recipe["probe"] = nlohmann::json::parse(R"({"index": 3})");
  expect_errors_alone("recipe.json", recipe.dump());
}

TEST_F(MutatedFiles, Snapshots) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend, 0);
  write_snapshot(file("whole.safetensors"), run.snapshot());
  expect_errors_alone("snapshot.safetensors", content_of(file("whole.safetensors")));
}

TEST_F(MutatedFiles, Figures) {
  Figure figure;
  figure.id = figure.title = "figure";
  figure.recipe = recipe_;
  std::vector<FigureFormat> formats{FigureFormat::svg};
  if (has_page_writer()) formats.insert(formats.end(), {FigureFormat::pdf, FigureFormat::png});
  for (const auto& path : write_figure(figure, file("whole.svg"), formats))
    expect_errors_alone("figure" + path.extension().string(), content_of(path));
}

}  // namespace
}  // namespace afterglow
