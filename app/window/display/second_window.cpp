// A GLFW window with its own contexts.
#include "app/window/display/second_window.h"

#include <backends/imgui_impl_opengl3.h>
#include <imgui.h>

#include <algorithm>
#include <utility>

#include "app/window/display/gl_function.h"
#include "app/window/display/gl_window.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr int usual_width = 760, usual_height = 480;

struct Place {
  int x = 0, y = 0, width = 0, height = 0;
  bool contains(int px, int py) const { return px >= x && px < x + width && py >= y && py < y + height; }
};

Place place_of(GLFWwindow* window) {
  Place place;
  glfwGetWindowPos(window, &place.x, &place.y);
  glfwGetWindowSize(window, &place.width, &place.height);
  return place;
}

/// In the middle of the first screen that does not show the main window; with one screen to the right of that, to its
/// left, or at the edge.
void place_next_to(GLFWwindow* window, const Place& main) {
  const Place own = place_of(window);
  int count = 0;
  GLFWmonitor** monitors = glfwGetMonitors(&count);
  Place screen;
  for (int i = 0; i < count; ++i) {
    Place area;
    glfwGetMonitorWorkarea(monitors[i], &area.x, &area.y, &area.width, &area.height);
    const bool has_main = area.contains(main.x + main.width / 2, main.y + main.height / 2);
    if (!has_main) {
      glfwSetWindowPos(window, area.x + std::max(0, area.width - own.width) / 2,
                       area.y + std::max(0, area.height - own.height) / 2);
      return;
    }
    screen = area;
  }
  constexpr int gap = 8;
  const int right = main.x + main.width + gap, left = main.x - own.width - gap, edge = screen.x + screen.width;
  const int x = right + own.width <= edge ? right : left >= screen.x ? left : std::max(screen.x, edge - own.width);
  glfwSetWindowPos(window, x, std::max(screen.y, main.y));
}

}  // namespace

/// Makes the second window's contexts current during its lifetime.
struct SecondWindow::Turn : Immovable {
  explicit Turn(const SecondWindow& own) : main(own.main_), before(ImGui::GetCurrentContext()) {
    glfwMakeContextCurrent(own.window_);
    ImGui::SetCurrentContext(own.context_);
  }
  ~Turn() {
    ImGui::SetCurrentContext(before);
    glfwMakeContextCurrent(main);
  }
  GLFWwindow* main;
  ImGuiContext* before;
};

struct SecondWindow::Callbacks {
  static SecondWindow& self(GLFWwindow* window) {
    return *static_cast<SecondWindow*>(glfwGetWindowUserPointer(window));
  }
  static void key(GLFWwindow* window, int code, int scancode, int action, int mods) {
    if (action == GLFW_RELEASE) return;
    const Chord chord = chord_of_key(code, scancode, mods);
    if (!chord.key.empty()) self(window).on_key(chord);
  }
  static void size(GLFWwindow* window, int, int) { self(window).is_damaged_ = true; }
  static void refresh(GLFWwindow* window) { self(window).is_damaged_ = true; }
};

SecondWindow::SecondWindow(const std::string& title, GLFWwindow* main) : main_(main) {
  // The main window keeps the keyboard focus, and the second window appears at its place.
  glfwWindowHint(GLFW_VISIBLE, GLFW_FALSE);
  glfwWindowHint(GLFW_FOCUS_ON_SHOW, GLFW_FALSE);
  window_ = glfwCreateWindow(usual_width, usual_height, title.c_str(), nullptr, nullptr);
  if (!window_) throw Error(ExitCode::failure, "a second window could not be opened on this display");
  glfwSetWindowSizeLimits(window_, 360, 240, GLFW_DONT_CARE, GLFW_DONT_CARE);
  glfwSetWindowUserPointer(window_, this);
  glfwSetKeyCallback(window_, Callbacks::key);
  glfwSetFramebufferSizeCallback(window_, Callbacks::size);
  glfwSetWindowRefreshCallback(window_, Callbacks::refresh);
  place_next_to(window_, place_of(main_));
  glfwShowWindow(window_);
  context_ = ImGui::CreateContext();
  const Turn turn(*this);
  glfwSwapInterval(0);  // only the main window waits for its screen
  ImGui::GetIO().IniFilename = ImGui::GetIO().LogFilename = nullptr;
  ImGui_ImplOpenGL3_Init(shader_version);
}

SecondWindow::~SecondWindow() {
  {
    const Turn turn(*this);
    ImGui_ImplOpenGL3_Shutdown();
  }
  ImGui::DestroyContext(context_);
  glfwDestroyWindow(window_);
}

bool SecondWindow::wants_to_close() const { return glfwWindowShouldClose(window_) != 0; }

bool SecondWindow::take_damage() { return std::exchange(is_damaged_, false); }

void SecondWindow::refresh_look(const Theme& theme, const FontFiles& files, double zoom) {
  const ImVec2 density = ImGui::GetIO().DisplayFramebufferScale;
  float wanted = 1;
  glfwGetWindowContentScale(window_, &wanted, nullptr);
  const float scale = look_scale(theme, static_cast<double>(wanted / density.x), zoom);
  if (look_.theme == &theme && look_.scale == scale) return;
  look_ = Look{&theme, scale, &fonts_};
  fonts_.bake(*ImGui::GetIO().Fonts, files, scale, density.x);
  // A new back end reads the present atlas.
  ImGui_ImplOpenGL3_Shutdown();
  ImGui_ImplOpenGL3_Init(shader_version);
}

void SecondWindow::draw(const Theme& theme, const FontFiles& files, double zoom,
                        const std::function<void(const Look&, Canvas&, const Rect&)>& paint) {
  const Turn turn(*this);
  const Place window = place_of(window_);
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  if (window.width <= 0 || window.height <= 0 || width <= 0 || height <= 0) return;
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(window.width), static_cast<float>(window.height)};
  io.DisplayFramebufferScale = {static_cast<float>(width) / io.DisplaySize.x,
                                static_cast<float>(height) / io.DisplaySize.y};
  refresh_look(theme, files, zoom);
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  FigureCanvas canvas(*ImGui::GetBackgroundDrawList(), fonts_);
  paint(look_, canvas, {0, 0, static_cast<double>(window.width), static_cast<double>(window.height)});
  ImGui::Render();
  gl_function<decltype(glViewport)>("glViewport")(0, 0, width, height);
  gl_function<decltype(glClear)>("glClear")(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  glfwSwapBuffers(window_);
}

}  // namespace afterglow
