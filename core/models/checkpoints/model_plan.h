// How another library's model maps to Afterglow: the stack of layers, and the tensor of each parameter. Reading and
// writing use the same plan.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/io/error.h"

namespace afterglow {

/// Reads a config.json: a bare Infinity or NaN becomes {"__float__": "Infinity"}, as newer libraries write it; null
/// counts as missing. Throws Error(bad_input) with line and column.
nlohmann::json read_config_json(const std::filesystem::path& path);

/// The fields of a config.json by their own names. A missing field gives the library's default.
class ConfigFields {
 public:
  ConfigFields(const nlohmann::json& config, std::string where) : config_(&config), where_(std::move(where)) {}
  /// Other fields in the same place: what is read of them counts as read here.
  ConfigFields filled(const nlohmann::json& fields) const;
  const std::string& where() const { return where_; }
  const nlohmann::json& fields() const { return *config_; }

  std::int64_t integer(const char* name, std::optional<std::int64_t> fallback) const;
  std::int64_t count(const char* name) const;  ///< an integer that may be 0 and must be there
  /// Number of layers of the whole model, from num_hidden_layers.
  std::int64_t layers() const;
  double number(const char* name, double fallback) const;  ///< also infinite
  bool flag(const char* name, bool fallback) const;
  std::string text(const char* name, const char* fallback) const;
  bool has(const char* name) const { return field(name).contains(name); }
  /// A list of words, one for each layer; empty where the field is missing.
  std::vector<std::string> layer_words(const char* name) const;
  /// An object under a name, with its own fields; an empty one where it is missing.
  ConfigFields part(const char* name) const;
  /// Marks the words of a list as read: fields that change no output.
  void skip(const std::string& names) const;
  /// Two numbers, the ends of a range, which may be infinite.
  std::pair<double, double> range(const char* name, std::pair<double, double> fallback) const;
  /// Throws Error(bad_input) for a field that needs something that Afterglow does not have; `why`, parts as `concat`
  /// takes them, says what to do.
  template <class... Why>
  [[noreturn]] void refuse(const char* name, const Why&... why) const {
    throw BadInput(where_, ": \"", name, "\" is ", shown(name), ": ", why...);
  }
  /// The fields, "rope_parameters.factor" for those of a part, that no function above has read and that are not among
  /// the words of `harmless`.
  std::vector<std::string> unread(const std::string& harmless) const;

 private:
  /// The whole object; remembers that `name` was read.
  const nlohmann::json& field(const char* name) const;
  double number_in(const nlohmann::json& value, const char* name) const;
  std::string shown(const char* name) const { return config_->contains(name) ? (*config_)[name].dump() : "missing"; }
  const nlohmann::json* config_;
  std::string where_, prefix_ = {};  ///< of a part: "rope_parameters."
  std::shared_ptr<std::set<std::string>> read_ = std::make_shared<std::set<std::string>>();
};

/// Rows of heads in a tensor that holds them with others, or in another order.
struct HeadRows {
  std::int64_t heads = 1, width = 1;  ///< of the parameter
  std::int64_t stride = 0;            ///< rows of the tensor from one head to the next; 0: width
  std::int64_t first = 0;             ///< row of the tensor with which the first head begins
  /// So many first rows of a head are pairs that turn: neighbours in Afterglow, halves of these rows in the libraries.
  std::int64_t turned = 0;
};
/// The tensor's row for each row of the parameter.
std::vector<std::int64_t> rows_of_heads(const HeadRows& of);

/// The tensor of a parameter in the library's files.
struct WeightMatch {
  std::string parameter;           ///< "layers.0.mamba2.D"
  std::vector<std::string> names;  ///< the library's; the first is the one that is written
  /// The tensor's row for each row of the parameter; empty: the same rows. Several parameters may share a tensor.
  std::vector<std::int64_t> rows = {};
  std::int64_t tensor_rows = 0;          ///< of the tensor, where it has more than the parameter; 0: as many
  std::int64_t stacked = 0;              ///< not 0: its rows are those of so many matrices, one after the other
  std::vector<std::int64_t> shape = {};  ///< of the tensor, where it has further axes of length 1
  std::vector<std::string> joined = {};  ///< further tensors, whose rows count on from those of the first
  const char* left_out_by = nullptr;     ///< the flag of config.json that keeps a norm without weights: they are ones
  /// The parameter's rows are those of the tensor.
  WeightMatch& take(const HeadRows& of, std::int64_t of_tensor = 0) {
    rows = rows_of_heads(of);
    tensor_rows = of_tensor;
    return *this;
  }
};

/// A tensor without weights about which the user gets a note where a file has it.
struct TensorNote {
  std::string tensor, text;
};

struct ModelPlan {
  nlohmann::json model;  ///< as in a recipe
  nlohmann::json task;   ///< of the model; null: the next token
  std::vector<WeightMatch> weights;
  std::vector<std::string> without_weights;  ///< prefixes of tables and copies that files may have
  std::vector<TensorNote> left_out;
  std::vector<std::string> notes;  ///< notes for the user about how config.json was read

