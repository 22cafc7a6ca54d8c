// Resolves the choice, steps three runs in one batch, and reads their answers.
#include "core/engine/analyses/transplant/transplant.h"

#include <algorithm>

#include "core/analysis/attention/softmax.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/causes/state_passes.h"
#include "core/engine/session/analysis_table.h"

namespace afterglow {
namespace {

constexpr std::size_t shown_answers = 6;

void read_answers(const std::vector<std::vector<double>>& logits, const Task& task, TransplantView& view) {
  std::vector<std::vector<double>> p = logits;
  for (std::vector<double>& row : p) softmax_in_place(row);
  std::vector<int> order;
  for (int token = 0; token < static_cast<int>(p.front().size()); ++token) order.push_back(token);
  const auto largest = [&](int token) {
    double most = 0;
    for (const std::vector<double>& row : p) most = std::max(most, row[static_cast<std::size_t>(token)]);
    return most;
  };
  std::ranges::stable_sort(order, std::greater<>(), largest);
  order.resize(std::min(order.size(), shown_answers));
  for (const int token : order) {
    const auto i = static_cast<std::size_t>(token);
    view.answers.push_back(token);
    view.labels.push_back(task.answer_label(token));
    view.clean.push_back(p[0][i]);
    view.corrupted.push_back(p[1][i]);
    view.transplanted.push_back(p[2][i]);
  }
}

}  // namespace

TransplantView measure_transplant(Trainer& trainer, const InspectionSetup& setup) {
  Model& model = trainer.model();
  TransplantView view;
  view.step = trainer.finished_steps();
  view.choice = setup.transplant;
  view.layer = layer_with_memory(trainer, setup.transplant.layer);
  if (view.layer < 0) return view;
  SequencePair pair = pair_of(setup, inspected_example(setup, trainer), trainer.task());
  view.token = setup.transplant.token >= 0 ? std::min(setup.transplant.token, pair.asked) : std::max(0, pair.asked - 1);
  const auto branch = static_cast<std::size_t>(trainer.parts()[static_cast<std::size_t>(view.layer)].branch);
  view.heads = std::max(1, static_cast<int>(model.branches()[branch].layer->heads()));
  if (view.choice.head >= view.heads) view.choice.head = -1;
  view.shown_head = std::max(0, view.choice.head);

  const std::vector<StateParts> parts = state_parts(trainer, view.layer);
  std::vector<StateCell> cells;
  if (view.choice.part != "none") {
    auto part = std::ranges::find(parts, view.choice.part, &StateParts::name);
    if (part == parts.end()) part = parts.begin();
    view.choice.part = part->name;
    cells.push_back({branch, part->tensors, view.token, view.choice.head});
  } else {
    cells.push_back({branch, parts.front().tensors, view.token, view.choice.head, true});
  }
  const StatePasses passes(model, trainer.evaluation_tape(), trainer.dtype());
  HeldHead seen{branch, view.shown_head, view.token};
  std::vector<std::vector<double>> logits = passes.run(pair, cells, &seen);
  if (view.choice.part == "none") logits[1] = logits[2];  // the same run; only rounding depends on the row
  take_answers(pair, logits[0], logits[1]);
  view.pair = view_of(pair, logits[0], logits[1], trainer.task());
  view.share = restored_share(measured(pair, logits[0]), measured(pair, logits[1]), measured(pair, logits[2]));
  read_answers(logits, trainer.task(), view);
  for (const HeldMatrix& matrix : seen.matrices)
    view.parts.push_back({matrix.name,
                          static_cast<int>(matrix.rows),
                          static_cast<int>(matrix.columns),
                          {matrix.clean.begin(), matrix.clean.end()},
                          {matrix.corrupted.begin(), matrix.corrupted.end()}});
  return view;
}

AnalysisInfo transplant_row() {
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    return {0, length_of(subject) * (1 + depth_of_trace(subject)), 1};
  };
  using Form = PairAnalysis<TransplantView, measure_transplant, &AnalysisResults::transplant>;
  return {{AnalysisCost::interactive, 0.5, 1}, Analysis::transplant, "transplant", make_of_tokens<Form>, work};
}

}  // namespace afterglow
