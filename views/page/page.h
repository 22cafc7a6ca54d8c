// The whole page: what it is (left), what it does (centre), when (time bar), how it stands (status bar).
#pragma once
#include <span>
#include <string_view>
#include <vector>

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
/// The newest notes, over the lower edge of the centre.
void draw_notes(Frame& frame, const Rect& bar);
void draw_palette(Frame& frame);
void draw_help(Frame& frame);
/// The hints of a first start that are still due, over everything.
void draw_call_outs(Frame& frame, const Rect& top_bar);
/// What the panel or plot of `PageState::menu` offers, as a list beside the pointer.
void draw_menu(Frame& frame);

/// Panels of a workspace in rows; the numbers are their usual shares of the room.
struct WorkspaceRow {
  double share;
  std::vector<std::pair<std::string_view, double>> panels;
};
struct Workspace {
  std::string_view id, title;
  std::vector<WorkspaceRow> rows;
  LayerTraits about{};       ///< a model with a layer that shows one of these opens here
  bool shows_others = true;  ///< whether it has something to show of models without them
};
std::span<const Workspace> workspaces();
/// The first workspace that shows the plot; throws std::out_of_range for a plot that none shows.
const Workspace& home_of(std::string_view plot);
/// Another model has come: a workspace that has nothing to show of it gives way to the one that is about its layers, or
/// to Training. One that was chosen before the first model came stays.
void follow_model(PageState& state, const ModelSummary& model);
/// Gives a panel of the present workspace this share more of its row's width and of the height of all rows; its
/// neighbours give it. What the splitters do, for keys.
void resize_panel(PageState& state, std::string_view panel, double width, double height);

/// Keys that move in the list of the palette or of the menu.
enum class ListKey { up, down, accept, leave };
void palette_key(PageState& state, CommandQueue& commands, ListKey key);
void menu_key(PageState& state, CommandQueue& commands, ListKey key);
/// Commands that match what was typed, best first: every word must occur in name, title or meaning. Where something was
/// typed, plots too, as the command that shows one alone.
std::vector<const CommandSpec*> palette_matches(std::string_view text);

}  // namespace afterglow
