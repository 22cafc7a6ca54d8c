// Reads weights into parameters, and writes parameters as a library's tensors, both with the same plan.
#include "core/models/checkpoints/checkpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <ranges>

#include "core/backend/parallel.h"
#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"

namespace afterglow {
namespace {

thread_local const LoadingWatch::Told* watching = nullptr;

namespace fs = std::filesystem;

constexpr const char *single_file = "model.safetensors", *index_file = "model.safetensors.index.json",
                     *config_file = "config.json", *adapter_file = "adapter_config.json";

/// Words that torch.compile, DDP and FSDP insert into the names of a model's weights.
constexpr std::array<std::string_view, 4> wrapper_words{"_orig_mod", "module", "_fsdp_wrapped_module",
                                                        "_checkpoint_wrapped_module"};

template <class... What>
[[noreturn]] void refuse(const fs::path& path, const What&... what) {
  throw BadInput(path.string(), ": ", what...);
}

/// The first file of the folder whose name is that of a pickle; empty without one.
std::string pickle_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool is_pickle = name.starts_with("pytorch_model") && (ending == ".bin" || ending == ".json");
    if (is_pickle || ending == ".pt" || ending == ".pth" || ending == ".ckpt") found.push_back(name);
  }
  std::ranges::sort(found);
  return found.empty() ? "" : found.front();
}

[[noreturn]] void refuse_without_weights(const fs::path& folder, const json& config) {
  const std::string pickle = pickle_in(folder);
  if (pickle.empty())
    refuse(folder, "there is neither ", single_file, " nor ", index_file,
           "; give the folder that save_pretrained wrote");
  const std::string head = pickle + " is a pickle, which can run any program when it is read, so it is not opened; ";
  if (config.contains("ssm_cfg"))
    refuse(folder, head,
           "convert this folder of mamba_ssm with transformers' "
           "convert_mamba2_ssm_checkpoint_to_pytorch.py, then save it with safe_serialization=True");
  refuse(folder, head,
         "load the model with its library and save it again with save_pretrained(folder, safe_serialization=True)");
}

/// Throws unless a shard's name is that of a file in the folder itself.
void check_shard_name(const fs::path& index, const std::string& name) {
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                        name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
  if (!is_plain)
    refuse(index, "it names the file ", in_quotes(name),
           ", which is not in this folder; only files next to the index are read; get the folder again");
  if (!name.ends_with(".safetensors"))
    refuse(index, "it names the file ", in_quotes(name), ", which is no .safetensors file; save the model again");
}

/// The subfolders, up to two levels down, with a model or an adapter; the last is that of the highest step.
std::vector<fs::path> models_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    if (entry.depth() > 0) entry.disable_recursion_pending();
    const bool is_model =
        fs::exists(entry->path() / config_file, failed) || fs::exists(entry->path() / adapter_file, failed);
    failed.clear();
    if (is_model) found.push_back(entry->path());
  }
  std::ranges::sort(found, {}, [](const fs::path& path) { return std::pair(path.string().size(), path.string()); });
  return found;
}

[[noreturn]] void refuse_without_config(const fs::path& folder, const std::string& known_by_names) {
  const std::string pickle = pickle_in(folder);
  const std::vector<fs::path> below = models_below(folder);
  const std::string many = below.size() > 1 ? ", the last of " + std::to_string(below.size()) + " there" : "";
  refuse(folder, "there is no ", config_file, " in this folder",
         pickle.empty() ? "" : " (and " + pickle + " is a pickle, which is not opened)",
         below.empty() ? "; give one that save_pretrained of transformers or flash-linear-attention wrote"
                       : "; give the folder of the model below it: " + below.back().string() + many,
         known_by_names);
}

constexpr const char* tokenizer_file = "tokenizer.json";

bool is_floating(StoredType type) {
  return type == StoredType::f32 || type == StoredType::f16 || type == StoredType::bf16 || type == StoredType::f64;
}

std::string type_of(const TensorView& tensor) {
  return tensor.other_type.empty() ? name_of(tensor.type) : in_quotes(tensor.other_type);
}

