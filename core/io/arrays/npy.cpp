// The .npy header, a Python dictionary on one line, and .npz, a zip archive without compression.
#include "core/io/arrays/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "core/io/byte_parts.h"
#include "core/io/error.h"
#include "core/io/wording.h"

// stb_image holds a reader of deflated data.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNM
#define STBI_SUPPORT_ZLIB
#define STBI_NO_STDIO
#include <stb/stb_image.h>

namespace afterglow {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t largest_npy = std::size_t{1} << 30;
constexpr std::size_t max_axes = 32;

/// The text after 'key': in the header's dictionary, without leading spaces.
std::string_view field(std::string_view header, const std::string& key, const std::filesystem::path& path) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string_view::npos)
    refuse_file(path, "its header has no '" + key + "'; write it again with numpy.save");
  std::string_view rest = header.substr(at + key.size() + 3);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

std::vector<std::int64_t> shape_of(std::string_view text, const std::filesystem::path& path) {
  std::vector<std::int64_t> shape;
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos)
    refuse_file(path, "its header has no shape; write it again with numpy.save");
  text = text.substr(1, end - 1);
  while (!text.empty()) {
    std::int64_t extent = -1;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || shape.size() == max_axes)
      refuse_file(path, "its shape cannot be read; write it again with numpy.save");
    shape.push_back(extent);
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    while (text.starts_with(',') || text.starts_with(' ')) text.remove_prefix(1);
  }
  return shape;
}

/// The byte order, sign and size of elements such as "<i8".
NumberForm form_of(std::string_view text, const std::filesystem::path& path) {
  const std::string word(text.size() > 5 && text.starts_with('\'') ? text.substr(1, text.find('\'', 1) - 1) : "");
  const auto is_one_of = [&](std::size_t at, std::string_view letters) {
    return letters.find(word[at]) != letters.npos;
  };
  if (word.size() != 3 || !is_one_of(0, "<>|") || !is_one_of(1, "iu") || !is_one_of(2, "1248"))
    refuse_file(path, "it holds " + in_quotes(word.empty() ? text.substr(0, 8) : std::string_view(word)) +
                          " where whole numbers should be; save it with .astype('int64')");
  return {word[1] == 'i', static_cast<std::size_t>(word[2] - '0'), word[0] == '>'};
}

std::int64_t number_of(Bytes bytes, const NumberForm& form) {
  std::array<std::byte, 8> turned{};
  if (form.is_big_endian) {
    std::ranges::reverse_copy(bytes, turned.begin());
    bytes = std::span(turned).first(form.size);
  }
  const std::uint64_t bits = little_endian(bytes);
  const auto unused = static_cast<int>(64 - 8 * form.size);
  if (!form.is_signed) return static_cast<std::int64_t>(bits);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

WholeNumbers parse_npy(std::string_view content, const std::filesystem::path& path) {
  const Bytes bytes = std::as_bytes(std::span(content));
  constexpr std::size_t before_length = 8;
  if (!content.starts_with(magic) || content.size() < 12)
    refuse_file(path, "it is no .npy file; write it with numpy.save");
  const std::size_t digits = content[6] >= 2 ? 4 : 2, begin = before_length + digits;
  const auto length = static_cast<std::size_t>(little_endian(part_of(bytes, before_length, digits, path.string())));
  if (length > content.size() - begin) refuse_file(path, "it ends inside its header; get or write it again");
  const std::string_view header = content.substr(begin, length);
  const std::vector<std::int64_t> shape = shape_of(field(header, "shape", path), path);
  const bool is_fortran = field(header, "fortran_order", path).starts_with("True") && shape.size() > 1;
  if (is_fortran && shape.size() > 2) refuse_file(path, "its order is Fortran's; save it with numpy.ascontiguousarray");
  WholeNumbers result =
      whole_numbers(bytes.subspan(begin + length), shape, form_of(field(header, "descr", path), path), path);
  if (is_fortran) {
    const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
    const std::vector<std::int64_t> by_columns = result.values;
    for (std::size_t i = 0; i < by_columns.size(); ++i) result.values[i % rows * columns + i / rows] = by_columns[i];
  }
  return result;
}

/// The content of a member of a zip archive: stored uncompressed (0) or deflated (8).
std::string unpacked(Bytes packed, std::uint64_t method, std::uint64_t size, const std::filesystem::path& path) {
  std::string result(reinterpret_cast<const char*>(packed.data()), packed.size());
  if (method == 0) return result;
  std::string whole(method == 8 && size <= largest_npy ? size : 0, '\0');
  result.append(8, '\0');  // the decoder reads ahead
  if (!whole.empty() && stbi_zlib_decode_noheader_buffer(whole.data(), static_cast<int>(size), result.data(),
                                                         static_cast<int>(result.size())) == static_cast<int>(size))
    return whole;
  refuse_file(path, "an array in it cannot be unpacked; write it with numpy.savez, without compression");
}

}  // namespace

WholeNumbers whole_numbers(Bytes bytes, std::vector<std::int64_t> shape, const NumberForm& form,
                           const std::filesystem::path& path) {
  WholeNumbers result{std::move(shape), {}};
  std::uint64_t count = 1;
  for (const std::int64_t extent : result.shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count) || count > largest_npy)
      refuse_file(path, "its shape is larger than any memory");
  }
  if (bytes.size() != count * form.size)
    refuse_file(path, "its shape takes " + std::to_string(count * form.size) + " bytes, and " +
                          std::to_string(bytes.size()) + " follow its header; get or write it again");
  result.values.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    result.values.push_back(number_of(bytes.subspan(i * form.size, form.size), form));
  return result;
}

