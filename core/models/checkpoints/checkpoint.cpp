// Reads weights into parameters, and writes parameters as a library's tensors, both with the same plan.
#include "core/models/checkpoints/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/safetensors.h"
#include "core/io/terminal_text.h"
#include "core/io/wording.h"
#include "core/models/checkpoints/loading_watch.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr const char* tokenizer_file = "tokenizer.json";

bool is_floating(StoredType type) {
  return type == StoredType::f32 || type == StoredType::f16 || type == StoredType::bf16 || type == StoredType::f64;
}

std::string type_of(const TensorView& tensor) {
  return tensor.other_type.empty() ? name_of(tensor.type) : in_quotes(tensor.other_type);
}

/// Row of the library's order for `row` of Afterglow's: RoPE rotates the pairs (2i, 2i + 1) of a head in Afterglow, and
/// (i, i + D/2) in the libraries.
std::size_t rotary_source(std::size_t row, std::size_t head_width) {
  const std::size_t head = row / head_width, place = row % head_width;
  return head * head_width + place / 2 + (place % 2) * (head_width / 2);
}

/// Reorders rows of heads from the library's order to Afterglow's, or back.
void reorder_rotary(std::span<float> values, std::size_t rows, std::int64_t heads, bool to_library) {
  const std::vector<float> before(values.begin(), values.end());
  const std::size_t width = values.size() / rows, head_width = rows / static_cast<std::size_t>(heads);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t other = rotary_source(row, head_width);
    const std::size_t from = to_library ? row : other, to = to_library ? other : row;
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                values.begin() + static_cast<std::ptrdiff_t>(to * width));
  }
}

/// The first element that is NaN or infinite; -1 without one. Tests whole blocks first, because models are large.
std::ptrdiff_t first_non_finite(std::span<const float> values) {
  constexpr std::uint32_t exponent = 0x7F800000u;
  constexpr std::size_t block = 4096;
  const auto exponent_of = [](float value) { return std::bit_cast<std::uint32_t>(value) & exponent; };
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::span<const float> own = values.subspan(first, std::min(block, values.size() - first));
    std::uint32_t largest = 0;
    for (const float value : own) largest = std::max(largest, exponent_of(value));
    if (largest < exponent) continue;
    const auto found = std::ranges::find_if(own, [&](float value) { return exponent_of(value) == exponent; });
    return static_cast<std::ptrdiff_t>(first) + (found - own.begin());
  }
  return -1;
}

/// The numbers of a tensor, mapped from the file or widened into `room`; ones without a tensor.
std::span<const float> numbers_of(const TensorView* tensor, std::size_t count, std::vector<float>& room) {
  const bool lies_ready = tensor != nullptr && tensor->type == StoredType::f32 &&
                          reinterpret_cast<std::uintptr_t>(tensor->bytes.data()) % alignof(float) == 0;
  if (lies_ready) return {reinterpret_cast<const float*>(tensor->bytes.data()), count};
  room.assign(count, 1.0f);
  if (tensor != nullptr) widen(tensor->type, tensor->bytes, room);
  return room;
}

const Parameter& parameter_of(const ParameterStore& store, const std::string& name) {
  const auto found = std::ranges::find_if(store.all(), [&](const Parameter& one) { return one.name == name; });
  if (found == store.all().end()) throw Error(ExitCode::failure, "the model has no parameter " + name);
  return *found;
}

/// MLX stores a convolution as [columns, taps, 1], with the same bytes as PyTorch's [columns, 1, taps].
bool is_mlx_convolution(const std::vector<std::int64_t>& shape) {
  return shape.size() == 3 && shape[1] > 1 && shape[2] == 1;
}

/// Whether a tensor's numbers have the same order in the file as in the parameter.
bool is_laid_out(const std::vector<std::int64_t>& found, const std::vector<std::int64_t>& wanted) {
  return found == wanted || (is_mlx_convolution(found) && wanted == std::vector{found[0], found[2], found[1]});
}

/// Throws unless the plan names every parameter of the model once.
void require_all_matched(const ModelPlan& plan, const ParameterStore& store) {
  std::set<std::string> matched;
  for (const WeightMatch& match : plan.weights) matched.insert(match.parameter);
  for (const Parameter& parameter : store.all()) {
    if (!matched.contains(parameter.name))
      throw Error(ExitCode::bad_input, "the parameter " + parameter.name +
                                           " has no place in a model of this library; export with --format npz");
  }
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder)
    : folder_(folder),
      library_(&library_of(folder_.config(), (folder_.folder() / "config.json").string())),
      plan_(plan_of(*library_, ConfigFields(folder_.config(), (folder_.folder() / "config.json").string()))),
      notes_(plan_.notes) {
  note_names();
  untie_head();
  note_unused();
}

