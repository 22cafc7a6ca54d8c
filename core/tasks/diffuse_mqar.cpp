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
  DiffuseMqar(int length, std::vector<int> bindings, int key_length, std::vector<int> lags)
      : BindingsTask("diffuse_mqar", length, std::move(bindings)), key_length_(key_length), lags_(std::move(lags)) {}

  std::string describe() const override {
    return "The model reads " + spread(bindings_) + " pairs of a key of " + std::to_string(key_length_) +
           " tokens and a value, then " + (lags_.empty() ? "" : spread(lags_) + " tokens of ") +
           "noise with keys that begin alike, then each key again, and must answer its value. " +
           std::to_string(length()) + " tokens.";
  }

  static std::int64_t smallest_length(int bindings, int key_length, int lag) {
    return 2 + 2 * std::int64_t{bindings} * (key_length + 1) + lag;
  }

  int max_answers() const override { return largest(bindings_); }

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
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
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
      while (std::find(keys.begin(), keys.end(), key) != keys.end())
        key.back() = draw_from(random, suite::first_key, suite::keys);
      for (const int token : key) tape.put(token);
      tape.put(draw_value(random));
    }
  }

  int key_length_;
  std::vector<int> lags_;
};

}  // namespace

std::unique_ptr<Task> make_diffuse_mqar(const Fields& fields) {
  std::vector<int> bindings = fields.integers("bindings");
  const int key_length = fields.integer("key_length");
  std::vector<int> lags = fields.integers_or("lag", {});
  const int lag = lags.empty() ? 0 : largest(lags);
  const int length = fields.integer("length");
  fields.require_length(length, DiffuseMqar::smallest_length(largest(bindings), key_length, lag),
                        std::to_string(largest(bindings)) + " bindings with keys of " + std::to_string(key_length) +
                            " tokens and a lag of " + std::to_string(lag));
  return std::make_unique<DiffuseMqar>(length, std::move(bindings), key_length, std::move(lags));
}

}  // namespace afterglow
