// An ATK object with children, which the bridge to AT-SPI exposes to screen readers.
#pragma once
#include <atk/atk.h>

#include <vector>

namespace afterglow {

/// Creates an object; `is_frame`: it is also a window. The caller owns it (g_object_unref).
AtkObject* new_accessible(AtkRole role, const char* name, bool is_frame = false);
/// The parent keeps references to its children and notifies listeners of each change.
void insert_child(AtkObject* parent, std::size_t at, AtkObject* child);
void remove_child(AtkObject* parent, std::size_t at);
/// Announces that the object has gained or lost the keyboard focus.
void set_focused(AtkObject* object, bool is_focused);
/// Spoken at once, if this version of ATK has a signal for it.
void announce_by(AtkObject* object, const char* text);

}  // namespace afterglow
