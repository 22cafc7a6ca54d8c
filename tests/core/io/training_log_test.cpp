// Logs of training programs: tables and JSON.
#include "core/io/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/io/error.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TrainingLogs : public TemporaryFolder {
 protected:
  TrainingLog read(const std::string& name, const std::string& text) const {
    TrainingLog log;
    read_log(put(name, text), log);
    return log;
  }
};

const LoggedCurve& curve(const TrainingLog& log, const std::string& name) {
  for (const LoggedCurve& one : log.curves) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}

TEST_F(TrainingLogs, HuggingFaceTrainerWritesNaN) {
  const TrainingLog log = read("trainer_state.json", R"({"max_steps": 100, "best_metric": null, "log_history": [
    {"step": 2, "loss": 3.5, "grad_norm": NaN, "epoch": 0.5},
    {"step": 2, "eval_loss": Infinity, "epoch": 0.5},
    {"step": 4, "loss": 3.0, "grad_norm": 1.5, "epoch": 1}]})");
  EXPECT_EQ(log.planned_steps, 100);
  EXPECT_THAT(curve(log, "loss").steps, ElementsAre(2, 4));
  EXPECT_THAT(curve(log, "loss").values, ElementsAre(3.5, 3.0));
  EXPECT_TRUE(std::isnan(curve(log, "grad_norm").values[0]));
  EXPECT_TRUE(std::isnan(curve(log, "eval_loss").values[0]));
  EXPECT_THAT(log.notes, IsEmpty());
}

TEST_F(TrainingLogs, LinesOfJsonMayBeBrokenAndUnfinished) {
  const TrainingLog log = read("log.jsonl",
                               "{\"step\": 1, \"train\": {\"loss\": 2}, \"name\": \"a\"}\nnot json\n"
                               "{\"step\": 5, \"train\": {\"loss\": NaN}}\n{\"step\": 9, \"tra");
  EXPECT_THAT(curve(log, "train/loss").steps, ElementsAre(1, 5));
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_THAT(log.notes[0], HasSubstr("1 records"));
}

TEST_F(TrainingLogs, TablesHaveGapsAndHalfRows) {
  const TrainingLog log = read("metrics.csv", "Step,loss [nats],held_out\r\n10,2.5,\r\n20,2.25,0.5\r\n30,2");
  EXPECT_THAT(curve(log, "loss [nats]").steps, ElementsAre(10, 20));
  EXPECT_THAT(curve(log, "held_out").steps, ElementsAre(20));
  const TrainingLog plain = read("any.csv", "a,b\n1,2\n3,4\n");
  EXPECT_THAT(curve(plain, "b").steps, ElementsAre(1, 2));
  EXPECT_THAT(plain.notes, ElementsAre(HasSubstr("names no steps")));
}

TEST_F(TrainingLogs, ResumedTrainingReplacesWhatItRepeats) {
  const TrainingLog log = read("log.jsonl",
                               "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n{\"step\":3,\"loss\":9}\n"
                               "{\"step\":2,\"loss\":3}\n");
  EXPECT_THAT(curve(log, "loss").steps, ElementsAre(1, 2));
  EXPECT_THAT(curve(log, "loss").values, ElementsAre(5, 3));
  EXPECT_THAT(log.notes, ElementsAre(HasSubstr("earlier steps")));
}

TEST_F(TrainingLogs, FilesThatAreNoLogsAreRefused) {
  TrainingLog log;
  for (const char* text : {"nothing\nhere\n", "5", "\"loss\"", R"({"log_history": 5})", R"({"log_history": "none"})"})
    EXPECT_THROW(read_log(put("a.jsonl", text), log), Error) << text;
  read_log(put("trainer_state.json", R"({"log_history": []})"), log);
  EXPECT_THAT(log.notes, IsEmpty()) << "the training has not logged yet";
  EXPECT_FALSE(is_log_name("config.json"));
  EXPECT_TRUE(is_log_name("runs/train_log.json"));
}

}  // namespace
}  // namespace afterglow
