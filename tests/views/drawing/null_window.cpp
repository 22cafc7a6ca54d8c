// Builds frames and counts what they hold.
#include "tests/views/drawing/null_window.h"

#include <cmath>
#include <map>

namespace afterglow {

NullWindow::NullWindow(int width, int height, const std::string& theme, double content_scale) {
  static const FontFiles files = find_fonts(font_folders());
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = io.LogFilename = nullptr;
  io.DisplaySize = ImVec2(static_cast<float>(width), static_cast<float>(height));
  io.DeltaTime = 1.0f / 60;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
  state.theme = theme;
  const Theme& colors = theme_named(theme);
  look = Look{&colors, look_scale(colors, content_scale, 1), &fonts_};
  fonts_.bake(*io.Fonts, files, look.scale);
  unsigned char* pixels = nullptr;
  int atlas_width = 0, atlas_height = 0;
  io.Fonts->GetTexDataAsRGBA32(&pixels, &atlas_width, &atlas_height);
  io.Fonts->SetTexID(ImTextureID{});
  apply_style(look);
  mouse(-1e6, -1e6);
}

NullWindow::~NullWindow() { ImGui::DestroyContext(); }

void NullWindow::begin() { ImGui::NewFrame(); }

void NullWindow::end() {
  ImGui::Render();
  vertices_ = ImGui::GetDrawData()->TotalVtxCount;
  time_ += 1.0 / 60;
}

int NullWindow::vertices_in(const Rect& area) const {
  const ImDrawData& data = *ImGui::GetDrawData();
  int count = 0;
  for (int i = 0; i < data.CmdListsCount; ++i) {
    for (const ImDrawVert& vertex : data.CmdLists[i]->VtxBuffer)
      count += area.contains({static_cast<double>(vertex.pos.x), static_cast<double>(vertex.pos.y)});
  }
  return count;
}

std::vector<NullWindow::Sign> NullWindow::signs() const {
  // A glyph is known by its corner in the atlas, its font's em by the line height that an em of 100 gets.
  struct Known {
    ImFontGlyph glyph;
    double em;  ///< at which the glyph is as large as it was baked
  };
  std::map<const ImFont*, double> heights;
  for (const FontFace face : {FontFace::regular, FontFace::semibold, FontFace::mono}) {
    for (double size = 4; size < 400; size *= 1.02) {
      const FontPick pick = fonts_.pick(face, size);
      heights[pick.font] = static_cast<double>(pick.height) / size;
    }
  }
  std::map<std::pair<float, float>, Known> known;
  for (const auto& [font, height_of_em] : heights) {
    for (const ImFontGlyph& glyph : baked_glyphs(font))
      known[{glyph.U0, glyph.V0}] = {glyph, static_cast<double>(baked_height(font, 0)) / height_of_em};
  }
  std::vector<Sign> signs;
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int i = 0; i < data.CmdListsCount; ++i) {
    const ImDrawList& list = *data.CmdLists[i];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      // Two triangles to a sign, whose first and third vertices are opposite corners.
      for (unsigned k = 0; k + 5 < command.ElemCount; k += 3) {
        const auto corner = [&](unsigned n) {
          return list.VtxBuffer[static_cast<int>(command.VtxOffset +
                                                 list.IdxBuffer[static_cast<int>(command.IdxOffset + k + n)])];
        };
        const ImDrawVert first = corner(0), third = corner(2);
        const auto found = known.find({first.uv.x, first.uv.y});
        if (found == known.end() || third.uv.x != found->second.glyph.U1 || third.uv.y != found->second.glyph.V1)
          continue;
        const auto [glyph, em] = found->second;
        const double x = std::min(first.pos.x, third.pos.x), y = std::min(first.pos.y, third.pos.y);
        const Rect box{x, y, std::abs(static_cast<double>(third.pos.x - first.pos.x)),
                       std::abs(static_cast<double>(third.pos.y - first.pos.y))};
        const ImVec4& clip = command.ClipRect;
        const bool is_seen = Rect{clip.x, clip.y, clip.z - clip.x, clip.w - clip.y}.overlaps(box);
        const auto diagonal = [](double a, double b) { return std::hypot(a, b); };
        const double baked = diagonal(glyph.X1 - glyph.X0, glyph.Y1 - glyph.Y0);
        if (is_seen && baked > 0)
          signs.push_back({em * diagonal(box.width, box.height) / baked, box, static_cast<ImWchar>(glyph.Codepoint)});
      }
    }
  }
  return signs;
}

void NullWindow::draw_page(int frames) {
  for (int i = 0; i < frames; ++i) {
    begin();
    Frame frame = make_frame();
    afterglow::draw_page(frame);
    end();
  }
}

}  // namespace afterglow
