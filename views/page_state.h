// What the window remembers between frames that is no part of the run: selection, zoom, layout, open overlays, notes.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/recipe/command.h"
#include "core/engine/recipe/lesson.h"
#include "core/engine/recipe/lesson_condition.h"
#include "core/figure/canvas.h"
#include "views/figures/selection.h"
#include "views/plot_reading.h"
#include "views/plot_state.h"

namespace afterglow {

/// The pointer's place on an axis, shown in every plot that has the same axis.
struct Crosshair {
  std::string axis;  ///< label of the x axis; empty: nowhere
  std::string plot;  ///< id of the figure under the pointer
  double x = 0;
};

/// What a plot reads at the crosshair. All of a frame share one box beside the pointer.
struct CrosshairReading {
  std::string title;
  std::vector<ReadingLine> lines;  ///< the first one is the place
  bool is_first = false;           ///< of the plot under the pointer, or the one that the keyboard reads
  Point beside;
};

/// A quiet line above the time bar.
struct Note {
  Severity severity = Severity::info;
  std::string text;
  double born = 0;  ///< seconds since the window opened
};

/// What arrows and Home/End move: the token of the stepper or the step of the training.
enum class TimeFocus { steps, tokens };

/// Bytes [begin, end) of a text.
struct TextStretch {
  int begin = 0, end = 0;
};

struct PaletteState {
  bool is_open = false, wants_focus = false;
  std::string text;
  int chosen = 0;                         ///< line of the list
  int generation = 0;                     ///< of the field: one that is being typed in keeps its own copy of the text
  std::optional<TextStretch> selected{};  ///< when the field gets the keyboard: the first value of the example
};

/// What a panel offers on a right click or the menu key.
struct MenuItem {
  std::string title;
  std::string keys;
  Command command;
  bool is_on = false;  ///< a switch that is on: with a tick
  std::string page{};  ///< workspace that shows what came of it; empty: the present one
};
struct MenuState {
  bool is_open = false;
  std::string panel, plot;      ///< of which; `plot` is empty for the panel as a whole
  std::optional<double> x, y;   ///< where the plot was clicked, in data units
  Point at;                     ///< upper left corner
  int chosen = -1;              ///< line of the list; -1: none yet
  std::vector<MenuItem> items;  ///< as drawn last
};

/// A plot of the last frame, for commands that come from keys.
struct ShownPlot {
  std::string panel, plot;
  Rect area;   ///< of the plot with its axes
  Range x, y;  ///< what is visible
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
  std::vector<double> shares;
  std::vector<std::string> panels;
};

/// An arrangement of the page under a name of the user's.
struct Layout {
  std::string workspace;
  std::map<std::string, std::vector<double>> splits;
  std::map<std::string, int> shown_figure;
  bool operator==(const Layout&) const = default;
};

/// What the sheet of presets lists under a head of its own.
enum class PickerSection { models, lessons, tables, recent, files };
inline constexpr int picker_sections = 5;

/// One thing to open: a preset, a table of a paper, a file.
struct PickerEntry {
  PickerSection section = PickerSection::models;
  std::string name, sentence, size, time;  ///< "tiny", what it shows, "110,068 parameters", "about 40 s"
  std::string words;                       ///< by which it is found, too: its task
  std::string picture;                     ///< as in Preset
  Command command;                         ///< what opens it
  bool is_folder = false;                  ///< choosing it lists what is in it
};

struct PickerState {
  bool is_open = false, wants_focus = false;
  PickerSection section = PickerSection::models;
  std::string text;
  int chosen = 0;                    ///< among those that match
  int columns = 1;                   ///< of cards, in the last frame
  int generation = 0;                ///< of the field, as in PaletteState
  std::string folder;                ///< whose files are listed
  std::vector<PickerEntry> entries;  ///< all that can be opened, as the window found it when the sheet opened
};

struct LessonStepPlan;

/// The lesson that is open. The window's lesson_player makes it go on, the pane shows it.
struct LessonPane {
  std::shared_ptr<const Lesson> lesson;  ///< null: none
  std::shared_ptr<const std::vector<LessonStepPlan>> plans;
  std::string source;           ///< name or path that it was opened by
  std::optional<double> began;  ///< when it was opened, or began anew by itself; seconds since the window opened
  std::size_t step = 0;
  int begun = 0;                             ///< how often a step was begun
  std::size_t deed = 0;                      ///< of the step's plan: what is to be done next
  std::optional<std::uint64_t> waits_for;    ///< so many commands to be carried out, and training to rest
  bool asks = false;                         ///< the question waits for an answer
  int answered = 0;                          ///< choice of the question, counted from 1; 0: none yet
  std::vector<bool> reached;                 ///< goal by goal, in the order of its lines
  std::map<std::string, Quantity> at_start;  ///< numbers that its goals compare with
  std::map<std::string, double> values;      ///< of numbers in its text that were dragged
  std::string dragged;                       ///< the number that is held; empty: none
  double grabbed = 0;                        ///< its share of its range when it was taken
  std::string problem;                       ///< why the file cannot be read as it is now; empty: it can
  std::int64_t written = 0, looked_at = 0;   ///< when the file was written last; when it was looked at, in half seconds
  double width = 380;                        ///< of the pane, in layout units
};

/// The two hints of a first start; each goes once its deed is done and does not come back by itself.
struct HintState {
  bool is_drag_due = false, is_time_due = false;
  std::optional<Point> dot;  ///< a slow mode of the last frame, where it can be dragged
};

/// A slider or number that is being changed; its new value is sent when it is let go.
struct EditState {
  std::string key;  ///< of the setting; empty: none
  double value = 0;
  bool is_typing = false, wants_focus = false;
  std::string text;
  double sent_at = -1;  ///< when the value was sent; it stays shown until the engine has taken it over
};

/// A quantity under the pointer, whose card opens after a moment.
struct CardState {
  std::string card;
  double since = 0;
  std::string pinned;  ///< by F1; empty: none
  std::string asked;   ///< of what lies under the pointer without opening by itself: a dot, a curve, a slider
  Rect asked_beside;
  Rect beside;  ///< where the pinned one was hovered
};

struct PageState {
  // Kept from start to start.
  std::string theme = "dark";
  double zoom = 1;
  std::string workspace = "koopman";
  std::map<std::string, std::vector<double>> splits;  ///< shares of the rows and columns of each workspace, by name
  std::map<std::string, int> shown_figure;  ///< of each panel: index of the one figure to show, -1: as many as fit
  std::map<std::string, Layout> layouts;    ///< the user's own, by name
  std::vector<std::string> recent;          ///< files that were opened, the newest first

