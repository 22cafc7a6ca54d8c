// `afterglow info`: what this program and machine can do, or what a file holds.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/cli/command_line.h"
#include "app/cli/paper_plots.h"
#include "app/cli/version.h"
#include "core/engine/studies/table.h"
#include "core/engine/training/objective.h"
#include "core/engine/training/saved_run.h"
#include "core/io/error.h"
#include "core/io/number_text.h"
#include "core/layers/layer_kind.h"
#include "gpu/cuda.h"
#include "views/figures/plot_kinds.h"

namespace afterglow {

namespace {

using nlohmann::json;

json file_info(const std::string& file, const Output& output) {
  json result = {{"file", file}};
  Recipe recipe;
  if (std::filesystem::path(file).extension() == ".safetensors") {
    const TensorFile tensors = read_safetensors(file);
    json list = json::array();
    std::int64_t weights = 0;
    for (const HostTensor& tensor : tensors.tensors) {
      list.push_back({{"name", tensor.name}, {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}});
      if (tensor.name.rfind("optim.", 0) != 0) weights += tensor.elements();
      output.line(tensor.name + "  " + name_of(tensor.type) + " " + Shape(tensor.shape).text());
    }
    output.line(std::to_string(tensors.tensors.size()) + " tensors, " + std::to_string(weights) +
                " numbers without optimiser state");
    for (const auto& [key, value] : tensors.metadata) output.line(key + ": " + value);
    result["tensors"] = list;
    result["metadata"] = tensors.metadata;
    return result;
  }
  const SavedRun moment = open_saved_run(file);
  result["recipe"] = to_json(moment.recipe);
  output.line(to_json(moment.recipe).dump(2));
  return result;
}

json list_devices(const Output& output) {
  json devices =
      json::array({{{"name", "cpu"}, {"description", make_cpu_backend()->description()}, {"kernels", "all"}}});
  output.line("devices");
  output.line("  cpu   " + make_cpu_backend()->description());
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
    output.line("  cuda  " + device.name + ", compute capability " + capability + ", " + bytes_text(device.memory) +
                ", driver " + cuda.driver + ", toolkit " + cuda.toolkit);
  }
  if (cuda.devices.empty()) output.line("  cuda  none: " + cuda.why_none);
  return devices;
}

json parameter_count(const Preset& preset) {
  ParameterStore store;
  make_objective(parse_recipe(preset.text, preset.name), store);
  return store.count();
}

}  // namespace

json info(const InfoOptions& options, const CommonOptions&, Output& output) {
  if (!options.file.empty()) return file_info(options.file, output);
  output.line(version_line());
  json result = {{"version", version_line()}, {"devices", list_devices(output)}};
  const auto listed = [&](const std::string& name, const std::string& text) {
    char line[400];
    std::snprintf(line, sizeof line, "  %-24s %s", name.c_str(), text.c_str());
    output.line(line);
  };
  output.line("presets");
  for (const Preset& preset : presets()) {
    const json count = parameter_count(preset);
    result["presets"].push_back(
        {{"name", preset.name}, {"title", preset.title}, {"about", preset.about}, {"parameters", count}});
    listed(preset.name, preset.title + " · " + count.dump() + " parameters");
  }
  output.line("tables");
  for (const Table& table : tables()) {
    result["tables"].push_back({{"name", table.name}, {"title", table.title}, {"about", table.about}});
    listed(table.name, table.title + ": " + table.about);
  }
  output.line("layers");
  for (const LayerKind& kind : layer_kinds()) {
    result["layers"].push_back({{"name", kind.name},
                                {"about", kind.description},
                                {"source", kind.source},
                                {"mixes_tokens", kind.mixes_tokens}});
    listed(kind.name, kind.description);
  }
  output.line("tasks");
  for (const TaskInfo& task : task_kinds()) {
    result["tasks"].push_back({{"name", task.kind}, {"about", task.description}});
    listed(task.kind, task.description);
  }
  output.line("plots");
  for (const PlotKind& kind : plot_kinds()) {
    result["plots"].push_back({{"name", kind.id}, {"about", kind.about}});
    listed(std::string(kind.id), std::string(kind.about));
  }
  for (const PaperPlot& plot : paper_plots()) {
    result["plots"].push_back({{"name", plot.id}, {"about", plot.about}});
    listed(std::string(plot.id), std::string(plot.about));
  }
  output.line("commands");
  for (const CommandSpec& spec : command_table()) {
    result["commands"].push_back(
        {{"name", spec.name}, {"keys", spec.keys}, {"value", json::parse(spec.example)}, {"about", spec.meaning}});
    listed(std::string(spec.name), std::string(spec.meaning));
  }
  return result;
}

}  // namespace afterglow
