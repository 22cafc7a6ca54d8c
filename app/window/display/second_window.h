// A second window, which only displays a picture that changes seldom and passes keys on. It shares nothing with the
// main window, whose OpenGL and Dear ImGui contexts are current except inside of this class's functions.
#pragma once
#include <functional>
#include <string>

#include "app/window/keys.h"
#include "core/tensor/immovable.h"
#include "views/look/look.h"

struct GLFWwindow;
struct ImGuiContext;

namespace afterglow {

class SecondWindow : Immovable {
 public:
  /// Opens on another screen than `main`, if there is one, else next to it. Throws Error(failure) with the reason.
  SecondWindow(const std::string& title, GLFWwindow* main);
  ~SecondWindow();

  std::function<void(const Chord&)> on_key = [](const Chord&) {};

  bool wants_to_close() const;
  /// Whether the window must be drawn again: it is new, has another size, or was covered.
  bool take_damage();
  /// Draws the window with `paint`.
  void draw(const Theme& theme, const FontFiles& files, double zoom,
            const std::function<void(const Look&, Canvas&, const Rect&)>& paint);

 private:
  struct Callbacks;
  struct Turn;
  void refresh_look(const Theme& theme, const FontFiles& files, double zoom);

  GLFWwindow* main_;
  GLFWwindow* window_ = nullptr;
  ImGuiContext* context_ = nullptr;
  FontSet fonts_;
  Look look_;
  bool is_damaged_ = true;
};

}  // namespace afterglow
