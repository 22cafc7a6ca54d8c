// An object of ATK with children, which the bridge to AT-SPI shows to screen readers.
#pragma once
#include <atk/atk.h>

#include <vector>

namespace afterglow {

/// A new one; `is_frame`: it is a window, too. Belongs to the caller (g_object_unref).
AtkObject* new_accessible(AtkRole role, const char* name, bool is_frame = false);
/// The parent holds its children; each change is told to who listens.
void insert_child(AtkObject* parent, std::size_t at, AtkObject* child);
void remove_child(AtkObject* parent, std::size_t at);
/// Tells that it has the keyboard, or has lost it.
void set_focused(AtkObject* object, bool is_focused);
/// Spoken at once, where this version of ATK has a signal for it.
void announce_by(AtkObject* object, const char* text);

}  // namespace afterglow
