// Writes and reads snapshots.
#include "core/engine/training/saved/snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/wording.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

constexpr const char* groups[] = {"", "optim.first_moment.", "optim.second_moment."};
constexpr const char *held_out_steps = "held_out.steps", *held_out_values = "held_out.values";
constexpr const char *first_curve_step = "curves.first_step", *tensors_checksum = "checksum.tensors";
constexpr const char *layer_curves = "curves.layer_gradient_norms", *path_steps = "curves.path_steps",
                     *path_rows = "curves.path_rows";
constexpr const char* stops_of_training = "curves.stops";
constexpr const char *mode_rows = "modes.numbers", *modes_step = "modes.step", *modes_numbered_at = "modes.numbered_at";
constexpr std::size_t mode_row_size = 5;    ///< layer, head, number, real and imaginary part
const std::string best = "best.", present;  // prefixes of a state's names

struct CurveName {
  const char* name;
  std::vector<double> RecordedPast::*values;
};
/// Curves with a value for each step, and those with a value for each held-out evaluation.
constexpr std::array step_curves{CurveName{"curves.loss", &RecordedPast::loss},
                                 CurveName{"curves.accuracy", &RecordedPast::accuracy},
                                 CurveName{"curves.learning_rate", &RecordedPast::learning_rate},
                                 CurveName{"curves.gradient_norm", &RecordedPast::gradient_norm}};
constexpr std::array held_out_curves{CurveName{"curves.held_out_steps", &RecordedPast::held_out_steps},
                                     CurveName{"curves.held_out_values", &RecordedPast::held_out_values}};

std::string metadata_of(const Snapshot& snapshot, const char* key) {
  const auto found = snapshot.file.metadata.find(key);
  if (found != snapshot.file.metadata.end()) return found->second;
  throw BadInput(snapshot.where, ": the metadata \"", key,
                 "\" is missing, so this is no Afterglow snapshot; give a file that `afterglow "
                 "train` or Ctrl+S wrote, or of another "
                 "library's model the folder with its config.json");
}

std::int64_t whole_number(const Snapshot& snapshot, const char* key) {
  const std::string text = metadata_of(snapshot, key);
  if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != std::string::npos)
    throw BadInput(snapshot.where, ": the metadata \"", key, "\" is \"", text, "\"; expected a whole number");
  return std::stoll(text);
}

[[noreturn]] void refuse(const Snapshot& snapshot, const std::string& what, ExitCode code = ExitCode::bad_input) {
  throw Error(code, snapshot.where, ": ", what, "; the file was changed by hand or is damaged");
}

/// Whether the best step is not the present one.
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
    std::vector<float> flat(state.weights.size() / sizeof(float), 0.0f);  // moments of an untrained model are zero
    if (!buffers[group]->empty()) std::memcpy(flat.data(), buffers[group]->data(), buffers[group]->size());
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

void write_past(TensorFile& file, const RecordedPast& past) {
  file.metadata[first_curve_step] = std::to_string(past.first_step);
  for (const auto& [name, values] : step_curves) write_numbers(file, name, past.*values);
  for (const auto& [name, values] : held_out_curves) write_numbers(file, name, past.*values);
  std::vector<float> norms;  // measured as floats
  for (const std::vector<double>& layer : past.layer_gradient_norms)
    norms.insert(norms.end(), layer.begin(), layer.end());
  const auto layers = static_cast<std::int64_t>(past.layer_gradient_norms.size()),
             steps = static_cast<std::int64_t>(past.loss.size());
  file.tensors.push_back(make_tensor(layer_curves, {layers, steps}, std::span<const float>(norms)));
  write_numbers(file, path_steps, {past.path.steps.begin(), past.path.steps.end()});
  write_numbers(file, path_rows, past.path.values);
  if (past.stops.empty()) return;  // files without stops keep their former bytes
  nlohmann::json stops = nlohmann::json::array();
  for (const Stop& stop : past.stops)
    stops.push_back({{"step", stop.step}, {"reason", stop.reason}, {"failure", stop.is_failure}});
  file.metadata[stops_of_training] = stops.dump();
}

void write_modes(TensorFile& file, const Spectra& numbered) {
  std::vector<double> rows;
  for (const HeadSpectrum& head : numbered.heads) {
    for (std::size_t i = 0; i < head.eigenvalues.size(); ++i) {
      const std::complex<double> lambda = head.eigenvalues[i];
      rows.insert(rows.end(),
                  {double(head.layer), double(head.head), double(head.identity[i]), lambda.real(), lambda.imag()});
    }
  }
  if (rows.empty()) return;
  write_numbers(file, mode_rows, rows);
  file.metadata[modes_step] = std::to_string(numbered.step);
  file.metadata[modes_numbered_at] = std::to_string(numbered.numbered_at);
}

