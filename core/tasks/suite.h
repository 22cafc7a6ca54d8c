// The 128 tokens that all tasks of the transfer suite share, and helpers to write its tasks.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "core/random/random.h"
#include "core/tasks/fields.h"

namespace afterglow {

/// Token numbers of the suite. All of its tasks use them, so a model trained on one can be tested on another.
namespace suite {
inline constexpr int vocab = 128;
inline constexpr int blank = 0, start = 1, separator = 2, query = 3, arrow = 4, equals = 5;
inline constexpr int colon = 6, mine = 7, trade = 8, build = 9, gold = 10, wood = 11;
inline constexpr int first_key = 16, keys = 32;  ///< a tool trace's agents are the first eight, its tools the next
inline constexpr int first_agent = 16, agents = 8, first_tool = 24, tools = 8;
inline constexpr int first_value = 48, values = 32;
inline constexpr int first_filler = 80, fillers = 48;
/// A task of the transfer study (Echo, section 5.1): name and configuration.
struct TransferTask {
  const char *name, *config;
};
inline constexpr std::array transfer_tasks{TransferTask{"sysprompt", R"({"kind": "sysprompt"})"},
                                           TransferTask{"tooltrace", R"({"kind": "tooltrace"})"},
                                           TransferTask{"niah", R"({"kind": "niah"})"},
                                           TransferTask{"multihop", R"({"kind": "multihop"})"},
                                           TransferTask{"commonword", R"({"kind": "commonword"})"},
                                           TransferTask{"mqar", R"({"kind": "mqar", "tokens": "suite"})"}};
}  // namespace suite

/// A task with the suite's tokens.
class SuiteTask : public Task {
 public:
  std::string token_label(int token) const override;
  TokenRole token_role(int token) const override;
  /// Of a task that asks one question.
  int max_answers() const override { return 1; }

 protected:
  SuiteTask(const Fields& fields, int length) : Task(fields.kind(), suite::vocab, length) {}
};

/// A suite task whose examples hold one or several facts: its field `bindings`.
class BindingsTask : public SuiteTask {
 public:
  std::string describe() const override;

 protected:
  BindingsTask(const Fields& fields, int length, std::vector<int> bindings)
      : SuiteTask(fields, length), bindings_(std::move(bindings)) {}
  /// Of a length that must hold `marks` tokens and `each` for every binding; `things` names what needs them.
  BindingsTask(const Fields& fields, std::int64_t marks, std::int64_t each, const std::string& things = "bindings")
      : BindingsTask(fields, fields.integer("length"), fields.integers("bindings")) {
    fields.require_length(length(), marks + each * most(), concat(most(), " ", things));
  }
  int most() const;

  std::vector<int> bindings_;  ///< of several numbers, each example takes the next
};

/// One whose first sixteen keys are agents and tools.
class AgentTask : public BindingsTask {
 public:
  std::string token_label(int token) const override;

 protected:
  using BindingsTask::BindingsTask;
  /// The agent and the tool of a pair, counted from 0 to agents * tools - 1.
  static int agent(int pair) { return suite::first_agent + pair / suite::tools; }
  static int tool(int pair) { return suite::first_tool + pair % suite::tools; }
};

/// `count` different numbers of first .. first + size - 1, in random order. Requires count <= size.
std::vector<int> draw_distinct(Random& random, int count, int first, int size);
/// One number of first .. first + size - 1.
int draw_from(Random& random, int first, int size);
/// A random value token.
int draw_value(Random& random);
/// One entry of a list.
int draw_entry(Random& random, const std::vector<int>& list);
/// first, first + 1, ..., last.
std::vector<int> span_of(int first, int last);
/// The entry of a cycled parameter for example `turn`.
int entry_at(const std::vector<int>& list, std::uint64_t turn);
/// "4" for one number, "1 to 8" for several.
std::string spread(const std::vector<int>& list);
int largest(const std::vector<int>& list);

/// Writes an example from the front to the back.
class ExampleWriter {
 public:
  /// Begins after `blanks` blank tokens: examples shorter than the task's length end at the last position.
  explicit ExampleWriter(Example& example, int blanks = 0) : example_(example), at_(blanks) {}
  int at() const { return at_; }
  void put(std::same_as<int> auto... tokens) { ((example_.tokens[static_cast<std::size_t>(at_++)] = tokens), ...); }
  /// Tokens that carry a fact.
  void put_fact(std::same_as<int> auto... tokens) {
    std::fill_n(example_.context.begin() + at_, sizeof...(tokens), std::uint8_t{1});
    put(tokens...);
  }
  /// The target of the token just written.
  void expect(int token) { example_.targets[static_cast<std::size_t>(at_ - 1)] = token; }
  /// Random filler until `remaining` positions are left.
  void fill(Random& random, int remaining);

 private:
  Example& example_;
  int at_;
};

/// Writes the start, every key with a random value as a fact, and a separator; returns the position of the first key.
int put_pairs(Random& random, ExampleWriter& tape, std::span<const int> keys);

/// Writes a window of a text at a random place, every token answered with the next: training from the first nine tenths
/// of the text, held-out data from the last.
template <class Token>
void put_window(Random& random, Split split, const std::vector<Token>& text, Example& out) {
  const std::size_t middle = text.size() - text.size() / 10, window = out.tokens.size();
  const std::size_t begin = split == Split::train ? 0 : middle;
  const std::size_t end = split == Split::train ? middle : text.size();
  const auto first = text.begin() + static_cast<std::ptrdiff_t>(begin + random.uniform_int(end - begin - window));
  std::copy_n(first, window, out.tokens.begin());
  std::copy_n(first + 1, window, out.targets.begin());
  std::ranges::fill(out.context, std::uint8_t{1});
}

}  // namespace afterglow
