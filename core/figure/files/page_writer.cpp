// The cairo canvas and the two kinds of page it fills.
#include <cairo-ft.h>
#include <cairo-pdf.h>
#include <cairo.h>
#include <fontconfig/fontconfig.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <vector>

#include "core/figure/files/carried_recipe.h"
#include "core/figure/files/page.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr double max_pixels = 16000;

struct CairoRelease {
  void operator()(cairo_t* p) const { cairo_destroy(p); }
  void operator()(cairo_surface_t* p) const { cairo_surface_destroy(p); }
  void operator()(cairo_font_face_t* p) const { cairo_font_face_destroy(p); }
  void operator()(FcPattern* p) const { FcPatternDestroy(p); }
  void operator()(cairo_font_options_t* p) const { cairo_font_options_destroy(p); }
};
using Cairo = std::unique_ptr<cairo_t, CairoRelease>;
using Surface = std::unique_ptr<cairo_surface_t, CairoRelease>;
using Face = std::unique_ptr<cairo_font_face_t, CairoRelease>;
using Pattern = std::unique_ptr<FcPattern, CairoRelease>;
using FontOptions = std::unique_ptr<cairo_font_options_t, CairoRelease>;

void check(cairo_status_t status, const char* what) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  const ExitCode code = status == CAIRO_STATUS_NO_MEMORY ? ExitCode::out_of_memory : ExitCode::failure;
  throw Error(code, "cannot draw the ", what, ": cairo says ", cairo_status_to_string(status),
              "; try a smaller page or write SVG");
}

cairo_status_t append_bytes(void* closure, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

std::vector<std::filesystem::path>& added_folders() {
  static std::vector<std::filesystem::path> folders;
  return folders;
}

/// Makes fontconfig read its files, before the first page and not at the start of the program. Without memory for them
/// its other functions would retry for ever, and it crashes where memory ends while it reads; so this function first
/// checks for more memory than fontconfig takes.
void load_fonts() {
  constexpr std::size_t enough = std::size_t{32} << 20;
  static std::once_flag once;
  std::call_once(once, [] {
    std::make_unique_for_overwrite<std::byte[]>(enough).reset();
    FcConfig* config = FcInitLoadConfigAndFonts();
    if (config == nullptr) throw std::bad_alloc();
    FcConfigSetCurrent(config);
    FcConfigDestroy(config);  // fontconfig holds its own reference
    for (const std::filesystem::path& folder : added_folders())
      FcConfigAppFontAddDir(config, reinterpret_cast<const FcChar8*>(folder.c_str()));
  });
}

// Selects by pattern, because cairo's own selection takes Inter Medium for normal text. Fontconfig gives the nearest
// font of the system.
Face font_face(FontFace face, bool is_fallback) {
  load_fonts();
  const bool is_mono = face == FontFace::mono;
  const char* preferred = is_mono ? "JetBrains Mono" : "Inter";
  const char* fallback = is_mono ? "DejaVu Sans Mono" : "DejaVu Sans";
  const Pattern wanted(FcPatternCreate());
  const auto add_family = [&](const char* name) {
    FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>(name));
  };
  if (!is_fallback) add_family(preferred);
  add_family(fallback);
  FcPatternAddInteger(wanted.get(), FC_WEIGHT, face == FontFace::semibold ? FC_WEIGHT_SEMIBOLD : FC_WEIGHT_REGULAR);
  FcPatternAddInteger(wanted.get(), FC_SLANT, FC_SLANT_ROMAN);
  FcConfigSubstitute(nullptr, wanted.get(), FcMatchPattern);
  FcDefaultSubstitute(wanted.get());
  FcResult result = FcResultMatch;
  const Pattern found(FcFontMatch(nullptr, wanted.get(), &result));
  return Face(cairo_ft_font_face_create_for_pattern(found ? found.get() : wanted.get()));
}

// Text in the preferred font, with single characters taken from the fallback where it lacks them.
class Typesetter {
 public:
  explicit Typesetter(cairo_t* cr) : cr_(cr) {}

  void draw(Point place, std::string_view utf8, const TextStyle& style) {
    const std::vector<Run> runs = split(printable(utf8), style.face);
    double width = 0;
    for (const Run& run : runs) width += advance(run, style.face, style.size);
    // The layout used the widths of Inter: a wider font is drawn smaller, not clipped.
    const double expected = text_width_of(utf8, style.size, style.face);
    const double shrink = width > 1.03 * expected && width > 0 ? expected / width : 1;
    const double shift = shift_of(style.anchor, width);
    cairo_save(cr_);
    cairo_translate(cr_, place.x, place.y);
    cairo_rotate(cr_, -style.rotation * std::numbers::pi / 180);
    cairo_move_to(cr_, -shift * shrink, 0);
    for (const Run& run : runs) {
      select(style.face, run.is_fallback);
      cairo_set_font_size(cr_, style.size * shrink);
      cairo_show_text(cr_, run.text.c_str());
    }
    cairo_restore(cr_);
  }

 private:
  struct Run {
    std::string text;
    bool is_fallback;
  };

