// Finds Inter, JetBrains Mono and DejaVu, and bakes a small atlas with Latin, Greek and mathematics.
#include <stb_truetype.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <span>

#include "views/look/imgui_compat.h"
#include "views/look/look.h"

namespace afterglow {

namespace fs = std::filesystem;

namespace {

// Pairs of first and last character, ended by 0; few, so that the atlas is ready in the first frame.
constexpr std::array<ImWchar, 25> letters{0x20,   0x7E,   0xA0,   0xFF,   0x391,  0x3C9,  0x2010, 0x2026, 0x2032,
                                          0x2033, 0x2070, 0x209C, 0x2190, 0x2193, 0x2202, 0x2265, 0x21E5, 0x21E5,
                                          0x23CE, 0x23CE, 0x2423, 0x2423, 0xFFFD, 0xFFFD, 0};
constexpr std::array<ImWchar, 31> symbols{0x21E5, 0x21E5, 0x23CE, 0x23CE, 0x2423, 0x2423, 0x391,  0x3C9,
                                          0x1D40, 0x1D40, 0x1D57, 0x1D57, 0x2032, 0x2033, 0x2070, 0x209C,
                                          0x2190, 0x2193, 0x2202, 0x2265, 0x22C5, 0x22C5, 0x2500, 0x2502,
                                          0x25A0, 0x25CF, 0x27E8, 0x27E9, 0xFFFD, 0xFFFD, 0};

/// Of the one large number of a slide.
constexpr std::array<ImWchar, 11> numbers{0x20, 0x3F, 0xB2, 0xD7, 0x2070, 0x207B, 0x2190, 0x2193, 0x2202, 0x2265, 0};

constexpr std::uintmax_t max_font_file = 32u << 20;

std::vector<unsigned char> read_font(const std::optional<fs::path>& path) {
  std::error_code error;
  if (!path) return {};
  const std::uintmax_t size = fs::file_size(*path, error);
  if (error || size == 0 || size > max_font_file) return {};
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size));
  std::ifstream file(*path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) return {};
  return bytes;
}

/// Line height of an em, or 0 if the bytes are not a usable font.
float height_of_em(const std::vector<unsigned char>& bytes) {
  if (bytes.size() < 12) return 0;
  const int offset = stbtt_GetFontOffsetForIndex(bytes.data(), 0);
  stbtt_fontinfo info;
  if (offset < 0 || !stbtt_InitFont(&info, bytes.data(), offset)) return 0;
  return stbtt_ScaleForMappingEmToPixels(&info, 1.0f) / stbtt_ScaleForPixelHeight(&info, 1.0f);
}

void add_font_folders(std::vector<fs::path>& folders, const char* list, const char* fallback) {
  std::string rest = list && *list ? list : fallback;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string folder = rest.substr(0, end);
    if (!folder.empty()) folders.emplace_back(fs::path(folder) / "fonts");
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
}

}  // namespace

std::vector<fs::path> font_folders() {
  std::vector<fs::path> folders;
  const char* home = std::getenv("HOME");
  const std::string own = home && *home ? std::string(home) + "/.local/share" : "";
  add_font_folders(folders, std::getenv("XDG_DATA_HOME"), own.c_str());
  if (!own.empty()) folders.emplace_back(fs::path(home) / ".fonts");
  add_font_folders(folders, std::getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share");
  return folders;
}

FontFiles find_fonts(const std::vector<fs::path>& folders) {
  // Names in the order of preference; the first that exists is used.
  static constexpr std::array regular{"Inter-Regular.otf", "Inter-Regular.ttf", "DejaVuSans.ttf"};
  static constexpr std::array semibold{"Inter-SemiBold.otf", "Inter-SemiBold.ttf", "DejaVuSans-Bold.ttf"};
  static constexpr std::array mono{"JetBrainsMono-Regular.ttf", "JetBrainsMono-Regular.otf", "DejaVuSansMono.ttf"};
  static constexpr std::array gaps{"DejaVuSans.ttf", "DejaVuMathTeXGyre.ttf", "NotoSansMath-Regular.ttf"};
  struct Wanted {
    const std::array<const char*, 3>& names;
    std::optional<fs::path> FontFiles::*face;
    std::size_t rank = 3;
  };
  std::array wanted{Wanted{regular, &FontFiles::regular}, Wanted{semibold, &FontFiles::semibold},
                    Wanted{mono, &FontFiles::mono}, Wanted{gaps, &FontFiles::symbols}};
  FontFiles files;
  for (const fs::path& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      for (Wanted& face : wanted) {
        for (std::size_t i = 0; i < face.rank; ++i) {
          if (name != face.names[i]) continue;
          face.rank = i;
          files.*face.face = entry->path();
        }
      }
    }
  }
  return files;
}

