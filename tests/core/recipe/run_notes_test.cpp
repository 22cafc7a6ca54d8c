// Notes of the user are part of the recipe, and of nothing that is computed.
#include "core/recipe/run_notes.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> texts_of(const Recipe& recipe) {
  std::vector<std::string> texts;
  for (const RunNote& note : notes_of(recipe)) texts.push_back(std::to_string(note.step) + " " + note.text);
  return texts;
}

struct RunNotes : testing::Test {
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run{{small_recipe(), std::nullopt}, *backend};
  void train(int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(run.train_step());
  }
};

TEST_F(RunNotes, AreWrittenChangedAndTakenAwayAndComeBackByUndo) {
  train(3);
  run.write_note({{"text", "here it begins"}});
  run.write_note({{"text", "later"}, {"step", 20}, {"figure", "training_loss"}, {"x", 20}, {"y", 0.5}});
  EXPECT_THAT(texts_of(run.recipe()), ElementsAre("3 here it begins", "20 later"));
  run.write_note({{"number", 2}, {"text", "much later"}});
  const RunNote changed = notes_of(run.recipe())[1];
  EXPECT_EQ(changed.text + changed.figure, "much latertraining_loss");
  EXPECT_EQ(changed.y, 0.5) << "what is not named stays";
  run.write_note({{"number", 1}, {"text", ""}});
  EXPECT_THAT(texts_of(run.recipe()), ElementsAre("20 much later"));
  EXPECT_TRUE(run.undo() && run.undo());
  EXPECT_THAT(texts_of(run.recipe()), ElementsAre("3 here it begins", "20 later"));
  run.go_to(1);
  EXPECT_TRUE(run.redo()) << "going through time forgets no note";
  EXPECT_THAT(texts_of(run.recipe()), ElementsAre("3 here it begins", "20 much later"));
  EXPECT_EQ(run.describe().notes.size(), 2u);
}

TEST_F(RunNotes, ChangeNoBitAndNoOtherUndo) {
  AnalysedRun plain({small_recipe(), std::nullopt}, *backend);
  for (int i = 0; i < 12; ++i) plain.train_step();
  train(5);
  run.set("learning_rate", 0.001);
  run.write_note({{"text", "between"}});
  run.set("learning_rate", 0.002);
  EXPECT_TRUE(run.undo() && run.undo() && run.undo());
  run.write_note({{"text", "a note"}});
  train(7);
  EXPECT_EQ(run.trainer().checksum(), plain.trainer().checksum());
}

TEST_F(RunNotes, SurviveRecipeAndSnapshot) {
  train(2);
  const json written = {{"text", "\"quoted\" λ_max\n"}, {"token", 4}, {"label", "k3"}};
  run.write_note(written);
  const RunNote note = notes_of(run.recipe()).front();
  EXPECT_EQ(note.text, "\"quoted\" λ_max\\x0a") << "one line";
  const Recipe read = parse_recipe(to_json(run.recipe()).dump(), "read");
  AnalysedRun again({read, std::nullopt}, *backend), resumed({run.snapshot().recipe, run.snapshot()}, *backend);
  for (const AnalysedRun* one : {&again, &resumed}) {
    ASSERT_EQ(one->describe().notes.size(), 1u);
    EXPECT_EQ(one->describe().notes[0].text, note.text);
    EXPECT_EQ(one->describe().notes[0].label, note.label);
  }
  EXPECT_TRUE(notes_of(small_recipe()).empty()) << "recipes of before";
}

TEST_F(RunNotes, RefuseWhatCannotBeDrawn) {
  const auto refused = [&](const json& value) -> std::string {
    try {
      run.write_note(value);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refused(json::object()), HasSubstr("note.text: give a line"));
  EXPECT_THAT(refused({{"text", std::string(300, 'a')}}), HasSubstr("note.text"));
  EXPECT_THAT(refused({{"text", "a"}, {"colour", 1}}), HasSubstr("colour"));
  EXPECT_THAT(refused({{"number", 1}, {"text", "a"}}), HasSubstr("no note yet"));
  EXPECT_TRUE(run.recipe().commands.empty());
  Recipe damaged = small_recipe();
  damaged.commands = {{0, {"note", R"({"notes": [{"text": 3}]})"_json}}};
  EXPECT_THROW(AnalysedRun({damaged, std::nullopt}, *backend), Error);
  damaged.commands = {{0, {"note", R"({"notes": []})"_json}}, {1, {"note", R"({"notes": []})"_json}}};
  EXPECT_THROW(notes_of(damaged), Error) << "no note is left out in silence";
}

}  // namespace
}  // namespace afterglow
