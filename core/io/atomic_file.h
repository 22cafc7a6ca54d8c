// Reads whole files within a limit, and writes them so that a reader sees the old or the new file, never a part.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// What happens to an existing file of that name.
enum class Existing {
  replace,            ///< the new file replaces it; of a symbolic link, the target
  replace_in_folder,  ///< the same, but a link out of its folder is an error
  keep                ///< it stays, also if it is new: the new file gets the name of free_path
};

/// Writes `bytes` to a temporary name in the same folder, synced, renamed, folder synced. Returns its final name.
/// If anything fails, the old file is untouched, no temporary file stays, and an Error says what, where and what to do:
/// bad_input for a path that cannot be written (missing folder, no permission, a NUL), failure for the disk (full,
/// broken). A device or pipe cannot be replaced and is written to directly.
std::filesystem::path write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                                            Existing existing = Existing::replace);
std::filesystem::path write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                                            Existing existing = Existing::replace);

/// The same for content in several pieces, which it writes in order without joining them in memory.
std::filesystem::path write_file_atomically(const std::filesystem::path& path,
                                            std::span<const std::span<const std::byte>> pieces,
                                            Existing existing = Existing::replace);

/// The same for a new name; false without writing where a file has the name.
bool create_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Throws the Error of `write_file_atomically` for a file that cannot be written: a check before hours of work. It
/// writes an empty file in the same folder and removes it.
void require_writable(const std::filesystem::path& path);

/// The whole file. Throws Error(bad_input) if it is missing, unreadable, a folder, a pipe, or holds more than
/// `max_bytes`. Devices, which have no size, are read to their end or to `max_bytes`, whichever comes first.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

/// Start of the pointer that Git LFS stores instead of a large file; read_file throws for it.
inline constexpr std::string_view lfs_pointer = "version https://git-lfs";
[[noreturn]] void refuse_lfs_pointer(const std::filesystem::path& path);

/// Throws Error(bad_input) "cannot read FILE: what".
[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& what);
/// The same for a missing file.
[[noreturn]] void refuse_missing_file(const std::filesystem::path& path);

/// Throws Error(bad_input) for a path that holds a NUL: the system would cut it there and write another file.
void refuse_nul(const std::filesystem::path& path);

/// `path` if it is free, else the first free one of "stem_2.ext", "stem_3.ext", ... Throws for a NUL.
std::filesystem::path free_path(const std::filesystem::path& path);

}  // namespace afterglow
