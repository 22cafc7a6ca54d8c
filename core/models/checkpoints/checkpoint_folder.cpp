// Opens a model's folder and its weights, in one file or in shards.
#include "core/models/checkpoints/checkpoint_folder.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/wording.h"

namespace afterglow {
namespace fs = std::filesystem;

namespace {

constexpr const char *single_file = "model.safetensors", *index_file = "model.safetensors.index.json",
                     *config_file = "config.json", *adapter_file = "adapter_config.json";

/// Words that torch.compile, DDP and FSDP insert into the names of a model's weights.
constexpr std::array<std::string_view, 4> wrapper_words{"_orig_mod", "module", "_fsdp_wrapped_module",
                                                        "_checkpoint_wrapped_module"};

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::bad_input, path.string() + ": " + what);
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

[[noreturn]] void refuse_without_weights(const fs::path& folder, const nlohmann::json& config) {
  const std::string pickle = pickle_in(folder);
  if (pickle.empty())
    refuse(folder, std::string("there is neither ") + single_file + " nor " + index_file +
                       "; give the folder that save_pretrained wrote");
  const std::string head = pickle + " is a pickle, which can run any program when it is read, so it is not opened; ";
  if (config.contains("ssm_cfg"))
    refuse(folder, head +
                       "convert this folder of mamba_ssm with transformers' "
                       "convert_mamba2_ssm_checkpoint_to_pytorch.py, then save it with safe_serialization=True");
  refuse(folder, head +
                     "load the model with its library and save it again with save_pretrained(folder, "
                     "safe_serialization=True)");
}

/// Throws unless a shard's name is that of a file in the folder itself.
void check_shard_name(const fs::path& index, const std::string& name) {
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
                        name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
  if (!is_plain)
    refuse(index, "it names the file " + in_quotes(name) +
                      ", which is not in this folder; only files next to the index are read; get the folder again");
  if (!name.ends_with(".safetensors"))
    refuse(index, "it names the file " + in_quotes(name) + ", which is no .safetensors file; save the model again");
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
  refuse(folder, std::string("there is no ") + config_file + " in this folder" +
                     (pickle.empty() ? "" : " (and " + pickle + " is a pickle, which is not opened)") +
                     (below.empty() ? "; give one that save_pretrained of transformers or flash-linear-attention wrote"
                                    : "; give the folder of the model below it: " + below.back().string() + many) +
                     known_by_names);
}

}  // namespace

bool is_checkpoint_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name != config_file)
    return name.ends_with(".safetensors.index.json") || name.ends_with(".bin.index.json") || name == adapter_file ||
           name == "tokenizer.json" || name == "tokenizer_config.json" || name == "generation_config.json";
  const nlohmann::json config = read_config_json(path);
  return config.contains("model_type") || config.contains("architectures") || config.contains("ssm_cfg");
}

CheckpointFolder::CheckpointFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code failed;
  if (!fs::is_directory(folder_, failed)) refuse(folder_, "there is no such folder; check the name");
  const bool has_one = fs::exists(folder_ / single_file, failed), has_shards = fs::exists(folder_ / index_file, failed);
  if (!has_one && !has_shards && fs::exists(folder_ / adapter_file, failed))
    refuse(folder_,
           "this is an adapter (LoRA), which changes another model's weights; merge the two with merge_and_unload() of "
           "peft, save the result with save_pretrained and give its folder");
  if (!fs::exists(folder_ / config_file, failed)) {
    if (has_one && pickle_in(folder_).empty()) map(folder_ / single_file);
    refuse_without_config(folder_, config_to_write(names()));
  }
  config_ = read_config_json(folder_ / config_file);
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
    refuse(folder_, "tensor " + in_quotes(name) + " is there twice; save the model again");
}

void CheckpointFolder::map_shards(const fs::path& index) {
  const nlohmann::json content = read_json(index);
  const nlohmann::json places = content.is_object() ? content.value("weight_map", nlohmann::json()) : content;
  if (!places.is_object() || places.empty())
    refuse(index, "it has no \"weight_map\" from tensors to files; get or save the folder again");
  std::set<std::string> files;
  for (const auto& [tensor, file] : places.items()) {
    if (!file.is_string()) refuse(index, "the file of " + in_quotes(tensor) + " is no name; save the model again");
    check_shard_name(index, file.get<std::string>());
    files.insert(file.get<std::string>());
  }
  shards_.reserve(files.size());
  std::map<std::string, std::string> found;
  for (const std::string& file : files) {
    std::error_code failed;
    if (!fs::exists(folder_ / file, failed))
      refuse(folder_, "the file " + in_quotes(file) + " is missing, of which " + index.filename().string() +
                          " says that tensors are in it; get the whole folder");
    map(folder_ / file);
    for (const TensorView& tensor : shards_.back().tensors()) found[tensor.name] = file;
  }
  for (const auto& [tensor, file] : places.items()) {
    if (found[tensor] != file.get<std::string>())
      refuse(folder_, in_quotes(file.get<std::string>()) + " does not hold " + in_quotes(tensor) +
                          ", which the index says is there; get the whole folder again");
  }
}

const TensorView* CheckpointFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::vector<std::string> CheckpointFolder::names() const {
  std::vector<std::string> all;
  for (const auto& [name, tensor] : tensors_) all.push_back(name);
  return all;
}

std::string CheckpointFolder::hash() const {
  Checksum sum;
  for (const MappedTensors& shard : shards_) sum.update(shard.bytes());
  return hex16(sum.digest());
}

}  // namespace afterglow
