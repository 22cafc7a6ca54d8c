// Dear ImGui's input text with a string that grows.
#include "views/widgets/text_field.h"

#include <algorithm>
#include <utility>

#include "views/frame/page_state.h"
#include "views/look/imgui_compat.h"

namespace afterglow {
namespace {

struct Field {
  std::string* text;
  std::optional<TextStretch>* selected;
};

int follow_field(ImGuiInputTextCallbackData* data) {
  const auto& field = *static_cast<Field*>(data->UserData);
  if (data->EventFlag == ImGuiInputTextFlags_CallbackResize) {
    field.text->resize(static_cast<std::size_t>(data->BufTextLen));
    data->Buf = field.text->data();
  } else if (field.selected && *field.selected) {
    const TextStretch stretch = *std::exchange(*field.selected, std::nullopt);
    data->SelectionStart = std::min(stretch.begin, data->BufTextLen);
    data->SelectionEnd = data->CursorPos = std::min(stretch.end, data->BufTextLen);
  }
  return 0;
}

}  // namespace

FieldResult text_field(const Look& look, const char* id, std::string& text, const Rect& box, double size, FontFace face,
                       bool wants_focus, std::optional<TextStretch>* selected) {
  const FontPick pick = look.fonts->pick(face, look.px(size));
  push_font(pick.font, pick.height);
  const double height = static_cast<double>(ImGui::GetFrameHeight());
  ImGui::SetCursorScreenPos({static_cast<float>(box.x), static_cast<float>(box.y + (box.height - height) / 2)});
  ImGui::SetNextItemWidth(static_cast<float>(box.width));
  if (wants_focus) ImGui::SetKeyboardFocusHere();
  FieldResult result;
  const std::string before = text;
  Field field{&text, selected};
  result.entered = ImGui::InputText(id, text.data(), text.capacity() + 1,
                                    ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll |
                                        ImGuiInputTextFlags_CallbackResize | ImGuiInputTextFlags_CallbackAlways,
                                    follow_field, &field);
  result.edited = text != before;
  result.left = !wants_focus && ImGui::IsItemDeactivated();
  ImGui::PopFont();
  return result;
}

}  // namespace afterglow
