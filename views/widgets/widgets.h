// The small parts of the page: text in a row, buttons, chips, section heads, lists of readings, formula cards.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "views/figures/plot_reading.h"
#include "views/frame/frame.h"
#include "views/plots/formula_card.h"

namespace afterglow {

/// Sizes of text in layout units.
constexpr double body_size = 13, small_size = 12, tiny_size = 11, title_size = 13;

/// Draws text on the middle line of a row, cut with "…" when it is wider than the row.
struct RowText {
  double size = body_size;
  FontFace face = FontFace::regular;
  Color color;
  Anchor anchor = Anchor::start;
  bool is_math = false;  ///< with scripts and powers of ten (math_text.h); false for names of files and fields
};
/// Returns the width that was drawn.
double row_text(const Look& look, Canvas& canvas, const Rect& row, std::string_view text, const RowText& style);
/// The text, cut with "…" to fit `width` pixels on this canvas.
std::string cut_text(const Canvas& canvas, std::string_view text, double width, double size, FontFace face);
/// As many of the parts between " · " as fit, so that no word is cut; empty if not even the first one fits.
std::string fitting_parts(const Canvas& canvas, std::string text, double width, double size);
/// Words broken into lines that fit `width` pixels, at most `max_lines`; the last one is cut.
std::vector<std::string> wrapped_text(const Canvas& canvas, std::string_view text, double width, double size,
                                      FontFace face, std::size_t max_lines);

/// Lines from the top of an area down, each `height` high; returns their lower end.
double text_lines(const Look& look, Canvas& canvas, const Rect& area, std::span<const std::string> lines, double height,
                  const RowText& style);

/// The pointer's actions on an area, which takes part in Dear ImGui's focus, so that areas on top win.
struct Press {
  bool hovered = false, held = false, clicked = false, double_clicked = false, started = false, released = false;
};
Press press_area(const char* id, const Rect& area);

enum class Icon { none, play, pause, step, again, enlarge, shrink };
void draw_icon(Canvas& canvas, Icon icon, const Rect& box, Color color);

enum class ButtonKind { normal, primary, quiet, chosen, dim };
/// A button as wide as its label, with its left edge at x; returns its width. `hint` names its key.
struct ButtonResult {
  double width = 0;
  bool clicked = false;
};
ButtonResult button(const Frame& frame, const char* id, double x, const Rect& row, std::string_view label, Icon icon,
                    ButtonKind kind, std::string_view hint = {});
/// The width of `button`.
double button_width(const Frame& frame, std::string_view label, Icon icon);

/// A token as a small coloured chip with its text.
struct ChipState {
  bool is_selected = false, is_hovered = false;
  double weight = 1;  ///< up to which share of its height it is filled
};
/// Narrow chips get smaller letters, very narrow ones no letters but still their colour. A line under the chip marks a
/// token after which the model must answer.
void draw_token_chip(const Frame& frame, Canvas& canvas, const TokenView& token, const Rect& chip, ChipState state);

/// A section head in small letter-spaced capitals; returns the height used.
double section_head(const Frame& frame, const Rect& row, std::string_view text);

/// A box of readings next to a place, kept inside `bounds`, on top of everything.
void reading_box(const Frame& frame, Point beside, std::span<const ReadingLine> lines, const Rect& bounds);
/// The size of that box, and the box with its upper left corner at a given place.
Point reading_size(const Frame& frame, std::span<const ReadingLine> lines);
void reading_box_at(const Frame& frame, const Rect& box, std::span<const ReadingLine> lines);
/// A hint under an area; ends with a full stop.
void hint_box(const Frame& frame, const Rect& area, std::string_view text);

/// A window without any decoration of Dear ImGui's own.
constexpr ImGuiWindowFlags bare_window = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                         ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBackground |
                                         ImGuiWindowFlags_NoNav;
/// Begins a window over the whole page; ImGui::End() ends it.
FigureCanvas begin_overlay(const Frame& frame, const char* name);
/// Begins a window over the whole page, dimmed, with an empty sheet in `box`; ImGui::End() ends it.
FigureCanvas begin_sheet(const Frame& frame, const char* name, const Rect& box);

/// The wheel scrolls the present window of Dear ImGui if no slider has used it.
void scroll_by_wheel(Frame& frame);

Rect window_bounds();
Point mouse_place();
/// The place of the last press of a button, and whether the pointer has moved since so far that it is no click.
Point press_place(int button);
bool is_dragged(const Frame& frame, int button);

/// The card that F1 pinned, with a button that copies its formula; Esc or F1 closes it.
void draw_pinned_card(Frame& frame);

/// Opens the card when the pointer has rested on `area` for 0.4 s; in presentation mode only F1 opens it.
void card_target(Frame& frame, std::string_view id, const Rect& area);
/// F1 opens this card next to `area`, where it does not cover the values.
void ask_for_card(Frame& frame, std::string_view id, const Rect& area);

}  // namespace afterglow
