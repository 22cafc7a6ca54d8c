// The functions that make tasks: each file of this folder makes its own kinds, which assets/tasks/kinds.json describes.
#pragma once
#include <memory>

#include "core/tasks/fields.h"
#include "core/tasks/task.h"

namespace afterglow {

/// Makes a task of one kind from a checked configuration.
using TaskMaker = std::unique_ptr<Task>(const Fields& fields);

TaskMaker make_mqar;
TaskMaker make_sysprompt;
TaskMaker make_tooltrace;
TaskMaker make_niah;
TaskMaker make_multihop;
TaskMaker make_commonword;
TaskMaker make_mixed;
TaskMaker make_toolcall;
TaskMaker make_economy;
TaskMaker make_cot_recall;
TaskMaker make_specific_recall;
TaskMaker make_copy;
TaskMaker make_selective_copy;
TaskMaker make_induction;
TaskMaker make_symbolsoup;
TaskMaker make_diffuse_mqar;
TaskMaker make_text;
TaskMaker make_stories;
TaskMaker make_ids;
TaskMaker make_forecast;

}  // namespace afterglow
