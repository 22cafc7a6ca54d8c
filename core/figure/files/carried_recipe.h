// The recipe inside figure files: the writers embed it, the window reads it from files that the user drops on it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace afterglow {

/// `<recipe>` element for `<metadata>`: plain escaped text with a checksum, base64 where XML could not hold the bytes.
std::string svg_recipe_element(std::string_view recipe);

/// A PNG with its physical resolution (pHYs) and, where not empty, the recipe and a comment (iTXt) after its header.
std::string png_with_recipe(std::string_view png, double dots_per_inch, std::string_view recipe,
                            std::string_view comment);

/// A PDF with the recipe in comment lines before its cross-reference table, which every reader skips, and without a
/// creation date, so that equal figures are equal files.
std::string pdf_with_recipe(std::string pdf, std::string_view recipe);

/// The recipe as a comment, the last line of a CSV file; empty without a recipe.
std::string csv_recipe_line(std::string_view recipe);

/// The recipe in the bytes of an SVG, PDF, PNG or CSV file; nothing when it carries none. Throws Error(bad_input),
/// naming `path`, when the bytes are of another format or the recipe is damaged. Allocates at most a few times the size
/// of the bytes.
std::optional<std::string> recipe_in(std::string_view bytes, const std::string& path);

}  // namespace afterglow
