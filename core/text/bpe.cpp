// Merges by a queue over a linked list of symbols, in O(n log n), and remembers the tokens of short words.
#include "core/text/bpe.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "core/io/error.h"
#include "core/io/terminal_text.h"

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

}  // namespace

BytePairs::BytePairs(const Vocabulary& vocabulary, Options options)
    : vocabulary_(vocabulary), options_(std::move(options)), cache_(remembered_words) {
  constexpr const char* digits = "0123456789ABCDEF";
  for (int byte = 0; options_.falls_back_to_bytes && byte < 256; ++byte)
    bytes_.push_back(vocabulary.find({'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'}));
}

std::uint32_t BytePairs::token_of(const std::string& token, const char* use) const {
  const auto found = vocabulary_.find(token);
  if (found == vocabulary_.end())
    throw Error(ExitCode::bad_input, std::string(use) + " \"" + terminal_text(token) + "\" is not in the vocabulary");
  return found->second;
}

void BytePairs::add_merge(const std::string& left, const std::string& right) {
  const std::string whole = left + right.substr(std::min(right.size(), options_.prefix.size()));
  const auto token = [&](const std::string& text) { return token_of(text, "the part or result of a merge"); };
  merges_.insert_or_assign(pair_of(token(left), token(right)), Merge{rank_++, token(whole)});
  for_each_neighbours(whole, [&](std::uint64_t pair, std::size_t, std::size_t) {
    joined_.insert(pair);
    return false;
  });
}

void BytePairs::read_characters(std::string_view word) {
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

void BytePairs::merge_symbols() {
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
    // What was merged meanwhile leaves candidates behind that are no longer there.
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

void BytePairs::encode_part(std::string_view part, std::vector<std::int32_t>& out) {
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

void BytePairs::encode(std::string_view word, std::vector<std::int32_t>& out) {
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

}  // namespace afterglow