/// Copies rows of a parameter from their places in the library's tensor, or back.
void move_rows(std::span<float> parameter, std::span<float> tensor, const WeightMatch& match, bool to_library) {
  const std::size_t width = parameter.size() / match.rows.size();
  for (std::size_t i = 0; i < match.rows.size(); ++i) {
    float *own = parameter.data() + i * width, *other = tensor.data() + static_cast<std::size_t>(match.rows[i]) * width;
    std::copy_n(to_library ? own : other, width, to_library ? other : own);
  }
}

/// The shape of the library's tensor.
std::vector<std::int64_t> tensor_shape(const Parameter& parameter, const WeightMatch& match) {
  if (!match.shape.empty()) return match.shape;
  std::vector<std::int64_t> shape = parameter.shape.extents();
  if (match.tensor_rows > 0) shape.front() = match.tensor_rows;
  if (match.stacked > 0) {
    shape.front() /= match.stacked;
    shape.insert(shape.begin(), match.stacked);
  }
  return shape;
}

/// The first float32 or bfloat16 that is NaN or infinite; -1 without one. Tests whole blocks first, because models are
/// large.
template <class T>
std::ptrdiff_t first_non_finite(std::span<const T> values) {
  using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint16_t>;
  constexpr Bits exponent = std::is_same_v<T, float> ? 0x7F800000u : 0x7F80u;
  constexpr std::size_t block = 4096;
  const auto exponent_of = [](T value) { return static_cast<Bits>(std::bit_cast<Bits>(value) & exponent); };
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::span<const T> own = values.subspan(first, std::min(block, values.size() - first));
    Bits largest = 0;
    for (const T value : own) largest = std::max(largest, exponent_of(value));
    if (largest < exponent) continue;
    const auto found = std::ranges::find_if(own, [&](T value) { return exponent_of(value) == exponent; });
    return static_cast<std::ptrdiff_t>(first) + (found - own.begin());
  }
  return -1;
}

std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(Shape(shape).elements());
}

/// The numbers of tensors, mapped from the file or widened into `room`; ones without a tensor.
std::span<const float> numbers_of(const std::vector<const TensorView*>& tensors, std::size_t count,
                                  std::vector<float>& room) {
  const TensorView* first = tensors.empty() ? nullptr : tensors.front();
  const bool lies_ready = tensors.size() == 1 && first->type == StoredType::f32 &&
                          reinterpret_cast<std::uintptr_t>(first->bytes.data()) % alignof(float) == 0;
  if (lies_ready) return {reinterpret_cast<const float*>(first->bytes.data()), count};
  room.assign(count, 1.0f);
  std::size_t done = 0;
  for (const TensorView* tensor : tensors) {
    const std::size_t own = elements_of(tensor->shape);
    convert(tensor->type, tensor->bytes, std::span(room).subspan(done, own));
    done += own;
  }
  return room;
}

/// Moves weights from a mapped file to parameters piece by piece: threads widen a piece where the host's back end has
/// it, or while the one before it travels to the device.
class WeightStream : Immovable {
 public:
  WeightStream(Backend& backend, std::int64_t weights)
      : backend_(&backend),
        is_host_(backend.name() == "cpu"),
        pool_(weights < worth_threads ? 1 : std::min(processors(), most_threads)) {
    for (Piece& piece : pieces_) {
      piece.numbers = backend.allocate_host(piece_size * sizeof(float));
      piece.sent = backend.make_event();
    }
  }
  ~WeightStream() {  // pinned memory is not used again before its transfers have ended
    for (const Piece& piece : pieces_) backend_->release_host(piece.numbers);
  }

