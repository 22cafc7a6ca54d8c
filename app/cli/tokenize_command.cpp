// `afterglow tokenize FOLDER|tokenizer.json`: what a model's tokenizer makes of a text.
#include <cstdio>
#include <sstream>

#include "app/cli/command_line.h"
#include "core/io/atomic_file.h"
#include "core/io/json.h"
#include "core/text/tokenizer.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_text = std::size_t{1} << 30;

json tokenized(const Tokenizer& tokenizer, const std::string& text, bool has_special) {
  const Tokenizer::Encoded encoded = tokenizer.encode(text, has_special, true);
  return {{"ids", encoded.ids}, {"tokens", encoded.tokens}, {"decoded", tokenizer.decode(encoded.ids)}};
}

void print(const json& object) {
  std::printf("%s\n", object.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

/// Every line of `path` is a JSON string.
void print_lines(const Tokenizer& tokenizer, const std::string& path, bool has_special) {
  std::istringstream lines(read_file(path, largest_text));
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    const json text = json::parse(line, nullptr, false);
    if (!text.is_string()) throw BadInput(path, ", line ", number, ": this is no JSON string; write \"..\"");
    print(tokenized(tokenizer, text, has_special));
  }
}

}  // namespace

std::optional<std::string> TextOptions::read() const {
  if (!file.empty()) return read_file(file, largest_text);
  return text;
}

json tokenize(const TokenizeOptions& options, const CommonOptions&, Output& output) {
  const std::filesystem::path path(options.model);
  const Tokenizer tokenizer(std::filesystem::is_directory(path) ? path / "tokenizer.json" : path);
  if (!options.json_lines.empty()) {
    print_lines(tokenizer, options.json_lines, options.has_special);
    return nullptr;
  }
  const std::optional<std::string> text = options.text.read();
  if (!text) throw UsageError("tokenize needs a text: give --text T, --text-file F, or --json-lines F");
  json result = tokenized(tokenizer, *text, options.has_special);
  if (!output.json) print(result);
  return result;
}

}  // namespace afterglow
