// `afterglow info`: shows what this program and machine can do, or what a file contains.
#include <sstream>

#include "app/cli/paper_plots.h"
#include "app/cli/start.h"
#include "app/cli/version.h"
#include "app/window/window.h"
#include "core/engine/session/kept_runs.h"
#include "core/engine/training/objective.h"
#include "core/io/json.h"
#include "core/io/number_text.h"
#include "core/layers/layer_kind.h"
#include "core/models/checkpoints/model_plan.h"
#include "core/studies/table.h"
#include "gpu/cuda.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

bool belongs_to_optimiser(const HostTensor& tensor) { return tensor.name.find("optim.") != std::string::npos; }

/// Describes the recipe's series if it comes from a file; if the file cannot be read, says why.
json series_of(const Recipe& recipe, Output& output) try {
  const bool is_series = recipe.task.is_object() && recipe.task.value("kind", "") == "forecast";
  return is_series ? say_series(*make_task(recipe.task), output) : json::object();
} catch (const Error& error) {
  output.note(error.what());
  return json::object();
}

/// Returns the description of its series.
json say_recipe(const Recipe& recipe, Output& output) {
  output.line(recipe.name, recipe.title == recipe.name ? "" : ": " + recipe.title);
  output.line("  seed ", recipe.seed, ", ", recipe.training.steps, " steps, ", recipe.commands.size(),
              " commands, task ", recipe.task.dump());
  for (const RunNote& note : notes_of(recipe))
    output.line("  note, step ", note.step, note.figure.empty() ? "" : " " + note.figure,
                note.token < 0 ? "" : " token " + std::to_string(note.token), ": ", note.text);
  return series_of(recipe, output);
}

/// The kind of a tensor file, printed before its contents.
json say_summary(const TensorFile& file, const std::string& where, std::int64_t weights, Output& output) {
  json series = json::object();
  if (const auto text = file.metadata.find("afterglow.recipe"); text != file.metadata.end())
    series = say_recipe(parse_recipe(text->second, where), output);
  for (const auto& [key, value] : file.metadata) {
    if (key != "afterglow.recipe") output.line("  ", key, ": ", value);
  }
  output.line("  ", file.tensors.size(), " tensors, ", weights, " numbers without optimiser state");
  return series;
}

json tensors_info(const InfoOptions& options, Output& output) {
  const TensorFile file = read_safetensors(options.file);
  json list = json::array();
  std::int64_t weights = 0;
  for (const HostTensor& tensor : file.tensors) weights += belongs_to_optimiser(tensor) ? 0 : tensor.elements();
  json result = say_summary(file, options.file, weights, output);
  std::size_t left_out = 0;
  for (const HostTensor& tensor : file.tensors) {
    if (belongs_to_optimiser(tensor) && !options.optimiser) {
      ++left_out;
      continue;
    }
    list.push_back({{"name", tensor.name}, {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}});
    output.line(tensor.name, "  ", name_of(tensor.type), " ", Shape(tensor.shape).text());
  }
  for (const auto& [name, type] : file.unread) {
    list.push_back({{"name", name}, {"dtype", type}});
    output.line(name, "  ", type, ", a type that cannot be read");
  }
  if (left_out > 0) output.line(left_out, " tensors of the optimiser: --optimiser lists them");
  result.update({{"file", options.file}, {"numbers", weights}, {"tensors", list}, {"metadata", file.metadata}});
  return result;
}

/// Lists the contents of a folder of weights under Afterglow's names.
void say_parameters(const Recipe& recipe, const Output& output) {
  ParameterStore store;
  make_objective(recipe, store);
  output.line("  ", store.count(), " parameters, weights ", recipe.checkpoint["hash"].get<std::string>());
  for (const Parameter& parameter : store.all()) output.line(parameter.name, "  ", parameter.shape.text());
}

/// The states and curves of a folder.
json run_folder_info(const RunFolder& folder, Output& output) {
  json states = json::array(), curves = json::array();
  for (const auto& [step, state] : folder.states()) states.push_back({{"step", step}, {"path", state.path.string()}});
  for (const auto& [name, steps, values] : folder.view()->curves)
    curves.push_back(
        {{"name", name}, {"points", steps.size()}, {"first_step", steps.front()}, {"last_step", steps.back()}});
  for (const json& list : {states, curves}) {
    for (const json& entry : list) output.line(entry.dump());
  }
  return {{"states", states}, {"curves", curves}};
}

