// Runs that start from another library's weights: they are named by their recipe, go on, and come back; a large one
// opens at once.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/engine/session/session_parts.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/io/error.h"
#include "core/io/safetensors_header.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A folder of transformers' Mamba-2 with weights that cost no time to draw; removed at the end.
class MadeModel {
 public:
  MadeModel(const std::string& name, std::int64_t width, std::int64_t vocab, std::int64_t layers)
      : folder_(fs::temp_directory_path() / ("afterglow_made_" + name)) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(folder_ / "config.json") << json{{"model_type", "mamba2"},
                                                   {"hidden_size", width},
                                                   {"vocab_size", vocab},
                                                   {"num_hidden_layers", layers},
                                                   {"head_dim", width / 12},
                                                   {"state_size", 128},
                                                   {"n_groups", 1},
                                                   {"tie_word_embeddings", true},
                                                   {"layer_norm_epsilon", 1e-5},
                                                   {"_name_or_path", "/home/user/secret"}};
    const std::int64_t inner = 2 * width, convolved = inner + 2 * 128, heads = inner / (width / 12);
    add("backbone.embeddings.weight", {vocab, width});
    for (std::int64_t i = 0; i < layers; ++i) {
      const std::string layer = "backbone.layers." + std::to_string(i) + ".", mixer = layer + "mixer.";
      add(layer + "norm.weight", {width});
      add(mixer + "in_proj.weight", {inner + convolved + heads, width});
      add(mixer + "conv1d.weight", {convolved, 1, 4});
      add(mixer + "conv1d.bias", {convolved});
      for (const char* own : {"dt_bias", "A_log", "D"}) add(mixer + own, {heads});
      add(mixer + "norm.weight", {inner});
      add(mixer + "out_proj.weight", {width, inner});
    }
    add("backbone.norm_f.weight", {width});
    write();
  }
  ~MadeModel() { fs::remove_all(folder_); }
  const fs::path& folder() const { return folder_; }
  std::uint64_t numbers() const { return header_.entries.back().end / sizeof(float); }

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    const std::uint64_t begin = header_.entries.empty() ? 0 : header_.entries.back().end;
    header_.entries.push_back({name, StoredType::f32, {}, shape, begin, begin + *bytes_of(StoredType::f32, shape)});
  }
  void write() const {
    std::ofstream file(folder_ / "model.safetensors", std::ios::binary);
    const std::string text = format_header(header_);
    const std::uint64_t length = text.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
    std::vector<float> block(1 << 16);
    std::uint32_t bits = 1;
    for (float& value : block) {
      bits = bits * 1664525u + 1013904223u;
      value = (static_cast<float>(bits >> 8) / 16777216.0f - 0.5f) / 16.0f;
    }
    for (std::uint64_t left = numbers(); left > 0;) {
      const std::uint64_t count = std::min<std::uint64_t>(left, block.size());
      file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(count * sizeof(float)));
      left -= count;
    }
  }
  fs::path folder_;
  Header header_;
};

TEST(CheckpointRun, IsNamedByItsRecipe) {
  const MadeModel made("small", 24, 40, 2);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const SavedRun saved = open_saved_run(made.folder());
  ASSERT_TRUE(saved.has_weights());
  EXPECT_EQ(saved.recipe.name, "afterglow_made_small");
  TrainingRun run(saved.recipe, *backend);
  const std::string start = run.trainer().checksum();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run.train_step());
  const std::string trained = run.trainer().checksum();
  EXPECT_NE(trained, start);
  // The same recipe, as text, makes the same run; going back reaches the folder's weights.
  TrainingRun again(parse_recipe(to_json(run.recipe()).dump(), "recipe"), *backend);
  EXPECT_EQ(again.trainer().checksum(), start);
  again.go_to(3);
  EXPECT_EQ(again.trainer().checksum(), trained);
  again.go_to(0);
  EXPECT_EQ(again.trainer().checksum(), start);
  ASSERT_TRUE(again.train_step());
  again.go_to(3);
  EXPECT_EQ(again.trainer().checksum(), trained) << "moments that are zero are zero after a rewind, too";
  // A snapshot needs the folder no more.
  const Snapshot snapshot = run.snapshot();
  fs::rename(made.folder(), made.folder().string() + "_gone");
  EXPECT_EQ(TrainingRun(snapshot, *backend).trainer().checksum(), trained);
  EXPECT_THROW(TrainingRun(saved.recipe, *backend), Error);
  EXPECT_EQ(TrainingRun(saved, *backend).trainer().checksum(), start) << "a folder that is open is not opened again";
  fs::rename(made.folder().string() + "_gone", made.folder());
}

