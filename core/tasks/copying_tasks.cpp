// `copy`, `selective_copy` and `induction`: the classic small tasks. They test order, selection, and what followed a
// token before.
#include <algorithm>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

// copy: start items separator filler.. query^n; selective_copy: start filler.. with items at random places, query^n.
// The i-th query is answered with the i-th item.
class Copying final : public BindingsTask {
 public:
  Copying(const Fields& fields, bool selective)
      : BindingsTask(fields, selective ? 1 : 2, 2, "items"), selective_(selective) {}

  int max_answers() const override { return most(); }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    ExampleWriter tape(out);
    tape.put(suite::start);
    tape.fill(random, count);
    std::vector<int> places = span_of(1, count);
    if (selective_) {
      places = draw_distinct(random, count, 1, length() - 1 - count);
      std::ranges::sort(places);
    } else {
      out.tokens[static_cast<std::size_t>(count + 1)] = suite::separator;
    }
    for (const int place : places) {
      const auto at = static_cast<std::size_t>(place);
      out.tokens[at] = draw_value(random);
      out.context[at] = 1;
      tape.put(suite::query);
      tape.expect(out.tokens[at]);
    }
    out.sources = {places.back()};
  }

 private:
  bool selective_;
};

// start filler.. x y filler.. x -> y, where x occurs nowhere else
class Induction final : public SuiteTask {
 public:
  explicit Induction(const Fields& fields) : SuiteTask(fields, fields.integer("length")) {
    fields.require_length(length(), 4, "A token, its successor and the token again");
  }

  void generate(Random& random, std::uint64_t, Split, Example& out) const override {
    const int repeated = draw_value(random);
    ExampleWriter tape(out);
    tape.put(suite::start);
    while (tape.at() < length() - 1) {
      const int other = draw_from(random, suite::first_value, suite::values - 1);
      tape.put_fact(other < repeated ? other : other + 1);  // every value but the repeated one
    }
    const int place = draw_from(random, 1, length() - 3);
    out.tokens[static_cast<std::size_t>(place)] = repeated;
    tape.put(repeated);
    tape.expect(out.tokens[static_cast<std::size_t>(place + 1)]);
    out.sources = {place, place + 1};
  }
};

}  // namespace

std::unique_ptr<Task> make_copy(const Fields& fields) { return std::make_unique<Copying>(fields, false); }

std::unique_ptr<Task> make_selective_copy(const Fields& fields) { return std::make_unique<Copying>(fields, true); }

std::unique_ptr<Task> make_induction(const Fields& fields) { return std::make_unique<Induction>(fields); }

}  // namespace afterglow
