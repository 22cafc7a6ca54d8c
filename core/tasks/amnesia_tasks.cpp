// `cot_recall` and `specific_recall`: is a system prompt still known after a gap full of noise that resembles it?
// (Echo, appendix G.4, experiment 3.)
#include "core/tasks/suite.h"

namespace afterglow {
namespace {

enum class Noise { scratchpad, distractors };

// start (k v)^n separator noise (query k -> v)^answers
class Amnesia final : public BindingsTask {
 public:
  Amnesia(const Fields& fields, Noise noise, int length, std::vector<int> bindings, std::vector<int> gaps)
      : BindingsTask(fields, length, std::move(bindings)),
        noise_(noise),
        answers_(fields.integer("answers")),
        gaps_(std::move(gaps)) {}

  std::string describe() const override {
    return said({{"bindings", spread(bindings_)}, {"gap", spread(gaps_)}, {"answers", std::to_string(answers_)}});
  }
  int max_answers() const override { return std::min(answers_, most()); }

  static std::int64_t smallest_length(int bindings, int gap, int answers) {
    return 2 + 2 * std::int64_t{bindings} + gap + 2 * std::min(answers, bindings);
  }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const int gap = draw_entry(random, gaps_);
    const std::vector<int> keys =
        draw_distinct(random, suite::keys, suite::first_key, suite::keys);  // the rest are distractors
    const std::vector<int> asked = draw_distinct(random, std::min(answers_, count), 0, count);
    ExampleWriter tape(out, length() - static_cast<int>(smallest_length(count, gap, answers_)));
    const int first = put_pairs(random, tape, std::span(keys).first(count));
    const int end = length() - 2 * static_cast<int>(asked.size());
    if (noise_ == Noise::scratchpad)
      put_scratchpad(random, tape, end);
    else
      put_distractors(random, tape, keys, count, end);
    for (const int i : asked) {
      const int place = first + 2 * i;
      tape.put(suite::query, keys[i]);
      tape.expect(out.tokens[place + 1]);
      out.sources = {place, place + 1};
    }
  }

 private:
  // A chain of thought: on average every fourth token is a value, the others are filler.
  void put_scratchpad(Random& random, ExampleWriter& tape, int end) const {
    while (tape.at() < end)
      if (draw_from(random, 0, 4) == 0)
        tape.put(draw_value(random));
      else
        tape.put(draw_from(random, suite::first_filler, suite::fillers));
  }

  // Distractors: pairs in the form of bindings, with keys that are not bound.
  void put_distractors(Random& random, ExampleWriter& tape, const std::vector<int>& keys, int bound, int end) const {
    while (tape.at() + 1 < end) {
      const int key = keys[draw_from(random, bound, suite::keys - bound)];
      tape.put(key, draw_value(random));
    }
    tape.fill(random, length() - end);
  }

  Noise noise_;
  int answers_;
  std::vector<int> gaps_;
};

std::unique_ptr<Task> make_amnesia(const Fields& fields, Noise noise, std::vector<int> hard_gap) {
  const bool hard = fields.choice("difficulty") == "hard";
  std::vector<int> bindings = fields.integers("bindings");
  std::vector<int> gaps = fields.integers_or("gap", hard ? std::move(hard_gap) : span_of(10, 30));
  const std::string reason =
      std::to_string(largest(bindings)) + " bindings and a gap of " + std::to_string(largest(gaps));
  const int length =
      fields.length_or(Amnesia::smallest_length(largest(bindings), largest(gaps), fields.integer("answers")), reason);
  return std::make_unique<Amnesia>(fields, noise, length, std::move(bindings), std::move(gaps));
}

}  // namespace

std::unique_ptr<Task> make_cot_recall(const Fields& fields) {
  return make_amnesia(fields, Noise::scratchpad, span_of(150, 300));
}

std::unique_ptr<Task> make_specific_recall(const Fields& fields) {
  return make_amnesia(fields, Noise::distractors, span_of(80, 200));
}

}  // namespace afterglow
