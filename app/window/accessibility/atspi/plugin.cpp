// Queries the session bus, without waiting, whether assistive technology is in use; only then starts ATK's bridge to
// AT-SPI.
#include "app/window/accessibility/plugin.h"

#include <atk-bridge.h>
#include <atk/atk.h>
#include <gio/gio.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace afterglow {
namespace {

// A GObject class that is registered by hand: ATK implements name, description and role, what follows children and
// states.
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

/// Creates an object; `is_frame`: it is also a window. The caller owns it (g_object_unref).
AtkObject* new_accessible(AtkRole role, const char* name, bool is_frame = false) {
  auto* object = static_cast<AtkObject*>(g_object_new(is_frame ? frame_type() : accessible_type(), nullptr));
  atk_object_initialize(object, nullptr);
  atk_object_set_role(object, role);
  atk_object_set_name(object, name);
  return object;
}

/// The parent keeps references to its children and notifies listeners of each change.
void insert_child(AtkObject* parent, std::size_t at, AtkObject* child) {
  auto& children = *own(parent).children;
  children.insert(children.begin() + static_cast<std::ptrdiff_t>(at), child);
  atk_object_set_parent(child, parent);
  g_signal_emit_by_name(parent, "children-changed::add", static_cast<guint>(at), child, nullptr);
}

constexpr const char* bus_name = "org.a11y.Bus";
constexpr const char* bus_path = "/org/a11y/bus";
constexpr const char* status = "org.a11y.Status";
constexpr const char* properties = "org.freedesktop.DBus.Properties";
constexpr int max_answers = 100;  ///< events handled at a time, so that drawing continues

/// ATK calls a plain function for the root of the tree.
AtkObject* root = nullptr;

/// The functions that ATK needs from a toolkit.
void be_the_toolkit() {
  auto* util = static_cast<AtkUtilClass*>(g_type_class_ref(ATK_TYPE_UTIL));
  util->get_root = [] { return root; };
  util->get_toolkit_name = []() -> const gchar* { return "Afterglow"; };
  util->get_toolkit_version = []() -> const gchar* { return "1"; };
}

/// Either property says that a screen reader or another assistive technology runs.
bool says_in_use(GVariant* values) {
  for (const char* name : {"ScreenReaderEnabled", "IsEnabled"}) {
    gboolean is_on = FALSE;
    if (g_variant_lookup(values, name, "b", &is_on) && is_on) return true;
  }
  return false;
}

struct Panel {
  std::string id, name, description;
};

class Tree {
 public:
  explicit Tree(const char* title) : title_(title) { g_bus_get(G_BUS_TYPE_SESSION, cancelled_, on_bus, this); }
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void serve();
  bool is_heard() const { return frame_ != nullptr; }
  void show(std::span<const SpokenText> panels);
  void focus(const std::string& id);
  void announce(const char* text);

 private:
  void start();
  void insert(std::size_t at, const SpokenText& panel);
  void remove(std::size_t at);
  std::size_t place_of(const std::string& id) const;
  AtkObject* child(std::size_t at) const;
  static void on_bus(GObject*, GAsyncResult* result, void* self);
  static void on_appearance(GDBusConnection* bus, const char*, const char*, void* self);
  static void on_status(GObject* bus, GAsyncResult* result, void* self);
  static void on_change(GDBusConnection*, const char*, const char*, const char*, const char*, GVariant* arguments,
                        void* self);

  std::string title_;
  GCancellable* cancelled_ = g_cancellable_new();
  GDBusConnection* bus_ = nullptr;
  guint subscription_ = 0, watch_ = 0;
  AtkObject* frame_ = nullptr;  ///< null until the bridge runs
  std::vector<Panel> shown_;
  std::string focused_;
};

Tree::~Tree() {
  g_cancellable_cancel(cancelled_);
  // Cancelled calls still deliver an answer, and this object must exist until then.
  while (g_main_context_iteration(nullptr, FALSE)) {
  }
  if (watch_ != 0) g_bus_unwatch_name(watch_);
  if (subscription_ != 0) g_dbus_connection_signal_unsubscribe(bus_, subscription_);
  if (frame_) atk_bridge_adaptor_cleanup();
  if (bus_) g_object_unref(bus_);
  g_object_unref(cancelled_);
}

void Tree::start() {
  if (frame_) return;
  root = new_accessible(ATK_ROLE_APPLICATION, title_.c_str());
  frame_ = new_accessible(ATK_ROLE_FRAME, title_.c_str(), true);
  insert_child(root, 0, frame_);
  be_the_toolkit();
  atk_bridge_adaptor_init(nullptr, nullptr);
  g_signal_emit_by_name(frame_, "activate");
}

void Tree::on_bus(GObject*, GAsyncResult* result, void* self) {
  GDBusConnection* bus = g_bus_get_finish(result, nullptr);
  if (!bus) return;  // cancelled or refused: `self` may be gone
  auto& tree = *static_cast<Tree*>(self);
  tree.bus_ = bus;
  g_dbus_connection_set_exit_on_close(bus, FALSE);  // the program outlives its desktop's bus
  tree.subscription_ = g_dbus_connection_signal_subscribe(bus, bus_name, properties, "PropertiesChanged", bus_path,
                                                          status, G_DBUS_SIGNAL_FLAGS_NONE, on_change, &tree, nullptr);
  tree.watch_ = g_bus_watch_name_on_connection(bus, bus_name, G_BUS_NAME_WATCHER_FLAGS_NONE, on_appearance, nullptr,
                                               &tree, nullptr);
}

/// The service is present or has appeared; it does not report its initial state by itself.
void Tree::on_appearance(GDBusConnection* bus, const char*, const char*, void* self) {
  g_dbus_connection_call(bus, bus_name, bus_path, properties, "GetAll", g_variant_new("(s)", status), nullptr,
                         G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, static_cast<Tree*>(self)->cancelled_, on_status, self);
}

void Tree::on_status(GObject* bus, GAsyncResult* result, void* self) {
  GVariant* answer = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, nullptr);
  if (!answer) return;
  GVariant* values = g_variant_get_child_value(answer, 0);
  if (says_in_use(values)) static_cast<Tree*>(self)->start();
  g_variant_unref(values);
  g_variant_unref(answer);
}