std::string Checkpoint::folder_name() const {
  const std::filesystem::path whole = std::filesystem::weakly_canonical(folder_.folder());
  return whole.filename().string();
}

std::filesystem::path Checkpoint::tokenizer() const {
  const std::filesystem::path file = std::filesystem::absolute(folder_.folder()) / tokenizer_file;
  return std::filesystem::exists(file) ? file : std::filesystem::path();
}

json Checkpoint::origin() const {
  if (!is_utf8(std::filesystem::absolute(folder_.folder()).string()))
    throw Error(ExitCode::bad_input,
                folder_.folder().string() + ": a recipe holds names in UTF-8 only; rename the folder");
  std::filesystem::path path = std::filesystem::absolute(folder_.folder()).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // the path ended in a slash
  return {{"path", path.string()}, {"hash", folder_.hash()}, {"library", library_->name}, {"config", folder_.config()}};
}

const TensorView* Checkpoint::find(const WeightMatch& match) const {
  for (const std::string& name : match.names) {
    if (const TensorView* tensor = folder_.find(name)) return tensor;
  }
  return nullptr;
}

void Checkpoint::note_names() {
  for (const std::string& wrapper : folder_.wrappers())
    notes_.push_back("the tensors' names hold " + in_quotes(wrapper + ".") +
                     ", which a wrapper of PyTorch (torch.compile, DDP, FSDP) has put there; it is taken off");
  for (const WeightMatch& match : plan_.weights) {
    const TensorView* tensor = find(match);
    if (tensor == nullptr || !is_mlx_convolution(tensor->shape)) continue;
    notes_.push_back(in_quotes(tensor->name) + " is " + Shape(tensor->shape).text() +
                     ", as MLX lays out convolutions; it is read as " +
                     Shape({tensor->shape[0], 1, tensor->shape[1]}).text());
    return;
  }
}

// As in the libraries: a head in the files that differs from the embedding is used, also where config.json ties it.
void Checkpoint::untie_head() {
  const TensorView* head = folder_.find(head_tensor);
  const TensorView* embedding = find(plan_.weights.front());
  if (!plan_.model.value("tie_embedding", false) || head == nullptr || embedding == nullptr) return;
  if (head->type == embedding->type && std::ranges::equal(head->bytes, embedding->bytes)) return;
  plan_.model["tie_embedding"] = false;
  plan_.add_head();
  notes_.emplace_back(std::string("config.json ties the head to the embedding, but ") + head_tensor +
                      " holds other numbers, which count");
}

void Checkpoint::note_unused() {
  std::set<std::string> used;
  for (const WeightMatch& match : plan_.weights) used.insert(match.names.begin(), match.names.end());
  used.insert(head_tensor);
  for (const TensorNote& note : plan_.left_out) {
    const TensorView* tensor = folder_.find(note.tensor);
    if (tensor != nullptr && !tensor->bytes.empty()) notes_.push_back(note.text);
    used.insert(note.tensor);
  }
  const auto holds_weights = [&](const std::string& name) {
    return std::ranges::none_of(plan_.without_weights,
                                [&](const std::string& start) { return name.starts_with(start); });
  };
  std::vector<std::string> unused;
  for (const std::string& name : folder_.names()) {
    if (!used.contains(name) && holds_weights(name)) unused.push_back(name);
  }
  if (unused.empty()) return;
  notes_.push_back(std::to_string(unused.size()) + " tensors are not part of this model and are not read: " +
                   in_quotes(unused.front()) + (unused.size() > 1 ? " and others" : ""));
}