  void select(FontFace face, bool is_fallback) {
    Face& known = faces_[{face, is_fallback}];
    if (!known) known = font_face(face, is_fallback);
    cairo_set_font_face(cr_, known.get());
  }

  double advance(const Run& run, FontFace face, double size) {
    select(face, run.is_fallback);
    cairo_set_font_size(cr_, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cr_, run.text.c_str(), &extents);
    return extents.x_advance;
  }

  // Glyph 0 is the box for characters that a font lacks.
  bool has_glyph(const std::string& character, FontFace face) {
    const auto key = std::pair(face, character);
    if (const auto known = has_glyph_.find(key); known != has_glyph_.end()) return known->second;
    select(face, false);
    cairo_glyph_t* glyphs = nullptr;
    int count = 0;
    const cairo_status_t status = cairo_scaled_font_text_to_glyphs(cairo_get_scaled_font(cr_), 0, 0, character.data(),
                                                                   static_cast<int>(character.size()), &glyphs, &count,
                                                                   nullptr, nullptr, nullptr);
    const bool has = status == CAIRO_STATUS_SUCCESS && count > 0 && glyphs[0].index != 0;
    cairo_glyph_free(glyphs);
    return has_glyph_[key] = has;
  }

  std::vector<Run> split(const std::string& text, FontFace face) {
    std::vector<Run> runs;
    std::string_view rest = text;
    while (!rest.empty()) {
      std::string character;
      append_utf8(character, take_character(rest));
      const bool is_fallback = !has_glyph(character, face);
      if (runs.empty() || runs.back().is_fallback != is_fallback) runs.push_back({"", is_fallback});
      runs.back().text += character;
    }
    return runs;
  }

  cairo_t* cr_;
  std::map<std::pair<FontFace, bool>, Face> faces_;
  std::map<std::pair<FontFace, std::string>, bool> has_glyph_;
};

class CairoCanvas : public Canvas {
 public:
  CairoCanvas(cairo_t* cr, double pixel) : cr_(cr), pixel_(pixel), type_(cr) {
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    const FontOptions options(cairo_font_options_create());
    cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(cr, options.get());
  }

  void polyline(std::span<const Point> points, const Stroke& stroke) override {
    if (points.size() < 2) return;
    path(points);
    finish(stroke);
  }

  void polygon(std::span<const Point> points, Color fill) override {
    if (points.size() < 3) return;
    path(points);
    cairo_close_path(cr_);
    finish(fill);
  }

  void fill_rect(const Rect& rect, double radius, Color fill) override {
    rect_path(rect, radius);
    finish(fill);
  }

  void stroke_rect(const Rect& rect, double radius, const Stroke& stroke) override {
    rect_path(rect, radius);
    finish(stroke);
  }

  void fill_circle(Point centre, double radius, Color fill) override {
    circle_path(centre, radius);
    finish(fill);
  }

  void stroke_circle(Point centre, double radius, const Stroke& stroke) override {
    circle_path(centre, radius);
    finish(stroke);
  }

  void text(Point place, std::string_view utf8, const TextStyle& style) override {
    source(style.color);
    type_.draw(place, utf8, style);
  }

  void push_clip(const Rect& rect) override {
    cairo_save(cr_);
    cairo_rectangle(cr_, rect.x, rect.y, rect.width, rect.height);
    cairo_clip(cr_);
  }

  void pop_clip() override { cairo_restore(cr_); }

