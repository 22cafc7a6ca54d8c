// Runs the steps of a tokenizer file: added tokens, normalizer, pre-tokenizer, model, template; then the decoder.
#include "core/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"
#include "core/text/text_steps.h"
#include "core/text/tokenizer_file.h"

namespace afterglow {
namespace {

constexpr std::size_t remembered_words = 1 << 15, longest_remembered = 64;  // bytes

std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }

/// Calls `use` with every two neighbouring characters, as one number, and their place, until it answers true.
template <class Use>
void for_each_neighbours(std::string_view text, const Use& use) {
  const auto number_at = [&](std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < utf8_length(text, at); ++i)
      number = number << 8 | static_cast<unsigned char>(text[at + i]);
    return number;
  };
  for (std::size_t at = 0, next = utf8_length(text, 0); next < text.size();
       at = next, next += utf8_length(text, next)) {
    if (use(pair_of(number_at(at), number_at(next)), at, next)) return;
  }
}

/// A pair that can be merged, and the position of its left symbol; the queue's first is the lowest rank, leftmost.
struct Candidate {
  std::uint32_t rank, token;
  int at;
  bool operator<(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
};

/// Byte pair encoding: a word becomes the tokens into which its characters merge, the pair of lowest rank first. Merges
/// by a queue over a linked list of symbols, in O(n log n), and remembers the tokens of short words.
class BytePairs {
 public:
  struct Options {
    std::optional<std::string> unknown;  ///< the token of characters that are not in the vocabulary
    std::string prefix, suffix;          ///< of characters inside a word, of the last one
    bool fuses_unknown = false, falls_back_to_bytes = false, ignores_merges = false;
  };

  /// `vocabulary` must outlive this object.
  BytePairs(const Vocabulary& vocabulary, Options options)
      : vocabulary_(vocabulary), options_(std::move(options)), cache_(remembered_words) {
    constexpr const char* digits = "0123456789ABCDEF";
    for (int byte = 0; options_.falls_back_to_bytes && byte < 256; ++byte)
      bytes_.push_back(vocabulary.find({'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'}));
  }
  /// The merge of the next rank. Throws Error(bad_input) where a part or the whole is not in the vocabulary.
  void add_merge(const std::string& left, const std::string& right) {
    const std::string whole = left + right.substr(std::min(right.size(), options_.prefix.size()));
    const auto token = [&](const std::string& text) { return token_of(text, "the part or result of a merge"); };
    merges_.insert_or_assign(pair_of(token(left), token(right)), Merge{rank_++, token(whole)});
    for_each_neighbours(whole, [&](std::uint64_t pair, std::size_t, std::size_t) {
      joined_.insert(pair);
      return false;
    });
  }

  /// Appends the tokens of one word, which is UTF-8. Not for several threads at once. Throws Error(bad_input) where
  /// the unknown token is needed and is not in the vocabulary.
  void encode(std::string_view word, std::vector<std::int32_t>& out) {
    const auto is_token = [&](std::string_view text) { return vocabulary_.contains(std::string(text)); };
    if (options_.ignores_merges && is_token(word)) {
      out.push_back(static_cast<std::int32_t>(vocabulary_.at(std::string(word))));
      return;
    }
    // A text without words is cut where no merge joins two characters of the vocabulary: short parts are remembered.
    while (word.size() > longest_remembered && options_.prefix.empty() && options_.suffix.empty()) {
      std::size_t end = word.size();
      for_each_neighbours(word, [&](std::uint64_t pair, std::size_t at, std::size_t next) {
        if (joined_.contains(pair) || !is_token(word.substr(at, next - at)) ||
            !is_token(word.substr(next, utf8_length(word, next))))
          return false;
        end = next;
        return true;
      });
      encode_part(word.substr(0, end), out);
      word.remove_prefix(end);
    }
    if (!word.empty()) encode_part(word, out);
  }

 private:
  struct Merge {
    std::uint32_t rank, token;
  };
  struct Symbol {
    std::uint32_t token;
    int previous, next;
    bool is_merged = false;
  };
  struct Remembered {
    std::string word;
    std::vector<std::int32_t> tokens;
  };