/// Over names and bytes of all tensors, sorted by name.
std::string checksum_of(const TensorFile& file) {
  std::vector<const HostTensor*> tensors = mapped(file.tensors, [](const HostTensor& tensor) { return &tensor; });
  std::ranges::sort(tensors, {}, [](const HostTensor* tensor) -> const std::string& { return tensor->name; });
  Checksum sum;
  for (const HostTensor* tensor : tensors) {
    sum.update(std::as_bytes(std::span(tensor->name)));
    sum.update(tensor->bytes);
  }
  return hex16(sum.digest());
}

void check_state(const Snapshot& snapshot, const std::string& prefix, const ParameterStore& declared) {
  for (const Parameter& parameter : declared.all()) {
    for (const char* group : groups) {
      const std::string name = prefix + group + parameter.name;
      const HostTensor& tensor = require_tensor(snapshot.file, name, snapshot.where);
      if (tensor.type != StoredType::f32 || Shape(tensor.shape) != parameter.shape)
        throw BadInput(snapshot.where, ": ", name, " is ", name_of(tensor.type), " ", Shape(tensor.shape).text(),
                       " but the recipe in the file asks for F32 ", parameter.shape.text(),
                       "; the file was changed by hand");
      for (const float value : to_floats(tensor)) {
        if (std::isfinite(value)) continue;
        throw BadInput(snapshot.where, ": ", name, " holds NaN or infinity; take an earlier snapshot of the run");
      }
    }
  }
}

std::vector<double> finite_numbers(const Snapshot& snapshot, const std::string& name) {
  std::vector<double> values = to_doubles(require_tensor(snapshot.file, name, snapshot.where));
  if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
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
      const std::size_t begin = static_cast<std::size_t>(parameter.offset) * sizeof(float);
      if (tensor.bytes.size() > buffers[group]->size() - begin) refuse(snapshot, tensor.name + " is too long");
      std::ranges::copy(tensor.bytes, buffers[group]->begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }
  const std::string appended = prefix + "memory.appended";
  if (snapshot.file.metadata.contains(appended)) {
    state.memory.appended = whole_number(snapshot, appended.c_str());
    state.memory.rows = finite_numbers(snapshot, prefix + "memory.rows");
  }
  return state;
}

/// Whether steps ascend and none is later than the snapshot's.
bool are_of_the_past(const Snapshot& snapshot, const std::vector<double>& steps) {
  const bool ascend = std::ranges::adjacent_find(steps, std::greater_equal<>()) == steps.end();
  return ascend && (steps.empty() || (steps.front() >= 0 && steps.back() <= static_cast<double>(snapshot.step)));
}

TrajectoryRows read_path(const Snapshot& snapshot) {
  const std::vector<double> steps = finite_numbers(snapshot, path_steps);
  TrajectoryRows path{{}, finite_numbers(snapshot, path_rows)};
  const bool is_whole = steps.empty() ? path.values.empty() : path.values.size() % steps.size() == 0;
  if (!is_whole || !are_of_the_past(snapshot, steps)) refuse(snapshot, "its path of training does not fit its steps");
  for (const double step : steps) path.steps.push_back(static_cast<std::int64_t>(step));
  return path;
}

std::vector<Stop> read_stops(const Snapshot& snapshot) {
  const auto found = snapshot.file.metadata.find(stops_of_training);
  if (found == snapshot.file.metadata.end()) return {};
  const std::string where = snapshot.where + ": " + stops_of_training;
  const nlohmann::json list = parse_json(found->second, where);
  if (!list.is_array()) refuse(snapshot, std::string(stops_of_training) + " is no list");
  std::vector<Stop> stops;
  for (const nlohmann::json& stop : list) {
    const std::int64_t earliest = stops.empty() ? 0 : stops.back().step;
    stops.push_back({get_integer(stop, "step", std::nullopt, earliest, snapshot.step, where),
                     get_string(stop, "reason", std::nullopt, where), get_bool(stop, "failure", false, where)});
  }
  return stops;
}

}  // namespace

