// Lists first, then fields, then commands.
#include "app/window/key_routing.h"

#include <map>
#include <optional>

#include "views/page/page.h"

namespace afterglow {
namespace {

std::optional<ListKey> list_key_of(const Chord& chord) {
  static const std::map<std::string_view, ListKey> keys{{"Up", ListKey::up},          {"Down", ListKey::down},
                                                        {"Left", ListKey::left},      {"Right", ListKey::right},
                                                        {"PageUp", ListKey::page_up}, {"PageDown", ListKey::page_down},
                                                        {"Enter", ListKey::accept},   {"Escape", ListKey::leave}};
  const auto found = keys.find(chord.key);
  return chord.ctrl || chord.alt || found == keys.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

void route_key(PageState& page, CommandQueue& commands, const Chord& chord, bool is_typing) {
  const std::optional<ListKey> list_key = list_key_of(chord);
  if (page.menu.is_open && list_key) return menu_key(page, commands, *list_key);
  if (page.palette.is_open && list_key) return palette_key(page, commands, *list_key);
  if (page.picker.is_open && list_key) return picker_key(page, commands, *list_key);
  const bool has_field = page.palette.is_open || page.picker.is_open || is_typing;
  if (has_field && !acts_while_typing(chord)) return;
  page.menu = {};
  if (page.presentation.is_on && chord == Chord{.key = "B"}) {
    commands.send("blank");
  } else if (chord == Chord{.key = "B"} && !page.pointer.plot.empty()) {
    // Over a plot B sets the second measuring cursor, with or without A; elsewhere it branches the run.
    commands.send("cursor", {{"which", "b"}});
  } else if (const auto command = command_for(chord)) {
    if (!page.presentation.is_locked || !find_command(command->name)->is_control) commands.send(*command);
  }
}

}  // namespace afterglow
