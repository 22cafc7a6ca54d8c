// Reads commands, options and their values off the parser.
#include <CLI/CLI.hpp>
#include <sstream>

#include "app/cli/paper_plots.h"
#include "app/shell/shell_texts.h"
#include "core/io/named.h"
#include "core/studies/table.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

using Texts = std::vector<std::string>;

/// The values in "TEXT:{auto,cpu,cuda}", as the parser writes the type of an option.
Texts listed_choices(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}');
  Texts choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::istringstream words(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

/// Values that the parser does not list (tasks, presets and the like), from the registries that hold them.
Texts choices_of(const std::string& command, const CLI::Option& option) {
  const std::string name = option.get_name();
  if (name == "--preset") return names_of(presets(), &Preset::name);
  if (command == "plot" && name == "kind") {
    Texts plots = names_of(plot_kinds(), &PlotKind::id);
    for (const PaperPlot& paper : paper_plots()) plots.push_back(paper.id);
    return plots;
  }
  if (command == "table" && name == "name") return names_of(tables(), &Table::name);
  return listed_choices(option.get_type_name());
}

WordOption word_option(const std::string& command, const CLI::Option& option) {
  WordOption word;
  for (const std::string& name : option.get_snames()) word.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) word.names.push_back("--" + name);
  word.meaning = option.get_description();
  if (option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    word.value = type.substr(0, type.find(':'));
  }
  word.choices = choices_of(command, option);
  return word;
}

WordCommand word_command(const CLI::App& app) {
  WordCommand word{app.get_parent() == nullptr ? "" : app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  word.examples.resize(std::min(word.examples.size(), word.examples.find("Exit codes:")));
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) {
      word.options.push_back(word_option(word.name, *option));
    } else {
      word.choices = choices_of(word.name, *option);
    }
  }
  return word;
}

}  // namespace

std::vector<WordCommand> words_of(const CLI::App& app) {
  std::vector<WordCommand> words{word_command(app)};
  for (const CLI::App* command : app.get_subcommands({})) words.push_back(word_command(*command));
  return words;
}

}  // namespace afterglow
