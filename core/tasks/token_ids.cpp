// Reads token numbers, whatever the file.
#include "core/tasks/token_ids.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "core/io/arrays/npy.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/safetensors.h"
#include "core/io/wording.h"

namespace afterglow {

namespace {

constexpr std::size_t largest_text = std::size_t{256} << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw Error(ExitCode::bad_input, path.string() + ": " + what);
}

WholeNumbers read_tensor(const std::filesystem::path& path) {
  const TensorFile file = read_safetensors(path);
  const HostTensor& ids = require_tensor(file, "input_ids", path.string());
  return {ids.shape, to_integers(ids)};
}

/// Numbers of one line, parted by spaces, commas or brackets.
std::vector<std::int64_t> numbers_of(std::string_view line, std::size_t number, const std::filesystem::path& path) {
  constexpr std::string_view between = " \t\r,;[]()";
  std::vector<std::int64_t> values;
  for (std::size_t at = line.find_first_not_of(between); at != std::string_view::npos;
       at = line.find_first_not_of(between, at)) {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
    const auto end = static_cast<std::size_t>(stop - line.data());
    if (error != std::errc() || (end < line.size() && between.find(line[end]) == std::string_view::npos))
      refuse(path, "line " + std::to_string(number) + ": " + in_quotes(line.substr(at, 20)) +
                       " is no token number. Texts are not encoded here: write the numbers that the model's tokenizer "
                       "makes of it, tokenizer(text)[\"input_ids\"] in Python");
    values.push_back(value);
    at = end;
  }
  return values;
}

WholeNumbers read_text(const std::filesystem::path& path) {
  const std::string content = read_file(path, largest_text);
  const std::string_view text = content;
  WholeNumbers result;
  std::int64_t lines = 0, length = 0;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::int64_t> values = numbers_of(text.substr(begin, end - begin), number + 1, path);
    begin = end + 1;
    if (values.empty()) continue;
    if (lines > 0 && static_cast<std::int64_t>(values.size()) != length)
      refuse(path, "line " + std::to_string(number + 1) + " has " + std::to_string(values.size()) +
                       " numbers where the lines before have " + std::to_string(length) +
                       "; give every sequence the same length, or one file each");
    length = static_cast<std::int64_t>(values.size());
    ++lines;
    result.values.insert(result.values.end(), values.begin(), values.end());
  }
  result.shape = {lines, length};
  return result;
}

}  // namespace

TokenIds read_token_ids(const std::filesystem::path& path, std::int64_t vocab) {
  const std::string ending = path.extension().string();
  const WholeNumbers read = ending == ".npy"           ? read_npy_integers(path)
                            : ending == ".safetensors" ? read_tensor(path)
                                                       : read_text(path);
  if (read.shape.empty() || read.shape.size() > 2 || read.values.empty())
    refuse(path, "it holds " + std::to_string(read.shape.size()) + " axes and " + std::to_string(read.values.size()) +
                     " numbers; give token numbers of one sequence [T] or of several [B, T]");
  TokenIds ids;
  ids.sequences = read.shape.size() == 2 ? read.shape[0] : 1;
  ids.length = read.shape.back();
  ids.values.reserve(read.values.size());
  for (std::size_t i = 0; i < read.values.size(); ++i) {
    const std::int64_t value = read.values[i];
    if (value < 0 || value >= vocab)
      refuse(path, "number " + std::to_string(i) + " is " + std::to_string(value) +
                       ", and the model knows tokens 0 to " + std::to_string(vocab - 1) +
                       "; give numbers of this model's tokenizer");
    ids.values.push_back(static_cast<std::int32_t>(value));
  }
  return ids;
}

}  // namespace afterglow
