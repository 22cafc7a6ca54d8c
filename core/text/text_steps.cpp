// Every kind of step is one branch that makes functions. Unicode by utf8proc.
#include "core/text/text_steps.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"
#include "core/text/tokenizer_file.h"

namespace afterglow {
namespace {

constexpr std::size_t max_steps = 64;  // of one part of a file
constexpr const char* gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* words_pattern =  // of Rust's \w
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)";
constexpr const char* replacement_sign = "\uFFFD";

/// The character by which a byte-level tokenizer writes a byte: printable ones of Latin-1 by themselves, the others
/// from U+0100 on.
const std::string& byte_character(char byte) {
  static const std::array<std::string, 256> all = [] {
    std::array<std::string, 256> made;
    unsigned next = 0x100;
    for (unsigned one = 0; one < 256; ++one) {
      const bool is_itself = (one > 0x20 && one < 0x7F) || (one > 0xA0 && one != 0xAD);
      utf8proc_uint8_t units[4];
      const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(is_itself ? one : next++), units);
      made[one].assign(units, units + size);
    }
    return made;
  }();
  return all[static_cast<unsigned char>(byte)];
}

void write_bytes(std::string_view piece, bool, std::string& out) {
  for (const char byte : piece) out += byte_character(byte);
}

/// The bytes that a byte-level token stands for; a token with any other character stands for itself.
std::string bytes_of(const std::string& token) {
  static const std::map<std::string_view, char> bytes = [] {
    std::map<std::string_view, char> made;
    for (int byte = -128; byte < 128; ++byte) made[byte_character(static_cast<char>(byte))] = static_cast<char>(byte);
    return made;
  }();
  std::string out;
  for (std::size_t at = 0, length = 0; at < token.size(); at += length) {
    length = utf8_length(token, at);
    const auto found = bytes.find(std::string_view(token).substr(at, length));
    if (found == bytes.end()) return token;
    out += found->second;
  }
  return out;
}

/// ASCII, which no normal form changes, is copied; the characters between are normalised with the letter before them,
/// which a mark may join.
std::string normalised(std::string_view text, int form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  std::string out;
  for (auto at = text.begin(); at != text.end();) {
    const auto other = std::find_if_not(at, text.end(), is_ascii), end = std::find_if(other, text.end(), is_ascii);
    const auto begin = other != text.end() && other != at ? other - 1 : other;
    out.append(at, begin);
    at = end;
    if (begin == end) continue;
    utf8proc_uint8_t* result = nullptr;
    const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(&*begin), end - begin, &result,
                                   static_cast<utf8proc_option_t>(form | UTF8PROC_STABLE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> held(result, &std::free);
    if (size < 0) throw BadInput("a text cannot be normalised: ", utf8proc_errmsg(size));
    out.append(result, result + size);
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text, at)) {
    const std::string_view character = text.substr(at, utf8_length(text, at));
    utf8proc_int32_t code = 0;
    utf8proc_uint8_t lower[4];
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                     static_cast<utf8proc_ssize_t>(character.size()), &code);
    out.append(lower, lower + utf8proc_encode_char(utf8proc_tolower(code), lower));
    if (character == "\u0130") out += "\u0307";  // the only one that becomes two
  }
  return out;
}

/// U+FFFD for each longest incomplete character.
std::string repaired(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  return json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string replaced(std::string_view text, const Regex& pattern, std::string_view content) {
  std::string out;
  std::size_t done = 0;
  for (const TextRange& match : pattern.matches(text)) {
    out.append(text.substr(done, match.begin - done)).append(content);
    done = match.end;
  }
  return out.append(text.substr(done));
}

Rewrite replacing(Regex pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](std::string_view piece, bool, std::string& out) {
    out += replaced(piece, pattern, content);
  };
}

/// Prepends where a piece does not begin with it.
Rewrite prefixing(const std::string& prefix, bool is_only_first) {
  return [=](std::string_view piece, bool is_first, std::string& out) {
    if (!piece.starts_with(prefix) && (is_first || !is_only_first)) out += prefix;
    out += piece;
  };
}

Regex literal(const std::string& text) {
  std::string pattern;
  for (const char c : text) pattern += (std::ispunct(static_cast<unsigned char>(c)) ? "\\" : "") + std::string{c};
  return Regex(pattern);
}

DecoderStep for_each_token(std::function<std::string(const std::string& token, bool is_first)> change) {
  return [change = std::move(change)](std::vector<std::string>& tokens, bool) {
    for (std::string& token : tokens) token = change(token, &token == tokens.data());
  };
}

