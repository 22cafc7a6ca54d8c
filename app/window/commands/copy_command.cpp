// Ctrl+C copies a plot as a picture, Ctrl+Alt+C in words; Ctrl+Shift+C copies the present moment as a shell command, or
// the command that writes a panel. F1's card copies a formula as LaTeX.
#include <algorithm>

#include "app/window/commands/window_commands.h"
#include "core/figure/files/page.h"
#include "core/figure/summary.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"
#include "core/recipe/recipe.h"
#include "core/studies/claims_view.h"
#include "views/panels/panel.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

/// One --set for each field that differs, or for the whole part where that adds or removes some.
std::string changes_of(const std::string& part, const json& now, const json& before) {
  std::string text;
  for (const json& change : json::diff(before, now)) {
    std::string path = part + change["path"].get<std::string>();
    std::ranges::replace(path, '/', '.');
    if (change["op"] != "replace" || path == part) return " --set " + shell_quoted(part + "=" + now.dump());
    text += " --set " + shell_quoted(path + "=" + change["value"].dump());
  }
  return text;
}

/// The differences between the recipe and its preset, as --set arguments.
std::string start_arguments(const json& recipe) {
  const std::string name = recipe.value("name", "");
  json preset = json::object();
  std::string text;
  for (const Preset& known : presets()) {
    if (known.name != name) continue;
    preset = to_json(parse_recipe(known.text, "preset"));
    text = " --preset " + name;
  }
  const std::uint64_t seed = recipe.value("seed", std::uint64_t{7});
  if (seed != preset.value("seed", std::uint64_t{7})) text += " --seed " + std::to_string(seed);
  for (const char* part : {"model", "task", "training", "commands", "precision", "probe"}) {
    if (recipe.contains(part) && !recipe[part].empty())
      text += changes_of(part, recipe[part], preset.value(part, json()));
  }
  return text;
}

std::string plot_command(const CommandContext& context, const json& recipe, const std::string& panel) {
  const Selection& s = context.page.selection;
  std::string text = "afterglow plot " + panel + start_arguments(recipe);
  text += " --steps " + std::to_string(context.observation->step);
  if (s.layer >= 0) text += " --layer " + std::to_string(s.layer);
  if (s.head > 0) text += " --head " + std::to_string(s.head);
  if (s.token >= 0) text += " --token " + std::to_string(s.token);
  if (s.power >= 0) text += " --power " + std::to_string(s.power);
  if (s.all_heads) text += " --all-heads";
  const auto shown = context.page.shown_figure.find(panel);
  if (shown != context.page.shown_figure.end() && shown->second > 0)
    text += " --figure " + std::to_string(shown->second);
  return text + " --svg " + panel + ".svg";
}

/// As exported to a file, with the zoom of the window.
void copy_plot(CommandContext& context, const Figure& figure) {
  const FigureView view = view_of(context.page.plots[figure.id], 12);
  context.actions.copy_picture(png_bytes(figure, page_size(SizePreset::one_column, figure), light_theme(), view));
  add_note(context.page, Severity::info, "Picture of " + figure.title + " copied.", context.time);
}

void copy_text(CommandContext& context, const std::string& text, const std::string& note) {
  context.actions.copy_text(text);
  add_note(context.page, Severity::info, note, context.time);
}

}  // namespace

void run_copy(CommandContext& context, const json& value) {
  const std::string where = "the value of copy";
  const std::string hovered = context.page.maximised.empty() ? context.page.pointer.panel : context.page.maximised;
  const std::string panel = get_string(value, "panel", hovered, where);
  const std::string usual = panel.empty() ? "setup" : "command";
  std::string what =
      get_choice(value, "what", {"setup", "command", "formula", "picture", "words", "claim"}, usual, where);
  if (what == "picture" || what == "words") {
    const std::string plot = get_string(value, "plot", context.page.pointer.plot, where);
    if (const std::vector<const Figure*> found = meant_plots(context, {{"plot", plot}}); !found.empty())
      return what == "picture"
                 ? copy_plot(context, *found.front())
                 : copy_text(context, summary_of(*found.front()), found.front()->title + " copied in words.");
    if (value.contains("plot")) throw BadInput("there is no plot \"" + plot + "\"");
    what = usual;
  }
  if (what == "formula") {
    const std::string id = get_string(value, "card", context.page.card.card, where);
    const FormulaCard* card = find_card(id);
    if (!card) throw BadInput("there is no formula card \"" + id + "\"");
    return copy_text(context, latex_of(card->formula), "Formula copied as LaTeX.");
  }
  if (what == "claim") {
    const std::string sentence = get_string(value, "claim", std::nullopt, where);
    const auto found = std::ranges::find(paper_claims(), sentence, &PaperClaim::claim);
    if (found == paper_claims().end()) throw BadInput("there is no claim \"" + sentence + "\"");
    return copy_text(context, found->command, "Copied the command that measured this claim.");
  }
  const json recipe =
      parse_json(context.observation->recipe.empty() ? "{}" : context.observation->recipe, "the recipe");
  if (what == "command") {
    if (!find_panel(panel)) throw BadInput("there is no panel \"" + panel + "\"");
    return copy_text(context, plot_command(context, recipe, panel),
                     "Copied a command that writes this panel without a window.");
  }
  copy_text(context,
            "afterglow train" + start_arguments(recipe) + " --until " + std::to_string(context.observation->step),
            "Copied a command that reproduces this step.");
}

}  // namespace afterglow
