// Writes a figure in several formats without overwriting files, and reads its recipe back.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/figure/files/page.h"

namespace afterglow {

enum class FigureFormat { svg, pdf, png, csv };

struct WriteOptions {
  bool overwrite = false;        ///< otherwise a number is added to the name: loss_2.svg, the same one for all formats
  FigureView view{};             ///< ranges, hidden series and cursors as on the screen
  bool visible_only = false;     ///< CSV holds what the view shows instead of everything
  bool shows_title = true;       ///< on a page of a preset
  const Theme* theme = nullptr;  ///< the light theme on white unless given
};

/// Writes `path` in every format; its extension is replaced, or, where `formats` is empty, chooses the format. Returns
/// the files in the order of the formats. Every file appears whole or not at all. Throws Error: usage for an unknown
/// extension without formats, bad_input for a folder that cannot be written, failure for a full disk or formats that
/// this build lacks - before any file is written.
std::vector<std::filesystem::path> write_figure(const Figure& figure, const std::filesystem::path& path,
                                                std::vector<FigureFormat> formats, const PageSize& page,
                                                const WriteOptions& options = {});
std::vector<std::filesystem::path> write_figure(const Figure& figure, const std::filesystem::path& path,
                                                std::vector<FigureFormat> formats,
                                                SizePreset preset = SizePreset::one_column,
                                                const WriteOptions& options = {});

/// The recipe in an exported SVG, PDF, PNG or CSV file; nothing when it carries none. Throws Error(bad_input) for a
/// file that is missing, larger than 256 MiB, of another kind or damaged.
std::optional<std::string> read_recipe(const std::filesystem::path& path);

/// "svg", "pdf", "png", "csv"; nothing for anything else. Case does not matter, nor a leading dot.
std::optional<FigureFormat> format_of(std::string extension);
std::string extension_of(FigureFormat format);

}  // namespace afterglow
