// Reads a safetensors file once, tensor by tensor, after its header was checked against the file's size; writes it
// sorted.
#include "core/io/safetensors.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/safetensors_header.h"
#include "core/io/wording.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

template <class... What>
[[noreturn]] void refuse(const fs::path& path, const What&... what) {
  refuse_file(path, concat(what..., "; the file is damaged, get or write it again"));
}

void read_exactly(std::ifstream& stream, void* target, std::uint64_t bytes, const fs::path& path) {
  stream.read(static_cast<char*>(target), static_cast<std::streamsize>(bytes));
  if (!stream) refuse(path, "it ended while it was read");
}

std::uint64_t size_for_reading(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse_missing_file(path);
  if (!fs::is_regular_file(status))
    refuse_file(path, "it is a folder or a device; give the name of a safetensors file");
  return fs::file_size(path, error);
}

Header read_header(std::ifstream& stream, std::uint64_t file_bytes, const fs::path& path) {
  std::uint64_t length = 0;
  if (file_bytes >= header_length_bytes) read_exactly(stream, &length, header_length_bytes, path);
  check_header_length(length, file_bytes, path.string());
  std::string text(length, '\0');
  read_exactly(stream, text.data(), length, path);
  return parse_header(text, file_bytes - header_length_bytes - length, path.string());
}

[[noreturn]] void cannot_store(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::failure, "cannot write ", path.string(), ": ", what);
}

/// Widest type first keeps every tensor aligned to its element; then by name.
std::vector<const HostTensor*> sorted_for_writing(const TensorFile& file, const fs::path& path) {
  std::vector<const HostTensor*> order = mapped(file.tensors, [](const HostTensor& tensor) { return &tensor; });
  std::ranges::sort(order, [](const HostTensor* a, const HostTensor* b) {
    return a->type != b->type ? a->type > b->type : a->name < b->name;
  });
  std::vector<std::string_view> names;
  for (const HostTensor* tensor : order) {
    if (tensor->name == "__metadata__") cannot_store(path, "a tensor cannot be called __metadata__; rename it");
    if (bytes_of(tensor->type, tensor->shape) != tensor->bytes.size())
      cannot_store(path, "tensor '" + tensor->name + "' has " + std::to_string(tensor->bytes.size()) +
                             " bytes, which is not what its shape takes; give every element a value");
    names.push_back(tensor->name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) cannot_store(path, "two tensors are called '" + std::string(*twice) + "'; rename one");
  return order;
}

std::string checked_header(const Header& header, const fs::path& path) {
  try {
    return format_header(header);
  } catch (const nlohmann::json::exception&) {  // thrown for text that is not UTF-8
    cannot_store(path, "a name or a text of the metadata is not UTF-8; correct it");
  }
}

}  // namespace

const HostTensor* TensorFile::find(std::string_view name) const { return find_by(tensors, name, &HostTensor::name); }

const HostTensor& require_tensor(const TensorFile& file, std::string_view name, std::string_view where) {
  if (const HostTensor* tensor = file.find(name)) return *tensor;
  if (const auto other = file.unread.find(std::string(name)); other != file.unread.end())
    throw BadInput(where, ": the type ", in_quotes(other->second), " of tensor ", in_quotes(name),
                   " is not one of BOOL, U8, F16, BF16, I32, F32, F64, I64; convert it first");
  std::vector<std::string> names = names_of(file.tensors, &HostTensor::name);
  throw BadInput(where, " holds no tensor '", name, "' among its ", names.size(), did_you_mean(name, names));
}

TensorFile read_safetensors(const fs::path& path) {
  const std::uint64_t file_bytes = size_for_reading(path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw BadInput("cannot read ", path.string(), ": no permission; change it");
  Header header = read_header(stream, file_bytes, path);
  TensorFile file;
  file.metadata = std::move(header.metadata);
  file.tensors.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {  // their data follow each other without a gap: one pass over the file
    if (!entry.other_type.empty()) {
      stream.seekg(static_cast<std::streamoff>(entry.end - entry.begin), std::ios::cur);
      file.unread[std::move(entry.name)] = std::move(entry.other_type);
      continue;
    }
    HostTensor tensor{std::move(entry.name), entry.type, std::move(entry.shape), {}};
    tensor.bytes.resize(entry.end - entry.begin);
    read_exactly(stream, tensor.bytes.data(), tensor.bytes.size(), path);
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

fs::path write_safetensors(const fs::path& path, const TensorFile& file, Existing existing) {
  Header header{file.metadata, {}};
  std::vector<std::span<const std::byte>> pieces(2);  // the length and the header come first
  std::uint64_t position = 0;
  for (const HostTensor* tensor : sorted_for_writing(file, path)) {
    header.entries.push_back(
        {tensor->name, tensor->type, {}, tensor->shape, position, position + tensor->bytes.size()});
    position += tensor->bytes.size();
    pieces.emplace_back(tensor->bytes);
  }
  const std::string text = checked_header(header, path);
  const std::uint64_t length = text.size();
  pieces[0] = std::as_bytes(std::span(&length, 1));
  pieces[1] = std::as_bytes(std::span(text));
  return write_file_atomically(path, pieces, existing);
}

}  // namespace afterglow
