// `symbolsoup`: classify the styles of two blocks of letters between blocks of noise (Sessa, section 5.1.1).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

constexpr int letters = 16, first_family = 4, second_family = 5, motif_length = 4;
constexpr int part_begins = 1, part_ends = 2, asks = 3;  // the paper's <sep1>, <sep2>, <sep>
constexpr int first_letter = 4, first_label = first_letter + letters;
constexpr int labels = first_family * second_family;

// How a style writes: favourite letters in falling order; in the short form a favourite successor of each letter and a
// motif; in the published form weights of the motifs, which are the pieces of 3, of 4 and of 5 letters of the alphabet.
struct Style {
  std::vector<int> favourites, successors;
  std::array<int, motif_length> motif{};
  std::array<int, letters> rank{};  // of each letter among the favourites
  std::vector<int> pieces{};
};

// In the authors' generator four favourites are primary letters and four secondary ones: these weigh more, and a motif
// that holds them.
void add_weights(Style& style) {
  for (std::size_t i = 0; i < letters; ++i) style.rank[std::size_t(style.favourites[i])] = static_cast<int>(i);
  constexpr int worth[] = {9, 5, 0, 0};
  for (const int size : {3, 4, 5})
    for (auto first = style.rank.begin(); first + size <= style.rank.end(); ++first)
      style.pieces.push_back(
          std::accumulate(first, first + size, 10, [&](int sum, int rank) { return sum + worth[rank / 4]; }));
}

// The weight of a letter behind another, by their ranks: four times as large for the authors' bigrams, a circle of the
// primary letters, primary and secondary ones twice, and four pairs of both.
int weight_behind(int i, int j) {
  const bool is_liked = std::max(i, j) < 8 && (i == j || std::abs(i - j) == 4 || (i < 4 && j == (i + 1) % 4));
  return std::max(3 - j / 4, 1) * (is_liked ? 4 : 1);
}

// The nine styles belong to the task and are the same in every run.
const std::vector<Style>& styles() {
  static const std::vector<Style> all = [] {
    constexpr std::uint64_t styles_seed = 0x53796D626F6C536Full;
    std::vector<Style> made(first_family + second_family);
    for (std::size_t i = 0; i < made.size(); ++i) {
      Random random(styles_seed, task_design_stream, i);
      made[i].favourites = draw_distinct(random, letters, 0, letters);
      made[i].successors = draw_distinct(random, letters, 0, letters);
      for (int& letter : made[i].motif) letter = draw_from(random, 0, letters);
      add_weights(made[i]);
    }
    return made;
  }();
  return all;
}

// An index below `count` with these weights, in integers, so that all machines agree.
template <class Weight>
int draw_weighted(Random& random, int count, const Weight& weight) {
  int total = 0, at = 0;
  for (int i = 0; i < count; ++i) total += weight(i);
  int left = draw_from(random, 0, total);
  while (left >= weight(at)) left -= weight(at++);
  return at;
}

// Draws a favourite with weight 1 / (rank + 1); 720720 is divisible by 1 .. 16.
int draw_favourite(Random& random, const Style& style) {
  return style.favourites[std::size_t(draw_weighted(random, letters, [](int rank) { return 720720 / (rank + 1); }))];
}

// Of a hundred letters 5 are noise, 7 begin a motif, 43 are successors of the letter before, 45 are favourites.
std::vector<int> short_part(Random& random, const Style& style, std::size_t size) {
  std::vector<int> text{draw_favourite(random, style)};
  while (text.size() < size) {
    const int chance = draw_from(random, 0, 100);
    if (chance < 5)
      text.push_back(draw_from(random, 0, letters));
    else if (chance < 12)
      text.insert(text.end(), style.motif.begin(), style.motif.end());
    else if (chance < 55)
      text.push_back(style.successors[static_cast<std::size_t>(text.back())]);
    else
      text.push_back(draw_favourite(random, style));
  }
  text.resize(size);
  return text;
}

void put_piece(Random& random, const Style& style, std::size_t room, std::vector<int>& text) {
  const int fitting = room > 4 ? 39 : room > 3 ? 27 : 14;
  int size = 3, first = draw_weighted(random, fitting, [&](int piece) { return style.pieces[std::size_t(piece)]; });
  for (; first > letters - size; ++size) first -= letters - size + 1;
  for (int letter = first; letter < first + size; ++letter) text.push_back(letter);
}

// As the authors' generator writes: in three of ten draws a motif, else a letter by the one before; 3 % are replaced.
std::vector<int> published_part(Random& random, const Style& style, std::size_t size) {
  std::vector<int> text;
  while (text.size() < size) {
    const int before = text.empty() ? letters : style.rank[std::size_t(text.back())];
    if (size - text.size() >= 3 && draw_from(random, 0, 10) < 3)
      put_piece(random, style, size - text.size(), text);
    else
      text.push_back(
          draw_weighted(random, letters, [&](int i) { return weight_behind(before, style.rank[std::size_t(i)]); }));
  }
  for (int& letter : text) {
    if (draw_from(random, 0, 100) < 3) letter = (letter + draw_from(random, 1, letters - 1)) % letters;
  }
  return text;
}

