// GLFW, OpenGL and Dear ImGui's back ends.
#include "app/window/display/gl_window.h"

#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <new>
#include <utility>

#include "app/window/display/gl_function.h"
#include "core/io/error.h"
#include "views/look/imgui_compat.h"

namespace afterglow {
namespace {

struct KeyName {
  int key;
  const char* name;
};
constexpr KeyName key_names[] = {
    {GLFW_KEY_SPACE, "Space"},   {GLFW_KEY_LEFT, "Left"},      {GLFW_KEY_RIGHT, "Right"},
    {GLFW_KEY_UP, "Up"},         {GLFW_KEY_DOWN, "Down"},      {GLFW_KEY_HOME, "Home"},
    {GLFW_KEY_END, "End"},       {GLFW_KEY_ENTER, "Enter"},    {GLFW_KEY_KP_ENTER, "Enter"},
    {GLFW_KEY_ESCAPE, "Escape"}, {GLFW_KEY_TAB, "Tab"},        {GLFW_KEY_KP_ADD, "+"},
    {GLFW_KEY_KP_SUBTRACT, "-"}, {GLFW_KEY_EQUAL, "+"},        {GLFW_KEY_MINUS, "-"},
    {GLFW_KEY_KP_0, "0"},        {GLFW_KEY_PAGE_UP, "PageUp"}, {GLFW_KEY_PAGE_DOWN, "PageDown"},
    {GLFW_KEY_MENU, "Menu"}};

std::string name_of_key(int key, int scancode) {
  for (const KeyName& known : key_names) {
    if (known.key == key) return known.name;
  }
  if (key >= GLFW_KEY_F1 && key <= GLFW_KEY_F12) return "F" + std::to_string(key - GLFW_KEY_F1 + 1);
  const char* printed = glfwGetKeyName(key, scancode);
  if (!printed) return "";
  std::string name(printed);
  if (name.size() == 1) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

/// Width and height, which GLFW writes to two places.
std::pair<int, int> size_by(void (*measure)(GLFWwindow*, int*, int*), GLFWwindow* window) {
  std::pair<int, int> size;
  measure(window, &size.first, &size.second);
  return size;
}

std::string last_problem;
void keep_problem(int, const char* text) { last_problem = text; }

}  // namespace

Chord chord_of_key(int code, int scancode, int mods) {
  Chord chord{(mods & GLFW_MOD_CONTROL) != 0, (mods & GLFW_MOD_SHIFT) != 0, (mods & GLFW_MOD_ALT) != 0,
              name_of_key(code, scancode)};
  if (chord.key == "+") chord.shift = false;  // many keyboard layouts need Shift for this character
  return chord;
}

struct GlWindow::Callbacks {
  static GlWindow& self(GLFWwindow* window) { return *static_cast<GlWindow*>(glfwGetWindowUserPointer(window)); }

