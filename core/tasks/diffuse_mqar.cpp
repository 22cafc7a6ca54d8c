// `diffuse_mqar`: associative recall with keys of several tokens among distractors that share their beginnings
// (Sessa, section 5.1.1).
#include <algorithm>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

using Key = std::vector<int>;

// start (key v)^n separator noise (query key -> v)^n, keys in another order. The noise holds filler and distractors:
// the beginning of a real key with another last token and a random value.
class DiffuseMqar final : public BindingsTask {
 public:
  explicit DiffuseMqar(const Fields& fields)
      : BindingsTask(fields, fields.integer("length"), fields.integers("bindings")),
        key_length_(fields.integer("key_length")),
        lags_(fields.integers_or("lag", {})) {
    const int lag = lags_.empty() ? 0 : largest(lags_);
    fields.require_length(length(), 2 + 2 * std::int64_t{most()} * (key_length_ + 1) + lag,
                          concat(most(), " bindings with keys of ", key_length_, " tokens and a lag of ", lag));
  }

  std::string describe() const override {
    return said({{"bindings", spread(bindings_)},
                 {"key_length", std::to_string(key_length_)},
                 {"lag", lags_.empty() ? "" : spread(lags_) + " tokens of "}});
  }

  int max_answers() const override { return most(); }

  void generate(Random& random, std::uint64_t turn, Split, Example& out) const override {
    const int count = entry_at(bindings_, turn);
    const int block = count * (key_length_ + 1);
    const int lag = lags_.empty() ? length() - 2 - 2 * block : draw_entry(random, lags_);
    const std::vector<Key> keys = draw_keys(random, count);
    ExampleWriter tape(out, length() - 2 - 2 * block - lag);
    tape.put(suite::start);
    const int first = tape.at();
    for (const Key& key : keys) {
      for (const int token : key) tape.put_fact(token);
      tape.put_fact(draw_value(random));
    }
    tape.put(suite::separator);
    put_noise(random, tape, keys, length() - block);
    for (const int asked : draw_distinct(random, count, 0, count)) {
      const int place = first + asked * (key_length_ + 1);
      tape.put(suite::query);
      for (const int token : keys[static_cast<std::size_t>(asked)]) tape.put(token);
      tape.expect(out.tokens[static_cast<std::size_t>(place + key_length_)]);
      out.sources = span_of(place, place + key_length_);
    }
  }

 private:
  std::vector<Key> draw_keys(Random& random, int count) const {
    std::vector<Key> keys;
    while (static_cast<int>(keys.size()) < count) {
      Key key;
      for (int i = 0; i < key_length_; ++i) key.push_back(draw_from(random, suite::first_key, suite::keys));
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
    }
    return keys;
  }

  // Writes noise up to position `end`: with equal probability a filler token or a distractor.
  void put_noise(Random& random, ExampleWriter& tape, const std::vector<Key>& keys, int end) const {
    while (tape.at() < end) {
      if (end - tape.at() <= key_length_ || draw_from(random, 0, 2) == 0) {
        tape.put(draw_from(random, suite::first_filler, suite::fillers));
        continue;
      }
      Key key = keys[static_cast<std::size_t>(random.uniform_int(keys.size()))];
      while (std::ranges::find(keys, key) != keys.end()) key.back() = draw_from(random, suite::first_key, suite::keys);
      for (const int token : key) tape.put(token);
      tape.put(draw_value(random));
    }
  }

  int key_length_;
  std::vector<int> lags_;
};

}  // namespace

std::unique_ptr<Task> make_diffuse_mqar(const Fields& fields) { return std::make_unique<DiffuseMqar>(fields); }

}  // namespace afterglow