/// The byte of a token such as <0x0A>.
std::optional<char> byte_of(const std::string& token) {
  unsigned byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  const char* const first = token.data() + (token[3] == '+' ? 4 : 3);  // as Rust reads numbers
  if (std::from_chars(first, token.data() + 5, byte, 16).ptr != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

/// Runs of byte tokens become their text; those that are no UTF-8 become one U+FFFD each.
void join_bytes(std::vector<std::string>& tokens, bool is_whole) {
  std::vector<std::string> joined;
  std::string bytes;
  const auto end_run = [&] {
    if (is_whole && !is_utf8(bytes))
      joined.insert(joined.end(), bytes.size(), replacement_sign);
    else if (!bytes.empty())
      joined.push_back(bytes);
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const std::optional<char> byte = byte_of(token);
    if (byte) {
      bytes += *byte;
    } else {
      end_run();
      joined.push_back(token);
    }
  }
  end_run();
  tokens = std::move(joined);
}

/// One object of a step, with what names it in messages.
struct Described {
  const json& object;
  std::string type, where;

  bool flag(const char* key, std::optional<bool> fallback = std::nullopt) const {
    return get_bool(object, key, fallback, where);
  }
  std::string text(const char* key, std::optional<std::string> fallback = std::nullopt) const {
    return get_string(object, key, std::move(fallback), where);
  }
  /// {"String": ".."} or {"Regex": ".."}.
  Regex pattern() const {
    const json& pattern = member(object, "pattern");
    if (pattern.contains("Regex")) return Regex(get_string(pattern, "Regex", std::nullopt, where));
    return literal(get_string(pattern, "String", std::nullopt, where));
  }
  Delimiter behavior(std::optional<std::string> fallback) const {
    const std::vector<std::string> names = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                            "Contiguous"};
    const std::string name = get_choice(object, "behavior", names, std::move(fallback), where);
    return static_cast<Delimiter>(std::ranges::find(names, name) - names.begin());
  }
  /// Where a mark is prepended: "always", "first" or "never".
  std::string scheme() const {
    return get_choice(object, "prepend_scheme", {"always", "first", "never"},
                      flag("add_prefix_space", true) ? "always" : "never", where);
  }
  [[noreturn]] void refuse() const { throw BadInput("the ", where, " is not supported"); }
};

/// The steps that `read` makes of `described`, or of each member of a sequence that `list` names, in order.
template <class Step, class Read>
void read_steps(const json& described, const std::string& part, const char* list, std::vector<Step>& steps,
                const Read& read) {
  if (described.is_null()) return;
  const std::string type = get_string(described, "type", std::nullopt, part);
  if (type != "Sequence") return read(Described{described, type, part + " " + type});
  for (const json& one : member(described, list)) {
    if (steps.size() >= max_steps) throw BadInput("the ", part, " has more than 64 steps");
    read_steps(one, part, list, steps, read);
  }
}

}  // namespace

std::vector<TextRange> TextSplit::parts(std::string_view text) const {
  std::vector<std::pair<TextRange, bool>> all;  // with true for delimiters
  std::size_t done = 0;
  for (const TextRange& match : pattern.matches(text)) {
    if (done != match.begin) all.push_back({{done, match.begin}, is_inverted});
    all.push_back({match, !is_inverted});
    done = match.end;
  }
  if (done != text.size()) all.push_back({{done, text.size()}, is_inverted});
  const bool is_backward = behavior == Delimiter::merged_with_next;
  if (is_backward) std::ranges::reverse(all);
  std::vector<TextRange> parts;
  bool was_delimiter = false;
  for (const auto& [range, is_delimiter] : all) {
    const bool joins = behavior == Delimiter::contiguous
                           ? is_delimiter == was_delimiter
                           : behavior != Delimiter::isolated && is_delimiter && !was_delimiter;
    was_delimiter = is_delimiter;
    if (behavior == Delimiter::removed && is_delimiter) continue;
    if (behavior == Delimiter::removed || !joins || parts.empty())
      parts.push_back(range);
    else if (is_backward)
      parts.back().begin = range.begin;
    else
      parts.back().end = range.end;
  }
  if (is_backward) std::ranges::reverse(parts);
  return parts;
}

