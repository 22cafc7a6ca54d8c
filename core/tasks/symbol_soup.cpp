// `symbolsoup`: classify the styles of two blocks of letters between blocks of noise (Sessa, section 5.1.1).
#include <algorithm>
#include <array>

#include "core/tasks/suite.h"

namespace afterglow {
namespace {

constexpr int letters = 16, first_family = 4, second_family = 5, motif_length = 4;
constexpr int part_begins = 1, part_ends = 2, asks = 3;  // the paper's <sep1>, <sep2>, <sep>
constexpr int first_letter = 4, first_label = first_letter + letters;
constexpr int labels = first_family * second_family;

// How a style writes: favourite letters in falling order, a favourite successor of each letter, a motif.
struct Style {
  std::vector<int> favourites, successors;
  std::array<int, motif_length> motif{};
};

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
    }
    return made;
  }();
  return all;
}

// Draws a favourite with weight 1 / (rank + 1), in integers, so that all machines agree.
int draw_favourite(Random& random, const Style& style) {
  constexpr int scale = 720720;  // divisible by 1 .. 16
  int total = 0;
  for (int rank = 1; rank <= letters; ++rank) total += scale / rank;
  int left = draw_from(random, 0, total);
  int rank = 1;
  while (left >= scale / rank) left -= scale / rank++;
  return style.favourites[static_cast<std::size_t>(rank - 1)];
}

// noise part_begins A part_ends noise part_begins B part_ends noise asks -> label; the two parts in either order
class SymbolSoup final : public Task {
 public:
  explicit SymbolSoup(const Fields& fields)
      : Task(fields.kind(), first_label + labels, fields.integer("length")), part_(fields.integer("part")) {
    fields.require_length(length(), 8 + 2 * std::int64_t{part_}, concat("Two blocks of ", part_, " letters"));
  }

  std::string describe() const override { return said({{"part", std::to_string(part_)}}); }

  int max_answers() const override { return 1; }

  void generate(Random& random, std::uint64_t, Split, Example& out) const override {
    const int first = draw_from(random, 0, first_family);
    const int second = draw_from(random, 0, second_family);
    const bool swapped = draw_from(random, 0, 2) == 1;
    const int noise = length() - 5 - 2 * part_;
    std::vector<int> cuts = draw_distinct(random, 2, 1, noise - 1);
    std::ranges::sort(cuts);
    ExampleWriter tape(out);
    put_noise(random, tape, cuts[0]);
    put_part(random, tape, out, swapped ? first_family + second : first);
    put_noise(random, tape, cuts[1] - cuts[0]);
    put_part(random, tape, out, swapped ? first : first_family + second);
    put_noise(random, tape, noise - cuts[1]);
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
  static void put_noise(Random& random, ExampleWriter& tape, int count) {
    for (int i = 0; i < count; ++i) tape.put(draw_from(random, first_letter, letters));
  }

  // Of a hundred letters 5 are noise, 7 begin a motif, 43 are successors of the letter before, 45 are favourites.
  void put_part(Random& random, ExampleWriter& tape, Example& out, int style_number) const {
    const Style& style = styles()[static_cast<std::size_t>(style_number)];
    tape.put(part_begins);
    const int end = tape.at() + part_;
    int letter = draw_favourite(random, style);
    const auto write = [&](int next) {
      letter = next;
      out.sources.push_back(tape.at());
      tape.put_fact(first_letter + letter);
    };
    write(letter);
    while (tape.at() < end) {
      const int chance = draw_from(random, 0, 100);
      if (chance < 5)
        write(draw_from(random, 0, letters));
      else if (chance < 12)
        for (std::size_t i = 0; i < style.motif.size() && tape.at() < end; ++i) write(style.motif[i]);
      else if (chance < 55)
        write(style.successors[static_cast<std::size_t>(letter)]);
      else
        write(draw_favourite(random, style));
    }
    tape.put(part_ends);
  }

  int part_;
};

}  // namespace

std::unique_ptr<Task> make_symbolsoup(const Fields& fields) { return std::make_unique<SymbolSoup>(fields); }

}  // namespace afterglow
