// Commands that arrange the page: its tabs, layouts by name, hidden controls, the blank screen.

#include "app/window/commands/window_commands.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "views/page/page.h"

namespace afterglow {
namespace {

constexpr std::size_t longest_name = 60, max_layouts = 50;

const char* const the_value = "the command's value";

void take_layout(PageState& page, const Layout& layout) {
  static_cast<Layout&>(page) = layout;
  page.opened.workspace_is_chosen = true;
  page.maximised.clear();
}

void save_layout(CommandContext& context, const std::string& name) {
  std::map<std::string, Layout>& layouts = context.page.layouts;
  if (name.empty() || name.size() > longest_name)
    throw BadInput("give the layout a name of 1 to " + std::to_string(longest_name) + " bytes");
  if (layouts.size() >= max_layouts && !layouts.contains(name))
    throw BadInput("there are " + std::to_string(max_layouts) + " layouts already; delete one first");
  layouts[name] = context.page;
  add_note(context.page, Severity::info, "Layout \"" + name + "\" saved. Open it from Ctrl P.", context.time);
}

const Layout& known_layout(const PageState& page, const std::string& name) {
  const auto found = page.layouts.find(name);
  if (found != page.layouts.end()) return found->second;
  const auto names = names_of(page.layouts, [](const auto& kept) { return kept.first; });
  throw BadInput("there is no layout \"" + name + "\"" + which_there_are(name, names));
}

}  // namespace

void turn_page(CommandContext& context, const json& value) {
  PageState& page = context.page;
  const auto by = static_cast<std::ptrdiff_t>(get_integer(value, "by", 1, -1000, 1000, the_value));
  const bool is_of_panels = get_choice(value, "of", {"all", "panels"}, "all", the_value) == "panels";
  if (page.lesson.lesson && !is_of_panels) return run_lesson(context, {{"by", by}});
  const std::ptrdiff_t pages = std::ssize(workspaces()), now = &present_workspace(page) - workspaces().data();
  page.workspace = workspaces()[static_cast<std::size_t>(((now + by) % pages + pages) % pages)].id;
  page.opened.workspace_is_chosen = true;
  page.maximised.clear();
}

void change_layout(CommandContext& context, const json& value) {
  refuse_unknown_keys(value, {"save", "choose", "forget"}, the_value);
  if (value.size() != 1) throw BadInput("layout takes one of save, choose and forget, each with a layout's name");
  const std::string deed = value.begin().key(), name = get_string(value, deed.c_str(), std::nullopt, the_value);
  if (deed == "save") return save_layout(context, name);
  const Layout known = known_layout(context.page, name);
  if (deed == "choose") return take_layout(context.page, known);
  context.page.layouts.erase(name);
}

void reset_layout(CommandContext& context, const json&) { take_layout(context.page, {context.page.workspace, {}, {}}); }

void show_controls(CommandContext& context, const json& value) {
  PageState& page = context.page;
  if (page.presentation.is_locked) return;
  page.presentation.hides_controls = !get_bool(value, "shown", page.presentation.hides_controls, the_value);
  if (page.presentation.hides_controls)
    add_note(page, Severity::info, "F10 or Esc brings the controls back.", context.time);
}

void blank_screen(CommandContext& context, const json& value) {
  PageState& page = context.page;
  page.presentation.is_blank = page.presentation.is_on && get_bool(value, "on", !page.presentation.is_blank, the_value);
}

}  // namespace afterglow
