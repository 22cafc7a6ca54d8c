// Writing and reading snapshots.
#include "core/engine/training/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/io/error.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

constexpr const char* groups[] = {"", "optim.first_moment.", "optim.second_moment."};
constexpr const char *held_out_steps = "held_out.steps", *held_out_values = "held_out.values";
const std::string best = "best.", present;  // in front of the names of a state

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

void refuse(const Snapshot& snapshot, const std::string& what) {
  throw Error(ExitCode::bad_input, snapshot.where + ": " + what + "; the file was changed by hand or is damaged");
}

/// Whether the best step was another one than the present.
bool has_kept_best(const Snapshot& snapshot) {
  return snapshot.file.metadata.contains("best.step") && whole_number(snapshot, "best.step") != snapshot.step;
}

void write_numbers(TensorFile& file, const std::string& name, const std::vector<double>& values) {
  file.tensors.push_back(
      make_tensor(name, {static_cast<std::int64_t>(values.size())}, std::span<const double>(values)));
}

void write_state(TensorFile& file, const std::string& prefix, const ParameterStore& store, const TrainerState& state) {
  const std::vector<std::byte>* buffers[] = {&state.weights, &state.first_moments, &state.second_moments};
  for (int group = 0; group < 3; ++group) {
    std::vector<float> flat(buffers[group]->size() / sizeof(float));
    std::memcpy(flat.data(), buffers[group]->data(), buffers[group]->size());
    for (const Parameter& parameter : store.all()) {
      const std::span<const float> values(flat.data() + parameter.offset,
                                          static_cast<std::size_t>(parameter.shape.elements()));
      file.tensors.push_back(make_tensor(prefix + groups[group] + parameter.name, parameter.shape.extents(), values));
    }
  }
  const TrainingMemory& memory = state.memory;
  if (memory.appended > 0) {
    file.metadata[prefix + "memory.appended"] = std::to_string(memory.appended);
    write_numbers(file, prefix + "memory.rows", memory.rows);
  }
}

void check_state(const Snapshot& snapshot, const std::string& prefix, const ParameterStore& declared) {
  for (const Parameter& parameter : declared.all()) {
    for (const char* group : groups) {
      const std::string name = prefix + group + parameter.name;
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

std::vector<double> finite_numbers(const Snapshot& snapshot, const std::string& name) {
  std::vector<double> values = to_doubles(require_tensor(snapshot.file, name, snapshot.where));
  if (!std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
    refuse(snapshot, name + " holds NaN or infinity");
  return values;
}

TrainerState read_state(const Snapshot& snapshot, const std::string& prefix, std::int64_t step,
                        const ParameterStore& store) {
  TrainerState state;
  state.step = step;
  std::vector<std::byte>* buffers[] = {&state.weights, &state.first_moments, &state.second_moments};
  for (int group = 0; group < 3; ++group) {
    buffers[group]->assign(store.values().bytes(), std::byte{0});
    for (const Parameter& parameter : store.all()) {
      const HostTensor& tensor = require_tensor(snapshot.file, prefix + groups[group] + parameter.name, snapshot.where);
      std::memcpy(buffers[group]->data() + static_cast<std::size_t>(parameter.offset) * sizeof(float),
                  tensor.bytes.data(), tensor.bytes.size());
    }
  }
  const std::string appended = prefix + "memory.appended";
  if (snapshot.file.metadata.contains(appended)) {
    state.memory.appended = whole_number(snapshot, appended.c_str());
    state.memory.rows = finite_numbers(snapshot, prefix + "memory.rows");
  }
  return state;
}

}  // namespace

Snapshot make_snapshot(const Recipe& recipe, const ParameterStore& store, const TrainerState& state,
                       const std::optional<HeldOutRecord>& record) {
  Snapshot snapshot{"this run", recipe, state.step, checksum_of(state), {}};
  TensorFile& file = snapshot.file;
  file.metadata = {{"format", "afterglow"},
                   {"version", "1"},
                   {"step", std::to_string(snapshot.step)},
                   {"checksum", snapshot.checksum},
                   {"afterglow.recipe", to_json(recipe).dump()}};
  write_state(file, present, store, state);
  if (!record) return snapshot;
  file.metadata["best.step"] = std::to_string(record->best_step);
  write_numbers(file, held_out_steps, record->steps);
  write_numbers(file, held_out_values, record->values);
  if (record->best) write_state(file, best, store, *record->best);
  return snapshot;
}

std::string snapshot_stem(const Recipe& recipe, std::int64_t step) {
  return recipe.name + "_seed" + std::to_string(recipe.seed) + "_step" + std::to_string(step);
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
  check_state(snapshot, present, declared);
  if (has_kept_best(snapshot)) check_state(snapshot, best, declared);
}

TrainerState trainer_state(const Snapshot& snapshot, const ParameterStore& store) {
  return read_state(snapshot, present, snapshot.step, store);
}

std::optional<HeldOutRecord> held_out_record(const Snapshot& snapshot, const ParameterStore& store) {
  if (!snapshot.file.metadata.contains("best.step")) return std::nullopt;
  HeldOutRecord record{finite_numbers(snapshot, held_out_steps), finite_numbers(snapshot, held_out_values),
                       whole_number(snapshot, "best.step"), std::nullopt};
  const std::vector<double>& steps = record.steps;
  if (steps.size() != record.values.size() || !std::is_sorted(steps.begin(), steps.end()) || steps.empty() ||
      steps.back() > static_cast<double>(snapshot.step))
    refuse(snapshot, "its held-out evaluations do not fit together");
  if (std::find(steps.begin(), steps.end(), static_cast<double>(record.best_step)) == steps.end())
    refuse(snapshot, "there is no held-out evaluation of its best step " + std::to_string(record.best_step));
  if (has_kept_best(snapshot)) record.best = read_state(snapshot, best, record.best_step, store);
  return record;
}

}  // namespace afterglow
