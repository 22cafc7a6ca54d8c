// Completion for bash, zsh and fish.
#include <array>

#include "app/shell/shell_texts.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"

namespace afterglow {
namespace {

using Texts = std::vector<std::string>;
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

}  // namespace

std::vector<std::string> known_shells() { return names_of(shells, &Shell::name); }

std::string completion_script(const CLI::App& app, const std::string& shell) {
  for (const Shell& known : shells) {
    if (shell == known.name) return known.script(words_of(app));
  }
  throw UsageError("there is no completion for \"", shell, "\"; there is ", joined(known_shells(), ", "));
}

}  // namespace afterglow
