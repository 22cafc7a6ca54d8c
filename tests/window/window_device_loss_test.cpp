// A device that stops answering while the window trains on it: what is said, drawn, kept and written then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/engine/session/session.h"
#include "core/engine/training/saved/snapshot.h"
#include "core/engine/training/training_run.h"
#include "tests/core/engine/fading_backend.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/views/drawing/null_window.h"
#include "tests/window/virtual_display.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;

/// After so many steps.
std::unique_ptr<Backend> make_fading(const std::string& device, int threads) {
  if (device != "fading") return make_backend(device, threads);
  auto backend = std::make_unique<FadingBackend>(std::make_shared<std::atomic<bool>>(false));
  backend->fade_after(25);
  return backend;
}

class WindowDeviceLoss : public testing::Test {
 protected:
  WindowDeviceLoss() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WindowDeviceLoss() override { fs::remove_all(folder_); }
  static std::string recipe() {
    nlohmann::json recipe = small_recipe_json();
    recipe["training"]["steps"] = 100000;
    return recipe.dump();
  }
  static SessionOptions options() {
    SessionOptions options{"fading", 1, true, 200.0};
    options.make_backend = make_fading;
    return options;
  }
  void frame() {
    now_ = session_.observe();
    follow_model(window_.state, now_->model);
    window_.show(now_);
    window_.draw_page();
    window_.commands.take();
  }
  bool draws_until(const std::function<bool()>& condition) {
    return wait_until(120, [&] {
      frame();
      return condition();
    });
  }
  bool says(const std::string& text) const {
    return std::ranges::any_of(window_.state.notes,
                               [&](const Note& note) { return note.text.find(text) != std::string::npos; });
  }
  static std::string checksum_at(std::int64_t step) {
    const std::unique_ptr<Backend> backend = make_cpu_backend(1);
    TrainingRun run(parse_recipe(recipe(), "recipe"), *backend);
    run.go_to(step);
    return run.trainer().checksum();
  }

  fs::path folder_ = fs::temp_directory_path() / ("afterglow_device_loss_" + std::to_string(::getpid()));
  NullWindow window_{1280, 800};
  Session session_{recipe(), options()};
  std::shared_ptr<const Observation> now_;
};

TEST_F(WindowDeviceLoss, IsSaidAndThePageIsDrawnOnAndWhatWasKeptCanBeWrittenAndTrainedOn) {
  ASSERT_TRUE(draws_until([&] { return says("the GPU failed or was lost"); }));
  EXPECT_TRUE(says("the command device cpu continues here"));
  for (int i = 0; i < 20; ++i) {
    frame();
    ASSERT_GT(window_.vertices(), 0);
  }
  EXPECT_FALSE(now_->running);
  EXPECT_FALSE(now_->model.layers.empty()) << "the page keeps what it showed";

  const fs::path file = folder_ / "kept.safetensors";
  session_.send({"save", nlohmann::json{{"path", file.string()}}});
  ASSERT_TRUE(draws_until([&] { return says("snapshot written"); }));
  EXPECT_TRUE(says("the device no longer answers; the last saved state is that of step"));
  const Snapshot kept = read_snapshot(file);
  EXPECT_GT(kept.step, 0);
  EXPECT_LE(kept.step, 25);
  EXPECT_EQ(kept.checksum, checksum_at(kept.step));

  session_.send({"device", R"({"name": "cpu"})"_json});
  session_.send({"run"});
  EXPECT_TRUE(draws_until([&] { return now_->step > 30 && now_->device.starts_with("CPU"); }));
}

}  // namespace
}  // namespace afterglow
