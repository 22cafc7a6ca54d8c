// The window as screen readers find it on the desktop's accessibility bus (AT-SPI): the application, its frame, and in
// that a child for each panel.
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

/// Does nothing where there is no session bus, or no plugin that speaks to AT-SPI.
class AccessibleWindow {
 public:
  explicit AccessibleWindow(const char* title);
  ~AccessibleWindow();
  AccessibleWindow(const AccessibleWindow&) = delete;
  AccessibleWindow& operator=(const AccessibleWindow&) = delete;

  /// Answers what has been asked since the last call, and learns whether a screen reader has started; never waits.
  void serve();
  /// Whether the desktop says that something listens. Until then nothing below needs to be called.
  bool is_heard() const;
  /// Panels that are new, gone, or say something else than before.
  void show(const std::vector<SpokenPanel>& panels);
  /// The panel that has the keyboard; empty: none.
  void focus(const std::string& id);
  /// Spoken at once: a note.
  void announce(const std::string& text);

 private:
  const AccessibilityPlugin* plugin_ = nullptr;
  void* self_ = nullptr;
};

}  // namespace afterglow
