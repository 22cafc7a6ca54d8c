// `sysprompt` and `tooltrace`: facts first, then filler, then a question about one of them (Echo, section 4.1).
#include "core/tasks/suite.h"

namespace afterglow {
namespace {

// start (k v)^n separator filler.. query k -> v
class SystemPrompt final : public SuiteTask {
 public:
  SystemPrompt(int length, std::vector<int> bindings)
      : SuiteTask("sysprompt", length), bindings_(std::move(bindings)) {}

  std::string describe() const override {
    return "The model reads " + spread(bindings_) +
           " pairs of key and value, then filler, then one key again, and must answer its value. " +
           std::to_string(length()) + " tokens.";
  }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> keys = draw_distinct(random, count, suite::first_key, suite::keys);
    const auto asked = static_cast<std::size_t>(draw_from(random, 0, count));
    int answer = -1;
    ExampleWriter tape(out);
    tape.put(suite::start);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const int value = draw_value(random);
      if (i == asked) {
        answer = value;
        out.sources = {tape.at(), tape.at() + 1};
      }
      tape.put_fact(keys[i]);
      tape.put_fact(value);
    }
    tape.put(suite::separator);
    tape.fill(random, 2);
    tape.put(suite::query);
    tape.put(keys[asked]);
    tape.expect(answer);
  }

 private:
  std::vector<int> bindings_;
};

// start (agent tool arrow result)^n separator filler.. query agent tool equals -> result; the key is the pair
class ToolTrace final : public AgentTask {
 public:
  ToolTrace(int length, std::vector<int> bindings) : AgentTask("tooltrace", length), bindings_(std::move(bindings)) {}

  std::string describe() const override {
    return spread(bindings_) + " calls of a tool by an agent with their results, then filler, then an agent and a " +
           "tool; the model must answer the result. " + std::to_string(length()) + " tokens.";
  }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> pairs = draw_distinct(random, count, 0, suite::agents * suite::tools);
    const auto asked = static_cast<std::size_t>(draw_from(random, 0, count));
    int answer = -1;
    ExampleWriter tape(out);
    tape.put(suite::start);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const int result = draw_value(random);
      if (i == asked) {
        answer = result;
        out.sources = {tape.at(), tape.at() + 1, tape.at() + 3};
      }
      tape.put_fact(agent(pairs[i]));
      tape.put_fact(tool(pairs[i]));
      tape.put_fact(suite::arrow);
      tape.put_fact(result);
    }
    tape.put(suite::separator);
    tape.fill(random, 4);
    tape.put(suite::query);
    tape.put(agent(pairs[asked]));
    tape.put(tool(pairs[asked]));
    tape.put(suite::equals);
    tape.expect(answer);
  }

 private:
  static int agent(int pair) { return suite::first_agent + pair / suite::tools; }
  static int tool(int pair) { return suite::first_tool + pair % suite::tools; }

  std::vector<int> bindings_;
};

}  // namespace

TaskKind sysprompt_kind() {
  return {{"sysprompt",
           "bindings first, then filler, then a query: is a system prompt still known?",
           {bindings_parameter("pairs of key and value", "4", suite::keys), length_parameter("64")}},
          [](const Fields& fields) -> std::unique_ptr<Task> {
            std::vector<int> bindings = fields.integers("bindings");
            const int length = fields.integer("length");
            fields.require_length(length, 4 + 2 * largest(bindings), std::to_string(largest(bindings)) + " bindings");
            return std::make_unique<SystemPrompt>(length, std::move(bindings));
          }};
}

TaskKind tooltrace_kind() {
  return {{"tooltrace",
           "calls (agent, tool, result) first, then filler, then a query by agent and tool",
           {bindings_parameter("calls in the trace", "4", suite::agents * suite::tools), length_parameter("64")}},
          [](const Fields& fields) -> std::unique_ptr<Task> {
            std::vector<int> bindings = fields.integers("bindings");
            const int length = fields.integer("length");
            fields.require_length(length, 6 + 4 * largest(bindings), std::to_string(largest(bindings)) + " bindings");
            return std::make_unique<ToolTrace>(length, std::move(bindings));
          }};
}

}  // namespace afterglow
