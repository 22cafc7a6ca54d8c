// `ids`: token numbers of a model's own tokenizer, from a file or drawn; every position is answered with the next one.
#include <filesystem>

#include "core/tasks/suite.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_file = 256u << 20;

class Ids final : public Task {
 public:
  Ids(int vocab, int length, std::string file, TokenIds ids, std::vector<std::string> labels)
      : Task("ids", vocab, length), file_(std::move(file)), ids_(std::move(ids)), labels_(std::move(labels)) {}

  std::string describe() const override {
    const std::string source = ids_.values.empty()
                                   ? "Drawn token numbers, twice the same: "
                                   : std::to_string(ids_.values.size()) + " token numbers of " + file_ + ": ";
    return source + "answer the next of " + std::to_string(vocab()) + " tokens, everywhere in a window of " +
           std::to_string(length()) + ".";
  }

  static std::size_t held_out_begin(std::size_t tokens) { return tokens - tokens / 10; }

  void generate(Random& random, std::uint64_t, Split split, Example& out) const override {
    if (ids_.values.empty()) return repeat_drawn(random, out);
    const std::size_t middle = held_out_begin(ids_.values.size()), window = out.tokens.size();
    const std::size_t begin = split == Split::train ? 0 : middle;
    const std::size_t end = split == Split::train ? middle : ids_.values.size();
    const std::size_t first = begin + static_cast<std::size_t>(random.uniform_int(end - begin - window));
    for (std::size_t t = 0; t < window; ++t) {
      out.tokens[t] = ids_.values[first + t];
      out.targets[t] = ids_.values[first + t + 1];
      out.context[t] = 1;
    }
  }

  std::string token_label(int token) const override {
    if (token < 0 || token >= vocab()) return "?!";
    const auto at = static_cast<std::size_t>(token);
    return at < labels_.size() && !labels_[at].empty() ? labels_[at] : std::to_string(token);
  }

  std::string token_text(int token) const override {
    const std::string label = token_label(token);
    if (labels_.empty()) return label + " ";
    if (label == "↓") return "\n";
    constexpr std::string_view space = "·";
    return label.starts_with(space) ? " " + label.substr(space.size()) : label;
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
  TokenIds ids_;
  std::vector<std::string> labels_;
};

TokenIds read_file_of(const Fields& fields, int vocab, int length) {
  if (!fields.given("path")) return {};
  fields.file("path", largest_file);  // compares its hash
  const std::string path = fields.text("path");
  TokenIds ids = read_token_ids(path, vocab);
  const std::size_t needed = 10 * (static_cast<std::size_t>(length) + 2);
  if (ids.values.size() < needed)
    fields.refuse(path + " holds " + std::to_string(ids.values.size()) + " token numbers, but windows of " +
                  std::to_string(length) + ", with a tenth held out, need " + std::to_string(needed) +
                  ". Give more of them, or a smaller 'length'.");
  return ids;
}

}  // namespace

TaskKind ids_kind() {
  return {{"ids",
           "token numbers of a model's own tokenizer (.npy, .safetensors, text): answer the next one",
           {{"vocab", "different tokens", TaskParameter::Type::integer, "128", 2, 1 << 20},
            length_parameter("64"),
            {"path", "the file; without one sequences are drawn and repeated", TaskParameter::Type::text, ""},
            {"labels", "the model's tokenizer.json, whose tokens are shown", TaskParameter::Type::text, ""}}},
          [](const Fields& fields) -> std::unique_ptr<Task> {
            const int vocab = fields.integer("vocab"), length = fields.integer("length");
            TokenIds ids = read_file_of(fields, vocab, length);
            std::vector<std::string> labels;
            if (fields.given("labels"))
              labels = read_token_labels(fields.text("labels"), static_cast<std::size_t>(vocab));
            const std::string file =
                fields.given("path") ? std::filesystem::path(fields.text("path")).filename().string() : "";
            return std::make_unique<Ids>(vocab, length, file, std::move(ids), std::move(labels));
          }};
}

}  // namespace afterglow
