// The whole page: what it is (left), what it does (centre), when (time bar), how it stands (status bar).
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/recipe/recipe.h"
#include "views/frame.h"

namespace afterglow {

/// Draws everything into the current Dear ImGui frame, onto a buffer that was cleared with the theme's ground. Commands
/// that the user gives wait in `frame.commands` afterwards.
void draw_page(Frame& frame);

// The parts, from top to bottom.
void draw_top_bar(Frame& frame, const Rect& area);
void draw_side_column(Frame& frame, const Rect& area);
/// Interventions of the selected head with their consequence, a section of the side column; returns the height used.
double draw_interference(Frame& frame, const Rect& area);
void draw_workspace(Frame& frame, const Rect& area);
void draw_time_bar(Frame& frame, const Rect& area);
void draw_status_bar(Frame& frame, const Rect& area);
/// The open lesson: a pane beside the panels, or below them while presenting.
void draw_lesson(Frame& frame, const Rect& area);
/// What it may take of the window's height below the panels.
inline constexpr double largest_lesson_strip = 0.5;
/// How high it stands below the panels; 0 without a lesson.
double lesson_strip_height(Frame& frame, double width);
/// Whether a part of the page is there for who does the lesson that is open: all, unless it lists its `controls`.
bool shows_control(const PageState& state, std::string_view name);
/// Whether the lesson's step leaves a panel at full contrast.
bool is_stressed(const PageState& state, std::string_view panel);
/// The newest notes, over the lower edge of the centre.
void draw_notes(Frame& frame, const Rect& bar);
void draw_palette(Frame& frame);
void draw_picker(Frame& frame);
void draw_help(Frame& frame);
/// The hints of a first start that are still due, over everything.
void draw_call_outs(Frame& frame, const Rect& top_bar);
/// What the panel or plot of `PageState::menu` offers, as a list beside the pointer.
void draw_menu(Frame& frame);

/// Panels of a workspace in rows; the shares are their usual ones of the room.
struct WorkspacePanel {
  std::string_view id;
  double share = 1;
  std::string_view otherwise = {};  ///< the panel in its place for a model that this one has nothing to say about
};
struct WorkspaceRow {
  double share;
  std::vector<WorkspacePanel> panels;
};
struct Workspace {
  std::string_view id, title;
  std::vector<WorkspaceRow> rows;
  LayerTraits about{};       ///< a model with a layer that shows one of these opens here
  bool shows_others = true;  ///< whether it has something to show of models without them
};
std::span<const Workspace> workspaces();
/// The workspace of the page, the first one where that does not exist.
const Workspace& present_workspace(const PageState& state);
/// Its panels that have something to say about the model; rows without any are left out.
std::vector<WorkspaceRow> fitting_rows(const Workspace& workspace, const ModelSummary& model);
/// Its panels that have not, and no other in their place.
std::vector<std::string_view> missing_panels(const Workspace& workspace, const ModelSummary& model);
/// Why the workspace has nothing to show of the model, "Needs an SKA layer."; empty where it has.
std::string why_not(const Workspace& workspace, const ModelSummary& model);
/// The first preset with something to show there; nullptr without one.
const Preset* preset_for(const Workspace& workspace);
/// The first workspace that shows the plot; throws std::out_of_range for a plot that none shows.
const Workspace& home_of(std::string_view plot);
/// Another model has come: a workspace that has nothing to show of it gives way to the one that is about its layers, or
/// to Training; of a model that is not trained here (`is_trained`), to the one with most to show of its layers. One
/// that was chosen before the first model came stays.
void follow_model(PageState& state, const ModelSummary& model, bool is_trained = true);
/// Gives a panel of the present workspace this share more of its row's width and of the height of all rows; its
/// neighbours give it. What the splitters do, for keys.
void resize_panel(PageState& state, std::string_view panel, double width, double height);

/// Keys that move in the list of the palette, of the menu or of the sheet of presets.
enum class ListKey { up, down, left, right, page_up, page_down, accept, leave };
void picker_key(PageState& state, CommandQueue& commands, ListKey key);
/// What the sheet of presets lists: everything that has all the words that were typed, or the chosen section.
std::vector<const PickerEntry*> picker_matches(const PickerState& picker);
std::string_view name_of(PickerSection section);
void palette_key(PageState& state, CommandQueue& commands, ListKey key);
void menu_key(PageState& state, CommandQueue& commands, ListKey key);
/// A line of the palette: a command, or something that has a name of its own with the command that opens it.
struct PaletteLine {
  std::string name;  ///< of the command
  std::string title, keys, meaning;
  std::string value;      ///< JSON: what it sends, or of a command that asks for a value an example
  bool is_ready = false;  ///< nothing is to be typed
};
/// Lines that match what was typed, best first: every word must occur in name, title or meaning. Where nothing was
/// typed, the commands alone.
std::vector<PaletteLine> palette_matches(std::string_view text, const std::map<std::string, Layout>& layouts = {});

}  // namespace afterglow
