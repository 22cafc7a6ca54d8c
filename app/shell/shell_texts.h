// What shells and `man` want to know of the command line, made from what the program itself parses.
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

/// The command line as both of them show it.
struct WordOption {
  std::vector<std::string> names;  ///< "-h", "--help"; none for a word without a name
  std::string meaning;
  std::string value;                 ///< what stands behind it, "TEXT"; empty for a switch
  std::vector<std::string> choices;  ///< all values there are; empty where they are free
};
struct WordCommand {
  std::string name, meaning, examples;  ///< no name for what stands before any command
  std::vector<WordOption> options;
  std::vector<std::string> choices;  ///< of the word behind the command
};
/// The program without a command first, then each command.
std::vector<WordCommand> words_of(const CLI::App& app);

}  // namespace afterglow
