// `mqar`: multi-query associative recall as in Zoology (Arora et al., 2024); pairs first, then each key once more.
#include <algorithm>
#include <cmath>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

// `count` different slots of 0 .. slots - 1, successively with probability ~ (slot + 1)^(power - 1). A race of
// exponential clocks with these rates gives exactly that order in one pass (Efraimidis and Spirakis, 2006). Questions
// at the end take the last slots in random order.
std::vector<int> draw_gaps(Random& random, int count, int slots, double power, bool is_end) {
  if (is_end) return draw_distinct(random, count, slots - count, count);
  std::vector<std::pair<double, int>> arrivals;
  for (int slot = 0; slot < slots; ++slot) {
    const double waiting = -std::log(1.0 - random.uniform()) * std::pow(slot + 1.0, 1.0 - power);
    arrivals.emplace_back(waiting, slot);
  }
  std::partial_sort(arrivals.begin(), arrivals.begin() + count, arrivals.end());
  std::vector<int> gaps;
  for (int i = 0; i < count; ++i) gaps.push_back(arrivals[static_cast<std::size_t>(i)].second);
  return gaps;
}

// (k v)^n, then every second position may repeat a key; the target is at the position of the key. The gap, counted in
// slots from 1, follows p(gap) ~ gap^(power - 1) without replacement.
class Mqar final : public Task {
 public:
  explicit Mqar(const Fields& fields)
      : Task(fields.kind(), fields.integer("vocab"), fields.integer("length")),
        bindings_(fields.integers("bindings")),
        power_(fields.number("power")),
        random_fill_(fields.choice("fill") == "random"),
        is_end_(fields.choice("questions") == "end") {
    const int most = largest(bindings_);
    if (most > vocab() / 2 - 1)
      fields.refuse(most, " bindings need as many different keys, but a 'vocab' of ", vocab(), " has ", vocab() / 2 - 1,
                    ". Make 'vocab' ", 2 * most + 2, " or more, or ask for fewer bindings.");
    fields.require_length(length(), 4 * std::int64_t{most}, concat(most, " bindings"));
  }

  std::string describe() const override {
    return said({{"bindings", spread(bindings_)}, {"mark", ""}, {"vocabulary", concat(", vocabulary ", vocab())}});
  }

  int max_answers() const override { return largest(bindings_); }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> keys = draw_distinct(random, count, 1, first_value() - 1);
    const std::vector<int> values = draw_distinct(random, count, first_value(), vocab() - first_value());
    ExampleWriter tape(out);
    for (std::size_t i = 0; i < keys.size(); ++i) tape.put_fact(keys[i], values[i]);
    while (random_fill_ && tape.at() < length()) tape.put(draw_from(random, 0, vocab()));
    const std::vector<int> gaps = draw_gaps(random, count, (length() - 2 * count) / 2, power_, is_end_);
    std::size_t last = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto place = static_cast<std::size_t>(2 * count + 2 * gaps[i]);
      out.tokens[place] = keys[i];
      out.targets[place] = values[i];
      if (gaps[i] > gaps[last]) last = i;
    }
    out.sources = {static_cast<std::int32_t>(2 * last), static_cast<std::int32_t>(2 * last + 1)};
  }

  std::string token_label(int token) const override {
    if (token < 0 || token >= vocab()) return "?!";
    if (token == 0) return "_";
    return token < first_value() ? "k" + std::to_string(token - 1) : "v" + std::to_string(token - first_value());
  }

  TokenRole token_role(int token) const override {
    if (token <= 0 || token >= vocab()) return TokenRole::blank;
    return token < first_value() ? TokenRole::key : TokenRole::value;
  }

 private:
  int first_value() const { return vocab() / 2; }

  std::vector<int> bindings_;
  double power_;
  bool random_fill_, is_end_;
};

// start (k v)^n separator, then in slots of two tokens filler or query k -> v: the same task with the suite's tokens,
// for models that were trained on its other tasks.
class SuiteMqar final : public BindingsTask {
 public:
  explicit SuiteMqar(const Fields& fields)
      : BindingsTask(fields, fields.integer("length"), fields.integers("bindings")),
        power_(fields.number("power")),
        has_filler_(fields.choice("fill") == "random"),
        is_end_(fields.choice("questions") == "end") {
    if (fields.integer("vocab") != suite::vocab)
      fields.refuse("The suite has ", suite::vocab, " tokens. Leave 'vocab' out, or 'tokens'.");
    if (most() > suite::keys) fields.refuse("The suite has ", suite::keys, " keys. Ask for fewer bindings.");
    constexpr int marks = 2;  // start and separator
    fields.require_length(length(), marks + 4 * std::int64_t{most()}, concat(most(), " bindings"));
  }

  std::string describe() const override {
    return said({{"bindings", spread(bindings_)}, {"mark", " after a question mark"}, {"vocabulary", ""}});
  }

  int max_answers() const override { return most(); }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> keys = draw_distinct(random, count, suite::first_key, suite::keys);
    ExampleWriter tape(out);
    put_pairs(random, tape, keys);
    const int first = tape.at();
    if (has_filler_) tape.fill(random, 0);
    const std::vector<int> gaps = draw_gaps(random, count, (length() - first) / 2, power_, is_end_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto place = static_cast<std::size_t>(first + 2 * gaps[i]);
      out.tokens[place] = suite::query;
      out.tokens[place + 1] = keys[i];
      out.targets[place + 1] = out.tokens[2 * i + 2];
    }
    const auto last = std::ranges::max_element(gaps) - gaps.begin();
    out.sources = {static_cast<std::int32_t>(2 * last + 1), static_cast<std::int32_t>(2 * last + 2)};
  }

 private:
  double power_;
  bool has_filler_, is_end_;
};

}  // namespace

std::unique_ptr<Task> make_mqar(const Fields& fields) {
  if (fields.choice("tokens") == "suite") return std::make_unique<SuiteMqar>(fields);
  return std::make_unique<Mqar>(fields);
}

}  // namespace afterglow
