// The window's state between frames outside of the run: selection, zoom, layout, open overlays, notes.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/figure/canvas.h"
#include "core/recipe/command.h"
#include "core/recipe/recipe.h"
#include "views/figures/plot_reading.h"
#include "views/figures/selection.h"
#include "views/frame/lesson_state.h"

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

/// The pointer's place on an axis, shown in every plot with the same axis.
struct Crosshair {
  std::string axis;  ///< label of the x axis; empty: nowhere
  std::string plot;  ///< id of the figure under the pointer
  double x = 0;
};

/// The readings of a plot at the crosshair. All readings of a frame share one box next to the pointer.
struct CrosshairReading {
  std::string title;
  std::vector<ReadingLine> lines;  ///< the first one is the place
  bool is_first = false;           ///< from the plot under the pointer, or from the one that the keys read
  Point beside;
};

/// What the pointer is over, and what it has done.
struct PointerFrame {
  std::string panel, plot;  ///< under the pointer
  Crosshair crosshair;      ///< shown in the next frame
  std::vector<CrosshairReading> readings;
  std::optional<Rect> reading;        ///< box of values next to the pointer, on top of everything
  std::vector<Rect> measured;         ///< boxes of the measuring cursors, which the reading avoids
  bool right_click_is_taken = false;  ///< by a dot or a plot
  bool wheel_is_taken = false;        ///< by a slider
};

/// A plot of the last frame, for keyboard commands.
struct ShownPlot {
  std::string panel, plot;
  Rect area;   ///< with its axes
  Rect frame;  ///< within its axes
  Range x, y;  ///< visible ranges
  Scale x_scale = Scale::linear, y_scale = Scale::linear;
  std::string x_label;
  bool has_lines = false;
  std::optional<Range> colours;  ///< of its first heat map
};
struct ShownPanel {
  std::string panel;
  Rect area;
};
/// A row of panels of the last frame; `name` is that of its shares in PageState::splits.
struct ShownRow {
  std::string name;
  std::vector<double> shares;                               ///< of its columns
  std::vector<std::pair<std::string, std::size_t>> panels;  ///< each with its column
};

struct DrawnFrame {
  std::vector<ShownPanel> panels;  ///< in reading order; also the next two
  std::vector<ShownPlot> plots;
  std::vector<ShownRow> rows;
  std::string rows_name;           ///< name of the shares of those rows in `splits`
  std::vector<double> row_shares;  ///< of the page's height
  std::vector<std::string> sliders;
  std::string panel;           ///< the panel being drawn
  bool interventions = false;  ///< the side column shows their effect
};

/// A message above the time bar.
struct Note {
  Severity severity = Severity::info;
  std::string text;
  double born = 0;  ///< seconds since the window opened
};

/// What arrows and Home/End move: the token of the stepper or the step of the training.
enum class TimeFocus { steps, tokens };

/// The arrangement of the page; the user can save it under a name, and the window from start to start.
struct Layout {
  std::string workspace = "koopman";
  std::map<std::string, std::vector<double>> splits;  ///< shares of the rows and columns of each workspace, by name
  std::map<std::string, int> shown_figure;  ///< of each panel: index of the one figure to show, -1: as many as fit
  int figure_of(std::string_view panel) const {
    const auto shown = shown_figure.find(std::string(panel));
    return shown == shown_figure.end() ? -1 : shown->second;
  }
  bool operator==(const Layout&) const = default;
};

/// What undo takes back.
struct PageView : Layout {
  Selection selection;
  std::string maximised;  ///< id of the enlarged panel
  bool operator==(const PageView&) const = default;
};

/// A dot or a measuring cursor that the pointer drags, or the knob of a slider.
struct DragState {
  std::string plot, point;  ///< the dot; empty: none
  DotMode mode;
  char cursor = 0;   ///< 'a' or 'b' of that plot; 0: none
  double share = 0;  ///< place of the knob at the start of the drag
};

/// What the keys have chosen.
struct KeyFocus {
  std::string panel;              ///< by Tab: counts as hovered while the pointer is over no panel
  std::string plot;               ///< of that panel; empty: its first
  std::string slider;             ///< key of the setting that the arrow keys change; empty: none
  bool slider_is_sought = false;  ///< it has just been chosen: the column scrolls there
  int slider_steps = 0;           ///< steps for it to move, in hundredths of its track
  Crosshair crosshair;            ///< moved by keys; the pointer over a plot ends it
};

