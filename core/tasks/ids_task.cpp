// `ids`: token numbers of a model's own tokenizer, from a file or drawn; every position is answered with the next one.
#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "core/tasks/suite.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_file = 256u << 20;

class Ids final : public Task {
 public:
  Ids(int vocab, int length, std::string file, std::vector<std::int32_t> ids, TokenNames names)
      : Task("ids", vocab, length), file_(std::move(file)), ids_(std::move(ids)), names_(std::move(names)) {}

  std::string describe() const override {
    const std::string source = ids_.empty() ? "Drawn token numbers, twice the same: "
                                            : std::to_string(ids_.size()) + " token numbers of " + file_ + ": ";
    return source + "the model predicts the next of " + std::to_string(vocab()) +
           " tokens at every place of a window of " + std::to_string(length()) + ".";
  }

  static std::size_t held_out_begin(std::size_t tokens) { return tokens - tokens / 10; }

  void generate(Random& random, std::uint64_t, Split split, Example& out) const override {
    if (ids_.empty()) return repeat_drawn(random, out);
    const std::size_t middle = held_out_begin(ids_.size()), window = out.tokens.size();
    const std::size_t begin = split == Split::train ? 0 : middle;
    const std::size_t end = split == Split::train ? middle : ids_.size();
    const std::size_t first = begin + static_cast<std::size_t>(random.uniform_int(end - begin - window));
    for (std::size_t t = 0; t < window; ++t) {
      out.tokens[t] = ids_[first + t];
      out.targets[t] = ids_[first + t + 1];
      out.context[t] = 1;
    }
  }

  std::string token_label(int token) const override {
    if (token < 0 || token >= vocab()) return "?!";
    const auto at = static_cast<std::size_t>(token);
    return at < names_.labels.size() && !names_.labels[at].empty() ? names_.labels[at] : std::to_string(token);
  }

  std::string token_text(int token) const override {
    if (names_.texts.empty()) return token_label(token) + " ";
    const auto at = static_cast<std::size_t>(token);
    return at < names_.texts.size() && !names_.labels[at].empty() ? names_.texts[at] : "<" + token_number(token) + ">";
  }

  /// Numbers and labels separated by spaces, or a text, which is split into the longest matching tokens.
  std::vector<int> tokens_of(const std::string& text) const override {
    const bool is_listed = text.starts_with("#") || text.starts_with("·");
    if (names_.texts.empty() || is_listed) return Task::tokens_of(text);
    std::unordered_map<std::string, int> token_of;
    std::size_t longest = 1;
    for (int token = 0; token < vocab(); ++token) {
      const std::string one = token_text(token);
      token_of.emplace(one, token);
      longest = std::max(longest, one.size());
    }
    std::vector<int> tokens;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = std::min(longest, text.size() - at);
      while (length > 0 && !token_of.contains(text.substr(at, length))) --length;
      if (length == 0) return Task::tokens_of(text);
      tokens.push_back(token_of[text.substr(at, length)]);
      at += length;
    }
    return tokens;
  }

  TokenRole token_role(int token) const override {
    return token < 0 || token >= vocab() ? TokenRole::blank : TokenRole::text;
  }

 private:
  /// The second half is the first once more, so that what comes next can be known there.
  void repeat_drawn(Random& random, Example& out) const {
    const std::size_t half = out.tokens.size() / 2;
    for (std::size_t t = 0; t < out.tokens.size(); ++t) {
      out.tokens[t] = t < half || half == 0 ? draw_from(random, 0, vocab()) : out.tokens[t - half];
      out.context[t] = t < half;
    }
    for (std::size_t t = half; t + 1 < out.tokens.size(); ++t) out.targets[t] = out.tokens[t + 1];
  }

  std::string file_;
  std::vector<std::int32_t> ids_;
  TokenNames names_;
};

std::vector<std::int32_t> read_file_of(const Fields& fields, int vocab, int length) {
  if (!fields.given("path")) return {};
  fields.file("path", largest_file);  // compares its hash
  const std::string path = fields.text("path");
  std::vector<std::int32_t> ids = read_token_ids(path, vocab).tokens();
  const std::size_t needed = 10 * (static_cast<std::size_t>(length) + 2);
  if (ids.size() < needed)
    fields.refuse(path + " holds " + std::to_string(ids.size()) + " token numbers, but windows of " +
                  std::to_string(length) + ", with a tenth held out, need " + std::to_string(needed) +
                  ". Give more of them, or a smaller 'length'.");
  return ids;
}

}  // namespace

TaskKind ids_kind() {
  return {{"ids",
           "token numbers of a model's own tokenizer (.npy, .npz, .safetensors, .bin, JSON, text): answer the next one",
           {{"vocab", "different tokens", TaskParameter::Type::integer, "128", 2, 1 << 20},
            length_parameter("64"),
            {"path", "the file; without one sequences are drawn and repeated", TaskParameter::Type::text, ""},
            {"labels", "the model's tokenizer.json, whose tokens are shown", TaskParameter::Type::text, ""}}},
          [](const Fields& fields) -> std::unique_ptr<Task> {
            const int vocab = fields.integer("vocab"), length = fields.integer("length");
            std::vector<std::int32_t> ids = read_file_of(fields, vocab, length);
            TokenNames names;
            if (fields.given("labels"))
              names = read_token_names(fields.text("labels"), static_cast<std::size_t>(vocab));
            const std::string file =
                fields.given("path") ? std::filesystem::path(fields.text("path")).filename().string() : "";
            return std::make_unique<Ids>(vocab, length, file, std::move(ids), std::move(names));
          }};
}

}  // namespace afterglow
