// Completion scripts and the manual page, generated from the parser of the command line.
#pragma once
#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace afterglow {

/// The shells that `completion` writes for.
std::vector<std::string> known_shells();
/// A script that completes commands, options and their values.
std::string completion_script(const CLI::App& app, const std::string& shell);
/// The page for `man`.
std::string manual_page(const CLI::App& app, const std::string& version);

/// One option or argument of a command, as scripts and manual page list it.
struct WordOption {
  std::vector<std::string> names;  ///< "-h", "--help"; empty for a positional argument
  std::string meaning;
  std::string value;                 ///< placeholder of its value, "TEXT"; empty for a flag
  std::vector<std::string> choices;  ///< all allowed values; empty where any text is allowed
};
struct WordCommand {
  std::string name, meaning, examples;  ///< the name is empty for the program itself
  std::vector<WordOption> options;
  std::vector<std::string> choices;  ///< of its positional argument
};
/// The program without a command first, then each command.
std::vector<WordCommand> words_of(const CLI::App& app);

}  // namespace afterglow
