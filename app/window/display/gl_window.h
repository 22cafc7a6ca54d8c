// A GLFW window with Dear ImGui; independent of Afterglow's page.
#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "app/window/keys.h"
#include "core/figure/palette.h"
#include "core/tensor/immovable.h"

struct GLFWwindow;

namespace afterglow {

class GlWindow : Immovable {
 public:
  /// Opens a window with OpenGL 3.3. Throws Error(failure) that says what is missing.
  GlWindow(const std::string& title, int width, int height);
  ~GlWindow();

  std::function<void(const Chord&)> on_key = [](const Chord&) {};
  std::function<void(const std::string& path)> on_drop = [](const std::string&) {};
  /// Whether a text field is open, or opens in the next frame.
  std::function<bool()> has_field = [] { return false; };

  bool wants_to_close() const;
  void close();
  /// Handles waiting events; with `seconds` > 0 first sleeps until one arrives, at most so long.
  void wait_events(double seconds);
  /// Whether anything arrived since the last call.
  bool take_input();

  void begin_frame();
  /// Clears with `ground` and draws; `before_swap` may read the finished picture.
  void end_frame(Color ground, const std::function<void()>& before_swap);
  /// Uploads a new font atlas to the graphics card.
  void upload_fonts();

  void toggle_full_screen();
  int width() const;  ///< of the window, in the mouse's units
  int height() const;
  int pixel_width() const;
  int pixel_height() const;
  /// Scale that the screen requests for everything: 1, 1.25, 2.
  double content_scale() const;
  /// Pixels per window unit: 1 on X11, 2 on a Wayland screen of scale 2.
  double density() const;
  GLFWwindow* handle() const { return window_; }
  /// True if the processor draws, which makes frames expensive.
  bool is_software() const { return is_software_; }
  /// Whether the GPU of this name draws the window.
  bool draws_on(std::string_view gpu) const { return !gpu.empty() && renderer_.starts_with(gpu); }

 private:
  struct Callbacks;
  /// A key, a button or a letter, and where the pointer was.
  struct Input {
    enum class Kind { key, button, letter } kind;
    int code, scancode = 0, action = 0, mods = 0;
    float x = 0, y = 0;
    bool is_seen = false;  ///< a frame was drawn with the pointer there
    /// Whether a text field reads it: a letter, or the key that makes one.
    bool types() const;
  };
  void give_input();
  void give(const Input& now);
  GLFWwindow* window_ = nullptr;
  std::string renderer_;
  bool is_software_ = false, had_input_ = true;
  std::deque<Input> waiting_;       ///< not given to Dear ImGui yet
  std::set<int> down_;              ///< keys, as given
  bool was_text_ = false;           ///< the last one given went into a text field
  int settles_ = 0, waits_ = 0;     ///< frames until it has acted; frames that letters have waited for their field
  std::optional<Input> pressed_;    ///< the event whose place the pointer has in this frame
  float pointer_[2] = {};           ///< where the last event of the mouse was
  bool is_held_[3] = {};            ///< buttons, as given
  int restored_[4] = {0, 0, 0, 0};  ///< position and size before full screen
};

/// A key by the keyboard's layout, so that Ctrl+Z is where Z is printed; keys without a name keep theirs.
Chord chord_of_key(int code, int scancode, int mods);

/// Dear ImGui does not check whether an allocation succeeded. After this call missing memory throws std::bad_alloc
/// there, too. Call it before the first context is created.
void let_imgui_throw_without_memory();

/// Seconds since the program started its window.
double window_time();

}  // namespace afterglow