  /// Sends a tensor to the numbers of `parameter` from `at` on. Returns the index in the parameter of the first number
  /// that is NaN or infinite; -1 without one.
  template <class T>
  std::ptrdiff_t send(const TensorView& tensor, const Tensor& parameter, std::int64_t at) {
    const std::size_t width = size_of(tensor.type);
    const auto count = static_cast<std::int64_t>(tensor.bytes.size() / width);
    for (std::int64_t first = 0; first < count; first += piece_size) {
      const std::int64_t own = std::min<std::int64_t>(piece_size, count - first);
      const std::span<const std::byte> bytes = tensor.bytes.subspan(static_cast<std::size_t>(first) * width);
      Piece& piece = pieces_[turn_ ^= 1];
      piece.sent->wait();
      T* const place = parameter.as<T>() + at + first;
      const std::span<T> all(is_host_ ? place : static_cast<T*>(piece.numbers), static_cast<std::size_t>(own));
      std::atomic<bool> is_finite = true;
      pool_.for_ranges(own, piece_size / 16, [&](std::int64_t begin, std::int64_t end) {
        const std::span<T> numbers =
            all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
        const auto from = bytes.subspan(static_cast<std::size_t>(begin) * width, numbers.size() * width);
        convert(tensor.type, from, numbers);
        if (first_non_finite<T>(numbers) >= 0) is_finite = false;
      });
      if (!is_finite) return at + first + first_non_finite<T>(all);
      if (is_host_) continue;
      backend_->queue_upload({place, {own}, parameter.dtype}, piece.numbers);
      piece.sent->set();
    }
    give_back_pages(tensor.bytes);
    return -1;
  }

 private:
  static constexpr std::int64_t piece_size = 1 << 20, worth_threads = 1 << 20;
  static constexpr int most_threads = 8;
  struct Piece {
    void* numbers = nullptr;
    std::unique_ptr<DeviceEvent> sent;
  };
  Backend* backend_;
  bool is_host_;
  ThreadPool pool_;
  Piece pieces_[2];
  int turn_ = 0;
};

const Parameter& parameter_of(const ParameterStore& store, const std::string& name) {
  if (const Parameter* found = find_by(store.all(), name, &Parameter::name)) return *found;
  throw Error(ExitCode::failure, "the model has no parameter ", name);
}

/// Whether a tensor's numbers have the same order in the file as in the parameter: axes of one number do not count.
bool is_laid_out(std::vector<std::int64_t> found, std::vector<std::int64_t> wanted) {
  std::erase(found, 1);
  std::erase(wanted, 1);
  return found == wanted;
}

/// Throws unless the plan names every parameter of the model once.
void require_all_matched(const ModelPlan& plan, const ParameterStore& store) {
  std::set<std::string> matched;
  for (const WeightMatch& match : plan.weights) matched.insert(match.parameter);
  for (const Parameter& parameter : store.all()) {
    if (!matched.contains(parameter.name))
      throw BadInput("the parameter ", parameter.name,
                     " has no place in a model of this library; export with --format npz");
  }
}

/// Splits a tensor that a match reads from several as torch.chunk does: equal ones, and the rest in the last.
void split(std::vector<HostTensor>& tensors, const WeightMatch& match) {
  if (match.joined.empty() || std::ranges::find(tensors, match.joined.front(), &HostTensor::name) != tensors.end())
    return;
  const auto found = std::ranges::find(tensors, match.names.front(), &HostTensor::name);
  const HostTensor whole = std::move(*found);
  const std::int64_t rows = whole.shape.front(), count = static_cast<std::int64_t>(match.joined.size()) + 1,
                     each = (rows + count - 1) / count;
  const std::int64_t width = static_cast<std::int64_t>(whole.bytes.size()) / rows;
  tensors.erase(found);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = std::min(rows, i * each), last = std::min(rows, first + each);
    HostTensor part{i == 0 ? match.names.front() : match.joined[static_cast<std::size_t>(i - 1)],
                    whole.type,
                    whole.shape,
                    {whole.bytes.begin() + first * width, whole.bytes.begin() + last * width}};
    part.shape.front() = last - first;
    tensors.push_back(std::move(part));
  }
}

/// Whether config.json, which a folder had, describes this model.
bool builds(const CheckpointLibrary& library, const json& config, const json& model) {
  try {
    return library.plan(ConfigFields(config, "config.json")).model == model;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

LoadingWatch::LoadingWatch(Told told) : told_(std::move(told)) { watching = &told_; }

LoadingWatch::~LoadingWatch() { watching = nullptr; }

void LoadingWatch::tell(const Parameter& parameter) {
  if (watching != nullptr) (*watching)(parameter);
}

bool is_checkpoint_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name != config_file)
    return name.ends_with(".safetensors.index.json") || name.ends_with(".bin.index.json") || name == adapter_file ||
           name == "tokenizer.json" || name == "tokenizer_config.json" || name == "generation_config.json";
  const json config = read_config_json(path);
  return config.contains("model_type") || config.contains("architectures") || config.contains("ssm_cfg");
}

