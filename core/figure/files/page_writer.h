// PDF and PNG of a figure. Built with cairo; without it every call says what to install.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "core/figure/files/page.h"

namespace afterglow {

/// A PDF 1.4 page with text as text, fonts embedded, and the recipe. Equal figures give equal bytes on one machine.
/// Throws Error(failure) when this build has no page writer or cairo fails.
std::string pdf_bytes(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                      const FigureView& view = {});

/// A PDF of several pages. `draw` gets the canvas of the first one, and a function that begins the next. Throws as
/// `pdf_bytes`.
std::string pdf_document(const PageSize& page, const std::string& title,
                         const std::function<void(Canvas& canvas, const std::function<void()>& next_page)>& draw);

/// A picture of the page at its physical size, with the recipe. Throws like `pdf_bytes`, and Error(bad_input) beyond
/// 16,000 pixels a side.
std::string png_bytes(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                      const FigureView& view = {}, double dots_per_inch = 300);

/// Adds the fonts of this folder for systems that lack them. Call before the first page.
void add_page_fonts(const std::filesystem::path& folder);

/// Whether this build writes PDF and PNG.
bool has_page_writer();

}  // namespace afterglow
