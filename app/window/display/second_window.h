// A window beside the main one that only shows something: a picture that changes seldom, and keys that it hands on. It
// shares nothing with the main window, whose OpenGL and Dear ImGui contexts are current whenever none of its own
// functions runs.
#pragma once
#include <functional>
#include <string>

#include "app/window/keys.h"
#include "views/look.h"

struct GLFWwindow;
struct ImGuiContext;

namespace afterglow {

class SecondWindow {
 public:
  /// Opens on a screen that `main` is not on, else beside it. Throws Error(failure) that says why it cannot.
  SecondWindow(const std::string& title, GLFWwindow* main);
  ~SecondWindow();
  SecondWindow(const SecondWindow&) = delete;
  SecondWindow& operator=(const SecondWindow&) = delete;

  std::function<void(const Chord&)> on_key = [](const Chord&) {};

  bool wants_to_close() const;
  /// Whether its picture was lost since the last call: it is new, has another size, or was covered.
  bool take_damage();
  /// Fills it with what `paint` draws.
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