/// What an audience sees, or may not touch.
struct Presentation {
  bool is_on = false;          ///< no controls, large type
  bool is_blank = false;       ///< a black screen
  bool has_presenter = false;  ///< a second window shows the notes of the lesson
  bool hides_controls = false;
  bool is_locked = false;    ///< controls stay hidden, and keys and mouse cannot change the run
  std::string theme_before;  ///< theme to restore afterwards
};

/// The time bar's keys and its field.
struct TimeState {
  TimeFocus focus = TimeFocus::steps;
  int shuttle = 0;                  ///< speed and direction of the keys J K L
  std::string step_count = "1";     ///< text of the field for the number of steps
  std::int64_t scrubbed_step = -1;  ///< while the bar is dragged; else -1
  double scrubbed_at = 0;
};

/// The line to a session elsewhere.
struct ShownLine {
  std::string text;     ///< "ann@gpu1 · 81 ms · 640 kB/s"; empty: the session is here
  std::string problem;  ///< what goes on while the line is lost; empty: it stands
};

/// What the page has done for the opened run.
struct OpenedRun {
  std::uint64_t number = 0;          ///< Observation::opened whose view the page has applied
  std::string model;                 ///< for which `workspace` was chosen last; empty: none yet
  bool workspace_is_chosen = false;  ///< by a command
  std::string kept_run;              ///< offered until another run is opened, "tiny, step 600"; empty: none
};

/// The overwriting that the page has announced.
struct ExportSaid {
  std::string text;  ///< what the same command will write if it comes again; empty: nothing
  double at = -1e9;  ///< seconds
};

struct PageState : PageView {
  // Saved from start to start.
  std::string theme = "dark";
  double zoom = 1;
  std::map<std::string, Layout> layouts;  ///< saved by the user, by name
  std::vector<std::string> recent;        ///< opened files, the newest first

  // Not saved.
  std::map<std::string, PlotState> plots;
  Crosshair crosshair;
  PointerFrame pointer;
  DrawnFrame drawn;
  DragState drag;
  KeyFocus focus;
  Presentation presentation;
  TimeState time;
  BrushState brush;
  MenuState menu;
  HintState hints;
  PaletteState palette;
  PickerState picker;
  LessonPane lesson;
  EditState edit;
  CardState card;
  OpenedRun opened;
  ShownLine line;
  std::shared_ptr<const Machine> machine = machine_with({});  ///< of the session
  ExportSaid export_said;
  AnalysisSet asked = 0;           ///< analyses that the last frame and its lesson need
  double column_scrolled_at = -1;  ///< when the wheel last scrolled the side column; seconds
  bool help_is_open = false;
  std::deque<Note> notes;
  std::optional<Event> last_event;  ///< the newest event that has become a note
  std::string report;  ///< what a report that is being made waits for; empty: none, or the user has ended it
  double wake_at = 0;  ///< time of the next frame without input; infinity: none
};

/// Requests another frame at this time, or at once.
inline void ask_frame(PageState& state, double at = 0) { state.wake_at = std::min(state.wake_at, at); }

/// Whether the page is the slide of a lesson: picture and text, without frames and controls.
inline bool is_slide(const PageState& state) { return state.presentation.is_on && state.lesson.lesson; }

/// Whether the open lesson shows a part of the page: it shows all unless it lists its `controls`.
bool shows_control(const PageState& state, std::string_view name);
/// Whether the lesson's step leaves a panel at full contrast.
bool is_stressed(const PageState& state, std::string_view panel);

/// The plot under the pointer or chosen by keys in the last frame; nullptr without one.
const ShownPlot* meant_plot(const PageState& state);

void add_note(PageState& state, Severity severity, std::string text, double now);
/// The user gave a command: the hint for it is no longer due.
void complete_hint(PageState& state, const Command& command);
/// Turns new events into notes; only the newest few are kept.
void note_events(PageState& state, const Observation& observation, double now);

}  // namespace afterglow
