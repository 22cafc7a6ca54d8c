// Fields: reads a task's configuration against the parameters it declares, with errors that say what to change.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/io/error.h"
#include "core/tasks/task.h"

namespace afterglow {

/// Whether tasks of this kind have the parameter; with `path` they read a file of the user.
bool takes(const TaskInfo& info, std::string_view parameter);

/// A view of one configuration. Reading a parameter that the kind does not declare is a programming error.
class Fields {
 public:
  /// Throws Error if the configuration is no object or holds a field that the kind does not have. Keeps references.
  Fields(const TaskInfo& info, const nlohmann::json& config);

  const std::string& kind() const { return info_.kind; }
  bool given(const std::string& name) const;
  int integer(const std::string& name) const;
  std::vector<int> integers(const std::string& name) const;
  /// The given list, or `otherwise` for a parameter whose default is derived.
  std::vector<int> integers_or(const std::string& name, std::vector<int> otherwise) const;
  /// The given length, or the smallest one; throws as require_length does.
  int length_or(std::int64_t smallest, const std::string& reason) const;
  double number(const std::string& name) const;
  std::string choice(const std::string& name) const;
  std::string text(const std::string& name) const;
  /// The content of the file that a field names. Throws where the configuration has a `hash` and the content another
  /// one.
  std::string file(const std::string& name, std::size_t max_bytes) const;
  const nlohmann::json& config() const { return config_; }

  /// Throws unless the task's length is at least `smallest`; `reason` names what needs them, e.g. "8 bindings".
  void require_length(int length, std::int64_t smallest, const std::string& reason) const;
  /// Throws an Error that begins with the task's kind; the parts are those of `concat`.
  template <class... Problem>
  [[noreturn]] void refuse(const Problem&... problem) const {
    throw BadInput(where_, ": ", problem...);
  }

 private:
  const TaskParameter& parameter(const std::string& name) const;

  const TaskInfo& info_;
  const nlohmann::json& config_;
  std::shared_ptr<const nlohmann::json> filled_;  ///< the configuration with defaults for missing fields
  std::string where_;                             ///< start of messages
};

/// Makes a task of one kind from a checked configuration; assets/tasks/kinds.json describes the kinds.
using TaskMaker = std::unique_ptr<Task>(const Fields& fields);

TaskMaker make_mqar, make_sysprompt, make_tooltrace, make_niah, make_multihop, make_commonword, make_mixed,
    make_toolcall, make_economy, make_cot_recall, make_specific_recall, make_copy, make_selective_copy, make_induction,
    make_symbolsoup, make_diffuse_mqar, make_text, make_stories, make_ids, make_forecast;

}  // namespace afterglow