TEST(CheckpointRun, HoldsItsWeightsAloneUntilItTrains) {
  const MadeModel made("weights_alone", 48, 4000, 2);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<TrainingRun> run = std::make_unique<TrainingRun>(open_saved_run(made.folder()), *backend);
  const std::size_t weights = run->trainer().parameters().values().bytes(), opened = backend->held_bytes();
  EXPECT_LT(opened, weights + weights / 4);
  EXPECT_EQ(run->history().bytes(), 0u) << "its first state is in the folder";
  EXPECT_EQ(run->kept()->size(), 1u);
  EXPECT_EQ(run->oldest_step(), 0);
  const std::string start = run->trainer().checksum();
  run->trainer().evaluate(2);
  run->go_to(0);
  EXPECT_FALSE(run->trainer().parameters().gradients().defined());
  ASSERT_TRUE(run->train_step());
  EXPECT_GE(backend->held_bytes(), 4 * weights);
  EXPECT_NE(run->trainer().checksum(), start);
  run->go_to(0);
  EXPECT_EQ(run->trainer().checksum(), start);
}

TEST(CheckpointRun, CarriesNoPathOfThisMachine) {
  const MadeModel made("private", 24, 40, 1);
  std::ofstream(made.folder() / "tokenizer.json") << R"({"model": {"vocab": {"a": 0}}})";
  const Recipe recipe = open_saved_run(made.folder()).recipe;
  const std::string carried = carried_text(recipe);
  EXPECT_THAT(carried, testing::HasSubstr("afterglow_made_private"));
  for (const std::string& secret : {made.folder().parent_path().string() + "/", std::string("secret")})
    EXPECT_THAT(carried, testing::Not(testing::HasSubstr(secret)));
}

TEST(CheckpointRun, ItsPartsAreShownAsTheirWeightsArrive) {
  const MadeModel made("arriving", 24, 40, 3);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const SavedRun saved = open_saved_run(made.folder());
  ArrivingModel arriving(saved.recipe);
  EXPECT_TRUE(arriving.summary().layers.empty());
  std::vector<std::size_t> shown;
  {
    const LoadingWatch watch([&](const Parameter& parameter) {
      if (arriving.note(parameter)) shown.push_back(arriving.summary().layers.size());
    });
    const TrainingRun opened(saved, *backend);
  }
  EXPECT_THAT(shown, testing::ElementsAre(1, 2, 3, 5)) << "the head's norm is read before the blocks";
  EXPECT_EQ(arriving.summary().layers[3].label, "2 mamba2");
  EXPECT_EQ(arriving.summary().name, "") << "the page follows a model when all of it is there";
  const std::size_t told = shown.size();
  const TrainingRun opened(saved, *backend);
  EXPECT_EQ(shown.size(), told) << "the analysis has ended";
}

TEST(CheckpointRun, OpensALargeModel) {
  const MadeModel made("large", 768, 50288, 24);
  EXPECT_NEAR(static_cast<double>(made.numbers()), 130e6, 2e6);
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<TrainingRun> run = std::make_unique<TrainingRun>(open_saved_run(made.folder()), *backend);
  EXPECT_EQ(run->trainer().parameters().count(), static_cast<std::int64_t>(made.numbers()));
}

}  // namespace
}  // namespace afterglow
