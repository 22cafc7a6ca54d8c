// Stands in for page_writer.cpp in builds without cairo.
#include "core/figure/files/page.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

[[noreturn]] void throw_missing(const std::string& kind) {
  throw Error(ExitCode::failure, "cannot write ", kind,
              ": this build has no cairo; install libcairo2-dev and configure with -DAFTERGLOW_FIGURES=ON, or write "
              "SVG, which needs nothing");
}

}  // namespace

std::string pdf_bytes(const Figure&, const PageSize&, const Theme&, const FigureView&) { throw_missing("PDF"); }

std::string pdf_document(const PageSize&, const std::string&,
                         const std::function<void(Canvas&, const std::function<void()>&)>&) {
  throw_missing("PDF");
}

std::string png_bytes(const Figure&, const PageSize&, const Theme&, const FigureView&, double) { throw_missing("PNG"); }

void add_page_fonts(const std::filesystem::path&) {}

bool has_page_writer() { return false; }

}  // namespace afterglow
