// What is over the page for a moment: palette, menu, sheet of presets, hints, cards, a number that is typed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/figure/canvas.h"
#include "core/recipe/command.h"

namespace afterglow {

/// Bytes [begin, end) of a text.
struct TextStretch {
  int begin = 0, end = 0;
};

struct PaletteState {
  bool is_open = false, wants_focus = false;
  std::string text;
  int chosen = 0;                         ///< line of the list
  int generation = 0;                     ///< a new number makes the field reload its text
  std::optional<TextStretch> selected{};  ///< when the field gets the keyboard focus: the first value of the example
  std::vector<std::string> paths{};       ///< that go on with the typed one, on the machine of the session
};

/// The menu of a panel on a right click or the menu key.
struct MenuItem {
  std::string title;
  std::string keys;
  Command command;
  bool is_on = false;  ///< a switch that is on, with a tick
  std::string page{};  ///< workspace that shows the result; empty: the present one
};
struct MenuState {
  bool is_open = false;
  std::string panel, plot;      ///< target; `plot` is empty for the panel as a whole
  std::optional<double> x, y;   ///< where the plot was clicked, in data units
  Point at;                     ///< upper left corner
  int chosen = -1;              ///< line of the list; -1: none yet
  std::vector<MenuItem> items;  ///< as drawn last
};

/// The sections of the sheet of presets.
enum class PickerSection { models, lessons, tables, recent, files };
inline constexpr int picker_sections = 5;

/// A thing to open: a preset, a table of a paper, a file.
struct PickerEntry {
  PickerSection section = PickerSection::models;
  std::string name{}, sentence{}, size{}, time{};  ///< "tiny", a sentence, "110,068 parameters", "about 40 s"
  std::string words{};                             ///< more words for the search: its task
  std::string picture{};                           ///< as in Preset
  Command command{};                               ///< opens it
  bool is_folder = false;                          ///< choosing it lists its contents
};

struct PickerState {
  bool is_open = false, wants_focus = false;
  PickerSection section = PickerSection::models;
  std::string text;
  int chosen = 0;                    ///< among the matching entries
  int columns = 1;                   ///< of cards, in the last frame
  int generation = 0;                ///< of the field, as in PaletteState
  std::string folder;                ///< the folder whose files are listed
  std::vector<PickerEntry> entries;  ///< all that can be opened, collected when the sheet opened
};

/// The hint of a first start, which disappears after its deed, and the introduction, which the user closes.
struct HintState {
  bool is_drag_due = false, is_intro_due = false;
  int mode = -1;             ///< number of the mode that the answers need most, while its plane is drawn
  std::optional<Point> dot;  ///< where the last frame drew it
};

/// A slider or number in change; its new value is sent at the end of the drag.
struct EditState {
  std::string key;  ///< key of the setting; empty: none
  double value = 0;
  bool is_typing = false, wants_focus = false;
  std::string text;
  double sent_at = -1;  ///< when the value was sent; it stays visible until the engine has taken it over
};

/// What the right button paints on tokens while it is held: their weight in the sums of a layer.
struct BrushState {
  std::optional<double> weight{};
  std::int64_t token = -1;  ///< the last one that was painted
};

/// A quantity under the pointer, whose card opens after a moment.
struct CardState {
  std::string card;
  double since = 0;
  std::string pinned;  ///< by F1; empty: none
  std::string asked;   ///< a card that only F1 opens: of a dot, a curve, a slider
  Rect asked_beside;
  Rect beside;  ///< where the pointer was when it was pinned
};

}  // namespace afterglow
