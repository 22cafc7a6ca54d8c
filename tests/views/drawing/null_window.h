// Dear ImGui without a window: frames are built and thrown away, input is put in by hand.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/views/drawing/imgui_input.h"
#include "views/frame/frame.h"
#include "views/page/page.h"

namespace afterglow {

class NullWindow {
 public:
  NullWindow(int width, int height, const std::string& theme = "dark", double content_scale = 1);
  ~NullWindow();

  /// Draws `frames` frames of the page.
  void draw_page(int frames = 1);
  /// Draws one frame with `draw` inside a window that fills the display.
  template <class Draw>
  void draw(const Draw& draw) {
    begin();
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
    ImGui::Begin("test", nullptr, ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoNav);
    Frame frame = make_frame();
    draw(frame);
    ImGui::End();
    end();
  }

  void mouse(double x, double y) { put_mouse(ImGui::GetIO(), static_cast<float>(x), static_cast<float>(y)); }
  void button(bool is_down, int which = 0) { put_button(ImGui::GetIO(), which, is_down); }
  /// A click of the left button, frame by frame; returns the commands that it sends.
  std::vector<Command> click(double x, double y) {
    mouse(x, y);
    draw_page();
    button(true);
    draw_page();
    button(false);
    draw_page();
    return commands.take();
  }
  void ctrl(bool is_down) { put_ctrl(ImGui::GetIO(), is_down); }
  void wheel(double notches) { put_wheel(ImGui::GetIO(), static_cast<float>(notches)); }

  void show(Observation observation) { observation_ = std::make_shared<const Observation>(std::move(observation)); }
  void show(std::shared_ptr<const Observation> observation) { observation_ = std::move(observation); }
  int vertices() const { return vertices_; }
  /// A sign of the last frame: the size of its text, and where it is.
  struct Sign {
    double size;
    Rect box;
    ImWchar character;
  };
  /// Every sign that was drawn and is not covered by a clip; none where the fonts cannot be asked (imgui_compat.h).
  std::vector<Sign> signs() const;
  /// Vertices of the last frame that lie inside a rectangle.
  int vertices_in(const Rect& area) const;

  PageState state;
  CommandQueue commands;
  Look look;

 private:
  void begin();
  void end();
  Frame make_frame() { return Frame{observation_, look, state, commands, figures_, time_}; }

  FontSet fonts_;
  FigureCache figures_;
  std::shared_ptr<const Observation> observation_ = std::make_shared<const Observation>();
  double time_ = 0;
  int vertices_ = 0;
};

}  // namespace afterglow
