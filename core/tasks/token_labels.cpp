// Reads the vocabulary of a tokenizer.json: byte-level pairs, pieces of words, or words.
#include "core/tasks/token_labels.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr std::size_t largest_tokenizer = std::size_t{128} << 20;
constexpr std::size_t longest_label = 8;  // characters

/// The length of a UTF-8 character that begins with this byte; 1 for what is none.
std::size_t bytes_of(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Byte-level tokenizers write the bytes 0 to 32 and 127 to 160 as characters from U+0100 on, SentencePiece a space as
/// U+2581 and a byte as <0x0A>. Of these only spaces, tabs and line ends are told apart, by signs that the window's
/// fonts have; the rest stays as it is written.
std::string visible(std::string_view character) {
  if (character == "Ġ" || character == "▁" || character == " ") return "·";
  if (character == "Ċ" || character == "\n") return "↓";
  if (character == "ĉ" || character == "\t") return "→";
  if (character.size() == 1 && (character[0] < 0x20 || character[0] == 0x7F)) return "?";
  return std::string(character);
}

std::string label_of(std::string_view token) {
  if (token == "<0x0A>") return "↓";
  std::string label;
  std::size_t characters = 0;
  for (std::size_t at = 0; at < token.size(); ++characters) {
    const std::size_t length = std::min(bytes_of(token[at]), token.size() - at);
    if (characters + 1 == longest_label && at + length < token.size()) return label + "…";
    label += visible(token.substr(at, length));
    at += length;
  }
  return label;
}

class Labels {
 public:
  explicit Labels(std::size_t vocab) : labels_(vocab) {}
  void put(const json& id, const json& token) {
    if (!id.is_number_unsigned() || !token.is_string() || id.get<std::uint64_t>() >= labels_.size()) return;
    labels_[id.get<std::size_t>()] = label_of(token.get_ref<const std::string&>());
  }
  std::vector<std::string> take() { return std::move(labels_); }

 private:
  std::vector<std::string> labels_;
};

}  // namespace

std::vector<std::string> read_token_labels(const std::filesystem::path& path, std::size_t vocab) {
  const json content = json::parse(read_file(path, largest_tokenizer), nullptr, false);
  const json model = content.is_object() ? content.value("model", json()) : json();
  const json tokens = model.is_object() ? model.value("vocab", json()) : json();
  if (!tokens.is_structured())
    throw Error(ExitCode::bad_input, path.string() +
                                         ": there is no vocabulary in it (\"model\", \"vocab\"); give the "
                                         "tokenizer.json of the model, or take it out of the folder");
  Labels labels(vocab);
  if (tokens.is_object()) {
    for (const auto& [token, id] : tokens.items()) labels.put(id, token);
  } else {  // a list of tokens with their scores, in the order of their numbers
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id].is_array() && !tokens[id].empty()) labels.put(id, tokens[id][0]);
    }
  }
  const json added = content.value("added_tokens", json::array());
  for (const json& token : added) {
    if (token.is_object()) labels.put(token.value("id", json()), token.value("content", json()));
  }
  return labels.take();
}

}  // namespace afterglow
