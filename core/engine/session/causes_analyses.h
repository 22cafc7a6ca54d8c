// Patching, read-outs, ablation and the logit lens as rows of the table (analysis_table.cpp).
#pragma once
#include <memory>

#include "core/engine/session/analysis_table.h"

namespace afterglow {

std::unique_ptr<RunAnalysis> make_forces(AnalysisSubject& subject);
std::unique_ptr<RunAnalysis> make_patch(AnalysisSubject& subject);
std::unique_ptr<RunAnalysis> make_ablation(AnalysisSubject& subject);
std::unique_ptr<RunAnalysis> make_logit_lens(AnalysisSubject& subject);
std::unique_ptr<RunAnalysis> make_readout(AnalysisSubject& subject);
std::unique_ptr<RunAnalysis> make_transplant(AnalysisSubject& subject);

}  // namespace afterglow
