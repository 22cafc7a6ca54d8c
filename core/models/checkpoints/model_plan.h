// How another library's model is said in Afterglow's words: the stack of layers, and which of its tensors is which
// parameter. Reading and writing walk the same plan.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/models/checkpoints/config_json.h"

namespace afterglow {

/// Where a parameter's numbers stand in the library's files.
struct WeightMatch {
  std::string parameter;           ///< "layers.0.mamba2.D"
  std::vector<std::string> names;  ///< the library's; the first is the one that is written
  /// Not 0: rows of so many heads, in which the library turns halves of a head where Afterglow turns neighbours.
  std::int64_t rotary_heads = 0;
  const char* left_out_by = nullptr;  ///< the flag of config.json that keeps a norm without weights: they are ones
};

/// A tensor that is not a weight and that something must be said about where a file has it.
struct TensorNote {
  std::string tensor, text;
};

struct ModelPlan {
  nlohmann::json model;  ///< as in a recipe
  nlohmann::json task;   ///< that the model is for; null: the next token
  std::vector<WeightMatch> weights;
  std::vector<std::string> without_weights;  ///< how names of tables and copies begin, which files may have
  std::vector<TensorNote> left_out;
  std::vector<std::string> notes;  ///< what a person should know of how config.json was read

  /// A model that is no stack of layers behind an embedding.
  ModelPlan(nlohmann::json whole, nlohmann::json own_task) : model(std::move(whole)), task(std::move(own_task)) {}
  /// The outer parts, which all libraries have alike: width, vocabulary, a head of its own or tied. `prefix` stands in
  /// front of the library's names but for the head's; files of a model without its head leave it out.
  ModelPlan(const ConfigFields& config, double norm_eps, std::string prefix, const char* last_norm);
  /// One more block, for which `weights` has been added.
  void add_block(const nlohmann::json& block);
  /// The parameter `ours` of block number `block` is the library's tensor `theirs`.
  WeightMatch& match(std::size_t block, const std::string& ours, const std::string& theirs);
  /// Another name of the last one's tensor, which is read too.
  void also_called(std::size_t block, const std::string& theirs);
  void add_head();
  /// Notes which fields were not read, but for those of `harmless`.
  void note_unread(const ConfigFields& config, const std::string& harmless);
  void holds_no_weights(const std::string& beginning) { without_weights.push_back(beginning); }
  void not_taken_over(const std::string& tensor, const std::string& note) { left_out.push_back({tensor, note}); }

 private:
  std::vector<std::string> spelled(const std::string& name) const;
  std::string prefix_;
};

struct CheckpointLibrary {
  std::string name;  ///< "transformers", as --format says it
  std::string about;
  /// Whether a config.json is one of this library's models.
  bool (*knows)(const nlohmann::json& config);
  /// Throws Error(bad_input) naming the field that asks for something that Afterglow does not have.
  ModelPlan (*plan)(const ConfigFields& config);
  /// The config.json of a recipe's model and task, from which `plan` makes the same model again; what differs by
  /// roundings is said in `notes`. Throws Error(bad_input) that names what the library's models do not have.
  nlohmann::json (*config_of)(const nlohmann::json& model, const nlohmann::json& task, std::vector<std::string>& notes);
  /// Further fields of its config.json that change no answer, such as those of start values and of training: words.
  std::string harmless;
  /// The end of a tensor's name by which weights without a config.json are known, and what that must say then.
  const char* mark = nullptr;
  const char* needed_config = nullptr;
};

inline constexpr const char* head_tensor = "lm_head.weight";  ///< of every library

/// The blocks of a recipe's model one by one, without "repeat".
std::vector<nlohmann::json> blocks_of(const nlohmann::json& model);
/// What config.json of every library says of a model, in the library's names.
nlohmann::json outer_config(const nlohmann::json& model, std::int64_t blocks);

const std::vector<CheckpointLibrary>& checkpoint_libraries();
/// Whose weights have these names and what a config.json must say then, for files without one: the end of a sentence,
/// empty where no library is known by its names.
std::string config_to_write(const std::vector<std::string>& tensors);
/// The library's plan, with a note of the fields that it does not know.
ModelPlan plan_of(const CheckpointLibrary& library, const ConfigFields& config);
/// The library of a config.json. Throws Error(bad_input) that says which models there are.
const CheckpointLibrary& library_of(const nlohmann::json& config, const std::string& where);

}  // namespace afterglow