  /// A model that is not an embedding with a stack of layers.
  ModelPlan(nlohmann::json whole, nlohmann::json own_task) : model(std::move(whole)), task(std::move(own_task)) {}
  /// The outer parts, which all libraries share: width, vocabulary, a separate or tied head. `prefix` begins the
  /// library's names except that of the head; files of a model without its head omit it.
  ModelPlan(const ConfigFields& config, double norm_eps, std::string prefix, const char* last_norm,
            const char* embedding = "embeddings.weight");
  /// One more block, for which `weights` has been added.
  void add_block(const nlohmann::json& block);
  /// The parameter `ours` of block number `block` is the library's tensor `theirs`.
  WeightMatch& match(std::size_t block, const std::string& ours, const std::string& theirs);
  /// Another name under which files may have the tensor of the last `match`.
  void also_called(std::size_t block, const std::string& theirs);
  void add_head();
  /// Notes the fields that were not read, except those of `harmless` and those that every library writes.
  void note_unread(const ConfigFields& config, const std::string& harmless);
  void holds_no_weights(const std::string& beginning) { without_weights.push_back(beginning); }
  void not_taken_over(const std::string& tensor, const std::string& note) { left_out.push_back({tensor, note}); }

 private:
  std::vector<std::string> spelled(const std::string& name) const;
  std::string prefix_;
};

struct CheckpointLibrary {
  std::string name;  ///< "transformers", the word for --format
  std::string about;
  /// Whether a config.json is one of this library's models.
  bool (*knows)(const nlohmann::json& config);
  /// Throws Error(bad_input) naming a field that needs something that Afterglow does not have.
  ModelPlan (*plan)(const ConfigFields& config);
  /// The config.json of a recipe's model and task, from which `plan` makes the same model again; `notes` says what
  /// differs by rounding. Throws Error(bad_input) that names what the library's models do not have.
  nlohmann::json (*config_of)(const nlohmann::json& model, const nlohmann::json& task, std::vector<std::string>& notes);
  /// The end of a tensor's name that identifies weights without a config.json, and what that file must contain.
  const char* mark = nullptr;
  const char* needed_config = nullptr;
};

/// assets/models/libraries.json: under "models" the rows of the table that `afterglow info --models` and README.md
/// show, texts under the names of its columns; under "harmless" the words of each library's fields that change no
/// output, such as those of start values and training.
const nlohmann::json& library_words();

inline constexpr const char* head_tensor = "lm_head.weight";  ///< of every library

/// The blocks of a recipe's model one by one, without "repeat".
std::vector<nlohmann::json> blocks_of(const nlohmann::json& model);
/// Throws Error(bad_input) for another field of a recipe than those that a config.json can say.
void require_known(const nlohmann::json& fields, std::initializer_list<std::string_view> known);
/// The fields of a config.json that all libraries share.
nlohmann::json outer_config(const nlohmann::json& model, std::int64_t blocks);

const std::vector<CheckpointLibrary>& checkpoint_libraries();

/// For files without a config.json: which library has these names, and what a config.json must contain. The end of a
/// sentence; empty where no library has such names.
std::string config_to_write(const std::vector<std::string>& tensors);
/// The library's plan, with a note of the fields that it does not know.
ModelPlan plan_of(const CheckpointLibrary& library, const ConfigFields& config);
/// The library of a config.json. Throws Error(bad_input) that lists the models.
const CheckpointLibrary& library_of(const nlohmann::json& config, std::string_view where);

}  // namespace afterglow