WholeNumbers read_npy_integers(const std::filesystem::path& path) {
  return parse_npy(read_file(path, largest_npy), path);
}

std::map<std::string, WholeNumbers> read_npz_integers(const std::filesystem::path& path,
                                                      const std::vector<std::string>& names) {
  const std::string content = read_file(path, largest_npy);
  const Bytes bytes = std::as_bytes(std::span(content));
  const auto number = [&](std::uint64_t at, std::uint64_t size) {
    return little_endian(part_of(bytes, at, size, path.string()));
  };
  const std::size_t end = content.rfind("PK\x05\x06");
  if (end == std::string::npos) refuse_file(path, "it is no whole .npz archive; write it with numpy.savez");
  const std::uint64_t members = number(end + 10, 2);
  std::map<std::string, WholeNumbers> arrays;
  std::uint64_t at = number(end + 16, 4);
  for (std::uint64_t member = 0; member < members; ++member) {
    const std::uint64_t name_length = number(at + 28, 2), local = number(at + 42, 4);
    std::string name(reinterpret_cast<const char*>(part_of(bytes, at + 46, name_length, path.string()).data()),
                     name_length);
    name = members == 1 ? names.front() : name.substr(0, name.rfind(".npy"));
    const Bytes packed =
        part_of(bytes, local + 30 + number(local + 26, 2) + number(local + 28, 2), number(at + 20, 4), path.string());
    if (std::ranges::find(names, name) != names.end())
      arrays[name] = parse_npy(unpacked(packed, number(at + 10, 2), number(at + 24, 4), path), path);
    at += 46 + name_length + number(at + 30, 2) + number(at + 32, 2);
  }
  return arrays;
}

namespace {

/// Numbers of bfloat16 are written as floats.
const char* descr_of(StoredType type) {
  constexpr std::array forms{"|b1", "|u1", "<f2", "<f4", "<i4", "<f4", "<f8", "<i8"};  // in the order of StoredType
  return forms[static_cast<std::size_t>(type)];
}

std::string npy_header(const HostTensor& tensor) {
  std::string shape;
  for (const std::int64_t extent : tensor.shape) shape += std::to_string(extent) + ",";
  std::string text =
      std::string("{'descr': '") + descr_of(tensor.type) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t before = 10, alignment = 64;
  text.append((alignment - (before + text.size() + 1) % alignment) % alignment, ' ');
  text += '\n';
  std::string header(magic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 255u), static_cast<char>(text.size() >> 8)};
  return header + text;
}

/// Numbers of a zip record, little-endian.
class Record {
 public:
  Record& two(std::uint32_t value) { return put(value, 2); }
  Record& four(std::uint32_t value) { return put(value, 4); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 255u);
    return *this;
  }
  std::string bytes_;
};

/// One array of the archive.
struct Member {
  std::string name, header, local;
  std::span<const std::byte> data;
  std::uint32_t crc = 0, size = 0;

  /// The fields that local header and directory entry share, from the version on.
  Record& describe(Record& record) const {
    constexpr std::uint32_t version = 20, utf8 = 0x0800, stored = 0, first_day = 33;  // 1 January 1980
    record.two(version).two(utf8).two(stored).two(0).two(first_day);
    return record.four(crc).four(size).four(size).two(static_cast<std::uint32_t>(name.size())).two(0);
  }
};

}  // namespace

std::filesystem::path write_npz(const std::filesystem::path& path, std::span<const HostTensor> tensors,
                                Existing existing) {
  std::uint64_t total = 0;
  std::vector<Member> members(tensors.size());
  std::vector<std::vector<float>> widened(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Member& member = members[i];
    member.name = tensors[i].name + ".npy";
    member.header = npy_header(tensors[i]);
    member.data = tensors[i].bytes;
    if (tensors[i].type == StoredType::bf16) {
      widened[i] = to_floats(tensors[i]);
      member.data = std::as_bytes(std::span(widened[i]));
    }
    total += member.header.size() + member.data.size() + 2 * member.name.size() + 128;
    if (total >= 0xFFFFFFFFu || tensors.size() >= 0xFFFFu)
      throw Error(ExitCode::failure, "cannot write ", path.string(),
                  ": an .npz of more than 4 GiB is not written here; export safetensors");
    member.size = static_cast<std::uint32_t>(member.header.size() + member.data.size());
    const std::string_view data(reinterpret_cast<const char*>(member.data.data()), member.data.size());
    member.crc = crc32_of(member.header, data);
  }
  std::vector<std::span<const std::byte>> pieces;
  std::string directory;
  std::uint32_t offset = 0;
  for (Member& member : members) {
    Record local, line;
    member.local = member.describe(local.text("PK\x03\x04")).text(member.name).bytes();
    member.describe(line.text("PK\x01\x02").two(20)).two(0).two(0).two(0).four(0).four(offset).text(member.name);
    directory += line.bytes();
    offset += static_cast<std::uint32_t>(member.local.size()) + member.size;
    pieces.push_back(std::as_bytes(std::span(member.local)));
    pieces.push_back(std::as_bytes(std::span(member.header)));
    pieces.push_back(member.data);
  }
  const auto count = static_cast<std::uint32_t>(members.size());
  Record end;
  end.text("PK\x05\x06").two(0).two(0).two(count).two(count);
  end.four(static_cast<std::uint32_t>(directory.size())).four(offset).two(0);
  directory += end.bytes();
  pieces.push_back(std::as_bytes(std::span(directory)));
  return write_file_atomically(path, pieces, existing);
}

}  // namespace afterglow
