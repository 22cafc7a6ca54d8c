// Reads token numbers from all kinds of files.
#include "core/tasks/token_ids.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/io/arrays/npy.h"
#include "core/io/atomic_file.h"
#include "core/io/byte_parts.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/number_text.h"
#include "core/io/safetensors_header.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

constexpr std::size_t largest_ids = std::size_t{1} << 30;
constexpr const char *ids_name = "input_ids", *mask_name = "attention_mask";
constexpr const char* formats =
    "Read are .npy, .npz and .safetensors with input_ids, .bin with 16-bit numbers as nanoGPT writes them, JSON, and "
    "texts of numbers";

/// The numbers of a file, and those of its attention mask where it has one.
using Arrays = std::map<std::string, WholeNumbers>;

template <class... What>
[[noreturn]] void refuse(const std::filesystem::path& path, const What&... what) {
  throw BadInput(path.string(), ": ", what...);
}

/// Reads only the two tensors of a safetensors file, because others may have unsupported types.
Arrays read_tensors(Bytes bytes, const std::filesystem::path& path) try {
  static const std::map<std::string, NumberForm> forms{{"BOOL", {false, 1}}, {"I8", {true, 1}},   {"U8", {false, 1}},
                                                       {"I16", {true, 2}},   {"U16", {false, 2}}, {"I32", {true, 4}},
                                                       {"U32", {false, 4}},  {"I64", {true, 8}},  {"U64", {false, 8}}};
  const std::string_view text = header_text(bytes, path.string());
  const Bytes data = bytes.subspan(header_length_bytes + text.size());
  const nlohmann::json header = nlohmann::json::parse(text);
  Arrays arrays;
  for (const char* name : {ids_name, mask_name}) {
    if (!header.contains(name)) continue;
    const nlohmann::json& entry = header.at(name);
    const auto form = forms.find(entry.at("dtype"));
    if (form == forms.end()) refuse(path, name, " holds no whole numbers; save it with .to(torch.int64)");
    const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::uint64_t, std::uint64_t>>();
    const Bytes bytes_of_it = part_of(data, begin, end - begin, path.string());
    arrays[name] = whole_numbers(bytes_of_it, entry.at("shape"), form->second, path);
  }
  return arrays;
} catch (const nlohmann::json::exception&) {
  refuse(path, "its header is no valid one of safetensors; get or write the file again");
}

/// Numbers with spaces, commas, semicolons or brackets between. A sequence is what brackets enclose, or a line.
WholeNumbers parse_text(std::string_view text, const std::filesystem::path& path) {
  constexpr std::string_view between = " \t\r\n,;[]()";
  WholeNumbers result{{0, 0}, {}};
  std::int64_t& length = result.shape[1];
  std::size_t line = 1, begin = 0;
  int depth = 0;
  bool is_innermost = false;
  const auto refuse_line = [&](const auto&... what) { refuse(path, "line ", line, what...); };
  const auto end_sequence = [&](bool is_listed) {
    const auto count = static_cast<std::int64_t>(result.values.size() - begin);
    if (count == 0 && !is_listed) return;
    if (result.shape[0]++ > 0 && count != length)
      refuse_line(" has " + std::to_string(count) + " numbers where the sequences before have " +
                  std::to_string(length) + "; give every sequence the same length, or one file each");
    length = count;
    begin = result.values.size();
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '[' || c == '(') {
      end_sequence(false);
      ++depth;
      is_innermost = true;
    } else if (c == ']' || c == ')') {
      end_sequence(is_innermost);
      is_innermost = false;
      if (--depth < 0) refuse_line(": a bracket closes that none has opened");
    } else if (c == '\n' || c == '\r') {
      if (depth == 0) end_sequence(false);
      line += c == '\n' || text.substr(at + 1, 1) != "\n";
    } else if (between.find(c) == between.npos) {
      const std::string_view word = text.substr(at, text.find_first_of(between, at) - at);
      const std::optional<std::int64_t> value = parse_whole_number(word);
      if (!value)
        refuse_line(": " + in_quotes(word.substr(0, 20)) +
                    " is no token number. Texts are not encoded here: write the numbers that the model's tokenizer "
                    "makes of it, tokenizer(text)[\"input_ids\"] in Python. " +
                    formats);
      result.values.push_back(*value);
      at += word.size() - 1;
    }
  }
  if (depth > 0) refuse(path, "a bracket is not closed, so the list is cut; get or write the file again");
  end_sequence(false);
  return result;
}