json file_info(const InfoOptions& options, Output& output) {
  const bool is_folder = std::filesystem::is_directory(options.file);
  json of_folder{{"file", options.file}};
  const auto folder = is_folder ? std::make_shared<RunFolder>(options.file) : nullptr;
  if (folder && folder->is_run()) {
    of_folder.update(run_folder_info(*folder, output));
    if (folder->states().empty()) {
      for (const std::string& note : folder->notes()) output.note(note);
      return of_folder;
    }
  }
  if (!is_folder && std::filesystem::path(options.file).extension() == ".safetensors")
    return tensors_info(options, output);
  const SavedRun saved = open_saved_run(options.file, no_step, folder);
  const Recipe& recipe = saved.recipe;
  json result = say_recipe(recipe, output);
  result.update(of_folder);
  say_notes(saved, output);
  if (is_folder && !saved.snapshot) say_parameters(recipe, output);
  std::istringstream lines(to_json(recipe).dump(2));
  for (std::string line; std::getline(lines, line);) output.line(line);
  result.update({{"recipe", to_json(recipe)}});
  return result;
}

json list_devices(const Output& output) {
  json devices =
      json::array({{{"name", "cpu"}, {"description", make_cpu_backend()->description()}, {"kernels", "all"}}});
  output.line("devices");
  output.line("  cpu   ", make_cpu_backend()->description());
  const CudaSystem cuda = cuda_devices();
  for (const CudaDevice& device : cuda.devices) {
    const std::string capability = std::to_string(device.major) + "." + std::to_string(device.minor);
    devices.push_back({{"name", "cuda"},
                       {"description", device.name},
                       {"memory_bytes", device.memory},
                       {"compute_capability", capability},
                       {"driver", cuda.driver},
                       {"toolkit", cuda.toolkit},
                       {"kernels", "all"}});
    output.line("  cuda  ", device.name, ", compute capability ", capability, ", ", bytes_text(device.memory),
                ", driver ", cuda.driver, ", toolkit ", cuda.toolkit);
  }
  if (cuda.devices.empty()) output.line("  cuda  none: ", cuda.why_none);
  return devices;
}

/// The models of other libraries, with what can be done with them.
json list_models(Output& output) {
  constexpr const char* columns = "  %-17s %-15s %-28s %-5s %-17s %s";
  output.print(columns, "model_type", "library", "trains", "steps", "exported", "layers");
  const json& models = library_words()["models"];
  for (const json& row : models) {
    const auto word = [&](const char* column) { return row[column].get_ref<const std::string&>().c_str(); };
    output.print(columns, word("name"), word("library"), word("trains"), word("steps"), word("exported"),
                 word("layers"));
  }
  return {{"models", models}};
}

}  // namespace

json info(const InfoOptions& options, const CommonOptions&, Output& output) {
  if (!options.file.empty()) return file_info(options, output);
  if (options.models) return list_models(output);
  output.line(version_line());
  json result = {{"version", version_line()}, {"devices", list_devices(output)}};
  // Lists it for people and in the result, with its name and what it is about.
  const auto add = [&](const char* section, const json& row, const std::string& about, const char* title = nullptr) {
    if (!result.contains(section)) output.line(title ? title : section);
    result[section].push_back(row);
    output.print("  %-24s %s", row["name"].get<std::string>().c_str(), about.c_str());
  };
  for (const KeptRun& run : kept_runs(kept_runs_folder(false)))
    add("kept_runs", {{"name", run.label}, {"path", run.path.string()}}, run.path.string(),
        "runs that were saved when a window was closed");
  for (const Preset& preset : presets()) {
    const json count = parameter_count(parse_recipe(preset.text, preset.name));
    add("presets", {{"name", preset.name}, {"title", preset.title}, {"about", preset.about}, {"parameters", count}},
        preset.title + " · " + count.dump() + " parameters");
  }
  for (const Table& table : tables())
    add("tables", {{"name", table.name}, {"title", table.title}, {"about", table.about}},
        table.title + ": " + table.about);
  for (const LayerKind& kind : layer_kinds())
    add("layers",
        {{"name", kind.name},
         {"about", kind.description},
         {"source", kind.source},
         {"mixes_tokens", kind.mixes_tokens}},
        kind.description);
  for (const TaskInfo& task : task_kinds())
    add("tasks", {{"name", task.kind}, {"about", task.description}}, task.description);
  for (const PlotKind& kind : plot_kinds())
    add("plots", {{"name", kind.id}, {"about", kind.about}}, std::string(kind.about));
  for (const PaperPlot& plot : paper_plots()) add("plots", {{"name", plot.id}, {"about", plot.about}}, plot.about);
  result["workspaces"] = workspace_names();
  for (const CommandSpec& spec : command_table())
    add("commands",
        {{"name", spec.name}, {"keys", spec.keys}, {"value", json::parse(spec.example)}, {"about", spec.meaning}},
        std::string(spec.meaning));
  return result;
}

}  // namespace afterglow
