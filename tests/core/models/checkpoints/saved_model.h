// Small models as other libraries save them, made of random numbers, and what such a model answers by plain loops in
// float64, written from the libraries' equations.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/io/host_tensor.h"

namespace afterglow::testing {

/// A folder that is removed at the end.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name);
  ~ModelFolder();
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& file, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

/// A model's tensors by the library's names.
class SavedModel {
 public:
  explicit SavedModel(nlohmann::json description) : config(std::move(description)) {}
  /// A tensor of random numbers around `mean`.
  void add(const std::string& name, std::vector<std::int64_t> shape, double spread = 0.3, double mean = 0);
  const std::vector<double>& at(const std::string& name) const;
  bool has(const std::string& name) const { return values_.contains(name); }
  void remove(const std::string& name);
  std::vector<HostTensor> tensors(StoredType type = StoredType::f32) const;
  /// config.json and model.safetensors.
  void save(const ModelFolder& folder, StoredType type = StoredType::f32) const;
  /// Rounds all numbers to bfloat16, as a file of that type holds them.
  void round_to_bfloat16();

  nlohmann::json config;

 private:
  std::map<std::string, std::vector<double>> values_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

/// transformers' Mamba2ForCausalLM, or flash-linear-attention's where config has "norm_eps".
SavedModel random_mamba2(const nlohmann::json& changes);
/// GatedDeltaNetForCausalLM, GLAForCausalLM, DeltaNetForCausalLM by "model_type".
SavedModel random_fla(const std::string& model_type, const nlohmann::json& changes);

/// Logits [T,V] for tokens.
std::vector<double> naive_logits(const SavedModel& model, const std::vector<int>& tokens);

/// |got - want| / |want|.
double error_between(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace afterglow::testing
