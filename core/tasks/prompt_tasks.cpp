// `sysprompt` and `tooltrace`: facts first, then filler, then a question about one of them (Echo, section 4.1).
#include "core/tasks/suite.h"

namespace afterglow {
namespace {

// start (k v)^n separator filler.. query k -> v
class SystemPrompt final : public BindingsTask {
 public:
  explicit SystemPrompt(const Fields& fields) : BindingsTask(fields, 4, 2) {}

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> keys = draw_distinct(random, count, suite::first_key, suite::keys);
    const int asked = draw_from(random, 0, count);
    ExampleWriter tape(out);
    const int place = put_pairs(random, tape, keys) + 2 * asked;
    tape.fill(random, 2);
    tape.put(suite::query, keys[asked]);
    tape.expect(out.tokens[place + 1]);
    out.sources = {place, place + 1};
  }
};

// start (agent tool arrow result)^n separator filler.. query agent tool equals -> result; the key is the pair
class ToolTrace final : public AgentTask {
 public:
  explicit ToolTrace(const Fields& fields) : AgentTask(fields, 6, 4) {}

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> pairs = draw_distinct(random, count, 0, suite::agents * suite::tools);
    const int asked = draw_from(random, 0, count);
    ExampleWriter tape(out);
    tape.put(suite::start);
    const int place = tape.at() + 4 * asked;
    for (const int pair : pairs) tape.put_fact(agent(pair), tool(pair), suite::arrow, draw_value(random));
    tape.put(suite::separator);
    tape.fill(random, 4);
    tape.put(suite::query, agent(pairs[asked]), tool(pairs[asked]), suite::equals);
    tape.expect(out.tokens[place + 3]);
    out.sources = {place, place + 1, place + 3};
  }
};

}  // namespace

std::unique_ptr<Task> make_sysprompt(const Fields& fields) { return std::make_unique<SystemPrompt>(fields); }

std::unique_ptr<Task> make_tooltrace(const Fields& fields) { return std::make_unique<ToolTrace>(fields); }

}  // namespace afterglow