  std::uint32_t token_of(const std::string& token, const char* use) const {
    const auto found = vocabulary_.find(token);
    if (found == vocabulary_.end()) throw BadInput(use, " \"", terminal_text(token), "\" is not in the vocabulary");
    return found->second;
  }
  void read_characters(std::string_view word) {
    symbols_.clear();
    const auto add = [&](std::uint32_t token) {
      const int at = static_cast<int>(symbols_.size());
      if (at > 0) symbols_.back().next = at;
      symbols_.push_back({token, at - 1, -1});
    };
    bool is_unknown = false;  // the token for an unknown character is still to be added
    const auto add_unknown = [&] {
      if (std::exchange(is_unknown, false)) add(token_of(*options_.unknown, "the unknown token"));
    };
    std::string character;
    for (std::size_t at = 0, length = 0; at < word.size(); at += length) {
      length = utf8_length(word, at);
      character.assign(at > 0 ? options_.prefix : "").append(word.substr(at, length));
      if (at + length == word.size()) character += options_.suffix;
      const auto byte_of = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
      if (const auto found = vocabulary_.find(character); found != vocabulary_.end()) {
        add_unknown();
        add(found->second);
      } else if (!bytes_.empty() &&
                 std::ranges::none_of(character, [&](char c) { return byte_of(c) == vocabulary_.end(); })) {
        for (const char c : character) add(byte_of(c)->second);
      } else if (options_.unknown) {
        if (!options_.fuses_unknown) add_unknown();
        is_unknown = true;
      }
    }
    add_unknown();
  }
  void merge_symbols() {
    const auto symbol = [&](int at) -> Symbol& { return symbols_[static_cast<std::size_t>(at)]; };
    const auto candidate = [&](int left) -> std::optional<Candidate> {
      if (left < 0 || symbol(left).is_merged || symbol(left).next < 0) return std::nullopt;
      const auto found = merges_.find(pair_of(symbol(left).token, symbol(symbol(left).next).token));
      if (found == merges_.end()) return std::nullopt;
      return Candidate{found->second.rank, found->second.token, left};
    };
    std::priority_queue<Candidate> queue;
    const auto push = [&](int left) {
      if (const auto found = candidate(left)) queue.push(*found);
    };
    for (int at = 0; at < static_cast<int>(symbols_.size()); ++at) push(at);
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      // Earlier merges leave candidates in the queue whose pieces no longer exist.
      if (const auto now = candidate(top.at); !now || now->token != top.token) continue;
      Symbol &left = symbol(top.at), &right = symbol(left.next);
      left.token = top.token;
      left.next = right.next;
      right.is_merged = true;
      if (left.next >= 0) symbol(left.next).previous = top.at;
      push(left.previous);
      push(top.at);
    }
  }
  void encode_part(std::string_view part, std::vector<std::int32_t>& out) {
    Remembered& slot = cache_[std::hash<std::string_view>()(part) % remembered_words];
    if (part.size() <= longest_remembered && slot.word == part) {
      out.insert(out.end(), slot.tokens.begin(), slot.tokens.end());
      return;
    }
    read_characters(part);
    merge_symbols();
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    for (const Symbol& symbol : symbols_) {
      if (!symbol.is_merged) out.push_back(static_cast<std::int32_t>(symbol.token));
    }
    if (part.size() <= longest_remembered) slot = {std::string(part), {out.begin() + begin, out.end()}};
  }

  const Vocabulary& vocabulary_;
  Options options_;
  std::uint32_t rank_ = 0;  ///< of the next merge
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::unordered_set<std::uint64_t> joined_;       ///< two characters that are neighbours in the result of a merge
  std::vector<Vocabulary::const_iterator> bytes_;  ///< <0x00> to <0xFF>; empty without a fall-back to bytes
  std::vector<Symbol> symbols_;
  std::vector<Remembered> cache_;
};

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
      throw BadInput("the ", where, " asks for ", in_quotes(name), ", which it does not describe");
    made.push_back({is_text, {}});
    if (is_text) continue;
    for (const std::int64_t id : get_integers(token, "ids", 0, INT32_MAX, where))
      made.back().special.ids.push_back(static_cast<std::int32_t>(id));
    for (const json& spelled : member(token, "tokens")) made.back().special.tokens.push_back(spelled);
    if (made.back().special.ids.size() != made.back().special.tokens.size())
      throw BadInput("the ", where, ": ids and tokens of ", in_quotes(name), " differ in number");
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
    throw BadInput("the post_processor ", type, " is not supported");
}

BytePairs read_pairs(const TokenizerFile& file, const Vocabulary& vocabulary) {
  const json& model = member(file.content, "model");
  const std::string type = get_string(model, "type", model.contains("merges") ? "BPE" : "of unknown kind", "model");
  if (type != "BPE" || get_number(model, "dropout", 0.0, 0.0, 1.0, "model") > 0)
    throw BadInput("its model is ", type, type == "BPE" ? " with dropout" : "",
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
  if (!refusal.empty()) throw BadInput(refusal);
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
      // The library numbers them itself: as the model's token of that name, or after all others.
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
  if (!is_utf8(text)) throw BadInput("the text is not UTF-8; save it as UTF-8 and give it again");
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
