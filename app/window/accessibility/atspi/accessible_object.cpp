// A GObject class that is registered by hand: ATK implements name, description and role, this file children and states.
#include "app/window/accessibility/atspi/accessible_object.h"

#include <memory>

namespace afterglow {

namespace {

struct Accessible {
  AtkObject base;
  std::vector<AtkObject*>* children;
  bool is_focused;
};

AtkObjectClass* parent_class = nullptr;

Accessible& own(void* object) { return *static_cast<Accessible*>(object); }

gint count(AtkObject* object) { return static_cast<gint>(own(object).children->size()); }

AtkObject* child_at(AtkObject* object, gint at) {
  const auto& children = *own(object).children;
  if (at < 0 || at >= count(object)) return nullptr;
  return static_cast<AtkObject*>(g_object_ref(children[static_cast<std::size_t>(at)]));
}

gint index_in_parent(AtkObject* object) {
  AtkObject* parent = atk_object_get_parent(object);
  if (!parent) return -1;
  const auto& siblings = *own(parent).children;
  for (std::size_t i = 0; i < siblings.size(); ++i) {
    if (siblings[i] == object) return static_cast<gint>(i);
  }
  return -1;
}

AtkStateSet* states(AtkObject* object) {
  AtkStateSet* set = parent_class->ref_state_set(object);
  for (const AtkStateType state : {ATK_STATE_ENABLED, ATK_STATE_SENSITIVE, ATK_STATE_VISIBLE, ATK_STATE_SHOWING})
    atk_state_set_add_state(set, state);
  if (object->role == ATK_ROLE_FRAME) atk_state_set_add_state(set, ATK_STATE_ACTIVE);
  if (object->role == ATK_ROLE_PANEL) atk_state_set_add_state(set, ATK_STATE_FOCUSABLE);
  if (own(object).is_focused) atk_state_set_add_state(set, ATK_STATE_FOCUSED);
  return set;
}

void finish(GObject* object) {
  for (AtkObject* child : *own(object).children) {
    atk_object_set_parent(child, nullptr);
    g_object_unref(child);
  }
  const std::unique_ptr<std::vector<AtkObject*>> ended(own(object).children);
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

void begin_class(void* data, void*) {
  parent_class = static_cast<AtkObjectClass*>(g_type_class_peek_parent(data));
  auto* as_atk = static_cast<AtkObjectClass*>(data);
  as_atk->get_n_children = count;
  as_atk->ref_child = child_at;
  as_atk->get_index_in_parent = index_in_parent;
  as_atk->ref_state_set = states;
  static_cast<GObjectClass*>(data)->finalize = finish;
}

void begin_object(GTypeInstance* object, void*) {
  own(object).children = std::make_unique<std::vector<AtkObject*>>().release();
}

GType accessible_type() {
  static const GType type =
      g_type_register_static_simple(ATK_TYPE_OBJECT, "AfterglowAccessible", sizeof(AtkObjectClass), begin_class,
                                    sizeof(Accessible), begin_object, GTypeFlags{});
  return type;
}

/// Screen readers follow events in the active window only.
GType frame_type() {
  static const GType type = [] {
    const GType made = g_type_register_static_simple(accessible_type(), "AfterglowFrame", sizeof(AtkObjectClass),
                                                     nullptr, sizeof(Accessible), nullptr, GTypeFlags{});
    constexpr GInterfaceInfo empty{nullptr, nullptr, nullptr};
    g_type_add_interface_static(made, ATK_TYPE_WINDOW, &empty);
    return made;
  }();
  return type;
}

}  // namespace

AtkObject* new_accessible(AtkRole role, const char* name, bool is_frame) {
  auto* object = static_cast<AtkObject*>(g_object_new(is_frame ? frame_type() : accessible_type(), nullptr));
  atk_object_initialize(object, nullptr);
  atk_object_set_role(object, role);
  atk_object_set_name(object, name);
  return object;
}

void insert_child(AtkObject* parent, std::size_t at, AtkObject* child) {
  auto& children = *own(parent).children;
  children.insert(children.begin() + static_cast<std::ptrdiff_t>(at), child);
  atk_object_set_parent(child, parent);
  g_signal_emit_by_name(parent, "children-changed::add", static_cast<guint>(at), child, nullptr);
}

void remove_child(AtkObject* parent, std::size_t at) {
  auto& children = *own(parent).children;
  AtkObject* child = children[at];
  children.erase(children.begin() + static_cast<std::ptrdiff_t>(at));
  g_signal_emit_by_name(parent, "children-changed::remove", static_cast<guint>(at), child, nullptr);
  atk_object_set_parent(child, nullptr);
  g_object_unref(child);
}

void set_focused(AtkObject* object, bool is_focused) {
  own(object).is_focused = is_focused;
  atk_object_notify_state_change(object, ATK_STATE_FOCUSED, is_focused);
}

void announce_by(AtkObject* object, const char* text) {
  // Later versions have the signal "notification", which also carries a priority; the code searches for both, so that
  // one program runs with either.
  constexpr gint polite = 1;
  if (g_signal_lookup("notification", ATK_TYPE_OBJECT) != 0)
    g_signal_emit_by_name(object, "notification", text, polite);
  else if (g_signal_lookup("announcement", ATK_TYPE_OBJECT) != 0)
    g_signal_emit_by_name(object, "announcement", text);
}

}  // namespace afterglow
