// The window for screen readers on the desktop's accessibility bus (AT-SPI): the application, its frame, and in it a
// child for each panel.
#pragma once
#include <string>
#include <vector>

namespace afterglow {

struct AccessibilityPlugin;

/// A panel in words.
struct SpokenPanel {
  std::string id, name, description;
  bool operator==(const SpokenPanel&) const = default;
};

/// Does nothing without a session bus or without a plugin for AT-SPI.
class AccessibleWindow {
 public:
  explicit AccessibleWindow(const char* title);
  ~AccessibleWindow();
  AccessibleWindow(const AccessibleWindow&) = delete;
  AccessibleWindow& operator=(const AccessibleWindow&) = delete;

  /// Answers the requests since the last call, and notices whether a screen reader has started; never waits.
  void serve();
  /// Whether the desktop reports an assistive technology. Until then the functions below need not be called.
  bool is_heard() const;
  /// Announces panels that are new, gone, or have another text than before.
  void show(const std::vector<SpokenPanel>& panels);
  /// The panel with the keyboard focus; empty: none.
  void focus(const std::string& id);
  /// Lets the screen reader speak a note at once.
  void announce(const std::string& text);

 private:
  const AccessibilityPlugin* plugin_ = nullptr;
  void* self_ = nullptr;
};

}  // namespace afterglow