void FontSet::bake(ImFontAtlas& atlas, const FontFiles& files, float scale, float density, bool has_slides) {
  density_ = density;
  atlas.Clear();
  baked_.clear();
  bytes_ = {read_font(files.regular), read_font(files.semibold), read_font(files.mono), read_font(files.symbols)};
  std::array<float, 4> ratio{};
  for (std::size_t i = 0; i < ratio.size(); ++i) ratio[i] = height_of_em(bytes_[i]);
  struct Size {
    FontFace face;
    float em;
    const ImWchar* signs = letters.data();
  };
  // The first one is Dear ImGui's default font.
  static constexpr std::array sizes{Size{FontFace::regular, 13},  Size{FontFace::regular, 12},
                                    Size{FontFace::regular, 11},  Size{FontFace::semibold, 13},
                                    Size{FontFace::semibold, 11}, Size{FontFace::semibold, 15},
                                    Size{FontFace::mono, 12},     Size{FontFace::mono, 11},
                                    Size{FontFace::regular, 8},   Size{FontFace::mono, 8},  // sizes of scripts
                                    Size{FontFace::regular, 17},  // of slides, as the next two
                                    Size{FontFace::semibold, 21}, Size{FontFace::semibold, 46, numbers.data()}};
  constexpr std::size_t of_slides = 3;
  for (const Size& size : std::span(sizes).first(sizes.size() - (has_slides ? 0 : of_slides))) {
    const float em = std::round(size.em * scale * density * 2) / 2;
    auto file = static_cast<std::size_t>(size.face);
    if (ratio[file] <= 0) file = 0;
    ImFontConfig config;
    if (ratio[file] <= 0) {
      config.SizePixels = std::round(em);
      baked_.push_back({size.face, em, 1, atlas.AddFontDefault(&config)});
      continue;
    }
    config.FontDataOwnedByAtlas = false;
    config.OversampleH = scale * density < 1.6f ? 2 : 1;
    config.OversampleV = 1;
    const float height = em * ratio[file];
    ImFont* font = atlas.AddFontFromMemoryTTF(bytes_[file].data(), static_cast<int>(bytes_[file].size()), height,
                                              &config, size.signs);
    baked_.push_back({size.face, em, ratio[file], font});
    scale_font(font, 1 / density);
    if (ratio[3] <= 0 || size.signs != letters.data()) continue;
    ImFontConfig merged = config;
    merged.MergeMode = true;
    // DejaVu's line is taller than Inter's, so the same em needs its own height; Dear ImGui aligns the baselines.
    atlas.AddFontFromMemoryTTF(bytes_[3].data(), static_cast<int>(bytes_[3].size()), em * 0.94f * ratio[3], &merged,
                               symbols.data());
  }
}

FontPick FontSet::pick(FontFace face, double size) const {
  const double pixels = size * static_cast<double>(density_);
  const Baked* best = nullptr;
  for (const Baked& baked : baked_) {
    if (baked.face != face) continue;
    if (!best || std::abs(baked.em - pixels) < std::abs(best->em - pixels)) best = &baked;
  }
  if (!best) return {ImGui::GetFont(), static_cast<float>(size), static_cast<float>(size * ascent_of_font)};
  // Within a few percent, drawing at the baked size is sharper than scaling.
  const bool is_near = std::abs(best->em - pixels) < 0.06 * pixels;
  const auto wanted = static_cast<float>(pixels) * best->height_of_em;
  const float height = (is_near ? baked_height(best->font, wanted) : wanted) / density_;
  return {best->font, height, baseline_of(best->font, height)};
}

}  // namespace afterglow