using Sizes = std::array<int, 5>;  // letters of noise, a block, noise, the other block, noise

// noise part_begins A part_ends noise part_begins B part_ends noise asks -> label; the two parts in either order. In
// the published form a blank is behind every token but the last, as the authors' tokenizer keeps white space.
class SymbolSoup final : public Task {
 public:
  explicit SymbolSoup(const Fields& fields)
      : Task(fields.kind(), first_label + labels, fields.integer("length")),
        part_(fields.integer("part")),
        is_published_(fields.choice("form") == "published") {
    if (is_published_ && fields.given("part"))
      fields.refuse("The published form draws the sizes of its blocks. Leave 'part' out.");
    const std::int64_t smallest = is_published_ ? 19 : 8 + 2 * std::int64_t{part_};
    fields.require_length(length(), smallest, concat("Two blocks of ", block_sizes(), " letters"));
  }

  std::string describe() const override { return said({{"part", block_sizes()}}); }

  int max_answers() const override { return 1; }

  void generate(Random& random, std::uint64_t, Split, Example& out) const override {
    const int first = draw_from(random, 0, first_family);
    const int second = draw_from(random, 0, second_family);
    const bool swapped = draw_from(random, 0, 2) == 1;
    const Sizes sizes = is_published_ ? random_sizes(random) : even_sizes(random);
    ExampleWriter tape(out, is_published_ ? length() - 2 * std::accumulate(sizes.begin(), sizes.end(), 0) - 9 : 0);
    put_noise(random, tape, sizes[0]);
    put_part(random, tape, out, swapped ? first_family + second : first, sizes[1]);
    put_noise(random, tape, sizes[2]);
    put_part(random, tape, out, swapped ? first : first_family + second, sizes[3]);
    put_noise(random, tape, sizes[4]);
    tape.put(asks);
    tape.expect(first_label + first * second_family + second);
  }

  std::string token_label(int token) const override {
    static constexpr const char* marks[] = {"_", "<", ">", "?"};
    if (token < 0 || token >= vocab()) return "?!";
    if (token < first_letter) return marks[token];
    if (token < first_label) return std::string(1, static_cast<char>('a' + token - first_letter));
    const int label = token - first_label;
    return "A" + std::to_string(1 + label / second_family) + "B" + std::to_string(1 + label % second_family);
  }

  TokenRole token_role(int token) const override {
    if (token <= 0 || token >= vocab()) return TokenRole::blank;
    if (token < asks) return TokenRole::separator;
    if (token == asks) return TokenRole::query;
    return token < first_label ? TokenRole::text : TokenRole::value;
  }

 private:
  std::string block_sizes() const { return is_published_ ? "random numbers of" : std::to_string(part_); }

  Sizes even_sizes(Random& random) const {
    const int noise = length() - 5 - 2 * part_;
    std::vector<int> cuts = draw_distinct(random, 2, 1, noise - 1);
    std::ranges::sort(cuts);
    return {cuts[0], part_, cuts[1] - cuts[0], part_, noise - cuts[1]};
  }

  // As the authors' generator draws them, for two thirds of the length or more: 30 to 60 % of the letters are noise.
  Sizes random_sizes(Random& random) const {
    const int fewest = std::max(5, (length() * 2 / 3 - 8) / 2), most = (length() - 9) / 2;
    const int all = draw_from(random, fewest, most - fewest + 1), least = std::max(3, 3 * all / 10);
    const int noise = draw_from(random, least, std::max(least, 6 * all / 10) - least + 1), main = all - noise;
    const int part = draw_from(random, 1, main - 1), begin = draw_from(random, 1, noise - 2);
    const int middle = draw_from(random, 1, noise - begin - 1);
    return {begin, part, middle, main - part, noise - begin - middle};
  }

  void put(ExampleWriter& tape, int token) const {
    tape.put(token);
    if (is_published_) tape.put(0);
  }

  void put_noise(Random& random, ExampleWriter& tape, int count) const {
    for (int i = 0; i < count; ++i) put(tape, draw_from(random, first_letter, letters));
  }

  void put_part(Random& random, ExampleWriter& tape, Example& out, int style_number, int size) const {
    const auto write = is_published_ ? published_part : short_part;
    put(tape, part_begins);
    for (const int letter : write(random, styles()[static_cast<std::size_t>(style_number)], std::size_t(size))) {
      out.sources.push_back(tape.at());
      out.context[static_cast<std::size_t>(tape.at())] = 1;
      put(tape, first_letter + letter);
    }
    put(tape, part_ends);
  }

  int part_;
  bool is_published_;
};

}  // namespace

std::unique_ptr<Task> make_symbolsoup(const Fields& fields) { return std::make_unique<SymbolSoup>(fields); }

}  // namespace afterglow
