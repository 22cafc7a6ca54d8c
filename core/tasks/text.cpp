// `text`: any text file, character by character; every position is answered with the next character.
#include <algorithm>
#include <filesystem>

#include "core/io/error.h"
#include "core/io/terminal_text.h"
#include "core/tasks/suite.h"

namespace afterglow {
namespace {

constexpr std::size_t max_file = 64u << 20;
constexpr int max_characters = 8192;

// Calls `refuse(at)`, which does not return, where the bytes are not UTF-8.
template <class Refuse>
std::u32string decoded(const std::string& bytes, const Refuse& refuse) {
  std::u32string characters;
  characters.reserve(bytes.size());
  std::string_view rest = bytes;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // a byte order mark
  while (!rest.empty()) {
    if (utf8_length(rest, 0) == 0) refuse(bytes.size() - rest.size());
    characters.push_back(take_character(rest));
  }
  return characters;
}

/// One letter for every byte.
std::u32string as_letters(const std::string& bytes) {
  std::u32string letters;
  letters.reserve(bytes.size());
  for (const char byte : bytes) letters.push_back(static_cast<unsigned char>(byte));
  return letters;
}

std::string encoded(char32_t character) {
  std::string text;
  append_utf8(text, character);
  return text;
}

/// The alphabet of a text, and the words for its units in messages.
struct Letters {
  std::u32string alphabet;  ///< token -> character, ascending; of bytes all 256
  bool are_bytes = false;
  const char* one() const { return are_bytes ? "byte" : "character"; }
  std::string written(char32_t letter) const {
    return are_bytes ? std::string(1, static_cast<char>(static_cast<unsigned char>(letter))) : encoded(letter);
  }
};

// Windows of the file at random places: training from the first nine tenths, held-out data from the last.
class Text final : public Task {
 public:
  Text(int length, std::string name, Letters letters, std::vector<std::uint16_t> tokens)
      : Task("text", static_cast<int>(letters.alphabet.size()), length),
        file_(std::move(name)),
        letters_(std::move(letters)),
        tokens_(std::move(tokens)) {}

  std::string describe() const override {
    return "The text " + file_ + ", " + std::to_string(tokens_.size()) + " " + letters_.one() + "s of " +
           std::to_string(vocab()) + " kinds. The model predicts the next " + letters_.one() +
           " at every place of a window of " + std::to_string(length()) + ".";
  }

  void generate(Random& random, std::uint64_t, Split split, Example& out) const override {
    put_window(random, split, tokens_, out);
  }

  std::string token_label(int token) const override {
    if (token < 0 || token >= vocab()) return "?!";
    const char32_t character = letters_.alphabet[static_cast<std::size_t>(token)];
    if (character == U' ') return "␣";
    if (character == U'\n') return "⏎";
    if (character == U'\t') return "⇥";
    const bool has_no_look = character < 0x20 || character == 0x7F || (letters_.are_bytes && character > 0x7F);
    return has_no_look ? "^" + std::to_string(static_cast<int>(character)) : encoded(character);
  }

  std::string token_text(int token) const override {
    return token < 0 || token >= vocab() ? "" : letters_.written(letters_.alphabet[static_cast<std::size_t>(token)]);
  }

  std::vector<int> tokens_of(const std::string& text) const override {
    const std::u32string characters = letters_.are_bytes ? as_letters(text) : decoded(text, [](std::size_t) -> void {
      throw BadInput("the text to begin with is not UTF-8");
    });
    std::vector<int> tokens;
    for (const char32_t character : characters) {
      const auto found = std::ranges::lower_bound(letters_.alphabet, character);
      if (found == letters_.alphabet.end() || *found != character)
        throw BadInput("\"", encoded(character), "\" does not occur in ", file_,
                       ", so the model does not know it; begin with other words");
      tokens.push_back(static_cast<int>(found - letters_.alphabet.begin()));
    }
    return tokens;
  }

 private:
  std::string file_;
  Letters letters_;
  std::vector<std::uint16_t> tokens_;
};

/// The characters that occur, and the token of each; all bytes where bytes are the letters.
std::u32string alphabet_of(const std::u32string& characters, bool are_bytes, std::vector<std::uint16_t>& token_of) {
  std::vector<bool> present(0x110000, false);
  for (const char32_t character : characters) present[character] = true;
  for (std::size_t byte = 0; are_bytes && byte < 256; ++byte) present[byte] = true;
  std::u32string alphabet;
  token_of.assign(present.size(), 0);
  for (std::size_t character = 0; character < present.size(); ++character) {
    if (!present[character]) continue;
    token_of[character] = static_cast<std::uint16_t>(alphabet.size());
    alphabet.push_back(static_cast<char32_t>(character));
  }
  return alphabet;
}

}  // namespace

std::unique_ptr<Task> make_text(const Fields& fields) {
  const int length = fields.integer("length");
  Letters letters;
  letters.are_bytes = fields.choice("letters") == "bytes";
  const std::string path = fields.text("path");
  const std::string bytes = fields.file("path", max_file);
  const std::u32string characters = letters.are_bytes ? as_letters(bytes) : decoded(bytes, [&](std::size_t at) {
    fields.refuse("byte ", at, " of ", path, " is not UTF-8 text. Save the file as UTF-8, or set 'letters' to bytes.");
  });
  const std::size_t needed = 10 * (static_cast<std::size_t>(length) + 1);
  if (characters.size() < needed)
    fields.refuse(path, " holds ", characters.size(), " ", letters.one(), "s, but windows of ", length,
                  ", with a tenth held out, need ", needed, ". Give a longer text, or a smaller 'length'.");
  std::vector<std::uint16_t> token_of;
  letters.alphabet = alphabet_of(characters, letters.are_bytes, token_of);
  if (letters.alphabet.size() > max_characters)
    fields.refuse(path, " has ", letters.alphabet.size(), " different characters; the most is ", max_characters,
                  ". Set 'letters' to bytes.");
  std::vector<std::uint16_t> tokens;
  tokens.reserve(characters.size());
  for (const char32_t character : characters) tokens.push_back(token_of[character]);
  return std::make_unique<Text>(length, std::filesystem::path(path).filename().string(), std::move(letters),
                                std::move(tokens));
}

}  // namespace afterglow
