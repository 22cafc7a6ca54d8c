// Reading whole files within a limit, and writing them so that a reader sees the old file or the new one, never a half.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// What becomes of a file that has the name already.
enum class Existing {
  replace,            ///< the new one takes its place; of a symbolic link the place of what it points to
  replace_in_folder,  ///< the same, but a link that leads out of its folder is refused
  keep                ///< it stays, also when it came a moment ago: the new one has free_path's name
};

/// Writes `bytes` to a temporary name in the same folder, synced, renamed, folder synced. Returns the name it has then.
/// If anything fails, the old file is untouched, no temporary file stays, and an Error says what, where and what to do:
/// bad_input for a path that cannot be written (missing folder, no permission, a NUL), failure for the disk (full,
/// broken). A device or pipe cannot be replaced and is written to directly.
std::filesystem::path write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                                            Existing existing = Existing::replace);
std::filesystem::path write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes,
                                            Existing existing = Existing::replace);

/// The same for content in several pieces, written one after the other without being copied together.
std::filesystem::path write_file_atomically(const std::filesystem::path& path,
                                            std::span<const std::span<const std::byte>> pieces,
                                            Existing existing = Existing::replace);

/// The same for a name that nothing has; false, and nothing is written, where something has it.
bool create_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Throws the Error of `write_file_atomically` for a file that cannot be written: a program asks before hours of work.
/// It is tried with an empty file in the same folder, which is removed again.
void require_writable(const std::filesystem::path& path);

/// The whole file. Throws Error(bad_input) if it is missing, unreadable, a folder, a pipe, or holds more than
/// `max_bytes`. Devices, which have no size, are read to their end or to `max_bytes`, whichever comes first.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

/// What Git LFS puts in the place of a large file begins so; read_file refuses it.
inline constexpr std::string_view lfs_pointer = "version https://git-lfs";
[[noreturn]] void refuse_lfs_pointer(const std::filesystem::path& path);

/// Throws Error(bad_input) "cannot read FILE: what".
[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& what);
/// The same for one that is not there.
[[noreturn]] void refuse_missing_file(const std::filesystem::path& path);

/// Throws Error(bad_input) for a path that holds a NUL: the system would cut it there and write another file.
void refuse_nul(const std::filesystem::path& path);

/// `path` if nothing is there, else the first of "stem_2.ext", "stem_3.ext", ... where nothing is. Refuses a NUL.
std::filesystem::path free_path(const std::filesystem::path& path);

}  // namespace afterglow
