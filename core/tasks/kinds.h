// The kinds of task: each file of this folder describes its own kind, and task.cpp lists them.
#pragma once
#include <memory>

#include "core/tasks/fields.h"
#include "core/tasks/task.h"

namespace afterglow {

/// A kind: its name, its parameters, and the factory from a checked configuration.
struct TaskKind {
  TaskInfo info;
  std::unique_ptr<Task> (*make)(const Fields& fields);
};

TaskKind mqar_kind();
TaskKind sysprompt_kind();
TaskKind tooltrace_kind();
TaskKind niah_kind();
TaskKind multihop_kind();
TaskKind commonword_kind();
TaskKind mixed_kind();
TaskKind toolcall_kind();
TaskKind economy_kind();
TaskKind cot_recall_kind();
TaskKind specific_recall_kind();
TaskKind copy_kind();
TaskKind selective_copy_kind();
TaskKind induction_kind();
TaskKind symbolsoup_kind();
TaskKind diffuse_mqar_kind();
TaskKind text_kind();
TaskKind stories_kind();
TaskKind ids_kind();
TaskKind forecast_kind();

/// The `length` parameter, with its default as JSON text (empty: the smallest that holds every example).
TaskParameter length_parameter(const std::string& fallback);
/// The `difficulty` parameter of the tasks in Echo's appendix G.4.
TaskParameter difficulty_parameter();
/// The `bindings` parameter: how many facts an example holds.
TaskParameter bindings_parameter(const std::string& description, const std::string& fallback, int maximum);

}  // namespace afterglow
