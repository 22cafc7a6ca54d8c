// `ids`: token numbers of a model's own tokenizer, from a file or drawn; every position is answered with the next one.
#include <algorithm>
#include <filesystem>

#include "core/tasks/suite.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"
#include "core/text/tokenizer.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_file = 256u << 20;

class Ids final : public Task {
 public:
  Ids(int vocab, int length, std::string file, std::vector<std::int32_t> ids,
      std::shared_ptr<const Tokenizer> tokenizer)
      : Task("ids", vocab, length), file_(std::move(file)), ids_(std::move(ids)), tokenizer_(std::move(tokenizer)) {
    if (tokenizer_ != nullptr) names_ = token_names(*tokenizer_, static_cast<std::size_t>(vocab));
  }

  std::string describe() const override {
    const std::string source = ids_.empty() ? "Drawn token numbers, twice the same: "
                                            : std::to_string(ids_.size()) + " tokens of " + file_ + ": ";
    return source + "the model predicts the next of " + std::to_string(vocab()) +
           " tokens at every place of a window of " + std::to_string(length()) + ".";
  }

  void generate(Random& random, std::uint64_t, Split split, Example& out) const override {
    if (ids_.empty()) return repeat_drawn(random, out);
    put_window(random, split, ids_, out);
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

  /// Numbers such as #17 and labels separated by spaces, or a text for the tokenizer.
  std::vector<int> tokens_of(const std::string& text) const override {
    const bool is_listed =
        text.starts_with("·") || (text.size() > 1 && text[0] == '#' && text[1] >= '0' && text[1] <= '9');
    if (tokenizer_ == nullptr || is_listed) return Task::tokens_of(text);
    const std::vector<int> tokens = tokens_of_text(*tokenizer_, text, static_cast<std::size_t>(vocab()));
    return tokens.empty() ? Task::tokens_of(text) : tokens;
  }

  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

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
  std::shared_ptr<const Tokenizer> tokenizer_;  // null without the model's
  TokenNames names_;
};

std::vector<std::int32_t> read_file_of(const Fields& fields, int vocab, int length, const Tokenizer* tokenizer) {
  const bool is_text = fields.choice("read") == "text";
  if (!fields.given("path")) return {};
  const std::string content = fields.file("path", largest_file);  // compares its hash
  const std::string path = fields.text("path");
  if (is_text && tokenizer == nullptr)
    fields.refuse("text needs the model's tokenizer.json, as 'labels'; without one give token numbers");
  std::vector<std::int32_t> ids = is_text ? tokenizer->encode(content).ids : read_token_ids(path, vocab).tokens();
  if (is_text && std::ranges::any_of(ids, [&](std::int32_t id) { return id >= vocab; }))
    fields.refuse("the tokenizer has tokens that are not among the model's ", vocab);
  const std::size_t needed = 10 * (static_cast<std::size_t>(length) + 2);
  if (ids.size() < needed)
    fields.refuse(path, " holds ", ids.size(), " tokens, but windows of ", length, ", with a tenth held out, need ",
                  needed, ". Give more of them, or a smaller 'length'.");
  return ids;
}

}  // namespace

std::unique_ptr<Task> make_ids(const Fields& fields) {
  const int vocab = fields.integer("vocab"), length = fields.integer("length");
  std::shared_ptr<const Tokenizer> tokenizer;
  if (fields.given("labels")) tokenizer = shared_tokenizer(fields.text("labels"));
  std::vector<std::int32_t> ids = read_file_of(fields, vocab, length, tokenizer.get());
  const std::string file = fields.given("path") ? std::filesystem::path(fields.text("path")).filename().string() : "";
  return std::make_unique<Ids>(vocab, length, file, std::move(ids), std::move(tokenizer));
}

}  // namespace afterglow
