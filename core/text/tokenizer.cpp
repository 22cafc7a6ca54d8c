// Runs the steps of a tokenizer file: added tokens, normalizer, pre-tokenizer, model, template; then the decoder.
#include "core/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"
#include "core/text/bpe.h"
#include "core/text/text_steps.h"
#include "core/text/tokenizer_file.h"

namespace afterglow {
namespace {

using nlohmann::json;

/// A token that is found in a text before it is split into words.
struct AddedToken {
  std::uint32_t id = 0;
  bool is_single_word = false;                     ///< not inside a longer word
  bool strips_left = false, strips_right = false;  ///< takes the white space at this side into it
};

bool is_space(std::string_view character) {
  static const Regex space("\\s");
  return !space.matches(character).empty();
}

bool is_word(std::string_view character) {
  static const Regex word(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}])");
  return !word.matches(character).empty();
}

std::string_view character_before(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (static_cast<unsigned char>(text[--begin]) & 0xC0) == 0x80) {
  }
  return text.substr(begin, at - begin);
}

std::string_view character_at(std::string_view text, std::size_t at) {
  return text.substr(at, at < text.size() ? utf8_length(text, at) : 0);
}

/// A part of a text between two steps.
struct Piece {
  TextRange range;
  bool is_first;                                      ///< the whole text begins with it
  std::optional<std::uint32_t> added = std::nullopt;  ///< it is this token, with white space that it takes
};

/// Added tokens by what a text must hold.
class AddedTokens {
 public:
  void add(const std::string& spelled, const AddedToken& token) {
    if (spelled.empty()) return;
    tokens_.insert_or_assign(spelled, token);
    lengths_[static_cast<unsigned char>(spelled[0])].insert(spelled.size());
  }

  /// `text` in order, without empty pieces: the leftmost token wins, and of those that begin there the longest.
  std::vector<Piece> pieces(std::string_view text, bool is_first) const {
    std::vector<Piece> pieces;
    std::size_t done = 0;
    const auto add = [&](std::size_t begin, std::size_t end, std::optional<std::uint32_t> id) {
      if (begin < end) pieces.push_back({{begin, end}, is_first && begin == 0, id});
      done = end;
    };
    for (std::size_t at = 0, end = 0; at < text.size(); at = std::max(at + 1, end)) {
      const AddedToken* token = longest_at(text, at, end);
      if (token == nullptr) continue;
      if (token->is_single_word && (is_word(character_before(text, at)) || is_word(character_at(text, end)))) continue;
      std::size_t begin = at, behind = end;
      while (token->strips_left && begin > done && is_space(character_before(text, begin)))
        begin -= character_before(text, begin).size();
      while (token->strips_right && is_space(character_at(text, behind))) behind += character_at(text, behind).size();
      if (done < begin) add(done, begin, std::nullopt);
      add(begin, behind, token->id);
    }
    add(done, text.size(), std::nullopt);
    return pieces;
  }

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at, std::size_t& end) const {
    for (const std::size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
      const auto found = tokens_.find(std::string(text.substr(at, length)));
      if (found == tokens_.end() || at + length > text.size()) continue;
      end = at + length;
      return &found->second;
    }
    return nullptr;
  }

  std::unordered_map<std::string, AddedToken> tokens_;
  std::array<std::set<std::size_t, std::greater<>>, 256> lengths_;  ///< of those that begin with a byte
};

/// A place of a template: the text, or special tokens.
struct TemplatePlace {
  bool is_text = false;
  Tokenizer::Encoded special;
};

