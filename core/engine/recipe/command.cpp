// The table of commands.
#include "core/engine/recipe/command.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/io/error.h"

namespace afterglow {

namespace {

constexpr auto engine = CommandTarget::engine;
constexpr auto window = CommandTarget::window;
constexpr bool control = true;
constexpr bool probe_edit = true;

constexpr std::array table{
    // Training.
    CommandSpec{"toggle_run", engine, "Run or pause", "Space", R"({})", "Starts training, or pauses it while it runs."},
    CommandSpec{"run", engine, "Run", "", R"({})", "Trains until the last step of the recipe or a pause."},
    CommandSpec{"pause", engine, "Pause", "", R"({})", "Stops after the step in progress."},
    CommandSpec{"step", engine, "Train some steps", "", R"({"count": 1})",
                "Trains exactly `count` steps, then pauses."},
    CommandSpec{"run_to", engine, "Train to a step", "", R"({"step": 20})", "Trains until this step, then pauses."},
    CommandSpec{"rewind", engine, "Rewind, or go on again", "", R"({"step": 0})",
                "Goes to a step that was trained before, in either direction, with exactly the weights of that step, "
                "and pauses; {\"by\": 1} goes this many steps back. Later steps stay until something is changed."},
    CommandSpec{"stop_when", engine, "Stop when ...", "", R"({"condition": "held_out_accuracy > 0.9"})",
                "Pauses at the first step at which a condition begins to hold: held_out_accuracy (also called "
                "accuracy), batch_accuracy of the last training batches, or any number that `afterglow check --names` "
                "lists, as {\"condition\": \"loss < 0.5 * loss@start and kappa > 1e4\", \"every\": 10}; above "
                "kappa_limit the device's precision leaves no correct digit. Without a value there is no condition.",
                control},
    CommandSpec{"speed", engine, "Speed of training", "+ -", R"({"to": 0})",
                "Maximal steps per second; 0: unlimited. {\"by\": 1} chooses the next faster speed.", control},
    CommandSpec{"branch", engine, "Branch", "B", R"({})",
                "Starts a second run from this step; both share their past. Over a plot B sets a measuring cursor.",
                control},
    CommandSpec{"discard", engine, "Discard a run", "", R"({"run": "run 1"})",
                "Removes an earlier run; without a value the present one, and the run before it comes back.", control},
    CommandSpec{"reset", engine, "Restart, same seed", "Ctrl+R", R"({})",
                "Starts again from step 0 with the same seed.", control},
    CommandSpec{"reseed", engine, "Restart, new seed", "Ctrl+Shift+R", R"({"seed": 8})",
                "Starts again with another seed (without a value: the next one).", control},
    CommandSpec{"set", engine, "Change a hyperparameter", "", R"({"key": "learning_rate", "to": 0.001})",
                "Changes a hyperparameter from the next step on; leaves a mark on the curve.", control},
    CommandSpec{"skip", engine, "Leave a batch out", "", R"({})",
                "Learns nothing from the next batch; {\"step\": 118} rewinds to before this step and leaves its batch "
                "out. What was trained with it stays as an earlier run.",
                control},
    CommandSpec{"freeze", engine, "Freeze a part of the model", "", R"({"part": "head"})",
                "The part keeps its weights and moments from the next step on, and the others learn as before; "
                "{\"part\": \"1 ska\", \"on\": false} lets it learn again.",
                control},
    CommandSpec{"surgery", engine, "Fit the weights to the moved eigenvalues", "", R"({})",
                "Makes moved eigenvalues permanent: finds the nearest key projections whose operators on the inspected "
                "sequence have them, or sets a Koopman MLP's own numbers, as a step of its own. Without a value it "
                "takes the eigenvalues that were dragged; {\"overrides\": [{\"name\": \"drag_mode\", \"value\": "
                "{\"head\": 0, \"number\": 2, \"re\": 0.9}}]} names them.",
                control},
    CommandSpec{"undo", engine, "Undo", "Ctrl+Z", R"({})",
                "Undoes the last change of a hyperparameter or of an intervention.", control},
    CommandSpec{"redo", engine, "Redo", "Ctrl+Y Ctrl+Shift+Z", R"({})", "Repeats the change that was undone.", control},
    CommandSpec{"load", engine, "Open a preset or file", "", R"({"preset": "tiny"})",
                "Starts from a preset, recipe, snapshot or exported figure ({\"path\": ...}); what a figure shows is "
                "rebuilt from its recipe. {\"recipe\": {..}} goes to the moment that it shows, with {\"alone\": true} "
                "instead of all runs.",
                control},
    CommandSpec{"compare", engine, "Train a comparison", "", R"({"presets": ["tiny-ssm", "tiny"]})",
                "Trains presets to their ends, one after the other, and draws their curves together. {\"seeds\": 5} "
                "trains this recipe with five seeds; `select earlier=seeds` shows their mean and spread.",
                control},
    CommandSpec{
        "gka_figure6", engine, "Adaptive or constant λ (Gated KalmaNet, figure 6)", "", R"({})",
        "Trains gka-constant and then gka-adaptive to their ends, and draws their losses and gradient norms together.",
        control},
    CommandSpec{"save", engine, "Save a snapshot", "Ctrl+S", R"({"path": "snapshot.safetensors"})",
                "Writes weights, optimiser and recipe into one safetensors file.", control},
    CommandSpec{
        "probe", engine, "Choose the inspected sequence", "", R"({"index": 1})",
        "Chooses another held-out sequence for spectra and stepper; {\"task\": {\"kind\": \"niah\", \"length\": 128}} "
        "takes one of another task with the model's tokens, {\"task\": null} the run's own again."},
    CommandSpec{"probe_sequence", engine, "Edit the inspected sequence", "", R"({"at": 0, "token": 1})",
                "Changes a token of the inspected sequence, by number or by {\"label\": \"v9\"}; {\"tokens\": [..]} "
                "replaces all.",
                control, probe_edit},
    CommandSpec{"override", engine, "Override a number of a layer", "", R"({"key": "K", "to": 4})",
                "Evaluates the model with another K, ridge, gamma or eta ({\"layer\": 3, \"head\": 0}; null removes "
                "the change); training is not affected.",
                control, probe_edit},
    CommandSpec{"head_off", engine, "Switch a head off", "", R"({"head": 0, "off": true})",
                "Evaluates the model without a head of a layer; without \"head\" without all of them.", control,
                probe_edit},
    CommandSpec{"mode_off", engine, "Switch a mode off", "", R"({"head": 0, "number": 0, "off": true})",
                "Evaluates the model without a mode, named by its number in the panels, or by that of a Koopman MLP's "
                "pair ({\"layer\": 2}); {\"mode\": 0} counts by modulus instead, the largest first. Without either, "
                "all modes are off.",
                control, probe_edit},
    CommandSpec{"drag_mode", engine, "Move an eigenvalue", "", R"({"head": 0, "number": 0, "re": 0.9, "im": 0.1})",
                "Evaluates the model with an eigenvalue of the operator, or of a Koopman MLP ({\"layer\": 2}), moved; "
                "its complex conjugate moves with it. Named as in mode_off.",
                control, probe_edit},
    CommandSpec{"clear_overrides", engine, "Clear all overrides", "", R"({})", "Removes all interventions.", control,
                probe_edit},
    CommandSpec{"pair", engine, "Choose the corrupted sequence", "", R"({"next": true})",
                "Compares the inspected sequence with another one that differs in one token: the next one, or {\"at\": "
                "4, \"label\": \"v9\"} for one token and {\"tokens\": [..]} for all of it, {\"path\": \"pair.txt\"} "
                "both from a file (.npy, .safetensors or two lines of numbers, clean and corrupted); {\"asked\": 12} "
                "chooses the token whose answer is measured, {\"measure\": \"logit difference\"} (probability, loss) "
                "the measure, {\"heads\": true} adds a row for each head.",
                control, probe_edit},
    CommandSpec{"transplant", engine, "Transplant a memory", "", R"({"part": "C", "token": 9})",
                "Copies the clean sequence's state after a token into the corrupted one: all of it or a tensor of the "
                "layer's state, of one head or all ({\"layer\": 3, \"head\": 0}); {\"part\": \"none\"} copies nothing.",
                control, probe_edit},
    CommandSpec{
        "freeze_scale", engine, "Freeze SKA's scale", "", R"({"behind": 9})",
        "Reads the inspected sequence token by token with SKA's scale m fixed after this token (Echo 3.2.1), as "
        "`generate --freeze-scale` and `eval --decode` do after a prompt; without \"behind\" m is not fixed.",
        control, probe_edit},
    CommandSpec{"compare_runs", engine, "Compare forecasts with other runs", "", R"({"paths": []})",
                "{\"path\": \"other_seed.safetensors\"} draws the forecasts of a snapshot over this run's, with mean "
                "and spread; {\"paths\": [..]} replaces the list.",
                control},
    CommandSpec{"theory", engine, "Theory of a head", "", R"({"layer": 2, "head": 0})",
                "Chooses the head whose theorems are compared with measurements."},
    CommandSpec{"influence", engine, "Measure influence", "", R"({"tokens": 256, "source": -1})",
                "Sets length, source token (-1: the mean of several) and number of cotangents of the influence tails; "
                "{\"race\": {\"tokens\": 512, \"source\": 8, \"kinds\": [..]}} sets those of the memory race; "
                "{\"retrieval\": {\"beta\": 0.3, \"jumps\": 3}} sets theorem 12's network."},
    CommandSpec{"phase_map", engine, "Map of trainings over two settings", "", R"({"result": "loss"})",
                "Sets axes, steps and colour of the phase map: {\"x\": \"learning_rate=log:1e-4:1e-1:16\", \"y\": "
                "\"batch=4,8,16\", \"steps\": 200}; {\"open\": 37} opens one of its finished runs at its end.",
                control},
    CommandSpec{"accuracy_grid", engine, "Accuracy over bindings and lengths", "",
                R"({"examples": 64, "longest": 1024})",
                "Sets the number of sequences in each cell of the accuracy grid, and their greatest length in tokens.",
                control},
    CommandSpec{"measure", engine, "Part of a slow analysis to compute", "",
                R"({"analysis": "patch grid", "part": 0.1})",
                "Limits a slow analysis of a large model to a part of its work, 0 to 1, the most informative part "
                "first. Panels show how long the whole takes.",
                control},
    CommandSpec{
        "blame", engine, "Which batch did it?", "", R"({"result": "accuracy"})",
        "Repeats the training up to now without each of the last hundred batches, or without those of {\"from\": 100, "
        "\"to\": 200, \"until\": 220}; `result` compares another number, {\"batch\": 118} shows a batch.",
        control},
    CommandSpec{"microscope", engine, "Two trainings that differ in one thing", "", R"({"change": "bit"})",
                "Continues training twice in lockstep and compares the weights: with one bit of a weight flipped (bit, "
                "or bit NAME[INDEX]), one token of the next batch changed (token, or token 5=17), a field of the "
                "recipe changed (learning_rate=0.002, device=cpu, precision=bf16), or no difference (same); {\"from\": "
                "100, \"steps\": 60, \"ulps\": 16}.",
                control},
    CommandSpec{"bisect", engine, "Which part must learn first?", "", R"({"condition": "held_out_accuracy > 0.5"})",
                "Finds the step at which a condition (as in `stop_when`) begins to hold, then repeats the training "
                "with one part of the model frozen at a time; {\"until\": 600} sets the last step.",
                control},
    CommandSpec{"over_training", engine, "Follow a number over training", "", R"({"number": "spectral_radius"})",
                "Measures any number that `afterglow check --names` lists at every saved step of the run, and draws it "
                "under the loss.",
                control},
    CommandSpec{"trace", engine, "Trace a layer", "", R"({"layer": 2})",
                "Chooses the layer whose state the stepper shows (-1: none)."},
    CommandSpec{"solver_problem", engine, "Make a ridge system", "", R"({"shape": "geometric", "kappa": 51})",
                "Runs the solvers on a spectrum of your own: eigenvalues of H + λI, or a shape (geometric, clustered, "
                "outlier) with count and kappa; mu and L are the bounds that the iterations assume. Without a value: "
                "the layer's own systems.",
                control},
    CommandSpec{"device", engine, "Switch the device", "", R"({"name": "cpu"})",
                "Continues at this step on another device: cpu, cuda or auto.", control},
    CommandSpec{"precision", engine, "Precision of products", "", R"({"name": "fp32"})",
                "Continues at this step with fp32, tf32 or bf16 products (on a GPU).", control},
    // Window.
    CommandSpec{"select", window, "Select", "", R"({"layer": 1, "head": 0, "mode": 0, "token": 3})",
                "Selects layer, head, mode or token in every panel, and how they are shown (power, all_heads, scaled, "
                "change, smoothing or a window of steps, earlier: grey, coloured or hidden; arithmetic and band of the "
                "solvers); absent keys stay unchanged."},
    CommandSpec{"token", window, "Go to a token", "", R"({"to": 5})",
                "Moves the stepper to a token ({\"by\": 1} moves it on)."},
    CommandSpec{"time_left", window, "One step back", "Left Shift+Left", R"({"count": 1})",
                "Goes back in time: by a picture within a step, a token in the stepper, else a training step."},
    CommandSpec{"time_right", window, "One step on", "Right Shift+Right", R"({"count": 1})",
                "Goes forward in time: by a picture within a step, a token in the stepper, else a training step."},
    CommandSpec{"time_home", window, "First step", "Home", R"({})", "Goes to the first token or training step."},
    CommandSpec{"time_end", window, "Newest step", "End", R"({})",
                "Goes to the newest token or the last trained step, and follows new ones."},
    CommandSpec{"export", window, "Export the plot under the mouse", "Ctrl+E Ctrl+Shift+E",
                R"({"panel": "training", "formats": ["svg", "pdf", "png", "csv"]})",
                "Writes a panel's figure, or with {\"all\": true} all figures on the page."},
    CommandSpec{"go_on", window, "Continue the last run", "", R"({})",
                "Opens the run that was open when a window was last closed, at the same step."},
    CommandSpec{"race", window, "Memory race", "R", R"({"kinds": ["attention", "mamba2"], "tokens": 128})",
                "Compares all layers on one input; a value chooses kinds, tokens and source."},
    CommandSpec{"maximise", window, "Enlarge a panel", "Enter 1 2 3 4 5", R"({"panel": "training"})",
                "Shows one panel alone; again, or Esc: all panels. {\"on\": true} keeps it enlarged."},
    CommandSpec{"restore", window, "Back to all panels", "Escape", R"({})",
                "Leaves the enlarged panel and clears the selection."},
    CommandSpec{"fit", window, "Fit the axes", "F", R"({"panel": "training"})",
                "Shows all data again and follows new data."},
    CommandSpec{"axis_scale", window, "Switch an axis scale", "Shift+X Shift+Y",
                R"({"panel": "training", "axis": "y", "scale": "log"})", "Sets a linear, log or symlog axis."},
    CommandSpec{"cursor", window, "Set a measuring cursor", "C A", R"({"plot": "training_loss", "at": 120})",
                "Sets cursor A, then B, then clears both; {\"which\": \"b\"} moves that one. Without a position it "
                "takes that of the mouse or the crosshair. B sets B if there is an A."},
    CommandSpec{"follow", window, "Follow new data", "", R"({"plot": "training_loss", "on": true})",
                "Shows all data and follows new data, or keeps the present view."},
    CommandSpec{"colours", window, "Lock the colours of a heat map", "",
                R"({"plot": "token_weights", "low": 0, "high": 0.5})",
                "Fixes the colour range of a heat map; {\"on\": true} at the present range, {\"on\": false} lets it "
                "follow the data again."},
    CommandSpec{"hide", window, "Hide or show a curve", "",
                R"({"plot": "training_loss", "series": "loss", "on": true})",
                "Hides a curve of a plot by its name, or shows it again."},
    CommandSpec{"crosshair", window, "Move the crosshair", "Alt+Left Alt+Right Alt+Home Alt+End", R"({"by": 1})",
                "Reads the chosen plot with the keyboard: moves by hundredths of its width, or to its first or last "
                "point ({\"to\": 0}, {\"to\": 1})."},
    CommandSpec{"pan_plot", window, "Move the view of a plot",
                "Alt+Shift+Left Alt+Shift+Right Alt+Shift+Up Alt+Shift+Down", R"({"x": 0.1, "y": 0})",
                "Moves the visible range of the chosen plot by fractions of its width and height."},
    CommandSpec{"zoom_plot", window, "Zoom a plot", "Alt+Up Alt+Down", R"({"factor": 0.8})",
                "Zooms the chosen plot at the crosshair, or at its centre."},
    CommandSpec{"show", window, "Choose what a panel shows", "", R"({"panel": "training", "figure": 1})",
                "Shows one of a panel's figures, or as many as fit (-1)."},
    CommandSpec{
        "view", window, "Show as in a figure", "",
        R"({"panel": "training", "plot": "training_loss", "selection": {"smoothing": 0.9}})",
        "Goes to the page, panel, selection and zoom that an exported figure carries; opening a figure does the same."},
    CommandSpec{"page", window, "More panels; a lesson's next step", "PageDown PageUp", R"({"by": 1})",
                "Shows the panels of the workspace that do not fit into a small window; with a lesson open its next "
                "step, unless {\"of\": \"panels\"} is given."},
    CommandSpec{"lesson", window, "Next step of the lesson", "Shift+PageUp", R"({"by": 1})",
                "Opens a lesson ({\"open\": \"tour\"}, or a file); goes forward or back in it, {\"again\": true} "
                "restarts this step exactly; {\"answer\": 2} answers its question, {\"number\": \"power\", \"to\": 4} "
                "drags one of its numbers, {\"close\": true} ends it."},
    CommandSpec{"presenter", window, "Presenter window", "F6", R"({"on": true})",
                "Opens a second window with the notes of the lesson's step, the next step, a clock and the time since "
                "the lesson began, on a second screen if there is one. Again, or Esc in it: closes it.",
                control},
    CommandSpec{"layout", window, "Layouts of your own", "", R"({"save": "mine"})",
                "Saves the arrangement of the page under a name, restores a saved one ({\"choose\": ..}) or deletes it "
                "({\"forget\": ..}).",
                control},
    CommandSpec{"reset_layout", window, "Reset the layout", "Ctrl+Shift+0", R"({})",
                "Restores the original panels of every workspace."},
    CommandSpec{"workspace", window, "Workspace", "Ctrl+1 Ctrl+2 Ctrl+3 Ctrl+4 Ctrl+5 Ctrl+6 Ctrl+7 Ctrl+8 Ctrl+9",
                R"({"name": "stepper"})", "Switches to another arrangement of panels."},
    CommandSpec{"theme", window, "Theme", "Ctrl+T", R"({"name": "light"})",
                "Chooses dark, light or projector; without a name the next of them."},
    CommandSpec{"zoom", window, "Size of everything", "Ctrl++ Ctrl+- Ctrl+0", R"({"factor": 1.1})",
                "Scales the whole window ({\"to\": 1.0} resets)."},
    CommandSpec{"presets", window, "Start from a preset, table or file", "Ctrl+O", R"({})",
                "Shows everything that can be opened; {\"folder\": \".\"} lists the files of a folder.", control},
    CommandSpec{"controls", window, "Hide or show the controls", "F10", R"({"shown": true})",
                "Shows only the panels; again: everything.", control},
    CommandSpec{"blank", window, "Blank the screen", ".", R"({"on": true})",
                "Darkens the screen during a presentation; again, or B or Esc: back."},
    CommandSpec{"palette", window, "Command palette", "Ctrl+P Ctrl+K", R"({})",
                "Finds and runs any command; {\"text\": \"layout\"} fills in the search.", control},
    CommandSpec{"help", window, "What is this, keys", "F1", R"({})",
                "Pins the formula card under the mouse; otherwise shows all keys."},
    CommandSpec{"hints", window, "Show hints again", "", R"({"on": true})",
                "Shows the two hints of a first start until their actions are done."},
    CommandSpec{"copy", window, "Copy", "Ctrl+C Ctrl+Shift+C Ctrl+Alt+C", R"({"what": "setup"})",
                "Copies a plot as picture ({\"what\": \"picture\", \"plot\": \"training_loss\"}), a set-up line, a "
                "panel as command ({\"what\": \"command\", \"panel\": \"spectrum\"}) or a formula ({\"what\": "
                "\"formula\", \"card\": \"mode\"}); without a value the command for the item under the mouse."},
    CommandSpec{"shuttle", window, "Back, stop, on", "J K L", R"({"direction": 1})",
                "Plays backward (-1), stops (0) or plays forward (1); again: faster."},
    CommandSpec{"present", window, "Presentation mode", "F5", R"({"on": true})",
                "Uses large type and thick lines, and hides the controls; again, or Esc: back."},
    CommandSpec{"focus", window, "Next panel", "Tab Shift+Tab", R"({"by": 1})",
                "Gives the next panel the keyboard focus, as if the mouse were over it."},
    CommandSpec{"focus_plot", window, "Next plot of the panel", "P Shift+P", R"({"by": 1})",
                "Gives the next plot of the focused panel the keyboard focus."},
    CommandSpec{
        "menu", window, "Menu of a panel or plot", "Menu Shift+F10", R"({"panel": "training"})",
        "Opens the menu: copy as command, export, axes, follow, enlarge; without a value for the item under the mouse.",
        control},
    CommandSpec{"resize", window, "Resize the panel", "Ctrl+Shift+Left Ctrl+Shift+Right Ctrl+Shift+Up Ctrl+Shift+Down",
                R"({"panel": "spectrum", "width": 0.05, "height": 0})",
                "Gives a panel a larger share of its row and of all rows, as the splitters do."},
    CommandSpec{"next", window, "Next mode, head, layer", "M Shift+M H Shift+H N Shift+N",
                R"({"what": "mode", "by": 1})", "Selects the next mode, head or layer."},
    CommandSpec{"switch_mode", window, "Switch the mode off or on", "X", R"({})",
                "Probes without the selected mode, or with it again.", control},
    CommandSpec{"nudge_mode", window, "Move the mode", "Ctrl+Left Ctrl+Right Ctrl+Up Ctrl+Down",
                R"({"re": 0.02, "im": 0})", "Moves the selected eigenvalue by this much.", control},
    CommandSpec{"slider", window, "Next slider", "S Shift+S", R"({"by": 1})",
                "Puts the arrow keys on the next slider of the column at the left.", control},
    CommandSpec{"nudge", window, "Move the slider", "Up Down Shift+Up Shift+Down", R"({"by": 1})",
                "Moves the chosen slider by hundredths of its length.", control},
    CommandSpec{"fullscreen", window, "Full screen", "F11", R"({})", "Switches full screen on and off."},
    CommandSpec{"screenshot", window, "Save a picture of the window", "", R"({"path": "window.png"})",
                "Writes what the window shows."},
    CommandSpec{"status", window, "Keep a status file", "", R"({"path": "status.json"})",
                "Writes where run, page and lesson are as JSON, and again whenever that changes; without a path no "
                "longer.",
                control},
    CommandSpec{
        "film", window, "Save the last ten seconds", "F9", R"({"as": "pictures"})",
        "Writes the last ten seconds of the window as a GIF, and as an MP4 where ffmpeg is installed; as=pictures: "
        "numbered PNG files. Where the processor draws they are kept while a lesson is open or the theme is "
        "projector; otherwise the first press begins to keep them."},
    CommandSpec{"quit", window, "Quit", "Ctrl+Q", R"({})", "Closes the window."},
};

}  // namespace

std::span<const CommandSpec> command_table() { return table; }

const CommandSpec* find_command(std::string_view name) {
  for (const CommandSpec& spec : table) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

bool edits_probe(std::string_view name) {
  const CommandSpec* spec = find_command(name);
  return spec != nullptr && spec->edits_probe;
}

Command parse_command(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) {
    throw Error(ExitCode::bad_input, "a command is an object with a \"name\", such as {\"name\": \"run\"}; got " +
                                         json.dump().substr(0, 80));
  }
  Command command{json["name"].get<std::string>(), json.value("value", nlohmann::json::object()).dump()};
  if (!find_command(command.name)) {
    throw Error(ExitCode::bad_input,
                "there is no command \"" + command.name + "\"; `afterglow info --json` lists them all");
  }
  return command;
}

}  // namespace afterglow
