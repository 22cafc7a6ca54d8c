// Starts the session, then the window.
#include "app/window/window.h"

#include <unistd.h>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/cli/version.h"
#include "app/window/window_loop.h"
#include "core/engine/session/kept_runs.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"
#include "core/remote/remote.h"
#include "views/page/page.h"

namespace afterglow {
namespace {

/// Where the program is looked for first on another machine.
constexpr const char* unpacked = "$HOME/.local/afterglow";

/// How this version comes to another machine by ssh: from the archive of `./dev package` next to the program.
std::string installing_command(const std::string& host) {
  const std::string version = version_line().substr(version_line().find(' ') + 1);
  const std::string name = "afterglow-" + version + "-linux-x86_64.tar.zst";
  return "with " + name + " of `./dev package` this copies it there: zstd -dcq " +
         shell_quoted((program_folder() / name).string()) + " | ssh -- " + shell_quoted(host) + " 'mkdir -p " +
         unpacked + " && tar -xC " + unpacked + " --strip-components=1'";
}

/// The program that starts or finds the session there, and the name that the user gave it. Where `on` has a blank it
/// is a command that goes on with "afterglow session ..", else [user@]host[:folder] for ssh.
std::unique_ptr<ObservationSource> source_of(const WindowOptions& options) {
  if (options.on.empty() && options.through.empty()) return std::make_unique<Session>(options.recipe, options.session);
  const std::string& where = options.on.empty() ? options.through : options.on;
  const std::string host = std::filesystem::path(where.substr(0, where.find_first_of(": "))).filename().string();
  RemoteOptions remote{.words = {"sh", "-c", where}, .host = host, .hello = options.hello};
  const std::string session = "afterglow session --connect " + options.session_name;
  if (options.on.find(' ') != std::string::npos) {
    remote.words[2] = "exec " + options.on + " " + session;
  } else if (!options.on.empty()) {
    const std::size_t colon = std::min(options.on.find(':'), options.on.size());
    remote.words = {"ssh", "-T", "--", options.on.substr(0, colon),
                    "exec sh -c 'PATH=" + std::string(unpacked) + "/bin:$PATH; exec " + session + "'"};
    if (colon < options.on.size()) remote.hello.folder = options.on.substr(colon + 1);
  }
  remote.hello.recipe = options.recipe;
  remote.hello.device = options.session.device;
  remote.hello.threads = options.session.threads;
  remote.is_over = Interruption::wanted;
  try {
    return connect_to_remote(remote);
  } catch (const Error& problem) {
    const std::string said = problem.what();
    const bool is_missing = said.find("not found") != said.npos || said.find("install the same version") != said.npos;
    if (remote.words.front() != "ssh" || !is_missing) throw;
    throw Error(problem.code(), said, "; ", installing_command(remote.words[3]));
  }
}

}  // namespace

void run_window(const WindowOptions& wanted) {
  WindowOptions options = wanted;
  // Exports and snapshots go into the current folder of a terminal, else into Documents/Afterglow.
  const bool has_terminal = isatty(STDIN_FILENO) || isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);
  if (!has_terminal) options.session.save_folder = user_folders().documents;
  options.hello.version = version_line();
  options.machine = this_machine;
  if (!is_automatic(options) && !options.is_locked)
    options.session.at_end = keep_in(kept_runs_folder(options.is_portable));
  const Interruption noticed;  // until the run is saved
  const auto open_second = [&, against = options.against](const std::string& word) mutable {
    const OpeningRun begun = std::exchange(against, {});  // by the command line
    SessionOptions second = options.session;
    second.opened = begun.name == word ? begun : opening_named(word, 0);
    second.at_end = {};
    const bool trains = !second.opened.run.get()->has_weights();  // before the session empties it
    auto source = std::make_unique<Session>("", second);
    if (trains) source->send({"run"});
    return source;
  };
  WindowLoop(options, source_of(options), open_second).run(Interruption::wanted);
  Interruption::check("while the window was open");
}

std::vector<std::string> first_page_plots(const ModelSummary& model) {
  PageState page;
  follow_model(page, model);
  std::vector<std::string> plots;
  for (const WorkspaceRow& row : fitting_rows(present_workspace(page), model)) {
    for (const WorkspacePanel& panel : row.panels) plots.emplace_back(panel.id);
  }
  return plots;
}

std::vector<std::string> workspace_names() { return names_of(workspaces(), &Workspace::id); }

}  // namespace afterglow
