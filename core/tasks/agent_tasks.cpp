// `toolcall` and `economy`: histories of what several agents did (Echo, appendix G.4, experiments 1 and 2).
#include <algorithm>
#include <array>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

// start (agent : tool -> result)^n query agent : tool = -> the result of the latest such call
class ToolCall final : public AgentTask {
 public:
  ToolCall(const Fields& fields, int length, std::vector<int> calls) : AgentTask(fields, length, std::move(calls)) {}

  static int smallest_length(int calls) { return 6 + 5 * calls; }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    ExampleWriter tape(out, length() - smallest_length(count));
    tape.put(suite::start);
    const int first = tape.at();
    std::vector<int> pairs;
    for (int i = 0; i < count; ++i) {
      pairs.push_back(draw_from(random, 0, suite::agents * suite::tools));
      tape.put_fact(agent(pairs.back()), suite::colon, tool(pairs.back()), suite::arrow, draw_value(random));
    }
    const int asked = pairs[draw_from(random, 0, count)];
    const auto latest = static_cast<int>(pairs.rend() - std::find(pairs.rbegin(), pairs.rend(), asked)) - 1;
    const int place = first + 5 * latest;
    tape.put(suite::query, agent(asked), suite::colon, tool(asked), suite::equals);
    tape.expect(out.tokens[place + 4]);
    out.sources = {place, place + 2, place + 4};
  }
};

// start steps separator filler.. query agent resource = -> how much of it the agent has, as value number 0 to 31.
// Steps: "agent mine resource amount", "agent trade agent resource amount" (the first gives), "agent build" (spends one
// gold and one wood).
class Economy final : public AgentTask {
 public:
  Economy(const Fields& fields, int length, int agents, std::vector<int> steps, std::vector<int> gaps)
      : AgentTask(fields, length, std::move(steps)), agents_(agents), gaps_(std::move(gaps)) {}

  std::string describe() const override {
    return said({{"agents", std::to_string(agents_)}, {"bindings", spread(bindings_)}, {"gap", spread(gaps_)}});
  }

  static std::int64_t smallest_length(int steps, int gap) { return 6 + 5 * std::int64_t{steps} + gap; }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const int gap = draw_entry(random, gaps_);
    World world;
    for (int i = 0; i < count; ++i) step(random, world);
    const auto [agent, resource] = draw_entry_touched(random, world);
    ExampleWriter tape(out, length() - 6 - static_cast<int>(world.tokens.size()) - gap);
    tape.put(suite::start);
    for (std::size_t i = 0; i < world.tokens.size(); ++i) {
      const std::vector<Holding>& touched = world.touched[i];
      if (std::ranges::find(touched, Holding{agent, resource}) != touched.end()) out.sources.push_back(tape.at());
      tape.put_fact(world.tokens[i]);
    }
    tape.put(suite::separator);
    tape.fill(random, 4);
    tape.put(suite::query, suite::first_agent + agent, suite::gold + resource, suite::equals);
    tape.expect(suite::first_value + world.of(agent, resource));
  }

 private:
  using Holding = std::pair<int, int>;  // agent, resource (0 gold, 1 wood)
  struct World {
    std::array<std::array<int, 2>, suite::agents> amount{};
    std::vector<int> tokens;
    std::vector<std::vector<Holding>> touched;  // for each token: the holdings that its step changed

    int& of(int agent, int resource) { return amount[agent][resource]; }
    void add(const std::vector<int>& words, const std::vector<Holding>& changed) {
      tokens.insert(tokens.end(), words.begin(), words.end());
      touched.insert(touched.end(), words.size(), changed);
    }
  };
  static constexpr int most = suite::values - 1;  // the largest number of a value token

  void step(Random& random, World& world) const {
    const int kind = draw_from(random, 0, 3);
    const int agent = draw_from(random, 0, agents_);
    const int resource = draw_from(random, 0, 2);
    if (kind == 0 && trade(random, world, agent, resource)) return;
    if (kind == 1 && world.of(agent, 0) > 0 && world.of(agent, 1) > 0) return build(world, agent);
    if (mine(random, world, agent, resource) || mine(random, world, agent, 1 - resource)) return;
    build(world, agent);  // has the maximum of both, so it can build
  }

  static bool mine(Random& random, World& world, int agent, int resource) {
    const int room = most - world.of(agent, resource);
    if (room == 0) return false;
    const int amount = draw_from(random, 1, std::min(3, room));
    world.of(agent, resource) += amount;
    world.add({suite::first_agent + agent, suite::mine, suite::gold + resource, suite::first_value + amount},
              {{agent, resource}});
    return true;
  }

  bool trade(Random& random, World& world, int agent, int resource) const {
    if (agents_ < 2) return false;
    const int other = (agent + draw_from(random, 1, agents_ - 1)) % agents_;
    const int possible = std::min({3, world.of(agent, resource), most - world.of(other, resource)});
    if (possible == 0) return false;
    const int amount = draw_from(random, 1, possible);
    world.of(agent, resource) -= amount;
    world.of(other, resource) += amount;
    world.add({suite::first_agent + agent, suite::trade, suite::first_agent + other, suite::gold + resource,
               suite::first_value + amount},
              {{agent, resource}, {other, resource}});
    return true;
  }

  static void build(World& world, int agent) {
    --world.of(agent, 0);
    --world.of(agent, 1);
    world.add({suite::first_agent + agent, suite::build}, {{agent, 0}, {agent, 1}});
  }

  // Draws a holding that some step changed, so that the sequence contains the evidence for the answer.
  static Holding draw_entry_touched(Random& random, const World& world) {
    std::vector<Holding> all;
    for (const auto& holdings : world.touched) all.insert(all.end(), holdings.begin(), holdings.end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all[static_cast<std::size_t>(random.uniform_int(all.size()))];
  }

  int agents_;
  std::vector<int> gaps_;
};

}  // namespace

std::unique_ptr<Task> make_toolcall(const Fields& fields) {
  const bool hard = fields.choice("difficulty") == "hard";
  std::vector<int> calls = fields.integers_or("bindings", hard ? span_of(60, 120) : span_of(10, 30));
  const int most = largest(calls);
  const int length = fields.length_or(ToolCall::smallest_length(most), std::to_string(most) + " calls");
  return std::make_unique<ToolCall>(fields, length, std::move(calls));
}

std::unique_ptr<Task> make_economy(const Fields& fields) {
  const bool hard = fields.choice("difficulty") == "hard";
  std::vector<int> steps = fields.integers_or("bindings", hard ? span_of(40, 100) : span_of(5, 15));
  std::vector<int> gaps = fields.integers_or("gap", hard ? span_of(200, 400) : span_of(0, 0));
  const int agents = fields.given("agents") ? fields.integer("agents") : hard ? 6 : 3;
  const int length =
      fields.length_or(Economy::smallest_length(largest(steps), largest(gaps)),
                       std::to_string(largest(steps)) + " steps and a gap of " + std::to_string(largest(gaps)));
  return std::make_unique<Economy>(fields, length, agents, std::move(steps), std::move(gaps));
}

}  // namespace afterglow
