// Writing and reading snapshots.
#include "core/engine/snapshot.h"

#include <cmath>
#include <cstring>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

constexpr const char* memory_rows = "memory.rows";
constexpr const char* groups[] = {"", "optim.first_moment.", "optim.second_moment."};

std::string metadata_of(const Snapshot& snapshot, const char* key) {
  const auto found = snapshot.file.metadata.find(key);
  if (found != snapshot.file.metadata.end()) return found->second;
  throw Error(
      ExitCode::bad_input,
      snapshot.where + ": the metadata \"" + key +
          "\" is missing, so this is no Afterglow snapshot; give a file that `afterglow train` or Ctrl+S wrote");
}

std::int64_t whole_number(const Snapshot& snapshot, const char* key) {
  const std::string text = metadata_of(snapshot, key);
  if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != std::string::npos) {
    throw Error(ExitCode::bad_input,
                snapshot.where + ": the metadata \"" + key + "\" is \"" + text + "\"; expected a whole number");
  }
  return std::stoll(text);
}

}  // namespace

Snapshot make_snapshot(const Recipe& recipe, const Trainer& trainer) {
  return make_snapshot(recipe, trainer.parameters(), trainer.save());
}

Snapshot make_snapshot(const Recipe& recipe, const ParameterStore& store, const TrainerState& state) {
  Snapshot snapshot{"this run", recipe, state.step, checksum_of(state), {}};
  TensorFile& file = snapshot.file;
  file.metadata = {{"format", "afterglow"},
                   {"version", "1"},
                   {"step", std::to_string(snapshot.step)},
                   {"checksum", snapshot.checksum},
                   {"afterglow.recipe", to_json(recipe).dump()}};
  const std::vector<std::byte>* buffers[] = {&state.weights, &state.first_moments, &state.second_moments};
  for (int group = 0; group < 3; ++group) {
    std::vector<float> flat(buffers[group]->size() / sizeof(float));
    std::memcpy(flat.data(), buffers[group]->data(), buffers[group]->size());
    for (const Parameter& parameter : store.all()) {
      const std::span<const float> values(flat.data() + parameter.offset,
                                          static_cast<std::size_t>(parameter.shape.elements()));
      file.tensors.push_back(make_tensor(groups[group] + parameter.name, parameter.shape.extents(), values));
    }
  }
  const TrainingMemory& memory = state.memory;
  if (memory.appended > 0) {
    file.metadata["memory.appended"] = std::to_string(memory.appended);
    file.tensors.push_back(make_tensor(memory_rows, {static_cast<std::int64_t>(memory.rows.size())},
                                       std::span<const double>(memory.rows)));
  }
  return snapshot;
}

void write_snapshot(const std::filesystem::path& path, const Recipe& recipe, const Trainer& trainer) {
  write_snapshot(path, make_snapshot(recipe, trainer));
}

void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot) {
  write_safetensors(path, snapshot.file);
}

Snapshot read_snapshot(const std::filesystem::path& path) {
  Snapshot snapshot;
  snapshot.where = path.string();
  snapshot.file = read_safetensors(path);
  if (metadata_of(snapshot, "format") != "afterglow") {
    throw Error(ExitCode::bad_input, snapshot.where + ": the metadata \"format\" is \"" +
                                         metadata_of(snapshot, "format") +
                                         "\", not \"afterglow\"; give a snapshot that Afterglow wrote");
  }
  snapshot.recipe = parse_recipe(metadata_of(snapshot, "afterglow.recipe"), snapshot.where + ": afterglow.recipe");
  snapshot.checksum = metadata_of(snapshot, "checksum");
  snapshot.step = whole_number(snapshot, "step");
  return snapshot;
}

void check_weights(const Snapshot& snapshot, const ParameterStore& declared) {
  for (const Parameter& parameter : declared.all()) {
    for (const char* group : groups) {
      const std::string name = group + parameter.name;
      const HostTensor& tensor = require_tensor(snapshot.file, name, snapshot.where);
      if (tensor.type != StoredType::f32 || Shape(tensor.shape) != parameter.shape) {
        throw Error(ExitCode::bad_input, snapshot.where + ": " + name + " is " + name_of(tensor.type) + " " +
                                             Shape(tensor.shape).text() + " but the recipe in the file asks for F32 " +
                                             parameter.shape.text() + "; the file was changed by hand");
      }
      for (const float value : to_floats(tensor)) {
        if (std::isfinite(value)) continue;
        throw Error(ExitCode::bad_input,
                    snapshot.where + ": " + name + " holds NaN or infinity; take an earlier snapshot of the run");
      }
    }
  }
}

TrainerState trainer_state(const Snapshot& snapshot, const ParameterStore& store) {
  TrainerState state;
  state.step = snapshot.step;
  std::vector<std::byte>* buffers[] = {&state.weights, &state.first_moments, &state.second_moments};
  for (int group = 0; group < 3; ++group) {
    buffers[group]->assign(store.values().bytes(), std::byte{0});
    for (const Parameter& parameter : store.all()) {
      const HostTensor& tensor = require_tensor(snapshot.file, groups[group] + parameter.name, snapshot.where);
      std::memcpy(buffers[group]->data() + static_cast<std::size_t>(parameter.offset) * sizeof(float),
                  tensor.bytes.data(), tensor.bytes.size());
    }
  }
  if (snapshot.file.metadata.contains("memory.appended")) {
    state.memory.appended = whole_number(snapshot, "memory.appended");
    state.memory.rows = to_doubles(require_tensor(snapshot.file, memory_rows, snapshot.where));
  }
  return state;
}

}  // namespace afterglow
