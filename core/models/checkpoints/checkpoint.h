// A model that another library saved, opened: its stack of layers in a recipe's words and its weights.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/parameter.h"
#include "core/io/arrays/mapped_tensors.h"
#include "core/io/safetensors.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

/// While it lives, a checkpoint that loads on the thread that made it calls it with every parameter after reading its
/// weights. A thread may have one at a time.
class LoadingWatch : Immovable {
 public:
  using Told = std::function<void(const Parameter& parameter)>;
  explicit LoadingWatch(Told told);
  ~LoadingWatch();

  /// Calls the listener of this thread, if it has one.
  static void tell(const Parameter& parameter);

 private:
  Told told_;
};

/// The folder of the config.json for a folder or file of weights: their own, else the one above. Empty without any.
std::filesystem::path folder_of_config(const std::filesystem::path& weights);

/// A folder with config.json and weights in safetensors, or one such file, which it maps.
class CheckpointFolder {
 public:
  /// Opens and maps it. Throws Error(bad_input) that names the file and what to do: no config.json, weights as pickles,
  /// shards that are missing, outside of the folder or hold a tensor twice.
  explicit CheckpointFolder(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& home() const { return home_; }  ///< of config.json and tokenizer.json
  const nlohmann::json& config() const { return config_; }
  /// nullptr where no tensor has this name. Names are those of the model, without the words of wrappers around it.
  const TensorView* find(const std::string& name) const;
  std::vector<std::string> names() const;
  /// The words of wrappers in the names of its tensors: "_orig_mod", "module".
  const std::set<std::string>& wrappers() const { return wrappers_; }
  /// 16 hex digits over all bytes of its weights.
  std::string hash() const;

 private:
  void map(const std::filesystem::path& file);
  void map_shards(const std::filesystem::path& index);
  void add(const TensorView& tensor);
  std::filesystem::path folder_, home_;
  nlohmann::json config_;
  std::vector<MappedTensors> shards_;
  std::map<std::string, const TensorView*> tensors_;
  std::set<std::string> wrappers_;
};

/// Whether a JSON file is a part of such a folder, as config.json is. Throws Error(bad_input) for a damaged
/// config.json.
bool is_checkpoint_file(const std::filesystem::path& path);

class Checkpoint {
 public:
  /// Throws Error(bad_input) that names file and field for a folder that is damaged or holds another kind of model.
  explicit Checkpoint(const std::filesystem::path& folder);

  /// The stack of layers, as in a recipe.
  const nlohmann::json& model() const { return plan_.model; }
  /// The task of the model, as in a recipe; null: the next token of a sequence.
  const nlohmann::json& task() const { return plan_.task; }
  /// The part of it that a recipe stores: {"path", "hash", "library", "config"}.
  nlohmann::json origin() const;
  const std::string& library() const { return library_->name; }
  std::string folder_name() const;
  /// The model's tokenizer.json; empty where the folder has none.
  std::filesystem::path tokenizer() const;
  /// Notes for the user: how a field was read, fields and tensors that the model does not use, names and layouts of
  /// other programs, a head that only config.json ties.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Compares its tensors with the parameters that the model declares. Throws Error(bad_input) naming a tensor that is
  /// missing, has another shape or a type that holds no weights.
  void check(const ParameterStore& declared) const;
  /// For a model that is only run: where the device reads them so, weights of projections are stored as bfloat16 if the
  /// folder has them in it or the device computes in it.
  void keep_narrow() { is_only_run_ = true; }
  /// Before memory for the parameters is reserved.
  void choose_storage(ParameterStore& declared, const Backend& backend) const;
  /// Copies the weights, rounded to the parameters' types, into the parameters. Throws Error(bad_input) for NaN and
  /// infinity.
  void load(ParameterStore& store) const;

 private:
  const TensorView* find(const WeightMatch& match) const;
  /// That tensor and those joined to it; empty without the first.
  std::vector<const TensorView*> tensors_of(const WeightMatch& match) const;
  void note_names();
  void untie_head();
  void note_unused();
  /// Whether the file holds the weights of one layer instead of a model.
  bool is_one_layer() const;
  CheckpointFolder folder_;
  const CheckpointLibrary* library_;
  ModelPlan plan_;
  std::vector<std::string> notes_;
  bool is_only_run_ = false;
};

/// The folder of a recipe's `origin`. Throws Error(bad_input) where it holds other weights than the recipe was made
/// with.
Checkpoint open_origin(const nlohmann::json& origin);

/// A model in the form that a library reads.
struct WrittenModel {
  nlohmann::json config;
  TensorFile weights;
  std::vector<std::string> notes;
};
/// `model` and `task` are a recipe's; `origin` is what the recipe keeps of a folder, or null: then fields that do not
/// concern the model stay as they were there. `values` is the flat buffer of the parameters. Throws Error(bad_input)
/// that names what the library's models do not have.
WrittenModel write_model(const CheckpointLibrary& library, const nlohmann::json& model, const nlohmann::json& task,
                         const nlohmann::json& origin, const ParameterStore& store, std::span<const float> values);

}  // namespace afterglow
