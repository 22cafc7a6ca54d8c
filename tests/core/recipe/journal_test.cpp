// One journal for changes of every scope.
#include "core/recipe/journal.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace afterglow {
namespace {

using Scope = Journal::Scope;

struct JournalTest : testing::Test {
  Journal journal;
  int number = 0;

  Journal::Change to(int wanted) {
    return [this, wanted]() -> Journal::Undo {
      const int before = number;
      number = wanted;
      return [this, before] { number = before; };
    };
  }
};

TEST_F(JournalTest, UndoesAndRepeatsInTheOrderOfTime) {
  journal.perform(Scope::run, to(1));
  journal.perform(Scope::inspection, to(2));
  EXPECT_EQ(journal.undo(), Scope::inspection);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(journal.undo(), Scope::run);
  EXPECT_EQ(number, 0);
  EXPECT_EQ(journal.undo(), std::nullopt);
  EXPECT_EQ(journal.redo(), Scope::run);
  EXPECT_EQ(journal.redo(), Scope::inspection);
  EXPECT_EQ(number, 2);
  EXPECT_EQ(journal.redo(), std::nullopt);
  journal.undo();
  journal.perform(Scope::run, to(7));
  EXPECT_EQ(journal.redo(), std::nullopt) << "a new change ends what could be repeated";
}

TEST_F(JournalTest, ADragIsOneChange) {
  for (const int value : {3, 4, 5}) journal.perform(Scope::run, to(value), "set clip", true);
  journal.perform(Scope::run, to(6), "set clip");
  journal.perform(Scope::run, to(8), "set clip");
  journal.undo();
  EXPECT_EQ(number, 6);
  journal.undo();
  EXPECT_EQ(number, 0) << "all values of the drag at once";
  journal.redo();
  EXPECT_EQ(number, 6) << "and its last value again";
  journal.perform(Scope::run, to(9), "set clip", true);
  journal.perform(Scope::run, to(10), "set batch", true);
  journal.undo();
  EXPECT_EQ(number, 9) << "another gesture is another change";
}

TEST_F(JournalTest, ForgetsOneScope) {
  journal.perform(Scope::run, to(1));
  journal.perform(Scope::inspection, to(2));
  journal.perform(Scope::run, to(3));
  journal.undo();
  journal.forget(Scope::run);
  EXPECT_EQ(journal.redo(), std::nullopt);
  EXPECT_EQ(journal.undo(), Scope::inspection);
  EXPECT_EQ(journal.undo(), std::nullopt);
}

TEST_F(JournalTest, AFailedChangeIsNotRecorded) {
  EXPECT_THROW(journal.perform(Scope::run, []() -> Journal::Undo { throw std::runtime_error("refused"); }),
               std::runtime_error);
  EXPECT_EQ(journal.undo(), std::nullopt);
}

TEST_F(JournalTest, TellsWhenTheNextChangesWereMadeAndUndone) {
  EXPECT_FALSE(journal.times().undo || journal.times().redo);
  journal.now = 3;
  journal.perform(Scope::run, to(1));
  journal.now = 5;
  journal.perform(Scope::run, to(2));
  EXPECT_EQ(journal.times().undo, 5u);
  journal.now = 8;
  journal.undo();
  EXPECT_EQ(journal.times().undo, 3u);
  EXPECT_EQ(journal.times().redo, 8u);
  EXPECT_EQ(journal.times().change, 5u);
}

}  // namespace
}  // namespace afterglow
