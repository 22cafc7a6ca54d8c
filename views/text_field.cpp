// Dear ImGui's input text with a string that grows.
#include "views/text_field.h"

#include "views/imgui_compat.h"

namespace afterglow {

namespace {

int grow_text(ImGuiInputTextCallbackData* data) {
  if (data->EventFlag == ImGuiInputTextFlags_CallbackResize) {
    auto* text = static_cast<std::string*>(data->UserData);
    text->resize(static_cast<std::size_t>(data->BufTextLen));
    data->Buf = text->data();
  }
  return 0;
}

}  // namespace

FieldResult text_field(const Look& look, const char* id, std::string& text, const Rect& box, double size, FontFace face,
                       bool wants_focus) {
  const FontPick pick = look.fonts->pick(face, look.px(size));
  push_font(pick.font, pick.height);
  const double height = static_cast<double>(ImGui::GetFrameHeight());
  ImGui::SetCursorScreenPos({static_cast<float>(box.x), static_cast<float>(box.y + (box.height - height) / 2)});
  ImGui::SetNextItemWidth(static_cast<float>(box.width));
  if (wants_focus) ImGui::SetKeyboardFocusHere();
  FieldResult result;
  const std::string before = text;
  result.entered = ImGui::InputText(
      id, text.data(), text.capacity() + 1,
      ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll | ImGuiInputTextFlags_CallbackResize,
      grow_text, &text);
  result.edited = text != before;
  result.left = !wants_focus && ImGui::IsItemDeactivated();
  ImGui::PopFont();
  return result;
}

}  // namespace afterglow
