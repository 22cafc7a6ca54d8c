// Reads commands, options and their values off the parser; writes completion for bash, zsh and fish, and the page for
// `man` in roff with the man macros.
#include "app/shell/shell_texts.h"

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/cli/command_line.h"
#include "app/cli/paper_plots.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"
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

using Commands = std::vector<WordCommand>;

Texts command_names(const Commands& commands) {
  Texts names;
  for (const WordCommand& command : commands) {
    if (!command.name.empty()) names.push_back(command.name);
  }
  return names;
}

// For words without known values the script leaves completion to bash, which offers files.
std::string for_bash(const Commands& commands) {
  std::string script =
      "# Completion of afterglow for bash; made by `afterglow completion bash`.\n"
      "_afterglow() {\n"
      "  local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command='' words='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in " +
      joined(command_names(commands), "|") +
      ") command=$word; break ;; esac\n"
      "  done\n"
      "  case $command:$before in\n";
  for (const WordCommand& command : commands) {
    for (const WordOption& option : command.options) {
      if (option.value.empty()) continue;
      Texts patterns;
      for (const std::string& name : option.names) patterns.push_back(command.name + ":" + name);
      script += "    " + joined(patterns, "|") + ") words=" + shell_quoted(joined(option.choices, " ")) + " ;;\n";
    }
  }
  for (const WordCommand& command : commands) {
    const Texts words = command.name.empty() ? command_names(commands) : command.choices;
    Texts options;
    for (const WordOption& option : command.options)
      options.insert(options.end(), option.names.begin(), option.names.end());
    script += "    " + command.name + ":*) words=" + shell_quoted(joined(words, " ")) +
              "\n      [[ $now != -* ]] || words=" + shell_quoted(joined(options, " ")) + " ;;\n";
  }
  return script +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$now\")\n"
         "}\n"
         "complete -o default -F _afterglow afterglow\n";
}

/// The description of a word, with the brackets and colons that zsh interprets escaped.
std::string zsh_text(const std::string& text) {
  std::string line;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') line += '\\';
    line += letter;
  }
  return line;
}

std::string zsh_arguments(const WordCommand& command) {
  std::string line = "  _arguments";
  for (const WordOption& option : command.options) {
    const std::string values = option.choices.empty() ? "_files" : "(" + joined(option.choices, " ") + ")";
    for (const std::string& name : option.names) {
      line += " \\\n    " + shell_quoted("*" + name + "[" + zsh_text(option.meaning) + "]" +
                                         (option.value.empty() ? "" : ":" + zsh_text(option.value) + ":" + values));
    }
  }
  const std::string words = command.choices.empty() ? "_files" : "(" + joined(command.choices, " ") + ")";
  return line + " \\\n    " + shell_quoted("*:word:" + words) + "\n";
}

std::string for_zsh(const Commands& commands) {
  std::string script = "#compdef afterglow\n# Completion of afterglow for zsh; made by `afterglow completion zsh`.\n";
  std::string names;
  for (const WordCommand& command : commands) {
    if (command.name.empty()) continue;
    names += "    " + shell_quoted(command.name + ":" + zsh_text(command.meaning)) + "\n";
    script += "_afterglow_" + command.name + "() {\n" + zsh_arguments(command) + "}\n";
  }
  return script + "_afterglow() {\n  local -a commands=(\n" + names +
         "  )\n"
         "  local at command\n"
         "  for (( at = 2; at < CURRENT; ++at )); do\n"
         "    command=$words[at]\n"
         "    if (( $+functions[_afterglow_$command] )); then\n"
         "      shift $((at - 1)) words\n"
         "      (( CURRENT -= at - 1 ))\n"
         "      _afterglow_$command\n"
         "      return\n"
         "    fi\n"
         "  done\n"
         "  _describe command commands\n" +
         zsh_arguments(commands.front()) +
         "}\n"
         "if [[ $funcstack[1] == _afterglow ]]; then _afterglow \"$@\"; else compdef _afterglow afterglow; fi\n";
}

std::string fish_line(const std::string& condition, const std::string& what, const std::string& meaning) {
  return "complete -c afterglow -n " + shell_quoted(condition) + " " + what + " -d " + shell_quoted(meaning) + "\n";
}

