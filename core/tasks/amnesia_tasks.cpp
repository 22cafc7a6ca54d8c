// `cot_recall` and `specific_recall`: is a system prompt still known after a gap full of noise that resembles it?
// (Echo, appendix G.4, experiment 3.)
#include "core/tasks/suite.h"

namespace afterglow {
namespace {

enum class Noise { scratchpad, distractors };

// start (k v)^n separator noise query k -> v
class Amnesia final : public BindingsTask {
 public:
  Amnesia(const Fields& fields, Noise noise, int length, std::vector<int> bindings, std::vector<int> gaps)
      : BindingsTask(fields, length, std::move(bindings)), noise_(noise), gaps_(std::move(gaps)) {}

  std::string describe() const override { return said({{"bindings", spread(bindings_)}, {"gap", spread(gaps_)}}); }

  static std::int64_t smallest_length(int bindings, int gap) { return 4 + 2 * std::int64_t{bindings} + gap; }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const int gap = draw_entry(random, gaps_);
    const std::vector<int> keys =
        draw_distinct(random, suite::keys, suite::first_key, suite::keys);  // the rest are distractors
    const int asked = draw_from(random, 0, count);
    ExampleWriter tape(out, length() - static_cast<int>(smallest_length(count, gap)));
    const int place = put_pairs(random, tape, std::span(keys).first(count)) + 2 * asked;
    if (noise_ == Noise::scratchpad)
      put_scratchpad(random, tape);
    else
      put_distractors(random, tape, keys, count);
    tape.put(suite::query, keys[asked]);
    tape.expect(out.tokens[place + 1]);
    out.sources = {place, place + 1};
  }

 private:
  // A chain of thought: on average every fourth token is a value, the others are filler.
  void put_scratchpad(Random& random, ExampleWriter& tape) const {
    while (tape.at() < length() - 2)
      if (draw_from(random, 0, 4) == 0)
        tape.put(draw_value(random));
      else
        tape.put(draw_from(random, suite::first_filler, suite::fillers));
  }

  // Distractors: pairs in the form of bindings, with keys that are not bound.
  void put_distractors(Random& random, ExampleWriter& tape, const std::vector<int>& keys, int bound) const {
    while (tape.at() + 1 < length() - 2) {
      const int key = keys[draw_from(random, bound, suite::keys - bound)];
      tape.put(key, draw_value(random));
    }
    tape.fill(random, 2);
  }

  Noise noise_;
  std::vector<int> gaps_;
};

std::unique_ptr<Task> make_amnesia(const Fields& fields, Noise noise, std::vector<int> hard_gap) {
  const bool hard = fields.choice("difficulty") == "hard";
  std::vector<int> bindings = fields.integers("bindings");
  std::vector<int> gaps = fields.integers_or("gap", hard ? std::move(hard_gap) : span_of(10, 30));
  const std::string reason =
      std::to_string(largest(bindings)) + " bindings and a gap of " + std::to_string(largest(gaps));
  const int length = fields.length_or(Amnesia::smallest_length(largest(bindings), largest(gaps)), reason);
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
