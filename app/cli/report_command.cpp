// `afterglow report RUN --out run.html`: goes to the steps that the page shows.
#include "app/cli/interruption.h"
#include "app/cli/layer_choice.h"
#include "app/cli/start.h"
#include "app/cli/version.h"
#include "app/lessons/lesson_options.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/number_text.h"
#include "views/plots/report_page.h"

namespace afterglow {
namespace {

/// Goes to each step, by training or from checkpoint to checkpoint, and returns the last observation.
Observation record_run(AnalysedRun& analysed, const std::vector<std::int64_t>& steps, ReportPage& page,
                       Output& output) {
  const TrainingRun& run = analysed;
  std::size_t place = 0;
  const auto check = [&] {
    Interruption::check("at step " + std::to_string(run.step()) + " of the report");
    output.progress("report", (static_cast<double>(place) + 0.5) / static_cast<double>(steps.size()), [&] {
      return concat(place + 1, "/", steps.size(), ", step ", run.step(), " ", pending_work(analysed.describe()).shown);
    });
  };
  Observation last;
  for (const std::int64_t step : steps) {
    if (run.folder()) analysed.go_to(step);
    while (run.step() < step && !run.finished()) {
      if (!analysed.train_step()) throw Error(ExitCode::non_finite, run.failure());
      check();
    }
    const bool is_last = step == steps.back() || run.finished();
    last = analysed.observe(page.analyses(), check);
    page.record(last, is_last);
    ++place;
    if (is_last) break;
  }
  output.end_progress();
  return last;
}

}  // namespace

nlohmann::json report(const ReportOptions& options, const CommonOptions& common, Output& output) {
  if (options.run.ends_with(".md") || is_lesson(options.run))
    return handout({options.run, {}, options.out}, common, output);
  const Interruption noticed;
  require_free_name(options.out, common);
  StartOptions start;
  (std::filesystem::exists(options.run) ? start.recipe : start.preset) = options.run;
  const SavedRun saved = starting_run(start, common, "");
  say_notes(saved, output);
  const std::unique_ptr<Backend> backend = chosen_backend(saved, common, output);
  AnalysedRun analysed(saved, *backend);
  analysed.limit_work();
  std::vector<const PlotKind*> plots;
  for (const std::string& name : options.plots) plots.push_back(&plot_kind_named(name));
  ReportPage page(plots, analysed.describe().model);
  // Of a recipe over its training, of a folder over its checkpoints, else the present step.
  const std::int64_t shown = saved.recipe.shown_step, end = shown >= 0 ? shown : saved.recipe.training.steps,
                     first = saved.has_weights() ? analysed.step() : 0;
  const FolderView* folder = saved.folder ? saved.folder->view().get() : nullptr;
  const std::vector<std::int64_t> steps =
      spread_steps(first, saved.has_weights() ? first : end, options.states, folder);
  const Observation last = record_run(analysed, steps, page, output);
  const std::string html = page.html(last, version_line());
  const auto path = write_file_atomically(options.out, html, existing_files(common));
  output.line("written  ", path.string(), "  ", bytes_text(static_cast<std::int64_t>(html.size())));
  return {{"file", path.string()}, {"steps", page.steps()}, {"figures", page.figures()}, {"bytes", html.size()}};
}

}  // namespace afterglow
