// Sliders for settings: drag, Ctrl + wheel for fine steps, a click on the number to type it, a double click for the
// default.
#pragma once
#include <functional>

#include "views/frame/frame.h"

namespace afterglow {

struct TrackResult {
  bool moved = false;     ///< to `share`, by a drag
  bool reset = false;     ///< double click
  bool released = false;  ///< after a drag
  bool clicked = false;   ///< without a drag
  bool held = false;
  double share = 0;  ///< in [0, 1]
};
/// The track alone. A drag moves the knob as far as the pointer, wherever it begins; a click moves nothing.
TrackResult slider_track(const Frame& frame, const char* id, const Rect& row, double share);

/// Converts a value to its place on the slider and back; logarithmic or in whole numbers as the setting is.
double share_of(const Setting& setting, double value);
double value_at(const Setting& setting, double share);
/// The value after steps of a hundredth of the slider; whole numbers move by at least one.
double moved_by(const Setting& setting, double value, double steps);
/// A typed number: a comma counts as a decimal point, "1e-3" and "1e−3" work; NaN if it is invalid. Clamped to the
/// setting's limits.
double typed_value(const Setting& setting, const std::string& text);
/// The displayed text: few digits, "1.0e−3".
std::string setting_text(const Setting& setting, double value);

/// Height of `value_slider`, in layout units.
constexpr double slider_height = 38;
/// Label, value and track of one number. The wheel over it moves by 1/100 of the track with Ctrl, or without if the
/// slider is the chosen one, unless scrolling has just moved it under the pointer. `send(value, is_live)` gets each
/// live value during a drag, and the final one with is_live false. Returns the height used.
double value_slider(Frame& frame, const Setting& setting, const Rect& area,
                    const std::function<void(double value, bool is_live)>& send);
/// The same for a hyperparameter: sends `set`.
double setting_slider(Frame& frame, const Setting& setting, const Rect& area);

}  // namespace afterglow