fs::path folder_of_config(const fs::path& weights) {
  std::error_code failed;
  fs::path folder = fs::absolute(weights).lexically_normal();
  if (!folder.has_filename() || !fs::is_directory(folder, failed)) folder = folder.parent_path();
  for (const fs::path& one : {folder, folder.parent_path()}) {
    if (fs::exists(one / config_file, failed)) return one;
  }
  return {};
}

CheckpointFolder::CheckpointFolder(fs::path folder) : folder_(std::move(folder)), home_(folder_of_config(folder_)) {
  std::error_code failed;
  if (fs::is_regular_file(folder_, failed) && !home_.empty()) {
    config_ = read_config_json(home_ / config_file);
    map(folder_);
    return;
  }
  if (!fs::is_directory(folder_, failed)) refuse(folder_, "there is no such folder; check the name");
  const bool has_one = fs::exists(folder_ / single_file, failed), has_shards = fs::exists(folder_ / index_file, failed);
  if (!has_one && !has_shards && fs::exists(folder_ / adapter_file, failed))
    refuse(folder_,
           "this is an adapter (LoRA), which changes another model's weights; merge the two with merge_and_unload() of "
           "peft, save the result with save_pretrained and give its folder");
  if (home_.empty() || (!has_one && !has_shards && !fs::exists(folder_ / config_file, failed))) {
    if (has_one && pickle_in(folder_).empty()) map(folder_ / single_file);
    refuse_without_config(folder_, config_to_write(names()));
  }
  config_ = read_config_json(home_ / config_file);
  // As in the libraries: a single file takes precedence over an index.
  if (has_one) {
    map(folder_ / single_file);
  } else if (has_shards) {
    map_shards(folder_ / index_file);
  } else {
    refuse_without_weights(folder_, config_);
  }
}

void CheckpointFolder::map(const fs::path& file) {
  shards_.emplace_back(file);
  for (const TensorView& tensor : shards_.back().tensors()) add(tensor);
}

void CheckpointFolder::add(const TensorView& tensor) {
  std::string name;
  for (const auto part : std::views::split(tensor.name, '.')) {
    const std::string word(part.begin(), part.end());
    if (std::ranges::find(wrapper_words, word) != wrapper_words.end()) {
      wrappers_.insert(word);
    } else {
      name += (name.empty() ? "" : ".") + word;
    }
  }
  if (!tensors_.emplace(name, &tensor).second)
    refuse(folder_, "tensor ", in_quotes(name), " is there twice; save the model again");
}

void CheckpointFolder::map_shards(const fs::path& index) {
  const json content = read_json(index);
  const json places = content.is_object() ? content.value("weight_map", json()) : content;
  if (!places.is_object() || places.empty())
    refuse(index, "it has no \"weight_map\" from tensors to files; get or save the folder again");
  std::set<std::string> files;
  for (const auto& [tensor, file] : places.items()) {
    if (!file.is_string()) refuse(index, "the file of ", in_quotes(tensor), " is no name; save the model again");
    check_shard_name(index, file.get<std::string>());
    files.insert(file.get<std::string>());
  }
  shards_.reserve(files.size());
  std::map<std::string, std::string> found;
  for (const std::string& file : files) {
    std::error_code failed;
    if (!fs::exists(folder_ / file, failed))
      refuse(folder_, "the file ", in_quotes(file), " is missing, of which ", index.filename().string(),
             " says that tensors are in it; get the whole folder");
    map(folder_ / file);
    for (const TensorView& tensor : shards_.back().tensors()) found[tensor.name] = file;
  }
  for (const auto& [tensor, file] : places.items()) {
    if (found[tensor] != file.get<std::string>())
      refuse(folder_, in_quotes(file.get<std::string>()), " does not hold ", in_quotes(tensor),
             ", which the index says is there; get the whole folder again");
  }
}

const TensorView* CheckpointFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::vector<std::string> CheckpointFolder::names() const {
  return names_of(tensors_, [](const auto& one) { return one.first; });
}