  static void key(GLFWwindow* window, int code, int scancode, int action, int mods) {
    self(window).had_input_ = true;
    if (action == GLFW_RELEASE) return;
    const Chord chord = chord_of_key(code, scancode, mods);
    if (!chord.key.empty()) self(window).on_key(chord);
  }
  static void queue(GLFWwindow* window, Input input) {
    input.x = self(window).pointer_[0], input.y = self(window).pointer_[1];
    self(window).waiting_.push_back(input);
    self(window).had_input_ = true;
  }
  static void key_of_imgui(GLFWwindow* window, int code, int scancode, int action, int mods) {
    if (action == GLFW_REPEAT && !self(window).waiting_.empty()) return;  // a held key stops when it is let go
    queue(window, {Input::Kind::key, code, scancode, action, mods});
  }
  static void letter(GLFWwindow* window, unsigned code) {
    queue(window, {Input::Kind::letter, static_cast<int>(code)});
  }
  static void button(GLFWwindow* window, int code, int action, int mods) {
    queue(window, {Input::Kind::button, code, 0, action, mods});
  }
  /// Where an event was, glfwGetCursorPos does not say: it answers where the pointer is by now.
  static void moved(GLFWwindow* window, double x, double y) {
    self(window).pointer_[0] = static_cast<float>(x), self(window).pointer_[1] = static_cast<float>(y);
    self(window).had_input_ = true;
  }
  static void drop(GLFWwindow* window, int count, const char** paths) {
    self(window).had_input_ = true;
    for (int i = 0; i < count; ++i) self(window).on_drop(paths[i]);
  }
  /// Of the mouse, of characters, and of the window itself.
  template <class... Details>
  static void note(GLFWwindow* window, Details...) {
    self(window).had_input_ = true;
  }
};

GlWindow::GlWindow(const std::string& title, int width, int height) {
  glfwSetErrorCallback(keep_problem);
  // Otherwise Mesa's software renderer uses every processor for each frame, and training waits.
  setenv("LP_NUM_THREADS", "0", 0);
  if (!glfwInit())
    throw Error(ExitCode::failure, "no display: " + last_problem + "; `afterglow train` works without one");
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
  if (!window_) {
    glfwTerminate();
    throw Error(ExitCode::failure,
                "no window with OpenGL 3.3: " + last_problem + "; `afterglow train` works without one");
  }
  glfwSetWindowSizeLimits(window_, 640, 400, GLFW_DONT_CARE, GLFW_DONT_CARE);
  glfwSetWindowUserPointer(window_, this);
  glfwSetKeyCallback(window_, Callbacks::key);
  glfwSetDropCallback(window_, Callbacks::drop);
  glfwSetCursorPosCallback(window_, Callbacks::moved);
  glfwSetScrollCallback(window_, Callbacks::note);
  glfwSetCharCallback(window_, Callbacks::note);
  glfwSetFramebufferSizeCallback(window_, Callbacks::note);
  glfwSetWindowRefreshCallback(window_, Callbacks::note);
  glfwSetCursorEnterCallback(window_, Callbacks::note);
  glfwMakeContextCurrent(window_);
  const auto* renderer = reinterpret_cast<const char*>(gl_function<decltype(glGetString)>("glGetString")(GL_RENDERER));
  renderer_ = renderer ? renderer : "";
  const auto names = [&](const char* part) { return renderer_.find(part) != renderer_.npos; };
  is_software_ = names("llvmpipe") || names("softpipe") || names("SwiftShader");
  // A processor that draws must not also wait for the screen; a graphics card keeps to the screen's rate.
  glfwSwapInterval(is_software_ ? 0 : 1);
  IMGUI_CHECKVERSION();
  let_imgui_throw_without_memory();
  ImGui::CreateContext();
  ImGui::GetIO().IniFilename = ImGui::GetIO().LogFilename = nullptr;
  // Dear ImGui chains to the callbacks that are installed already.
  ImGui_ImplGlfw_InitForOpenGL(window_, true);
  glfwSetKeyCallback(window_, Callbacks::key_of_imgui);
  glfwSetCharCallback(window_, Callbacks::letter);
  glfwSetMouseButtonCallback(window_, Callbacks::button);
  ImGui_ImplOpenGL3_Init(shader_version);
}

GlWindow::~GlWindow() {
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplGlfw_Shutdown();
  ImGui::DestroyContext();
  glfwDestroyWindow(window_);
  glfwTerminate();
}

bool GlWindow::wants_to_close() const { return glfwWindowShouldClose(window_) != 0; }
void GlWindow::close() { glfwSetWindowShouldClose(window_, GLFW_TRUE); }

void GlWindow::wait_events(double seconds) { seconds > 0 ? glfwWaitEventsTimeout(seconds) : glfwPollEvents(); }

bool GlWindow::take_input() { return std::exchange(had_input_, false); }

bool GlWindow::Input::types() const {
  constexpr int commands = GLFW_MOD_CONTROL | GLFW_MOD_ALT | GLFW_MOD_SUPER;
  const bool prints = kind == Kind::key && action != GLFW_RELEASE && (mods & commands) == 0 &&
                      (code == GLFW_KEY_SPACE || glfwGetKeyName(code, scancode) != nullptr);
  return kind == Kind::letter || prints;
}

/// Hands what happened since the last frame to Dear ImGui and the page, in its order. Of the mouse and of each key it
/// is one event, because a press and its release in one frame would be no click. Letters wait until the field is open
/// that a press may have opened, and a press waits until the field has read the letters. What is left makes the next
/// frame.
void GlWindow::give_input() {
  constexpr int mouse = -1, most_waits = 8;
  std::set<int> given;
  pressed_.reset();
  settles_ = std::max(0, settles_ - 1);
  for (; !waiting_.empty(); waiting_.pop_front()) {
    const Input now = waiting_.front();
    const bool is_key = now.kind == Input::Kind::key, is_letter = now.kind == Input::Kind::letter;
    if (is_key && now.action == GLFW_RELEASE && !down_.contains(now.code)) continue;  // its press was text
    const bool types = now.types(), is_read = ImGui::GetIO().WantTextInput,
               acts = !is_key || now.code < GLFW_KEY_LEFT_SHIFT || now.code > GLFW_KEY_RIGHT_SUPER;
    if (settles_ > 0 && types != was_text_ && acts) break;
    if (is_read) waits_ = 0;
    if (types && !is_read && has_field() && ++waits_ <= most_waits) break;
    if (types && is_read) {
      if (is_letter) ImGui_ImplGlfw_CharCallback(window_, static_cast<unsigned>(now.code));
      was_text_ = true, settles_ = 2;
    }
    if (is_letter || (types && is_read)) continue;
    const ImVec2 seen = ImGui::GetIO().MousePos;
    const bool is_elsewhere = std::abs(seen.x - now.x) >= 1 || std::abs(seen.y - now.y) >= 1;
    if (is_key && now.action == GLFW_PRESS && is_elsewhere && !now.is_seen) {
      // A key speaks of what is under the pointer: a frame with the pointer at the key's place comes first.
      waiting_.front().is_seen = true;
      pressed_ = now;
      break;
    }
    if (!given.insert(now.kind == Input::Kind::button ? mouse : now.code).second) break;
    if (acts) was_text_ = false, settles_ = 2;
    give(now);
    // The letter of a key that was a command is no text.
    if (types && waiting_.size() > 1 && waiting_[1].kind == Input::Kind::letter) waiting_.erase(waiting_.begin() + 1);
  }
  had_input_ = had_input_ || !waiting_.empty();
}

void GlWindow::give(const Input& now) {
  const bool is_down = now.action != GLFW_RELEASE;
  pressed_ = now;
  if (now.kind == Input::Kind::key) {
    is_down ? void(down_.insert(now.code)) : void(down_.erase(now.code));
    return ImGui_ImplGlfw_KeyCallback(window_, now.code, now.scancode, now.action, now.mods);
  }
  put_mouse(ImGui::GetIO(), now.x, now.y);
  ImGui_ImplGlfw_MouseButtonCallback(window_, now.code, now.action, now.mods);
  if (now.code < std::ssize(is_held_)) is_held_[now.code] = is_down;
}

void GlWindow::begin_frame() {
  ImGui_ImplOpenGL3_NewFrame();
  give_input();
  ImGui_ImplGlfw_NewFrame();
  ImGuiIO& io = ImGui::GetIO();
  for (int i = 0; i < std::ssize(is_held_); ++i) keep_button(io, i, is_held_[i]);
  if (pressed_) put_mouse(io, pressed_->x, pressed_->y);
  ImGui::NewFrame();
}

void GlWindow::end_frame(Color ground, const std::function<void()>& before_swap) {
  ImGui::Render();
  gl_function<decltype(glViewport)>("glViewport")(0, 0, pixel_width(), pixel_height());
  const auto part = [](std::uint8_t v) { return static_cast<float>(v) / 255; };
  gl_function<decltype(glClearColor)>("glClearColor")(part(ground.r), part(ground.g), part(ground.b), 1);
  gl_function<decltype(glClear)>("glClear")(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  before_swap();
  glfwSwapBuffers(window_);
}

void GlWindow::upload_fonts() {
  // A new back end reads the present atlas; this call is the same in every version of Dear ImGui.
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplOpenGL3_Init(shader_version);
}

void GlWindow::toggle_full_screen() {
  if (glfwGetWindowMonitor(window_)) {
    glfwSetWindowMonitor(window_, nullptr, restored_[0], restored_[1], restored_[2], restored_[3], GLFW_DONT_CARE);
    return;
  }
  GLFWmonitor* monitor = glfwGetPrimaryMonitor();
  const GLFWvidmode* mode = monitor ? glfwGetVideoMode(monitor) : nullptr;
  if (!mode) return;
  glfwGetWindowPos(window_, &restored_[0], &restored_[1]);
  glfwGetWindowSize(window_, &restored_[2], &restored_[3]);
  glfwSetWindowMonitor(window_, monitor, 0, 0, mode->width, mode->height, mode->refreshRate);
}

int GlWindow::width() const { return size_by(glfwGetWindowSize, window_).first; }
int GlWindow::height() const { return size_by(glfwGetWindowSize, window_).second; }
int GlWindow::pixel_width() const { return size_by(glfwGetFramebufferSize, window_).first; }
int GlWindow::pixel_height() const { return size_by(glfwGetFramebufferSize, window_).second; }

double GlWindow::density() const {
  const int w = width();
  return w > 0 && pixel_width() > 0 ? static_cast<double>(pixel_width()) / w : 1.0;
}

double GlWindow::content_scale() const {
  float x = 1, y = 1;
  glfwGetWindowContentScale(window_, &x, &y);
  return std::max(0.5, static_cast<double>(x) / density());
}

void let_imgui_throw_without_memory() {
  ImGui::SetAllocatorFunctions([](std::size_t size, void*) { return ::operator new(size); },
                               [](void* memory, void*) { ::operator delete(memory); });
}

double window_time() { return glfwGetTime(); }

}  // namespace afterglow
