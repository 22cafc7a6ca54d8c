// Maps a safetensors file and checks its header.
#include "core/io/arrays/mapped_tensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/io/atomic_file.h"
#include "core/io/byte_parts.h"
#include "core/io/safetensors_header.h"
#include "core/io/temporary_file.h"

namespace afterglow {

void MappedTensors::Unmap::operator()(const std::byte* begin) const { ::munmap(const_cast<std::byte*>(begin), size); }

MappedTensors::Mapping MappedTensors::mapped(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe without a writer fails at once.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) refuse_file(path, std::string(std::strerror(errno)) + "; check the name and its permissions");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse_file(path, "it is a folder or a device; give the name of a safetensors file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) refuse_file(path, "it is empty; get or write it again");
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) refuse_file(path, std::string(std::strerror(errno)) + "; copy it to a local disk");
  return {static_cast<const std::byte*>(address), Unmap{size}};
}

void give_back_pages(std::span<const std::byte> bytes) {
  constexpr std::uintptr_t page = 4096;
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()), begin = (first + page - 1) / page * page,
             end = (first + bytes.size()) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(bytes.data()) + (begin - first), end - begin, MADV_DONTNEED);
}

MappedTensors::MappedTensors(const std::filesystem::path& path) : file_(mapped(path)) {
  const std::string_view text = header_text(bytes(), path.string());
  const std::size_t begin = header_length_bytes + text.size();
  const Bytes data = part_of(bytes(), begin, bytes().size() - begin, path.string());
  Header header = parse_header(text, data.size(), path.string());
  metadata_ = std::move(header.metadata);
  for (HeaderEntry& entry : header.entries)
    tensors_.push_back({std::move(entry.name), entry.type, std::move(entry.other_type), std::move(entry.shape),
                        part_of(data, entry.begin, entry.end - entry.begin, path.string())});
}

}  // namespace afterglow