std::string for_fish(const Commands& commands) {
  const std::string all = joined(command_names(commands), " ");
  std::string script = "# Completion of afterglow for fish; made by `afterglow completion fish`.\n";
  for (const WordCommand& command : commands) {
    const bool is_program = command.name.empty();
    const std::string condition =
        is_program ? "not __fish_seen_subcommand_from " + all : "__fish_seen_subcommand_from " + command.name;
    if (!is_program)
      script += fish_line("not __fish_seen_subcommand_from " + all, "-a " + command.name, command.meaning);
    if (!command.choices.empty())
      script += fish_line(condition, "-a " + shell_quoted(joined(command.choices, " ")), "");
    for (const WordOption& option : command.options) {
      std::string what;
      for (const std::string& name : option.names)
        what += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty()) what += " -r";
      if (!option.choices.empty()) what += " -f -a " + shell_quoted(joined(option.choices, " "));
      script += fish_line(condition, what.substr(1), option.meaning);
    }
  }
  return script;
}

struct Shell {
  const char* name;
  std::string (*script)(const Commands& commands);
};
constexpr std::array shells{Shell{"bash", for_bash}, Shell{"zsh", for_zsh}, Shell{"fish", for_fish}};

/// Escapes what roff interprets: a dot or quote at the start of a line, a backslash anywhere, and a plain "-", which
/// roff would print as a hyphen that cannot be pasted into a shell.
std::string roff(const std::string& text) {
  std::string line;
  bool is_start = true;
  for (const char letter : text) {
    if (is_start && (letter == '.' || letter == '\'')) line += "\\&";
    line += letter == '\\' ? "\\e" : letter == '-' ? "\\-" : std::string(1, letter);
    is_start = letter == '\n';
  }
  return line;
}

std::string option_text(const WordOption& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  const std::string value = option.value.empty() ? "" : " \\fI" + roff(option.value) + "\\fR";
  return ".TP\n" + names + value + "\n" + roff(option.meaning) + "\n";
}

std::string examples_text(const std::string& examples) {
  return examples.empty() ? "" : ".PP\n.nf\n" + roff(examples) + ".fi\n";
}

}  // namespace

std::vector<WordCommand> words_of(const CLI::App& app) {
  std::vector<WordCommand> words{word_command(app)};
  for (const CLI::App* command : app.get_subcommands({})) words.push_back(word_command(*command));
  return words;
}

std::vector<std::string> known_shells() { return names_of(shells, &Shell::name); }

std::string completion_script(const CLI::App& app, const std::string& shell) {
  for (const Shell& known : shells) {
    if (shell == known.name) return known.script(words_of(app));
  }
  throw UsageError("there is no completion for \"", shell, "\"; there is ", joined(known_shells(), ", "));
}

std::string manual_page(const CLI::App& app, const std::string& version) {
  const std::vector<WordCommand> commands = words_of(app);
  const WordCommand& program = commands.front();
  std::ostringstream page;
  page << ".TH AFTERGLOW 1 \"\" \"" << roff(version) << "\" \"User Commands\"\n"
       << ".SH NAME\nafterglow \\- a laboratory for sequence layers and what they remember\n"
       << ".SH SYNOPSIS\n.B afterglow\n[\\fIOPTIONS\\fR] [\\fIFILE\\fR]\n.br\n.B afterglow\n\\fICOMMAND\\fR "
          "[\\fIOPTIONS\\fR]\n"
       << ".SH DESCRIPTION\n"
       << roff(program.meaning)
       << "\nWithout a command the window opens; with one nothing but the terminal is needed.\n"
       << examples_text(program.examples) << ".SH OPTIONS OF THE WINDOW\n";
  for (const WordOption& option : program.options) page << option_text(option);
  page << ".SH COMMANDS\n";
  for (const WordCommand& command : commands) {
    if (command.name.empty()) continue;
    page << ".SS " << roff(command.name) << "\n" << roff(command.meaning) << "\n";
    for (const WordOption& option : command.options) page << option_text(option);
    page << examples_text(command.examples);
  }
  page << ".SH ENVIRONMENT\n";
  for (const nlohmann::json& row : help_texts().at("environment"))
    page << ".TP\n.B " << roff(row.at(0)) << "\n" << roff(row.at(1)) << "\n";
  const std::string footer = app.get_footer();
  const std::size_t codes = footer.find("Exit codes:");
  if (codes != std::string::npos) page << ".SH EXIT STATUS\n" << roff(footer.substr(codes)) << "\n";
  return page.str();
}

}  // namespace afterglow
