// Queries the session bus, without waiting, whether assistive technology is in use; only then starts ATK's bridge to
// AT-SPI.
#include "app/window/accessibility/plugin.h"

#include <atk-bridge.h>
#include <gio/gio.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/window/accessibility/atspi/accessible_object.h"

namespace afterglow {

namespace {

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
  void announce(const char* text) { announce_by(frame_, text); }

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
  remove_child(frame_, at);
  shown_.erase(shown_.begin() + static_cast<std::ptrdiff_t>(at));
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
    if (place < shown_.size()) set_focused(child(place), is_focused);
  }
  focused_ = id;
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
