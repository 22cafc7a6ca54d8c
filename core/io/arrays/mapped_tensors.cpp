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
#include "core/io/error.h"
#include "core/io/safetensors_header.h"
#include "core/io/temporary_file.h"

namespace afterglow {

namespace {

std::span<const std::byte> mapped(const std::filesystem::path& path) {
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
  return {static_cast<const std::byte*>(address), size};
}

void unmap(std::span<const std::byte> bytes) {
  if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
}

}  // namespace

void give_back_pages(std::span<const std::byte> bytes) {
  constexpr std::uintptr_t page = 4096;
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()), begin = (first + page - 1) / page * page,
             end = (first + bytes.size()) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(bytes.data()) + (begin - first), end - begin, MADV_DONTNEED);
}

MappedTensors::MappedTensors(const std::filesystem::path& path) : bytes_(mapped(path)) {
  try {
    const std::string_view text = header_text(bytes_, path.string());
    const std::size_t begin = header_length_bytes + text.size();
    const Bytes data = part_of(bytes_, begin, bytes_.size() - begin, path.string());
    Header header = parse_header(text, data.size(), path.string());
    metadata_ = std::move(header.metadata);
    for (HeaderEntry& entry : header.entries) {
      tensors_.push_back({std::move(entry.name), entry.type, std::move(entry.other_type), std::move(entry.shape),
                          part_of(data, entry.begin, entry.end - entry.begin, path.string())});
    }
  } catch (...) {
    unmap(bytes_);
    throw;
  }
}

MappedTensors::~MappedTensors() { unmap(bytes_); }

MappedTensors::MappedTensors(MappedTensors&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

MappedTensors& MappedTensors::operator=(MappedTensors&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(tensors_, other.tensors_);
  std::swap(metadata_, other.metadata_);
  return *this;
}

}  // namespace afterglow
