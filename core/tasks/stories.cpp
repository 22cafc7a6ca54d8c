// `stories`: short stories in simple English, letter by letter: a language with few words and short dependencies, to
// measure short contexts without a file (after Sessa, section 5.2).
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "core/io/error.h"
#include "core/tasks/suite.h"

namespace afterglow {
namespace {

constexpr std::string_view alphabet = "\n .abcdefghijklmnopqrstuvwxyz";

using Words = std::array<std::string_view, 8>;
constexpr Words names{"mia", "tom", "lena", "oskar", "ruth", "felix", "nora", "emil"};
constexpr Words animals{"fox", "bear", "mouse", "owl", "cat", "goose", "hedgehog", "frog"};
constexpr Words things{"kite", "lamp", "drum", "boat", "basket", "whistle", "ladder", "letter"};
constexpr Words colours{"red", "blue", "green", "yellow", "white", "brown", "black", "silver"};
constexpr Words places{"river", "forest", "mill", "garden", "bridge", "market", "hill", "harbour"};
constexpr Words feelings{"happy", "tired", "proud", "sad", "brave", "hungry", "quiet", "curious"};

// N and F are the hero and a friend, A the hero's kind, T and C a thing and its colour, P a place, E a feeling. All but
// P and E stay the same throughout a story.
constexpr std::array<std::string_view, 3> openings{"N the A had a C T. ", "once there was a A. its name was N. ",
                                                   "N and F lived near the P. "};
constexpr std::array<std::string_view, 9> sentences{
    "N went to the P. ",       "N was E. ",
    "F saw the C T. ",         "the C T was by the P. ",
    "N gave the T to F. ",     "F said that the A was E. ",
    "they looked for the T. ", "it rained and N was E. ",
    "F and N sat by the P. ",
};
constexpr std::string_view ending = "so N the A went home.\n";

class Stories final : public Task {
 public:
  explicit Stories(int length) : Task("stories", static_cast<int>(alphabet.size()), length) {}

  void generate(Random& random, std::uint64_t, Split, Example& out) const override {
    const std::size_t window = out.tokens.size();
    std::string text;
    while (text.size() <= window) text += story(random);
    for (std::size_t t = 0; t < window; ++t) {
      out.tokens[t] = token_of(text[t]);
      out.targets[t] = token_of(text[t + 1]);
      out.context[t] = 1;
    }
  }

  std::string token_label(int token) const override {
    if (token < 0 || token >= vocab()) return "?!";
    if (token == 0) return "⏎";
    return token == 1 ? "␣" : std::string(1, alphabet[static_cast<std::size_t>(token)]);
  }

  std::string token_text(int token) const override {
    return token < 0 || token >= vocab() ? "" : std::string(1, alphabet[static_cast<std::size_t>(token)]);
  }

  std::vector<int> tokens_of(const std::string& text) const override {
    std::vector<int> tokens;
    for (const char letter : text) {
      if (alphabet.find(letter) == std::string_view::npos)
        throw BadInput("stories are written in small letters, spaces and full stops alone");
      tokens.push_back(token_of(letter));
    }
    return tokens;
  }

 private:
  static int token_of(char letter) { return static_cast<int>(alphabet.find(letter)); }
  static std::string_view one_of(Random& random, const Words& words) {
    return words[static_cast<std::size_t>(random.uniform_int(words.size()))];
  }

  static std::string story(Random& random) {
    const std::string_view hero = one_of(random, names);
    std::string_view friend_name = one_of(random, names);
    while (friend_name == hero) friend_name = one_of(random, names);
    const std::string_view animal = one_of(random, animals), thing = one_of(random, things);
    const std::string_view colour = one_of(random, colours);
    const std::map<char, std::string_view> cast{
        {'N', hero}, {'F', friend_name}, {'A', animal}, {'T', thing}, {'C', colour}};
    std::string text;
    const auto tell = [&](std::string_view pattern) {
      for (const char c : pattern) {
        if (const auto fixed = cast.find(c); fixed != cast.end()) {
          text += fixed->second;
        } else if (c == 'P' || c == 'E') {
          text += one_of(random, c == 'P' ? places : feelings);
        } else {
          text += c;
        }
      }
    };
    tell(openings[static_cast<std::size_t>(random.uniform_int(openings.size()))]);
    for (int left = draw_from(random, 3, 4); left > 0; --left)
      tell(sentences[static_cast<std::size_t>(random.uniform_int(sentences.size()))]);
    tell(ending);
    return text;
  }
};

}  // namespace

std::unique_ptr<Task> make_stories(const Fields& fields) { return std::make_unique<Stories>(fields.integer("length")); }

}  // namespace afterglow