void Checkpoint::check(const ParameterStore& declared) const {
  require_all_matched(plan_, declared);
  const std::string where = folder_.folder().string() + ": ";
  for (const WeightMatch& match : plan_.weights) {
    const TensorView* tensor = find(match);
    const Parameter& parameter = parameter_of(declared, match.parameter);
    if (tensor == nullptr) {
      if (match.left_out_by != nullptr) continue;
      if (is_one_layer())
        throw Error(ExitCode::bad_input, where + "these are the weights of one layer without a model around it; " +
                                             "compare it with `afterglow layer`, or name its tensors layers.0. and so "
                                             "on and add an embedding, a norm and a head");
      throw Error(ExitCode::bad_input, where + "the tensor " + in_quotes(match.names.front()) + " is missing" +
                                           did_you_mean(match.names.front(), folder_.names()) +
                                           "; save the whole model (ForCausalLM) again");
    }
    if (!is_floating(tensor->type) || !tensor->other_type.empty())
      throw Error(ExitCode::bad_input, where + in_quotes(tensor->name) + " holds " + type_of(*tensor) +
                                           " where weights should be; save the model in float32 or bfloat16");
    if (!is_laid_out(tensor->shape, parameter.shape.extents()))
      throw Error(ExitCode::bad_input, where + in_quotes(tensor->name) + " is " + Shape(tensor->shape).text() +
                                           ", and config.json asks for " + parameter.shape.text() +
                                           "; the two do not belong together, get the folder again");
  }
}

bool Checkpoint::is_one_layer() const {
  if (library_->mark == nullptr || folder_.find(library_->mark) == nullptr) return false;
  return std::ranges::none_of(plan_.weights, [&](const WeightMatch& match) {
    return std::ranges::find(match.names, library_->mark) != match.names.end();
  });
}

void Checkpoint::load(ParameterStore& store) const {
  std::vector<float> room;
  for (const WeightMatch& match : plan_.weights) {
    const Parameter& parameter = parameter_of(store, match.parameter);
    std::span<const float> values = numbers_of(find(match), static_cast<std::size_t>(parameter.shape.elements()), room);
    if (match.rotary_heads > 0) {
      if (values.data() != room.data()) room.assign(values.begin(), values.end());
      reorder_rotary(room, static_cast<std::size_t>(parameter.shape[0]), match.rotary_heads, false);
      values = room;
    }
    if (const std::ptrdiff_t at = first_non_finite(values); at >= 0)
      throw Error(ExitCode::bad_input, folder_.folder().string() + ": " + in_quotes(match.names.front()) +
                                           " holds NaN or infinity at index " + std::to_string(at) +
                                           "; take an earlier checkpoint");
    if (store.dtype() == DType::f32) {
      store.backend().upload(parameter.value, values.data());
    } else {
      store.upload(parameter, std::vector<double>(values.begin(), values.end()));
    }
    LoadingWatch::tell(parameter);
  }
}

Checkpoint open_origin(const json& origin) {
  Checkpoint checkpoint(get_string(origin, "path", std::nullopt, "checkpoint"));
  const std::string wanted = get_string(origin, "hash", "", "checkpoint"), found = checkpoint.origin()["hash"];
  if (wanted.empty() || wanted == found) return checkpoint;
  throw Error(ExitCode::bad_input, checkpoint.origin()["path"].get<std::string>() +
                                       ": these are not the weights that the recipe was made with: their hash is " +
                                       found + ", not " + wanted + "; put those there again");
}

WrittenModel write_model(const CheckpointLibrary& library, const json& model, const json& task, const json& origin,
                         const ParameterStore& store, std::span<const float> values) {
  WrittenModel written;
  const json described = library.config_of(model, task, written.notes);
  const bool is_at_home = origin.is_object() && origin.value("library", "") == library.name;
  if (is_at_home) written.config = origin["config"];
  for (const auto& [key, value] : described.items()) {
    if (!value.is_null()) written.config[key] = value;
  }
  const ModelPlan plan = library.plan(ConfigFields(written.config, "config.json of the export"));
  require_all_matched(plan, store);
  written.weights.metadata = {{"format", "pt"}};
  for (const WeightMatch& match : plan.weights) {
    const Parameter& parameter = parameter_of(store, match.parameter);
    const std::span<const float> stored = values.subspan(static_cast<std::size_t>(parameter.offset),
                                                         static_cast<std::size_t>(parameter.shape.elements()));
    std::vector<float> numbers(stored.begin(), stored.end());
    if (match.left_out_by != nullptr) {
      if (std::ranges::all_of(numbers, [](float one) { return one == 1.0f; })) continue;
      written.config[match.left_out_by] = true;  // training changed its weights
    }
    if (match.rotary_heads > 0)
      reorder_rotary(numbers, static_cast<std::size_t>(parameter.shape[0]), match.rotary_heads, true);
    written.weights.tensors.push_back(
        make_tensor(match.names.front(), parameter.shape.extents(), std::span<const float>(numbers)));
  }
  return written;
}

}  // namespace afterglow