/// Runs the steps over every piece that is no added token; `text` becomes what the pieces are parts of.
std::vector<Piece> run_steps(const std::vector<TextStep>& steps, std::string& text, bool is_first) {
  std::vector<Piece> pieces = {{{0, text.size()}, is_first}};
  for (const TextStep& step : steps) {
    std::vector<Piece> next;
    std::string rewritten;
    for (const Piece& piece : pieces) {
      const std::size_t from = piece.range.begin;
      const std::string_view part = std::string_view(text).substr(from, piece.range.end - from);
      if (const auto* split = std::get_if<TextSplit>(&step)) {
        for (const auto& [begin, end] : split->parts(part)) {
          if (begin < end) next.push_back({{from + begin, from + end}, piece.is_first && begin == 0});
        }
      } else {
        const std::size_t begin = rewritten.size();
        std::get<Rewrite>(step)(part, piece.is_first, rewritten);
        next.push_back({{begin, rewritten.size()}, piece.is_first});
      }
    }
    if (std::holds_alternative<Rewrite>(step)) text = std::move(rewritten);
    pieces = std::move(next);
  }
  return pieces;
}

/// What a `post_processor` puts around a text.
std::vector<TemplatePlace> read_template(const json& described, const std::string& where) {
  std::vector<TemplatePlace> made;
  for (const json& place : member(described, "single")) {
    const bool is_text = !member(place, "Sequence").is_null();
    const std::string name =
        get_string(member(place, is_text ? "Sequence" : "SpecialToken"), "id", std::nullopt, where + ", single");
    const json& token = member(member(described, "special_tokens"), name.c_str());
    if (is_text ? name != "A" : token.is_null())
      throw Error(ExitCode::bad_input,
                  "the " + where + " asks for " + in_quotes(name) + ", which it does not describe");
    made.push_back({is_text, {}});
    if (is_text) continue;
    for (const std::int64_t id : get_integers(token, "ids", 0, INT32_MAX, where))
      made.back().special.ids.push_back(static_cast<std::int32_t>(id));
    for (const json& spelled : member(token, "tokens")) made.back().special.tokens.push_back(spelled);
    if (made.back().special.ids.size() != made.back().special.tokens.size())
      throw Error(ExitCode::bad_input, "the " + where + ": ids and tokens of " + in_quotes(name) + " differ in number");
  }
  return made;
}

void read_templates(const json& described, std::vector<std::vector<TemplatePlace>>& templates) {
  if (described.is_null()) return;
  const std::string type = get_string(described, "type", std::nullopt, "post_processor");
  for (const json& one : member(described, "processors")) read_templates(one, templates);
  if (type == "TemplateProcessing")
    templates.push_back(read_template(described, "post_processor " + type));
  else if (type != "Sequence" && type != "ByteLevel")  // which trims only the offsets
    throw Error(ExitCode::bad_input, "the post_processor " + type + " is not supported");
}

BytePairs read_pairs(const TokenizerFile& file, const Vocabulary& vocabulary) {
  const json& model = member(file.content, "model");
  const std::string type = get_string(model, "type", model.contains("merges") ? "BPE" : "of unknown kind", "model");
  if (type != "BPE" || get_number(model, "dropout", 0.0, 0.0, 1.0, "model") > 0)
    throw Error(ExitCode::bad_input, "its model is " + type + (type == "BPE" ? " with dropout" : "") +
                                         ", and only BPE without dropout is encoded; give token numbers");
  BytePairs::Options options;
  if (model.contains("unk_token")) options.unknown = get_string(model, "unk_token", std::nullopt, "model");
  options.prefix = get_string(model, "continuing_subword_prefix", "", "model");
  options.suffix = get_string(model, "end_of_word_suffix", "", "model");
  options.fuses_unknown = get_bool(model, "fuse_unk", false, "model");
  options.falls_back_to_bytes = get_bool(model, "byte_fallback", false, "model");
  options.ignores_merges = get_bool(model, "ignore_merges", false, "model");
  BytePairs pairs(vocabulary, options);
  for (const auto& [left, right] : file.merges) pairs.add_merge(left, right);
  return pairs;
}

/// How the tokens of a file without a decoder are most likely written.
json guessed_decoder(const TokenizerFile& file, const Vocabulary& vocabulary) {
  const std::string steps = member(file.content, "pre_tokenizer").dump();
  const auto is_seen = [&](const char* name, const char* begin) {
    return steps.find(name) != std::string::npos ||
           std::ranges::any_of(vocabulary, [&](const auto& token) { return token.first.starts_with(begin); });
  };
  if (is_seen("▁", "▁"))
    return json::parse(R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"},
                           "content": " "}, {"type": "ByteFallback"}]})");
  return {{"type", is_seen("ByteLevel", "Ġ") ? "ByteLevel" : "WordPiece"}};
}

