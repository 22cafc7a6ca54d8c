// Makes the bytes of all formats, then chooses names, then writes: a format that fails leaves no incomplete set.
#include "core/figure/files/figure_files.h"

#include <algorithm>
#include <array>

#include "core/figure/files/carried_recipe.h"
#include "core/figure/files/csv_writer.h"
#include "core/figure/files/page.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_figure_file = std::size_t{256} << 20;

std::string bytes_of(const Figure& figure, FigureFormat format, const PageSize& page, const WriteOptions& options) {
  const Theme& theme = options.theme ? *options.theme : light_theme();
  if (format == FigureFormat::svg) return svg_text(figure, page, theme, options.view);
  if (format == FigureFormat::pdf) return pdf_bytes(figure, page, theme, options.view);
  if (format == FigureFormat::png) return png_bytes(figure, page, theme, options.view);
  return (options.visible_only ? csv_text_of_view(figure, options.view) : csv_text(figure)) +
         csv_recipe_line(figure.recipe);
}

fs::path named(const fs::path& stem, int number, FigureFormat format) {
  fs::path name = stem;
  if (number > 1) name += "_" + std::to_string(number);
  name += "." + extension_of(format);
  return name;
}

// The first number for which no file of the set exists, so that files written together stay together.
int free_number(const fs::path& stem, const std::vector<FigureFormat>& formats) {
  for (int number = 1;; ++number) {
    const bool is_taken = std::ranges::any_of(formats, [&](FigureFormat format) {
      std::error_code ignored;  // the writer reports a path that cannot be read
      return fs::exists(fs::symlink_status(named(stem, number, format), ignored));
    });
    if (!is_taken) return number;
  }
}

std::vector<fs::path> overwritten(const fs::path& stem, const std::vector<FigureFormat>& formats,
                                  const std::vector<std::string>& contents) {
  std::vector<fs::path> written;
  for (std::size_t i = 0; i < formats.size(); ++i)
    written.push_back(
        write_file_atomically(named(stem, 1, formats[i]), std::string_view(contents[i]), Existing::replace_in_folder));
  return written;
}

/// Empty where another program has taken one of the names in the meantime.
std::vector<fs::path> created(const fs::path& stem, int number, const std::vector<FigureFormat>& formats,
                              const std::vector<std::string>& contents) {
  std::vector<fs::path> written;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const fs::path name = named(stem, number, formats[i]);
    if (!create_file_atomically(name, contents[i])) {
      for (const fs::path& mine : written) fs::remove(mine);
      return {};
    }
    written.push_back(name);
  }
  return written;
}

}  // namespace

std::vector<fs::path> write_figure(const Figure& figure, const fs::path& path, std::vector<FigureFormat> formats,
                                   const PageSize& page, const WriteOptions& options) {
  refuse_nul(path);
  const auto from_name = format_of(path.extension().string());
  if (formats.empty() && !from_name)
    throw UsageError("cannot write ", path.string(), ": its name says no format; end it in .svg, .pdf, .png or .csv");
  if (formats.empty()) formats = {*from_name};
  fs::path stem = path;
  if (from_name) stem.replace_extension();
  std::vector<std::string> contents;
  for (const FigureFormat format : formats) contents.push_back(bytes_of(figure, format, page, options));
  if (options.overwrite) return overwritten(stem, formats, contents);
  for (;;) {  // until no other program takes one of the names in the meantime
    const std::vector<fs::path> written = created(stem, free_number(stem, formats), formats, contents);
    if (!written.empty()) return written;
  }
}

std::vector<fs::path> write_figure(const Figure& figure, const fs::path& path, std::vector<FigureFormat> formats,
                                   SizePreset preset, const WriteOptions& options) {
  PageSize page = page_size(preset, figure);
  page.shows_title = options.shows_title;
  return write_figure(figure, path, std::move(formats), page, options);
}

std::optional<std::string> read_recipe(const fs::path& path) {
  return recipe_in(read_file(path, max_figure_file), path.string());
}

std::optional<FigureFormat> format_of(std::string extension) {
  if (extension.starts_with('.')) extension.erase(0, 1);
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const FigureFormat format : {FigureFormat::svg, FigureFormat::pdf, FigureFormat::png, FigureFormat::csv}) {
    if (extension == extension_of(format)) return format;
  }
  return std::nullopt;
}

std::string extension_of(FigureFormat format) {
  constexpr std::array extensions{"svg", "pdf", "png", "csv"};
  return extensions[static_cast<std::size_t>(format)];
}

}  // namespace afterglow