std::vector<TextStep> read_normalizer(const json& described) {
  static const std::map<std::string, int> forms = {{"NFC", UTF8PROC_COMPOSE},
                                                   {"NFD", UTF8PROC_DECOMPOSE},
                                                   {"NFKC", UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                                                   {"NFKD", UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  std::vector<TextStep> steps;
  read_steps(described, "normalizer", "normalizers", steps, [&](const Described& one) {
    const auto add = [&](Rewrite step) { steps.emplace_back(std::move(step)); };
    if (const auto form = forms.find(one.type); form != forms.end()) {
      add([form](std::string_view piece, bool, std::string& out) { out += normalised(piece, form->second); });
    } else if (one.type == "Lowercase") {
      add([](std::string_view piece, bool, std::string& out) { out += lower_case(piece); });
    } else if (one.type == "Prepend") {
      add([prefix = one.text("prepend")](std::string_view piece, bool, std::string& out) {
        if (!piece.empty()) out.append(prefix).append(piece);
      });
    } else if (one.type == "Replace") {
      add(replacing(one.pattern(), one.text("content")));
    } else if (one.type == "Strip") {
      if (one.flag("strip_left")) add(replacing(Regex("\\A\\s+"), ""));
      if (one.flag("strip_right")) add(replacing(Regex("\\s+\\z"), ""));
    } else if (one.type == "StripAccents") {
      add(replacing(Regex("\\p{M}+"), ""));
    } else if (one.type == "ByteLevel") {
      add(write_bytes);
    } else {
      one.refuse();
    }
  });
  return steps;
}

std::vector<TextStep> read_pre_tokenizer(const json& described) {
  std::vector<TextStep> steps;
  read_steps(described, "pre_tokenizer", "pretokenizers", steps, [&](const Described& one) {
    const auto split = [&](Regex pattern, Delimiter behavior, bool is_inverted = false) {
      steps.emplace_back(TextSplit{std::move(pattern), behavior, is_inverted});
    };
    if (one.type == "ByteLevel") {
      if (one.flag("add_prefix_space")) steps.emplace_back(prefixing(" ", false));
      if (one.flag("use_regex", true)) split(Regex(gpt2_pattern), Delimiter::isolated);
      steps.emplace_back(write_bytes);
    } else if (one.type == "Split") {
      split(one.pattern(), one.behavior(std::nullopt), one.flag("invert"));
    } else if (one.type == "Metaspace") {
      const std::string mark = one.text("replacement"), scheme = one.scheme();
      steps.emplace_back(replacing(literal(" "), mark));
      if (scheme != "never") steps.emplace_back(prefixing(mark, scheme == "first"));
      if (one.flag("split", true)) split(literal(mark), Delimiter::merged_with_next);
    } else if (one.type == "Digits") {
      split(Regex("\\p{N}"), one.flag("individual_digits") ? Delimiter::isolated : Delimiter::contiguous);
    } else if (one.type == "Punctuation") {
      split(Regex(R"([\p{P}!-/:-@\[-`{-~])"), one.behavior("Isolated"));
    } else if (one.type == "Whitespace") {
      split(Regex(words_pattern), Delimiter::removed, true);
    } else if (one.type == "WhitespaceSplit") {
      split(Regex("\\s"), Delimiter::removed);
    } else {
      one.refuse();
    }
  });
  return steps;
}

std::vector<DecoderStep> read_decoder(const json& described) {
  std::vector<DecoderStep> steps;
  const auto join = [](std::vector<std::string>& tokens) {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens = {std::move(text)};
  };
  read_steps(described, "decoder", "decoders", steps, [&](const Described& one) {
    if (one.type == "ByteLevel") {
      steps.emplace_back([join](std::vector<std::string>& tokens, bool is_whole) {
        for (std::string& token : tokens) token = bytes_of(token);
        join(tokens);
        if (is_whole) tokens[0] = repaired(tokens[0]);
      });
    } else if (one.type == "Replace") {
      steps.push_back(
          for_each_token([pattern = one.pattern(), content = one.text("content")](const std::string& token, bool) {
            return replaced(token, pattern, content);
          }));
    } else if (one.type == "ByteFallback") {
      steps.emplace_back(join_bytes);
    } else if (one.type == "Fuse") {
      steps.emplace_back([join](std::vector<std::string>& tokens, bool) { join(tokens); });
    } else if (one.type == "Strip") {
      const auto count = [&](const char* key) {
        return get_integer(one.object, key, std::nullopt, 0, 1 << 20, one.where);
      };
      steps.push_back(for_each_token(
          [content = one.text("content"), start = count("start"), stop = count("stop")](std::string token, bool) {
            for (std::int64_t i = 0; i < start && token.starts_with(content); ++i) token.erase(0, content.size());
            for (std::int64_t i = 0; i < stop && token.ends_with(content); ++i)
              token.resize(token.size() - content.size());
            return token;
          }));
    } else if (one.type == "Metaspace") {
      steps.push_back(for_each_token([mark = literal(one.text("replacement")), is_kept = one.scheme() == "never"](
                                         const std::string& token, bool is_first) {
        return replaced(token, mark, is_first && !is_kept ? "" : " ");
      }));
    } else if (one.type == "WordPiece") {
      steps.push_back(for_each_token([part = one.text("prefix", "##")](const std::string& token, bool is_first) {
        return is_first ? token : token.starts_with(part) ? token.substr(part.size()) : " " + token;
      }));
    } else {
      one.refuse();
    }
  });
  return steps;
}

}  // namespace afterglow