Snapshot make_snapshot(const Recipe& recipe, const ParameterStore& store, const TrainerState& state,
                       const RecordedPast& past, const std::optional<HeldOutRecord>& record, const Spectra* numbered) {
  Snapshot snapshot{"this run", recipe, state.step, checksum_of(state), {}};
  TensorFile& file = snapshot.file;
  file.metadata = {{"format", "afterglow"},
                   {"version", "1"},
                   {"step", std::to_string(snapshot.step)},
                   {"checksum", snapshot.checksum},
                   {"afterglow.recipe", to_json(recipe).dump()}};
  write_state(file, present, store, state);
  write_past(file, past);
  if (numbered) write_modes(file, *numbered);
  if (record) {
    file.metadata["best.step"] = std::to_string(record->best_step);
    write_numbers(file, held_out_steps, record->steps);
    write_numbers(file, held_out_values, record->values);
    if (record->best) write_state(file, best, store, *record->best);
  }
  file.metadata[tensors_checksum] = checksum_of(file);
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
  if (const auto format = snapshot.file.metadata.find("format");
      format == snapshot.file.metadata.end() || format->second != "afterglow") {
    throw BadInput(snapshot.where, ": the metadata \"format\" is ",
                   (format == snapshot.file.metadata.end() ? "missing" : in_quotes(format->second)),
                   ", not \"afterglow\"; give a snapshot that Afterglow wrote, or of another library's model the "
                   "folder with its config.json",
                   config_to_write(names_of(snapshot.file.tensors, &HostTensor::name)));
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
  if (steps.size() != record.values.size() || !std::ranges::is_sorted(steps) || steps.empty() ||
      steps.back() > static_cast<double>(snapshot.step))
    refuse(snapshot, "its held-out evaluations do not fit together");
  if (std::ranges::find(steps, static_cast<double>(record.best_step)) == steps.end())
    refuse(snapshot, "there is no held-out evaluation of its best step " + std::to_string(record.best_step));
  if (has_kept_best(snapshot)) record.best = read_state(snapshot, best, record.best_step, store);
  return record;
}

std::shared_ptr<const Spectra> numbered_spectra(const Snapshot& snapshot) {
  if (!snapshot.file.metadata.contains(modes_step)) return nullptr;
  auto numbered = std::make_shared<Spectra>();
  numbered->step = whole_number(snapshot, modes_step);
  numbered->numbered_at = whole_number(snapshot, modes_numbered_at);
  const std::vector<double> rows = finite_numbers(snapshot, mode_rows);
  const bool is_whole = rows.size() % mode_row_size == 0;
  const auto index_at = [&](std::size_t i) {
    if (!is_whole || rows[i] < 0 || rows[i] >= 65536 || rows[i] != std::floor(rows[i]))
      refuse(snapshot, std::string(mode_rows) + " does not hold modes of this run");
    return static_cast<int>(rows[i]);
  };
  std::vector<HeadSpectrum>& heads = numbered->heads;
  for (std::size_t row = 0; row < rows.size(); row += mode_row_size) {
    const int layer = index_at(row), head = index_at(row + 1);
    if (heads.empty() || heads.back().layer != layer || heads.back().head != head)
      heads.push_back({layer, head, {}, {}, {}});
    heads.back().identity.push_back(index_at(row + 2));
    heads.back().eigenvalues.emplace_back(rows[row + 3], rows[row + 4]);
  }
  return numbered;
}

std::optional<RecordedPast> recorded_past(const Snapshot& snapshot, std::size_t layers) {
  if (!snapshot.file.metadata.contains(first_curve_step)) return std::nullopt;
  RecordedPast past;
  past.first_step = whole_number(snapshot, first_curve_step);
  const auto steps = static_cast<std::size_t>(std::max<std::int64_t>(0, snapshot.step - past.first_step + 1));
  if (past.first_step < 1 || past.first_step > snapshot.step + 1)
    refuse(snapshot, "its curves begin at step " + std::to_string(past.first_step));
  const auto read = [&](const CurveName& curve) {
    return past.*curve.values = to_doubles(require_tensor(snapshot.file, curve.name, snapshot.where));
  };
  for (const CurveName& curve : step_curves) {
    const std::size_t size = read(curve).size();
    if (size != steps)
      refuse(snapshot,
             std::string(curve.name) + " holds " + std::to_string(size) + " steps instead of " + std::to_string(steps));
  }
  for (const CurveName& curve : held_out_curves) read(curve);
  if (past.held_out_steps.size() != past.held_out_values.size() || !are_of_the_past(snapshot, past.held_out_steps))
    refuse(snapshot, "the curves of its held-out evaluations do not fit together");
  const HostTensor& norms = require_tensor(snapshot.file, layer_curves, snapshot.where);
  const std::vector<double> values = to_doubles(norms);
  if (norms.shape != std::vector<std::int64_t>{static_cast<std::int64_t>(layers), static_cast<std::int64_t>(steps)})
    refuse(snapshot, std::string(layer_curves) + " has another shape than layers and steps");
  for (auto at = values.begin(); past.layer_gradient_norms.size() < layers; at += static_cast<std::ptrdiff_t>(steps))
    past.layer_gradient_norms.emplace_back(at, at + static_cast<std::ptrdiff_t>(steps));
  past.path = read_path(snapshot);
  past.stops = read_stops(snapshot);
  return past;
}

void check_checksums(const Snapshot& snapshot, const TrainerState& state) {
  const auto compare = [&](const char* what, const std::string& found, const std::string& written) {
    if (found != written)
      refuse(snapshot, std::string(what) + " have the checksum " + found + ", not the " + written + " written there",
             ExitCode::check_failed);
  };
  compare("its weights", checksum_of(state), snapshot.checksum);
  const auto written = snapshot.file.metadata.find(tensors_checksum);
  if (written != snapshot.file.metadata.end()) compare("its tensors", checksum_of(snapshot.file), written->second);
}

}  // namespace afterglow