  void color_grid(const Rect& rect, int rows, int cols, std::span<const Color> cells) override {
    if (rows <= 0 || cols <= 0 || cells.size() < static_cast<std::size_t>(rows) * cols) return;
    const Surface image(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, cols, rows));
    check(cairo_surface_status(image.get()), "heat map");
    cairo_surface_flush(image.get());
    unsigned char* data = cairo_image_surface_get_data(image.get());
    const int stride = cairo_image_surface_get_stride(image.get());
    for (int row = 0; row < rows; ++row) {
      auto* line = reinterpret_cast<std::uint32_t*>(data + static_cast<std::ptrdiff_t>(row) * stride);
      for (int col = 0; col < cols; ++col) line[col] = premultiplied(cells[static_cast<std::size_t>(row) * cols + col]);
    }
    cairo_surface_mark_dirty(image.get());
    cairo_save(cr_);
    cairo_translate(cr_, rect.x, rect.y);
    cairo_scale(cr_, rect.width / cols, rect.height / rows);
    cairo_set_source_surface(cr_, image.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr_), CAIRO_FILTER_NEAREST);
    cairo_rectangle(cr_, 0, 0, cols, rows);
    cairo_fill(cr_);
    cairo_restore(cr_);
  }

  double pixel() const override { return pixel_; }

 private:
  static std::uint32_t premultiplied(Color c) {
    const auto part = [&](std::uint32_t channel) { return (channel * c.a + 127) / 255; };
    return static_cast<std::uint32_t>(c.a) << 24 | part(c.r) << 16 | part(c.g) << 8 | part(c.b);
  }

  void source(Color c) { cairo_set_source_rgba(cr_, c.r / 255.0, c.g / 255.0, c.b / 255.0, c.a / 255.0); }

  void path(std::span<const Point> points) {
    cairo_new_path(cr_);
    for (const Point p : points) cairo_line_to(cr_, p.x, p.y);
  }

  void rect_path(const Rect& r, double radius) {
    constexpr double quarter = std::numbers::pi / 2;
    const double c = std::min(radius, std::min(r.width, r.height) / 2);
    cairo_new_path(cr_);
    if (c <= 0) return cairo_rectangle(cr_, r.x, r.y, r.width, r.height);
    cairo_arc(cr_, r.right() - c, r.y + c, c, -quarter, 0);
    cairo_arc(cr_, r.right() - c, r.bottom() - c, c, 0, quarter);
    cairo_arc(cr_, r.x + c, r.bottom() - c, c, quarter, 2 * quarter);
    cairo_arc(cr_, r.x + c, r.y + c, c, 2 * quarter, 3 * quarter);
    cairo_close_path(cr_);
  }

  void circle_path(Point centre, double radius) {
    cairo_new_path(cr_);
    cairo_arc(cr_, centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
    cairo_close_path(cr_);
  }

  void finish(Color fill) {
    source(fill);
    cairo_fill(cr_);
  }

  void finish(const Stroke& stroke) {
    source(stroke.color);
    cairo_set_line_width(cr_, stroke.width);
    std::vector<double> dashes;
    for (const double length : dash_pattern(stroke.dash)) dashes.push_back(length * stroke.width);
    cairo_set_dash(cr_, dashes.data(), static_cast<int>(dashes.size()), 0);
    cairo_stroke(cr_);
  }

  cairo_t* cr_;
  double pixel_;
  Typesetter type_;
};

void set_metadata(cairo_surface_t* surface, const std::string& title, const std::string& subject) {
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, printable(title).c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT, printable(subject).c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, "Afterglow");
  // Otherwise cairo writes the current time and time zone, so that equal figures would differ.
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
}

using DrawPages = std::function<void(Canvas& canvas, const std::function<void()>& next_page)>;

std::string pdf_of(const PageSize& page, const std::string& title, const std::string& subject, const DrawPages& draw) {
  std::string bytes;
  const Surface surface(cairo_pdf_surface_create_for_stream(append_bytes, &bytes, page.width_pt(), page.height_pt()));
  check(cairo_surface_status(surface.get()), "PDF");
  cairo_pdf_surface_restrict_to_version(surface.get(), CAIRO_PDF_VERSION_1_4);
  set_metadata(surface.get(), title, subject);
  {
    const Cairo cr(cairo_create(surface.get()));
    CairoCanvas canvas(cr.get(), page_pixel(page));
    draw(canvas, [&] { cairo_show_page(cr.get()); });
    cairo_show_page(cr.get());
    check(cairo_status(cr.get()), "PDF");
  }
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()), "PDF");
  return bytes;
}

}  // namespace

std::string pdf_bytes(const Figure& figure, const PageSize& wanted, const Theme& theme, const FigureView& view) {
  const PageSize page = usable_page(wanted);
  std::string bytes = pdf_of(page, figure.heading.empty() ? figure.title : figure.heading, figure.provenance,
                             [&](Canvas& canvas, const auto&) { draw_page(figure, page, theme, view, canvas); });
  return pdf_with_recipe(std::move(bytes), figure.recipe);
}

std::string pdf_document(const PageSize& page, const std::string& title, const DrawPages& draw) {
  return pdf_of(usable_page(page), title, "", draw);
}

std::string png_bytes(const Figure& figure, const PageSize& wanted, const Theme& theme, const FigureView& view,
                      double dots_per_inch) {
  const PageSize page = usable_page(wanted);
  const double scale = dots_per_inch / 72;
  const double width = std::round(page.width_pt() * scale), height = std::round(page.height_pt() * scale);
  if (!(width >= 1 && height >= 1 && width <= max_pixels && height <= max_pixels))
    throw BadInput("cannot draw a PNG of ", std::llround(page.width_mm), " mm at ", number_text(dots_per_inch),
                   " dpi: at most 16,000 pixels a side; choose a smaller size or PDF");
  const Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height)));
  check(cairo_surface_status(surface.get()), "PNG");
  {
    const Cairo cr(cairo_create(surface.get()));
    cairo_scale(cr.get(), width / page.width_pt(), height / page.height_pt());
    CairoCanvas canvas(cr.get(), 1 / scale);
    draw_page(figure, page, theme, view, canvas);
    check(cairo_status(cr.get()), "PNG");
  }
  std::string bytes;
  check(cairo_surface_write_to_png_stream(surface.get(), append_bytes, &bytes), "PNG");
  return png_with_recipe(bytes, dots_per_inch, figure.recipe, printable(figure.provenance));
}

void add_page_fonts(const std::filesystem::path& folder) { added_folders().push_back(folder); }

bool has_page_writer() { return true; }

}  // namespace afterglow
