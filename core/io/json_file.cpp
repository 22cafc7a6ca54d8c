// Parses JSON with positions in its messages, and writes it.
#include "core/io/json_file.h"

#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace {

using Json = nlohmann::json;

/// "settings.json, line 3, column 14" for the byte at `offset`.
std::string place_of(std::string_view text, std::size_t offset, const std::string& where) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return where + ", line " + std::to_string(line) + ", column " + std::to_string(before.size() - line_start + 1);
}

/// Counts brackets outside of strings before anything is built, so that deep nesting costs nothing.
void check_depth(std::string_view text, const std::string& where, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{') && ++depth > limit) {
      throw Error(ExitCode::bad_input, place_of(text, i, where), ": more than ", limit,
                  " lists and objects inside each other; make it flatter");
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

/// The library's sentence without its own prefix "[json.exception...] parse error at line 1, column 2: ".
std::string reason_of(const Json::exception& error) {
  std::string text = error.what();
  const std::size_t prefix = text.find("] ");
  if (prefix != std::string::npos) text.erase(0, prefix + 2);
  const std::size_t position = text.find(": ");
  if (text.starts_with("parse error") && position != std::string::npos) text.erase(0, position + 2);
  constexpr std::size_t longest = 200;  // it quotes the last token, which may be long
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

/// Finds a field that occurs twice in one object; the library would silently keep the last one.
class DuplicateFinder {
 public:
  explicit DuplicateFinder(const std::string& where) : where_(where) {}

  bool operator()(int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) objects_.emplace_back();
    if (event == Json::parse_event_t::object_end) objects_.pop_back();
    if (event == Json::parse_event_t::key && !objects_.back().insert(parsed.get<std::string>()).second) {
      throw Error(ExitCode::bad_input, where_, ": field ", in_quotes(parsed.get_ref<const std::string&>()),
                  " is there twice in one object; remove one");
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> objects_;
};

}  // namespace

std::string with_json_numbers(const std::string& text) {
  static constexpr std::array<std::string_view, 3> words{"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') result += text[i++];
    const auto word =
        std::ranges::find_if(words, [&](std::string_view w) { return text.compare(i, w.size(), w) == 0; });
    if (in_string || word == words.end()) {
      if (i < text.size()) result += text[i];
      continue;
    }
    result += "{\"__float__\": \"" + std::string(*word) + "\"}";
    i += word->size() - 1;
  }
  return result;
}

Json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    throw Error(ExitCode::bad_input, where, " holds more than the ",
                bytes_text(static_cast<std::int64_t>(limits.bytes)), " that are read here; choose a smaller file");
  }
  check_depth(text, where, limits.depth);
  try {
    DuplicateFinder finder(where);
    return Json::parse(text.begin(), text.end(), std::ref(finder));
  } catch (const Json::parse_error& error) {
    throw Error(ExitCode::bad_input, place_of(text, error.byte > 0 ? error.byte - 1 : 0, where),
                ": this is not JSON: ", reason_of(error), "; correct it there");
  } catch (const Json::exception& error) {
    throw Error(ExitCode::bad_input, where, ": ", reason_of(error), "; correct it");
  }
}

Json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_file(path, limits.bytes), path.string(), limits);
}

void write_json(const std::filesystem::path& path, const Json& json) {
  std::string text;
  try {
    text = json.dump(2) + "\n";
  } catch (const Json::exception&) {
    throw Error(ExitCode::failure, "cannot write ", path.string(), ": a text in it is not UTF-8; correct it");
  }
  write_file_atomically(path, text);
}

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(shortest(value)); }

}  // namespace afterglow