/// The sentence of the Error that `read` throws, or nothing.
template <class Read>
std::string refusal_of(const std::filesystem::path& path, const Read& read) {
  try {
    read();
    return {};
  } catch (const Error& error) {
    return path.string() + ": " + error.what();
  }
}

void refuse_if(const std::string& refusal) {
  if (!refusal.empty()) throw Error(ExitCode::bad_input, refusal);
}

}  // namespace

struct TokenizerParts {
  Vocabulary vocabulary;
  std::unordered_map<std::uint32_t, std::string_view> spellings;  // of the model's tokens
  std::unordered_map<std::uint32_t, std::string> added;           // as the decoder reads them
  std::vector<std::pair<std::uint32_t, std::string>> added_texts;
  AddedTokens raw, normalized;  // found in the text as it is, and as the normalizer leaves it
  std::vector<TextStep> normalizer, pre_tokenizer;
  std::vector<std::vector<TemplatePlace>> templates;
  std::vector<DecoderStep> decoder;  // without one in the file: guessed, for single tokens
  bool has_decoder = false, writes_words = false;
  std::optional<BytePairs> pairs;
  std::mutex pairs_in_use;
  std::string refusal, decoder_refusal;

  void read_added_tokens(const json& list) {
    auto next = static_cast<std::uint32_t>(vocabulary.size());
    std::unordered_map<std::string, std::uint32_t> ids;
    for (const json& one : list) {
      constexpr const char* where = "added_tokens";
      const std::string content = get_string(one, "content", std::nullopt, where);
      // The library numbers them itself: as the model's token of that name, or behind all others.
      const auto known = vocabulary.find(content);
      const auto [place, is_new] = ids.try_emplace(content, known != vocabulary.end() ? known->second : next);
      if (is_new && known == vocabulary.end() && !content.empty()) ++next;
      const AddedToken token{place->second, get_bool(one, "single_word", false, where),
                             get_bool(one, "lstrip", false, where), get_bool(one, "rstrip", false, where)};
      const bool is_normalized = get_bool(one, "normalized", false, where);
      std::string spelled = content;
      if (is_normalized) run_steps(normalizer, spelled, true);
      (is_normalized ? normalized : raw).add(spelled, token);
      if (content.empty()) continue;
      added.insert_or_assign(token.id, spelled);
      added_texts.emplace_back(token.id, content);
    }
  }
};

Tokenizer::Tokenizer(const std::filesystem::path& path) : parts_(std::make_unique<TokenizerParts>()) {
  TokenizerFile file = read_tokenizer_file(path);
  TokenizerParts& parts = *parts_;
  const json& content = file.content;
  parts.vocabulary = std::move(file.vocabulary);
  for (const auto& [token, id] : parts.vocabulary) parts.spellings[id] = token;
  parts.refusal = refusal_of(path, [&] {
    parts.normalizer = read_normalizer(member(content, "normalizer"));
    parts.pre_tokenizer = read_pre_tokenizer(member(content, "pre_tokenizer"));
    read_templates(member(content, "post_processor"), parts.templates);
    parts.pairs.emplace(read_pairs(file, parts.vocabulary));
  });
  refuse_if(refusal_of(path, [&] { parts.read_added_tokens(member(content, "added_tokens")); }));
  json decoder = member(content, "decoder");
  parts.has_decoder = !decoder.is_null();
  parts.decoder_refusal = refusal_of(path, [&] { parts.decoder = read_decoder(decoder); });
  if (!parts.has_decoder || !parts.decoder_refusal.empty())
    parts.decoder = read_decoder(decoder = guessed_decoder(file, parts.vocabulary));
  parts.writes_words = decoder.dump().find("WordPiece") != std::string::npos;
}

Tokenizer::~Tokenizer() = default;

