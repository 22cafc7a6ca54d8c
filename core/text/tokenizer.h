// Text to tokens and back as Hugging Face's tokenizers does it, by the tokenizer.json in the folder of a model.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

struct TokenizerParts;

/// Any number of threads may use one.
class Tokenizer {
 public:
  /// Throws Error(bad_input) for a file that is no tokenizer.json. One with a kind of model or step that is not
  /// supported is read: it names its tokens, and encode or decode throw.
  explicit Tokenizer(const std::filesystem::path& path);
  ~Tokenizer();

  struct Encoded {
    std::vector<std::int32_t> ids;
    std::vector<std::string> tokens;  ///< as the file spells them; only where they are asked for
  };
  /// `has_special`: with the tokens of the file's template, such as one for the beginning. The file's truncation and
  /// padding do not count, as in transformers. Throws Error(bad_input) for text that is not UTF-8, and with the reason
  /// where the file's model or steps are not supported.
  Encoded encode(std::string_view text, bool has_special = true, bool has_tokens = false) const;

  /// Special tokens are kept, numbers without a token left out. Throws Error(bad_input) where the decoder is not
  /// supported.
  std::string decode(std::span<const std::int32_t> ids) const;

  struct Token {
    std::uint32_t id = 0;
    std::string spelling;   ///< in the file
    std::string text;       ///< the bytes that it adds inside a text; they may be part of a character
    bool has_text = false;  ///< the file spells its text otherwise
  };
  /// All tokens in no order, added ones last.
  std::vector<Token> tokens() const;

 private:
  std::unique_ptr<TokenizerParts> parts_;
};

/// The tokenizer of a file, read once as long as it does not change.
std::shared_ptr<const Tokenizer> shared_tokenizer(const std::filesystem::path& path);

}  // namespace afterglow