std::string CheckpointFolder::hash() const {
  constexpr std::size_t piece = std::size_t{64} << 20;
  Checksum sum;
  for (const MappedTensors& shard : shards_) {
    for (std::size_t first = 0; first < shard.bytes().size(); first += piece) {
      const auto bytes = shard.bytes().subspan(first, std::min(piece, shard.bytes().size() - first));
      sum.update(bytes);
      give_back_pages(bytes);
    }
  }
  return hex16(sum.digest());
}

Checkpoint::Checkpoint(const std::filesystem::path& folder)
    : folder_(folder),
      library_(&library_of(folder_.config(), (folder_.home() / config_file).string())),
      plan_(plan_of(*library_, ConfigFields(folder_.config(), (folder_.home() / config_file).string()))),
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
  const std::filesystem::path file = std::filesystem::absolute(folder_.home()) / tokenizer_file;
  return std::filesystem::exists(file) ? file : std::filesystem::path();
}

json Checkpoint::origin() const {
  if (!is_utf8(std::filesystem::absolute(folder_.folder()).string()))
    throw BadInput(folder_.folder().string(), ": a recipe holds names in UTF-8 only; rename the folder");
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

std::vector<const TensorView*> Checkpoint::tensors_of(const WeightMatch& match) const {
  std::vector<const TensorView*> all{find(match)};
  if (all.front() == nullptr) return {};
  for (const std::string& name : match.joined) {
    if (const TensorView* tensor = folder_.find(name)) all.push_back(tensor);
  }
  return all;
}

void Checkpoint::note_names() {
  for (const std::string& wrapper : folder_.wrappers())
    notes_.push_back("the tensors' names hold " + in_quotes(wrapper + ".") +
                     ", which a wrapper of PyTorch (torch.compile, DDP, FSDP) has put there; it is taken off");
  for (const WeightMatch& match : plan_.weights) {
    const TensorView* tensor = find(match);
    // MLX stores a convolution as [columns, taps, 1], with the same bytes as PyTorch's [columns, 1, taps].
    const bool is_mlx = tensor && tensor->shape.size() == 3 && tensor->shape[1] > 1 && tensor->shape[2] == 1;
    if (!is_mlx) continue;
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
  for (const WeightMatch& match : plan_.weights) {
    used.insert(match.names.begin(), match.names.end());
    used.insert(match.joined.begin(), match.joined.end());
  }
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
        throw BadInput(
            where, "these are the weights of one layer without a model around it; ",
            "compare it with `afterglow layer`, or name its tensors layers.0. and so on and add an embedding, "
            "a norm and a head");
      throw BadInput(where, "the tensor ", in_quotes(match.names.front()), " is missing",
                     did_you_mean(match.names.front(), folder_.names()), "; save the whole model (ForCausalLM) again");
    }
    std::vector<std::int64_t> found = tensor->shape;
    for (const TensorView* one : tensors_of(match)) {
      if (!is_floating(one->type) || !one->other_type.empty())
        throw BadInput(where, in_quotes(one->name), " holds ", type_of(*one),
                       " where weights should be; save the model in float32 or bfloat16");
      if (one != tensor && one->shape.size() == found.size() && !found.empty()) found.front() += one->shape.front();
    }
    const std::vector<std::int64_t> wanted = tensor_shape(parameter, match);
    if (!is_laid_out(found, wanted))
      throw BadInput(where, in_quotes(tensor->name), " is ", Shape(found).text(),
                     match.joined.empty() ? "" : " with those that follow it", ", and config.json asks for ",
                     Shape(wanted).text(), "; the two do not belong together, get the folder again");
  }
}

bool Checkpoint::is_one_layer() const {
  if (library_->mark == nullptr || folder_.find(library_->mark) == nullptr) return false;
  return std::ranges::none_of(plan_.weights, [&](const WeightMatch& match) {
    return std::ranges::find(match.names, library_->mark) != match.names.end();
  });
}

