// The functions that make tasks: each file of this folder makes its own kinds, which assets/tasks/kinds.json describes.
#pragma once
#include <memory>

#include "core/tasks/fields.h"
#include "core/tasks/task.h"

namespace afterglow {

/// Makes a task of one kind from a checked configuration.
using TaskMaker = std::unique_ptr<Task>(const Fields& fields);

TaskMaker make_mqar, make_sysprompt, make_tooltrace, make_niah, make_multihop, make_commonword, make_mixed,
    make_toolcall, make_economy, make_cot_recall, make_specific_recall, make_copy, make_selective_copy, make_induction,
    make_symbolsoup, make_diffuse_mqar, make_text, make_stories, make_ids, make_forecast;

}  // namespace afterglow
