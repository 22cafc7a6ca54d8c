// `mixed`: several tasks in fixed proportions, interleaved so that every batch holds its share of each.
#include <nlohmann/json.hpp>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

struct Part {
  std::unique_ptr<Task> task;
  std::uint64_t weight = 1;
};

// A period has as many turns as the sum of the weights; each turn goes to the part that is farthest behind its share. A
// part counts its own turns, so that its number of bindings cycles independently of the others.
class Mixed final : public Task {
 public:
  Mixed(int vocab, int length, std::vector<Part> parts) : Task("mixed", vocab, length), parts_(std::move(parts)) {
    std::uint64_t period = 0;
    for (const Part& part : parts_) period += part.weight;
    std::vector<std::uint64_t> given(parts_.size(), 0);
    for (std::uint64_t turn = 1; turn <= period; ++turn) {
      std::size_t next = 0;
      for (std::size_t i = 1; i < parts_.size(); ++i)
        if (behind(i, given, turn, period) > behind(next, given, turn, period)) next = i;
      schedule_.push_back({next, given[next]++});
    }
  }

  std::string describe() const override {
    std::string text = "A mixture in fixed proportions.";
    for (const Part& part : parts_)
      text += " " + std::to_string(part.weight) + " x " + part.task->name() + ": " + part.task->describe();
    return text;
  }

  int max_answers() const override {
    int most = 0;
    for (const Part& part : parts_) most = std::max(most, part.task->max_answers());
    return most;
  }

  void generate(Random& random, std::uint64_t turn, Split split, Example& out) const override {
    const Turn& now = schedule_[static_cast<std::size_t>(turn % schedule_.size())];
    const Part& part = parts_[now.part];
    part.task->generate(random, turn / schedule_.size() * part.weight + now.earlier, split, out);
  }

  std::string token_label(int token) const override { return parts_.front().task->token_label(token); }
  TokenRole token_role(int token) const override { return parts_.front().task->token_role(token); }

 private:
  struct Turn {
    std::size_t part = 0;
    std::uint64_t earlier = 0;  ///< turns of this part before this one, within the period
  };

  // How far a part's turns are behind weight * turn / period, times the period, as an integer.
  std::int64_t behind(std::size_t part, const std::vector<std::uint64_t>& given, std::uint64_t turn,
                      std::uint64_t period) const {
    return static_cast<std::int64_t>(parts_[part].weight * turn) - static_cast<std::int64_t>(given[part] * period);
  }

  std::vector<Part> parts_;
  std::vector<Turn> schedule_;
};

// A part with its configuration: without its weight, and with the mixture's bindings and length where it has none.
Part make_part(const Fields& fields, nlohmann::json config) {
  if (config.is_string()) config = nlohmann::json{{"kind", config}};
  if (!config.is_object()) fields.refuse("every entry of 'tasks' must be a kind or a configuration with a 'kind'.");
  Part part;
  if (config.contains("weight")) {
    const nlohmann::json weight = config.at("weight");
    const double number = weight.is_number() ? weight.get<double>() : 0;
    if (!(number >= 1 && number <= 1000) || number != static_cast<int>(number))
      fields.refuse("'weight' of an entry of 'tasks' takes a whole number from 1 to 1000, such as 3 and 1 for 3:1.");
    part.weight = static_cast<std::uint64_t>(number);
    config.erase("weight");
  }
  for (const char* shared : {"bindings", "length"})
    if (fields.given(shared) && !config.contains(shared)) config[shared] = fields.config().at(shared);
  part.task = make_task(config);
  return part;
}

void require_same_language(const Fields& fields, const Task& first, const Task& other) {
  const std::string names = "'" + first.name() + "' and '" + other.name() + "'";
  if (first.length() != other.length())
    fields.refuse(names, " have lengths ", first.length(), " and ", other.length(), ". Give the mixture one 'length'.");
  bool same = first.vocab() == other.vocab();
  for (int token = 0; same && token < first.vocab(); ++token) same = first.token_role(token) == other.token_role(token);
  if (!same) fields.refuse(names, " use different tokens. Mix tasks of the same family, such as sysprompt, niah.");
}

}  // namespace

std::unique_ptr<Task> make_mixed(const Fields& fields) {
  constexpr std::size_t max_parts = 16;
  const auto tasks = fields.config().find("tasks");
  if (tasks == fields.config().end() || !tasks->is_array() || tasks->empty() || tasks->size() > max_parts)
    fields.refuse("'tasks' must be a list of 1 to 16 kinds or configurations, such as [\"sysprompt\", \"tooltrace\"].");
  std::vector<Part> parts;
  for (const nlohmann::json& config : *tasks) {
    parts.push_back(make_part(fields, config));
    require_same_language(fields, *parts.front().task, *parts.back().task);
  }
  const int vocab = parts.front().task->vocab();
  const int length = parts.front().task->length();
  return std::make_unique<Mixed>(vocab, length, std::move(parts));
}

}  // namespace afterglow