void Checkpoint::choose_storage(ParameterStore& declared, const Backend& backend) const {
  if (!is_only_run_ || !backend.reads_narrow_weights()) return;
  std::set<std::string> narrow;
  for (const WeightMatch& match : plan_.weights) {
    const std::vector<const TensorView*> tensors = tensors_of(match);
    const bool is_stored_so =
        std::ranges::all_of(tensors, [](const TensorView* one) { return one->type == StoredType::bf16; });
    if (!tensors.empty() && (is_stored_so || backend.precision() == Precision::bf16)) narrow.insert(match.parameter);
  }
  declared.store_narrow([&](const Parameter& parameter) { return narrow.contains(parameter.name); });
}

void Checkpoint::load(ParameterStore& store) const {
  WeightStream stream(store.backend(), store.count());
  std::vector<float> room, own;
  for (const WeightMatch& match : plan_.weights) {
    const Parameter& parameter = parameter_of(store, match.parameter);
    const std::vector<const TensorView*> tensors = tensors_of(match);
    const auto refuse_number = [&](std::ptrdiff_t at) {
      throw BadInput(folder_.folder().string(), ": ", in_quotes(match.names.front()),
                     " holds NaN or infinity at index ", at, "; take an earlier checkpoint");
    };
    if (!tensors.empty() && match.rows.empty() && store.dtype() == DType::f32) {
      std::int64_t done = 0;
      for (const TensorView* tensor : tensors) {
        const std::ptrdiff_t at = parameter.is_narrow ? stream.send<std::uint16_t>(*tensor, parameter.value, done)
                                                      : stream.send<float>(*tensor, parameter.value, done);
        if (at >= 0) refuse_number(at);
        done += static_cast<std::int64_t>(elements_of(tensor->shape));
      }
      LoadingWatch::tell(parameter);
      continue;
    }
    std::span<const float> values = numbers_of(tensors, elements_of(tensor_shape(parameter, match)), room);
    if (!match.rows.empty()) {
      if (values.data() != room.data()) room.assign(values.begin(), values.end());
      own.resize(static_cast<std::size_t>(parameter.shape.elements()));
      move_rows(own, room, match, false);
      values = own;
    }
    if (const std::ptrdiff_t at = first_non_finite(values); at >= 0) refuse_number(at);
    if (parameter.value.dtype == DType::f32) {
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
  throw BadInput(checkpoint.origin()["path"].get<std::string>(),
                 ": these are not the weights that the recipe was made with: their hash is ", found, ", not ", wanted,
                 "; put those there again");
}

WrittenModel write_model(const CheckpointLibrary& library, const json& model, const json& task, const json& origin,
                         const ParameterStore& store, std::span<const float> values) {
  WrittenModel written;
  const bool is_at_home = origin.is_object() && origin.value("library", "") == library.name;
  if (is_at_home) written.config = origin["config"];
  if (is_at_home && !model.value("tie_embedding", false) && !builds(library, written.config, model))
    written.config["tie_word_embeddings"] = false;  // the head has numbers of its own, whatever was read
  if (!is_at_home || !builds(library, written.config, model)) {
    if (model.contains("blocks")) {
      require_known(model, {"d_model", "vocab", "tie_embedding", "norm_eps", "blocks"});
      for (const json& block : blocks_of(model)) require_known(block, {"mixer", "mlp"});
    }
    const json described = library.config_of(model, task, written.notes);
    for (const auto& [key, value] : described.items()) {
      if (!value.is_null()) written.config[key] = value;
    }
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
    const std::vector<std::int64_t> shape = tensor_shape(parameter, match);
    if (match.rows.empty()) {
      written.weights.tensors.push_back(make_tensor(match.names.front(), shape, std::span<const float>(numbers)));
      continue;
    }
    const std::vector<float> nothing(elements_of(shape));
    auto found = std::ranges::find(written.weights.tensors, match.names.front(), &HostTensor::name);
    if (found == written.weights.tensors.end())
      found = written.weights.tensors.insert(found,
                                             make_tensor(match.names.front(), shape, std::span<const float>(nothing)));
    move_rows(numbers, {reinterpret_cast<float*>(found->bytes.data()), nothing.size()}, match, true);
  }
  for (const WeightMatch& match : plan.weights) split(written.weights.tensors, match);
  return written;
}

}  // namespace afterglow
