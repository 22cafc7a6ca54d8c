// The page for `man`, in roff with the man macros.
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/cli/command_line.h"
#include "app/shell/shell_texts.h"

namespace afterglow {
namespace {

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
