// A folder in which another library saved a model: config.json and safetensors files, checked before anything is read.
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/io/arrays/mapped_tensors.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

class CheckpointFolder {
 public:
  /// Opens and maps it. Throws Error(bad_input) that names the file and what to do: no config.json, weights as pickles,
  /// shards that are missing, outside of the folder or hold a tensor twice.
  explicit CheckpointFolder(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
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
  std::filesystem::path folder_;
  nlohmann::json config_;
  std::vector<MappedTensors> shards_;
  std::map<std::string, const TensorView*> tensors_;
  std::set<std::string> wrappers_;
};

/// Whether a JSON file is a part of such a folder, as config.json is. Throws Error(bad_input) for a damaged
/// config.json.
bool is_checkpoint_file(const std::filesystem::path& path);

}  // namespace afterglow
