// Reading whole files within a limit, and writing them so that a reader sees the old file or the new one, never a half.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace afterglow {

/// Replaces `path` by `bytes`: written to a temporary name in the same folder, synced, renamed, folder synced.
/// If anything fails, the old file is untouched, no temporary file stays, and an Error says what, where and what to do:
/// bad_input for a path that cannot be written (missing folder, no permission, a NUL), failure for the disk (full,
/// broken). A symbolic link is followed; a device or pipe cannot be replaced and is written to directly.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// The same for content in several pieces, written one after the other without being copied together.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> pieces);

/// The whole file. Throws Error(bad_input) if it is missing, unreadable, a folder, or holds more than `max_bytes`.
/// Pipes and devices, which have no size, are read to their end or to `max_bytes`, whichever comes first.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes);

/// Throws Error(bad_input) for a path that holds a NUL: the system would cut it there and write another file.
void refuse_nul(const std::filesystem::path& path);

/// `path` if nothing is there, else the first of "stem_2.ext", "stem_3.ext", ... where nothing is. Refuses a NUL.
std::filesystem::path free_path(const std::filesystem::path& path);

}  // namespace afterglow