void Tree::on_change(GDBusConnection*, const char*, const char*, const char*, const char*, GVariant* arguments,
                     void* self) {
  GVariant* values = g_variant_get_child_value(arguments, 1);
  if (says_in_use(values)) static_cast<Tree*>(self)->start();
  g_variant_unref(values);
}

void Tree::serve() {
  for (int i = 0; i < max_answers && g_main_context_iteration(nullptr, FALSE); ++i) {
  }
}

std::size_t Tree::place_of(const std::string& id) const {
  return static_cast<std::size_t>(std::ranges::find(shown_, id, &Panel::id) - shown_.begin());
}

AtkObject* Tree::child(std::size_t at) const {
  AtkObject* child = atk_object_ref_accessible_child(frame_, static_cast<gint>(at));
  if (child) g_object_unref(child);  // the frame holds a reference
  return child;
}

void Tree::insert(std::size_t at, const SpokenText& panel) {
  AtkObject* made = new_accessible(ATK_ROLE_PANEL, panel.name);
  atk_object_set_description(made, panel.description);
  insert_child(frame_, at, made);
  shown_.insert(shown_.begin() + static_cast<std::ptrdiff_t>(at), {panel.id, panel.name, panel.description});
}

void Tree::remove(std::size_t at) {
  auto& children = *own(frame_).children;
  const auto place = static_cast<std::ptrdiff_t>(at);
  AtkObject* removed = children[at];
  children.erase(children.begin() + place);
  g_signal_emit_by_name(frame_, "children-changed::remove", static_cast<guint>(at), removed, nullptr);
  atk_object_set_parent(removed, nullptr);
  g_object_unref(removed);
  shown_.erase(shown_.begin() + place);
}

void Tree::show(std::span<const SpokenText> panels) {
  for (std::size_t i = shown_.size(); i-- > 0;) {
    const bool stays = std::ranges::any_of(panels, [&](const SpokenText& panel) { return shown_[i].id == panel.id; });
    if (!stays) remove(i);
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const std::size_t place = place_of(panels[i].id);
    if (place > i && place < shown_.size()) remove(place);  // a changed order is reported as removed and added
    if (i == shown_.size() || shown_[i].id != panels[i].id) insert(i, panels[i]);
    Panel& panel = shown_[i];
    if (panel.name != panels[i].name) atk_object_set_name(child(i), panels[i].name);
    if (panel.description != panels[i].description) atk_object_set_description(child(i), panels[i].description);
    panel = {panels[i].id, panels[i].name, panels[i].description};
  }
}

void Tree::focus(const std::string& id) {
  if (id == focused_) return;
  for (const auto& [panel, is_focused] : {std::pair{focused_, false}, std::pair{id, true}}) {
    const std::size_t place = place_of(panel);
    if (place >= shown_.size()) continue;
    own(child(place)).is_focused = is_focused;
    atk_object_notify_state_change(child(place), ATK_STATE_FOCUSED, is_focused);
  }
  focused_ = id;
}

/// Spoken at once, if this version of ATK has a signal for it.
void Tree::announce(const char* text) {
  // Later versions have the signal "notification", which also carries a priority; the code searches for both, so that
  // one program runs with either.
  constexpr gint polite = 1;
  if (g_signal_lookup("notification", ATK_TYPE_OBJECT) != 0)
    g_signal_emit_by_name(frame_, "notification", text, polite);
  else if (g_signal_lookup("announcement", ATK_TYPE_OBJECT) != 0)
    g_signal_emit_by_name(frame_, "announcement", text);
}

Tree& tree(void* self) { return *static_cast<Tree*>(self); }

constexpr AccessibilityPlugin functions{
    .open = [](const char* title) -> void* { return std::make_unique<Tree>(title).release(); },
    .close = [](void* self) { const std::unique_ptr<Tree> ended(static_cast<Tree*>(self)); },
    .serve = [](void* self) { tree(self).serve(); },
    .is_heard = [](const void* self) { return static_cast<const Tree*>(self)->is_heard(); },
    .show =
        [](void* self, const SpokenText* panels, std::size_t count) {
          tree(self).show({panels, count});
        },
    .focus = [](void* self, const char* id) { tree(self).focus(id); },
    .announce = [](void* self, const char* text) { tree(self).announce(text); },
};

}  // namespace
}  // namespace afterglow

__attribute__((visibility("default"))) const afterglow::AccessibilityPlugin* afterglow_accessibility_1() {
  return &afterglow::functions;
}
