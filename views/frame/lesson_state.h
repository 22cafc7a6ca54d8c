// Where the reader of a lesson is.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/lesson.h"
#include "core/recipe/lesson_condition.h"
#include "views/plots/plot_numbers.h"

namespace afterglow {

struct LessonStepPlan;
constexpr int no_vote = -1;  ///< the answer of a hall that goes on without one

/// The open lesson. The window's lesson_player plays it, the pane shows it.
struct LessonPane {
  std::shared_ptr<const Lesson> lesson;  ///< null: none
  std::shared_ptr<const std::vector<LessonStepPlan>> plans;
  std::string source;           ///< its name or path
  std::optional<double> began;  ///< when it was opened or restarted by itself; seconds since the window opened
  std::size_t step = 0;
  int begun = 0;                             ///< number of times that a step was begun
  std::size_t deed = 0;                      ///< next deed in the step's plan
  std::optional<std::uint64_t> waits_for;    ///< waits until this many commands are carried out and training pauses
  bool asks = false;                         ///< the question waits for an answer
  int answered = 0;                          ///< chosen answer, counted from 1; 0: none yet; or `no_vote`
  std::vector<bool> reached;                 ///< by goal, in the order of its lines
  std::map<std::string, Quantity> at_start;  ///< numbers with which its goals compare
  LargeNumber shown;                         ///< of its `show` line
  std::map<std::string, double> values;      ///< of the dragged numbers in its text
  std::string dragged;                       ///< the number being dragged; empty: none
  double grabbed = 0;                        ///< its share of its range at the start of the drag
  std::string problem;                       ///< why the changed file cannot be read; empty: it can
  std::int64_t written = 0, looked_at = 0;   ///< times of the file's last change and check, the latter in half seconds
  double width = 380;                        ///< of the pane, in layout units
  bool is_cut = false;                       ///< in the last frame: its text is longer than its place
};

}  // namespace afterglow
