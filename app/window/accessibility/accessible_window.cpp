// Loads the plugin if the desktop has a session bus.
#include "app/window/accessibility/accessible_window.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "app/window/accessibility/plugin.h"
#include "core/io/folders.h"

namespace afterglow {
namespace {

/// Without a session bus GIO would start its own.
bool has_session_bus() {
  const char* address = std::getenv("DBUS_SESSION_BUS_ADDRESS");
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::error_code unknown;
  return (address && *address) || (runtime && std::filesystem::exists(std::filesystem::path(runtime) / "bus", unknown));
}

/// The plugin stays loaded, because GObject cannot unregister its classes.
const AccessibilityPlugin* load() {
  for (const std::filesystem::path& folder : plugin_folders()) {
    void* library = dlopen((folder / accessibility_file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    using Function = decltype(afterglow_accessibility_1);
    if (auto* function = reinterpret_cast<Function*>(dlsym(library, accessibility_function))) return function();
  }
  return nullptr;
}

}  // namespace

AccessibleWindow::AccessibleWindow(const char* title) {
  if (has_session_bus()) plugin_ = load();
  if (plugin_) self_ = plugin_->open(title);
}

AccessibleWindow::~AccessibleWindow() {
  if (plugin_) plugin_->close(self_);
}

void AccessibleWindow::serve() {
  if (plugin_) plugin_->serve(self_);
}

bool AccessibleWindow::is_heard() const { return plugin_ && plugin_->is_heard(self_); }

void AccessibleWindow::show(const std::vector<SpokenPanel>& panels) {
  std::vector<SpokenText> texts;
  for (const SpokenPanel& panel : panels)
    texts.push_back({panel.id.c_str(), panel.name.c_str(), panel.description.c_str()});
  plugin_->show(self_, texts.data(), texts.size());
}

void AccessibleWindow::focus(const std::string& id) { plugin_->focus(self_, id.c_str()); }

void AccessibleWindow::announce(const std::string& text) { plugin_->announce(self_, text.c_str()); }

}  // namespace afterglow