/// An object with `input_ids`, as tokenizers return it, or one such object on each line.
Arrays parse_objects(std::string_view text, const std::filesystem::path& path) {
  std::map<std::string, std::string> lists;
  const auto take = [&](const nlohmann::json& object) {
    if (!object.is_object() || !object.contains(ids_name))
      refuse(path, "an object in it has no list 'input_ids'; write json.dumps(dict(tokenizer(text)))");
    for (const char* name : {ids_name, mask_name})
      if (object.contains(name)) lists[name] += object.at(name).dump() + "\n";
  };
  const JsonLimits limits{largest_ids};
  try {
    take(parse_json(text, path.string(), limits));
  } catch (const Error&) {
    if (!lists.empty()) throw;
    for (std::string_view line; !text.empty(); text.remove_prefix(std::min(line.size() + 1, text.size()))) {
      line = text.substr(0, text.find_first_of("\r\n"));
      if (!trimmed(line).empty()) take(parse_json(line, path.string(), limits));
    }
  }
  Arrays arrays;
  for (const auto& [name, list] : lists) arrays[name] = parse_text(list, path);
  return arrays;
}

Arrays read_arrays(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".npy") return {{ids_name, read_npy_integers(path)}};
  if (ending == ".npz") return read_npz_integers(path, {ids_name, mask_name});
  const std::string content = read_file(path, largest_ids);
  if (ending == ".safetensors") return read_tensors(std::as_bytes(std::span(content)), path);
  std::string_view text = content;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const bool is_binary = std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < '\t'; });
  const bool is_archive = text.starts_with("PK\x03\x04");
  if (ending == ".bin" && !is_archive &&
      (is_binary || text.find_first_not_of("0123456789 \t\r\n,;[]()-") != text.npos)) {
    const auto count = static_cast<std::int64_t>(content.size() / 2);
    return {{ids_name, whole_numbers(std::as_bytes(std::span(content)), {count}, {false, 2, false}, path)}};
  }
  if (is_binary || is_archive)
    refuse(path, "it is no text of token numbers", is_archive ? ", but an archive such as PyTorch's" : "", ". ",
           formats, "; in Python: numpy.save(\"tokens.npy\", input_ids)");
  if (trimmed(text).starts_with('{')) return parse_objects(text, path);
  return {{ids_name, parse_text(text, path)}};
}

/// The range of a sequence with the mask 1; padding may be on both sides.
TokenIds::Real real_part(std::span<const std::int64_t> mask, const std::filesystem::path& path) {
  const auto is_real = [](std::int64_t value) { return value != 0; };
  const auto begin = std::ranges::find_if(mask, is_real), end = std::find_if_not(begin, mask.end(), is_real);
  if (begin == mask.end() || std::any_of(end, mask.end(), is_real))
    refuse(path,
           "its attention_mask has a sequence without a 1, or with zeros between ones; only padding at the ends of a "
           "sequence can be left out");
  return {begin - mask.begin(), end - mask.begin()};
}

}  // namespace

std::int64_t TokenIds::padding() const {
  return static_cast<std::int64_t>(values.size()) - static_cast<std::int64_t>(tokens().size());
}

std::vector<std::int32_t> TokenIds::tokens() const {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto first = values.begin() + i * length;
    all.insert(all.end(), first + real[static_cast<std::size_t>(i)].begin,
               first + real[static_cast<std::size_t>(i)].end);
  }
  return all;
}

TokenIds read_token_ids(const std::filesystem::path& path, std::int64_t vocab) {
  const Arrays arrays = read_arrays(path);
  const auto found = arrays.find(ids_name), masked = arrays.find(mask_name);
  if (found == arrays.end()) refuse(path, "it holds no array 'input_ids'; save the token numbers under this name");
  const WholeNumbers& read = found->second;
  if (read.shape.empty() || read.shape.size() > 2 || read.values.empty())
    refuse(path, "it holds ", read.shape.size(), " axes and ", read.values.size(),
           " numbers; give token numbers of one sequence [T] or of several [B, T]");
  if (masked != arrays.end() && masked->second.shape != read.shape)
    refuse(path, "its attention_mask has another shape than its input_ids; give each token its own place in the mask");
  TokenIds ids;
  ids.sequences = read.shape.size() == 2 ? read.shape[0] : 1;
  ids.length = read.shape.back();
  ids.values.resize(read.values.size());
  const auto length = static_cast<std::size_t>(ids.length);
  for (std::size_t begin = 0; begin < read.values.size(); begin += length) {
    ids.real.push_back({0, ids.length});
    if (masked != arrays.end())
      ids.real.back() = real_part(std::span(masked->second.values).subspan(begin, length), path);
    const auto [first, last] = ids.real.back();
    for (std::size_t i = begin + static_cast<std::size_t>(first); i < begin + static_cast<std::size_t>(last); ++i) {
      const std::int64_t value = read.values[i];
      if (value < 0 || value >= vocab)
        refuse(path, "number ", i, " is ", value, ", and the model knows tokens 0 to ", vocab - 1,
               "; give numbers of this model's tokenizer");
      ids.values[i] = static_cast<std::int32_t>(value);
    }
  }
  return ids;
}

}  // namespace afterglow
