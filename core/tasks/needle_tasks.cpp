// `niah`, `multihop` and `commonword`: the evidence is scattered in filler (Echo, section 4.1).
#include <algorithm>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

// Writes start, filler, and the query with its key; returns the first positions of `count` random slots for pairs.
std::vector<int> scatter(Random& random, Example& out, int length, int count, int asked_key) {
  ExampleWriter tape(out);
  tape.put(suite::start);
  tape.fill(random, 2);
  tape.put(suite::query, asked_key);
  // Between the start and the query there are length - 3 positions; a pair may begin at every second of them.
  std::vector<int> places = draw_distinct(random, count, 0, (length - 3) / 2);
  for (int& place : places) place = 1 + 2 * place;
  return places;
}

void put_pair(Example& out, int place, int first, int second) {
  const auto at = static_cast<std::size_t>(place);
  out.tokens[at] = first;
  out.tokens[at + 1] = second;
  out.context[at] = out.context[at + 1] = 1;
}

// start filler.. with pairs (k v) at random even offsets, query k -> v
class NeedleInHaystack final : public BindingsTask {
 public:
  explicit NeedleInHaystack(const Fields& fields) : BindingsTask(fields, 3, 2) {}

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> keys = draw_distinct(random, count, suite::first_key, suite::keys);
    const std::vector<int> places = scatter(random, out, length(), count, keys[0]);
    for (std::size_t i = 0; i < keys.size(); ++i) put_pair(out, places[i], keys[i], draw_value(random));
    out.sources = {places[0], places[0] + 1};
    out.targets.back() = out.tokens[static_cast<std::size_t>(places[0] + 1)];
  }
};

// start filler.. with pairs (a b) and (b v) at random even offsets, query a -> v, or arrow a -> b; all a and b differ
class MultiHop final : public BindingsTask {
 public:
  explicit MultiHop(const Fields& fields)
      : BindingsTask(fields, 3, 4), asks_middles_(fields.choice("asks") == "middle and end") {}

  std::string describe() const override {
    return said({{"bindings", spread(bindings_)}, {"middle", asks_middles_ ? ", or → a, and it must answer b" : ""}});
  }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> keys = draw_distinct(random, 2 * count, suite::first_key, suite::keys);
    const std::vector<int> places = scatter(random, out, length(), 2 * count, keys[0]);
    for (std::size_t i = 0; i < keys.size(); i += 2) {
      put_pair(out, places[i], keys[i], keys[i + 1]);
      put_pair(out, places[i + 1], keys[i + 1], draw_value(random));
    }
    const bool asks_middle = asks_middles_ && turn / bindings_.size() % 2 == 1;
    if (asks_middle) out.tokens.end()[-2] = suite::arrow;
    out.sources = {places[0], places[0] + 1};
    if (!asks_middle) out.sources.insert(out.sources.end(), {places[1], places[1] + 1});
    std::ranges::sort(out.sources);
    out.targets.back() = asks_middle ? keys[1] : out.tokens[static_cast<std::size_t>(places[1] + 1)];
  }

 private:
  bool asks_middles_;
};

// start filler.. with words (values) at random places, query -> the word that occurs most often
class CommonWord final : public BindingsTask {
 public:
  explicit CommonWord(const Fields& fields)
      : BindingsTask(fields, fields.integer("length"), fields.integers("bindings")),
        repeats_(fields.integer("repeats")) {
    fields.require_length(length(), 2 + repeats_ + (most() - 1) * (repeats_ - 1),
                          concat(most(), " words with up to ", repeats_, " repeats"));
  }

  std::string describe() const override {
    return said({{"bindings", spread(bindings_)}, {"repeats", std::to_string(repeats_)}});
  }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const std::vector<int> distinct = draw_distinct(random, count, suite::first_value, suite::values);
    std::vector<int> words(static_cast<std::size_t>(repeats_), distinct[0]);
    for (std::size_t i = 1; i < distinct.size(); ++i)
      words.insert(words.end(), static_cast<std::size_t>(draw_from(random, 1, repeats_ - 1)), distinct[i]);
    ExampleWriter tape(out);
    tape.put(suite::start);
    tape.fill(random, 1);
    tape.put(suite::query);
    tape.expect(distinct[0]);
    const std::vector<int> places = draw_distinct(random, static_cast<int>(words.size()), 1, length() - 2);
    for (std::size_t i = 0; i < words.size(); ++i) {
      out.tokens[static_cast<std::size_t>(places[i])] = words[i];
      out.context[static_cast<std::size_t>(places[i])] = 1;
    }
    out.sources.assign(places.begin(), places.begin() + repeats_);
    std::ranges::sort(out.sources);
  }

 private:
  int repeats_;
};

}  // namespace

std::unique_ptr<Task> make_niah(const Fields& fields) { return std::make_unique<NeedleInHaystack>(fields); }

std::unique_ptr<Task> make_multihop(const Fields& fields) { return std::make_unique<MultiHop>(fields); }

std::unique_ptr<Task> make_commonword(const Fields& fields) { return std::make_unique<CommonWord>(fields); }

}  // namespace afterglow
