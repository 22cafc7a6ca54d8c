// Logs of training programs: tables, JSON, TensorBoard.
#include "core/io/training_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/io/error.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

std::uint32_t masked_crc(const std::string& bytes) {
  std::uint32_t sum = ~0u;
  for (const unsigned char byte : bytes) {
    sum ^= byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? 0x82F63B78u : 0u);
  }
  return std::rotr(~sum, 15) + 0xA282EAD8u;
}

std::string raw(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

std::string part(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + std::string(1, static_cast<char>(bytes.size())) + bytes;
}

std::string record(const std::string& data) {
  const std::string length = raw(static_cast<std::uint64_t>(data.size()));
  return length + raw(masked_crc(length)) + data + raw(masked_crc(data));
}

/// An event of one value, as PyTorch writes it or as TensorFlow 2 does.
std::string event(char step, const std::string& tag, float number, bool is_tensor = false) {
  const std::string value =
      is_tensor ? part(8, std::string("\x08\x01", 2) + part(5, raw(number))) : std::string("\x15") + raw(number);
  return record(std::string("\x09") + raw(1.5) + "\x10" + step + part(5, part(1, part(1, tag) + value)));
}

TEST_F(TrainingLogs, TensorBoardEventsAreReadUpToTheirDamage) {
  const std::string begin = record(std::string("\x09") + raw(1.0) + part(3, "brain.Event:2"));
  const std::string good = begin + event(3, "train/loss", 2.5f) + event(7, "train/loss", 2.0f, true);
  const TrainingLog log = read("events.out.tfevents.1", good + event(9, "train/loss", 1).substr(0, 20));
  EXPECT_THAT(curve(log, "train/loss").steps, ElementsAre(3, 7));
  EXPECT_THAT(curve(log, "train/loss").values, ElementsAre(2.5, 2.0));
  EXPECT_THAT(log.notes, IsEmpty()) << "the rest is still being written";
  for (std::size_t i = begin.size(); i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    const TrainingLog less = read("events.out.tfevents.2", damaged);
    EXPECT_LE(less.curves.size(), 1u);
    EXPECT_TRUE(less.curves.empty() || less.curves[0].values[0] == 2.5) << "byte " << i;
  }
}

}  // namespace
}  // namespace afterglow
