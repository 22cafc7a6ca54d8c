// The whole page: the model (left), the panels (centre), the time bar and the status bar.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"
#include "views/frame/frame.h"

namespace afterglow {

/// Draws everything into the current Dear ImGui frame, onto a buffer that was cleared with the theme's ground.
/// Afterwards the user's commands are in `frame.commands`.
void draw_page(Frame& frame);

// The parts, from top to bottom.
/// The height of the top bar: its tabs take further rows where one is too narrow.
double top_bar_height(const Frame& frame, double width);
void draw_top_bar(Frame& frame, const Rect& area);
void draw_side_column(Frame& frame, const Rect& area);
/// A row of that column with a number at its end; returns its height.
double draw_fact(const Frame& frame, const Rect& area, std::string_view label, const std::string& value, Color color,
                 FontFace face);
/// Interventions on the selected head, or on the heads of a layer without an operator, with their effect, a section of
/// the side column; returns its height.
double draw_interference(Frame& frame, int layer, const Rect& area);
void draw_workspace(Frame& frame, const Rect& area);
void draw_time_bar(Frame& frame, const Rect& area);
void draw_status_bar(Frame& frame, const Rect& area);
/// Where the open lesson is in an area: a pane next to the panels, or while presenting the text of a slide and a line
/// below it.
struct LessonPlace {
  Rect text, foot;
};
LessonPlace lesson_place(const PageState& state, const Look& look, const Rect& area);
void draw_lesson(Frame& frame, const LessonPlace& place);
/// The newest notes, over the lower edge of the centre.
void draw_notes(Frame& frame, const Rect& bar);
void draw_palette(Frame& frame);
void draw_picker(Frame& frame);
void draw_help(Frame& frame);
/// The menu of the panel or plot in `PageState::menu`, as a list next to the pointer.
void draw_menu(Frame& frame);

/// Panels of a workspace in rows, with their default shares of the room.
struct WorkspacePanel {
  std::string_view id;
  double share = 1;
  std::string_view otherwise = {};  ///< replaces the panel if it cannot show this model
  bool is_below = false;            ///< below the panel before it, in the same column of the row
};
struct WorkspaceRow {
  double share;
  std::vector<WorkspacePanel> panels;
  bool is_strip = false;  ///< only links to its panels, except in a very large window
};
struct Workspace {
  std::string_view id, group, title, question;  ///< "koopman", "Look", "Spectrum", and what the page answers
  std::vector<WorkspaceRow> rows{};
  LayerTraits about{};       ///< models with a layer that shows one of these open here
  bool shows_others = true;  ///< whether it can show other models, too
};
std::span<const Workspace> workspaces();
/// The workspace of the page, or the first one if it does not exist.
const Workspace& present_workspace(const PageState& state);
/// Its panels that can show the model; empty rows are left out.
std::vector<WorkspaceRow> fitting_rows(const Workspace& workspace, const ModelSummary& model);
/// Its panels that cannot show the model and have no replacement.
std::vector<std::string_view> missing_panels(const Workspace& workspace, const ModelSummary& model);
/// Why the workspace cannot show the model, "Needs an SKA layer."; empty if it can.
std::string why_not(const Workspace& workspace, const ModelSummary& model);
/// The first preset that the workspace can show; nullptr without one.
const Preset* preset_for(const Workspace& workspace);
/// The first workspace with the plot; throws std::out_of_range without one.
const Workspace& home_of(std::string_view plot);
/// Chooses the page for a new model: a workspace that cannot show it is replaced by the one about its layers, or by
/// Training; a model that is not trained here (`is_trained` false) opens where most panels are about its layers. A
/// workspace that was chosen before the first model stays.
void follow_model(PageState& state, const ModelSummary& model, bool is_trained = true);
/// Makes a panel of the present workspace larger by this share of its row's width and of the height of all rows, at the
/// cost of its neighbours; the keys for the splitters.
void resize_panel(PageState& state, std::string_view panel, double width, double height);

/// Keys that move in the list of the palette, of the menu or of the sheet of presets.
enum class ListKey { up, down, left, right, page_up, page_down, accept, leave };
void picker_key(PageState& state, CommandQueue& commands, ListKey key);
/// The entries on the sheet of presets: all with the typed words, or those of the chosen section.
std::vector<const PickerEntry*> picker_matches(const PickerState& picker);
std::string_view name_of(PickerSection section);
void palette_key(PageState& state, CommandQueue& commands, ListKey key);
void menu_key(PageState& state, CommandQueue& commands, ListKey key);
/// A line of the palette: a command, or a named thing with the command that opens it.
struct PaletteLine {
  std::string name;  ///< name of the command
  std::string title, keys, meaning;
  std::string value;      ///< JSON value to send, or an example if the user must type the value
  bool is_ready = false;  ///< nothing must be typed
};
/// Lines that match the typed text, best first: every word must occur in name, title or meaning. Without a text only
/// the commands. Behind the first one those of the paths that go on with a typed path; they have no name, and their
/// value is the whole text.
std::vector<PaletteLine> palette_matches(std::string_view text, const PageState& state = {});
/// The path that is being typed at the end of the text, behind "path="; nothing where none is.
std::optional<std::string> typed_path(std::string_view text);
/// The part of a typed command that the user replaces first: the value after the first "=", without its quotes.
TextStretch first_value(const std::string& text);
/// The command `note` as the user types it: of the note with this number, or with 0 of a new one on a place,
/// "step=120".
std::string typed_note(std::span<const RunNote> notes, std::size_t number, const std::string& place = "");

}  // namespace afterglow
