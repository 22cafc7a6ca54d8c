// Asks the session bus, without waiting, whether assistive technology is in use; only then starts ATK's bridge to
// AT-SPI.
#include "app/window/accessibility/accessible_window.h"

#include <atk-bridge.h>
#include <gio/gio.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/window/accessibility/accessible_object.h"

namespace afterglow {

namespace {

constexpr const char* bus_name = "org.a11y.Bus";
constexpr const char* bus_path = "/org/a11y/bus";
constexpr const char* status = "org.a11y.Status";
constexpr const char* properties = "org.freedesktop.DBus.Properties";
constexpr int most_answers = 100;  ///< in one call of serve, so that drawing is not held up

/// Without one GIO would start a bus of its own.
bool has_session_bus() {
  const char* address = std::getenv("DBUS_SESSION_BUS_ADDRESS");
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::error_code unknown;
  return (address && *address) || (runtime && std::filesystem::exists(std::filesystem::path(runtime) / "bus", unknown));
}

/// The root of the tree is asked for by a plain function.
AtkObject* root = nullptr;

/// What ATK asks a toolkit for.
void be_the_toolkit() {
  auto* util = static_cast<AtkUtilClass*>(g_type_class_ref(ATK_TYPE_UTIL));
  util->get_root = [] { return root; };
  util->get_toolkit_name = []() -> const gchar* { return "Afterglow"; };
  util->get_toolkit_version = []() -> const gchar* { return "1"; };
}

/// One of the two says that a screen reader or another assistive technology runs.
bool says_in_use(GVariant* values) {
  for (const char* name : {"ScreenReaderEnabled", "IsEnabled"}) {
    gboolean is_on = FALSE;
    if (g_variant_lookup(values, name, "b", &is_on) && is_on) return true;
  }
  return false;
}

}  // namespace

struct AccessibleWindow::Parts {
  std::string title;
  GCancellable* cancelled = g_cancellable_new();
  GDBusConnection* bus = nullptr;
  guint subscription = 0;
  AtkObject* frame = nullptr;  ///< null until the bridge runs
  std::vector<SpokenPanel> shown;
  std::string focused;

  ~Parts() {
    g_cancellable_cancel(cancelled);
    // The answers to what was cancelled come back once more, while this is still here.
    while (g_main_context_iteration(nullptr, FALSE)) {
    }
    if (subscription != 0) g_dbus_connection_signal_unsubscribe(bus, subscription);
    if (frame) atk_bridge_adaptor_cleanup();
    if (bus) g_object_unref(bus);
    g_object_unref(cancelled);
  }

  void start() {
    if (frame) return;
    root = new_accessible(ATK_ROLE_APPLICATION, title.c_str());
    frame = new_accessible(ATK_ROLE_FRAME, title.c_str(), true);
    insert_child(root, 0, frame);
    be_the_toolkit();
    atk_bridge_adaptor_init(nullptr, nullptr);
    g_signal_emit_by_name(frame, "activate");
  }

  std::size_t place_of(const std::string& id) const {
    return static_cast<std::size_t>(std::ranges::find(shown, id, &SpokenPanel::id) - shown.begin());
  }
  AtkObject* panel(std::size_t at) const {
    AtkObject* child = atk_object_ref_accessible_child(frame, static_cast<gint>(at));
    if (child) g_object_unref(child);  // the frame holds it
    return child;
  }

  static void on_bus(GObject*, GAsyncResult* result, void* self);
  static void on_status(GObject* bus, GAsyncResult* result, void* self);
  static void on_change(GDBusConnection*, const char*, const char*, const char*, const char*, GVariant* values,
                        void* self);
};

void AccessibleWindow::Parts::on_bus(GObject*, GAsyncResult* result, void* self) {
  GDBusConnection* bus = g_bus_get_finish(result, nullptr);
  if (!bus) return;  // cancelled, or refused: `self` may be gone
  auto& parts = *static_cast<Parts*>(self);
  parts.bus = bus;
  g_dbus_connection_set_exit_on_close(bus, FALSE);  // the program outlives its desktop's bus
  parts.subscription = g_dbus_connection_signal_subscribe(bus, bus_name, properties, "PropertiesChanged", bus_path,
                                                          status, G_DBUS_SIGNAL_FLAGS_NONE, on_change, &parts, nullptr);
  g_dbus_connection_call(bus, bus_name, bus_path, properties, "GetAll", g_variant_new("(s)", status), nullptr,
                         G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, parts.cancelled, on_status, &parts);
}

void AccessibleWindow::Parts::on_status(GObject* bus, GAsyncResult* result, void* self) {
  GVariant* answer = g_dbus_connection_call_finish(G_DBUS_CONNECTION(bus), result, nullptr);
  if (!answer) return;
  GVariant* values = g_variant_get_child_value(answer, 0);
  if (says_in_use(values)) static_cast<Parts*>(self)->start();
  g_variant_unref(values);
  g_variant_unref(answer);
}

void AccessibleWindow::Parts::on_change(GDBusConnection*, const char*, const char*, const char*, const char*,
                                        GVariant* arguments, void* self) {
  GVariant* values = g_variant_get_child_value(arguments, 1);
  if (says_in_use(values)) static_cast<Parts*>(self)->start();
  g_variant_unref(values);
}

AccessibleWindow::AccessibleWindow(const std::string& title) {
  if (!has_session_bus()) return;
  parts_ = std::make_unique<Parts>();
  parts_->title = title;
  g_bus_get(G_BUS_TYPE_SESSION, parts_->cancelled, Parts::on_bus, parts_.get());
}

AccessibleWindow::~AccessibleWindow() = default;

void AccessibleWindow::serve() {
  for (int i = 0; parts_ && i < most_answers && g_main_context_iteration(nullptr, FALSE); ++i) {
  }
}

bool AccessibleWindow::is_heard() const { return parts_ && parts_->frame; }

void AccessibleWindow::show(const std::vector<SpokenPanel>& panels) {
  std::vector<SpokenPanel>& shown = parts_->shown;
  for (std::size_t i = shown.size(); i-- > 0;) {
    if (std::ranges::count(panels, shown[i].id, &SpokenPanel::id) > 0) continue;
    remove_child(parts_->frame, i);
    shown.erase(shown.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const std::size_t place = parts_->place_of(panels[i].id);
    if (place > i && place < shown.size()) {  // another order: told as gone and come
      remove_child(parts_->frame, place);
      shown.erase(shown.begin() + static_cast<std::ptrdiff_t>(place));
    }
    if (i >= shown.size() || shown[i].id != panels[i].id) {
      insert_child(parts_->frame, i, new_accessible(ATK_ROLE_PANEL, panels[i].name.c_str()));
      shown.insert(shown.begin() + static_cast<std::ptrdiff_t>(i), {panels[i].id, panels[i].name, ""});
    }
    AtkObject* child = parts_->panel(i);
    if (shown[i].name != panels[i].name) atk_object_set_name(child, panels[i].name.c_str());
    if (shown[i].description != panels[i].description) atk_object_set_description(child, panels[i].description.c_str());
    shown[i] = panels[i];
  }
}

void AccessibleWindow::focus(const std::string& id) {
  if (id == parts_->focused) return;
  for (const auto& [panel, is_focused] : {std::pair{parts_->focused, false}, std::pair{id, true}}) {
    const std::size_t place = parts_->place_of(panel);
    if (place < parts_->shown.size()) set_focused(parts_->panel(place), is_focused);
  }
  parts_->focused = id;
}

void AccessibleWindow::announce(const std::string& text) { announce_by(parts_->frame, text.c_str()); }

}  // namespace afterglow