  // Of this sitting.
  Selection selection;
  std::string followed_model;        ///< for which `workspace` was chosen last; empty: none has come yet
  bool workspace_is_chosen = false;  ///< by a command
  std::string maximised;             ///< id of the panel that is shown alone
  std::map<std::string, PlotState> plots;
  Crosshair crosshair, next_crosshair;
  std::vector<CrosshairReading> readings;   ///< of this frame
  std::optional<Rect> reading;              ///< box of values beside the pointer in this frame, on top of all
  std::vector<Rect> measured;               ///< boxes of the measuring cursors in this frame, which it leaves free
  std::string dragged_plot, dragged_point;  ///< a dot that is being moved; empty: none
  char dragged_cursor = 0;                  ///< 'a' or 'b' of that plot; 0: none
  std::string hovered_panel, hovered_plot;  ///< under the pointer in the last frame
  std::string focused_panel;                ///< chosen by Tab: counts as hovered while the pointer is over none
  std::string focused_plot;                 ///< of that panel; empty: its first
  std::string focused_slider;               ///< key of the setting that the arrow keys move; empty: none
  bool slider_is_sought = false;            ///< it was chosen just now: the column scrolls there
  int slider_steps = 0;                     ///< how far it shall move, in hundredths of its track
  double grabbed_share = 0;                 ///< where the held slider's knob was when it was grabbed
  double column_scrolled_at = -1;           ///< when the wheel scrolled the side column last; seconds
  Crosshair key_crosshair;                  ///< moved by keys; the pointer over a plot ends it
  bool shows_interventions = false;         ///< in the last frame: the side column tells what a probe answers
  AnalysisSet asked = 0;                    ///< what the window has measured for the last frame and its lesson
  std::vector<ShownPanel> shown_panels;     ///< of the last frame, in reading order; so the next two
  std::vector<ShownPlot> shown_plots;
  std::vector<ShownRow> shown_rows;
  std::string rows_name;           ///< of the shares of those rows in `splits`
  std::vector<double> row_shares;  ///< of the page's height
  int panel_page = 0;              ///< of the workspace, whose panels have not all room
  int panel_pages = 1;
  std::vector<std::string> shown_sliders;
  std::string drawn_panel;            ///< the one that is being drawn
  bool right_click_is_taken = false;  ///< in this frame, by a dot or a plot
  bool wheel_is_taken = false;        ///< in this frame, by a slider
  MenuState menu;
  HintState hints;
  int shuttle = 0;               ///< speed and direction of J K L
  std::string step_count = "1";  ///< how many steps the button trains, as it is typed
  std::uint64_t opened = 0;      ///< Observation::opened whose view the page has taken
  bool presenting = false;       ///< no controls, large type
  bool is_blank = false;         ///< while presenting: nothing at all
  bool has_presenter = false;    ///< a second window shows the notes of the lesson
  bool hides_controls = false;
  bool is_locked = false;    ///< controls stay hidden, and keys and mouse change nothing of the run
  std::string theme_before;  ///< to go back to afterwards
  TimeFocus time_focus = TimeFocus::steps;
  PaletteState palette;
  PickerState picker;
  LessonPane lesson;
  EditState edit;
  CardState card;
  bool help_is_open = false;
  std::string kept_run;  ///< offered until another run is opened, "tiny, step 600"; empty: none
  std::deque<Note> notes;
  std::optional<Event> last_event;  ///< the newest one that has become a note
  std::int64_t scrubbed_step = -1;  ///< while the timeline is dragged
  double scrubbed_at = 0;
  double wake_at = 0;  ///< when to draw again without new input; infinity: not at all
};

/// Asks for another frame at this time, or at once.
inline void ask_frame(PageState& state, double at = 0) { state.wake_at = std::min(state.wake_at, at); }

/// The plot under the pointer or chosen by keys in the last frame; nullptr without one.
const ShownPlot* meant_plot(const PageState& state);

void add_note(PageState& state, Severity severity, std::string text, double now);
/// A command of the user: the hint that asked for it is no longer due.
void complete_hint(PageState& state, const Command& command);
/// Turns events that were not seen yet into notes; only the newest few are kept.
void note_events(PageState& state, const Observation& observation, double now);

}  // namespace afterglow