Tokenizer::Encoded Tokenizer::encode(std::string_view text, bool has_special, bool has_tokens) const {
  TokenizerParts& parts = *parts_;
  refuse_if(parts.refusal);
  if (!is_utf8(text)) throw Error(ExitCode::bad_input, "the text is not UTF-8; save it as UTF-8 and give it again");
  const std::lock_guard lock(parts.pairs_in_use);
  Encoded encoded;
  const auto add_words = [&](std::string words, bool is_first) {
    const std::size_t begin = encoded.ids.size();
    for (const auto& piece : run_steps(parts.pre_tokenizer, words, is_first))
      parts.pairs->encode(std::string_view(words).substr(piece.range.begin, piece.range.end - piece.range.begin),
                          encoded.ids);
    for (std::size_t i = begin; has_tokens && i < encoded.ids.size(); ++i)
      encoded.tokens.emplace_back(parts.spellings.at(static_cast<std::uint32_t>(encoded.ids[i])));
  };
  const auto add_pieces = [&](const AddedTokens& tokens, const std::string& whole, bool is_first, const auto& add) {
    for (const Piece& piece : tokens.pieces(whole, is_first)) {
      std::string part = whole.substr(piece.range.begin, piece.range.end - piece.range.begin);
      if (!piece.added) {
        add(std::move(part), piece.is_first);
        continue;
      }
      encoded.ids.push_back(static_cast<std::int32_t>(*piece.added));
      if (has_tokens) encoded.tokens.push_back(std::move(part));
    }
  };
  add_pieces(parts.raw, std::string(text), true, [&](std::string part, bool is_first) {
    run_steps(parts.normalizer, part, is_first);
    add_pieces(parts.normalized, part, is_first, add_words);
  });
  for (const std::vector<TemplatePlace>& one : parts.templates) {
    Encoded framed;
    for (const TemplatePlace& place : one) {
      if (!place.is_text && !has_special) continue;
      const Encoded& from = place.is_text ? encoded : place.special;
      framed.ids.insert(framed.ids.end(), from.ids.begin(), from.ids.end());
      framed.tokens.insert(framed.tokens.end(), from.tokens.begin(), from.tokens.end());
    }
    encoded = std::move(framed);
  }
  if (!has_tokens) encoded.tokens.clear();
  return encoded;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  const TokenizerParts& parts = *parts_;
  refuse_if(parts.decoder_refusal);
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const auto key = static_cast<std::uint32_t>(id);
    if (const auto added = parts.added.find(key); added != parts.added.end())
      tokens.push_back(added->second);
    else if (const auto own = parts.spellings.find(key); own != parts.spellings.end())
      tokens.emplace_back(own->second);
  }
  for (const DecoderStep& step : parts.decoder) {
    if (parts.has_decoder) step(tokens, true);
  }
  std::string text;
  for (const std::string& token : tokens) text += (parts.has_decoder || &token == tokens.data() ? "" : " ") + token;
  return text;
}

std::vector<Tokenizer::Token> Tokenizer::tokens() const {
  std::vector<Token> all;
  for (const auto& [spelling, id] : parts_->vocabulary) {
    std::vector<std::string> tokens = {"a", spelling};  // so that the token is inside a text
    for (const DecoderStep& step : parts_->decoder) step(tokens, false);
    std::string text;
    for (const std::string& token : tokens) text += token;
    all.push_back({id, spelling, text.starts_with("a") ? text.substr(1) : spelling, !parts_->writes_words});
  }
  for (const auto& [id, content] : parts_->added_texts) all.push_back({id, content, content, false});
  return all;
}

std::shared_ptr<const Tokenizer> shared_tokenizer(const std::filesystem::path& path) {
  static std::mutex in_use;
  static std::pair<std::filesystem::path, std::filesystem::file_time_type> last;
  static std::shared_ptr<const Tokenizer> tokenizer;
  const std::lock_guard lock(in_use);
  std::error_code unknown;
  const std::pair now(path, std::filesystem::last_write_time(path, unknown));
  if (tokenizer == nullptr || now != last || unknown) {
    tokenizer = std::make_shared<const Tokenizer>(path);
    last = now;
  }
  return tokenizer;
}

}  // namespace afterglow
