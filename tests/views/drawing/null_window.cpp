// Builds frames and counts what they hold.
#include "tests/views/drawing/null_window.h"

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

void NullWindow::draw_page(int frames) {
  for (int i = 0; i < frames; ++i) {
    begin();
    Frame frame = make_frame();
    afterglow::draw_page(frame);
    end();
  }
}

}  // namespace afterglow
