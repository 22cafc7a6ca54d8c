// Collects the rows that the analyses give, times the model, and limits the work.
#include "core/engine/session/analysis_table.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/engine/training/inspected_example.h"
#include "core/io/named.h"

namespace afterglow {

std::span<const AnalysisInfo> analysis_table() {
  static const std::vector<AnalysisInfo> table = mapped(analysis_rows, [](const auto row) { return row(); });
  return table;
}

std::size_t index_of(Analysis analysis) {
  return static_cast<std::size_t>(std::ranges::find(analysis_table(), analysis, &AnalysisInfo::analysis) -
                                  analysis_table().begin());
}

const AnalysisSettings* find_settings(std::string_view command) {
  const auto sets = [&](const AnalysisInfo& row) { return row.settings.choose && row.settings.command == command; };
  const AnalysisInfo* row = find_where(analysis_table(), sets);
  return row ? &row->settings : nullptr;
}

namespace {

constexpr double operations_by_itself = 3e11;  // about ten seconds on two cores
constexpr double min_part = 1e-6;

}  // namespace

double length_of(const AnalysisSubject& subject) { return static_cast<double>(subject.run->trainer().task().length()); }
double branches_of(const AnalysisSubject& subject) {
  return static_cast<double>(subject.run->trainer().model().branches().size());
}
double depth_of_trace(const AnalysisSubject& subject) {
  const auto& parts = subject.run->trainer().parts();
  const int branch = subject.traced_part < 0 ? -1 : parts[static_cast<std::size_t>(subject.traced_part)].branch;
  return branch < 0 ? 1 : (branch + 1) / branches_of(subject);
}
double tokens_of_training(const AnalysisSubject& subject, double steps) {
  return reverse * steps * static_cast<double>(subject.run->trainer().config().batch) * length_of(subject);
}

Pace measure_pace(Trainer& trainer) {
  constexpr std::size_t most = 64;
  Example example = trainer.task().example(trainer.seed(), 0, Split::held_out);
  const std::size_t count = std::min(most, example.tokens.size());
  Tape& tape = trainer.evaluation_tape();
  Backend& backend = trainer.backend();
  const auto seconds = [&](const auto& work) {
    backend.synchronize();
    const auto from = std::chrono::steady_clock::now();
    tape.begin(false);
    work();
    backend.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  Pace pace;
  const auto length = static_cast<std::int64_t>(count);
  pace.token = seconds([&] {
                 const Tensor tokens = uploaded(tape, {1, length}, DType::i32, example.tokens.data());
                 trainer.model().forward(tape, tokens, uploaded(tape, {1, length}, DType::u8, example.context.data()));
               }) /
               static_cast<double>(count);
  ModelState state = trainer.model().make_state(backend, trainer.dtype(), 2);
  const std::int32_t two[] = {example.tokens.front(), example.tokens.front()};
  pace.step = seconds([&] { trainer.model().advance(tape, uploaded(tape, {2, 1}, DType::i32, two), state); });
  return pace;
}

double seconds_of(const ModelWork& work, const Pace& pace) { return work.tokens * pace.token + work.steps * pace.step; }

double first_part(const ModelWork& work, std::int64_t parameters) {
  const double operations = 2.0 * static_cast<double>(parameters) * (work.tokens + passes_of_a_step * work.steps);
  const double part = operations > operations_by_itself ? operations_by_itself / operations : 1;
  return part < work.first ? 0 : std::max(part, min_part);
}

}  // namespace afterglow
