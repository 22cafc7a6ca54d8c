// Builds the four training plots from the runs of an observation.
#include "views/figures/training/training_figures.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>

#include "core/figure/axis.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/figures/studies/sweep_figures.h"

namespace afterglow {
namespace {

std::int64_t last_step(const RunCurves& run) { return run.first_step + static_cast<std::int64_t>(run.loss.size()) - 1; }

/// The end of the step axis: the recipe's last step once a quarter of it is trained, before that a round number ahead,
/// so that the axis changes a few times in a run and not with every step.
double end_of_steps(const Observation& observation) {
  std::int64_t step = std::max<std::int64_t>(1, observation.step);
  for (const RunCurves& run : observation.runs) step = std::max(step, last_step(run));
  if (observation.ahead) step = std::max(step, last_step(*observation.ahead));
  if (observation.final_step > 0 && step <= observation.final_step && 4 * step >= observation.final_step)
    return static_cast<double>(observation.final_step);
  double end = 50;
  for (int i = 0; end < 1.15 * static_cast<double>(step); ++i) end *= i % 2 ? 2.5 : 2;
  return end;
}

Figure step_figure(const Observation& observation, std::string id, std::string title, Axis y) {
  return sheet("training_" + std::move(id), std::move(title), "",
               {.label = "step", .range = Range{0, end_of_steps(observation)}, .integer_ticks = true}, std::move(y));
}

/// Changes, one mark for each step; after a rewind the present step, and grey marks for later ones.
void add_marks(Figure& figure, const Observation& observation) {
  for (const Mark& mark : marks_by_step(observation)) {
    const Ink ink = mark.note > 0 ? Role::accent : mark.step > observation.step ? Role::faint : Role::warning;
    figure.events.push_back({static_cast<double>(mark.step), mark.text, ink});
  }
  if (observation.ahead) add_moment(figure, static_cast<double>(observation.step), "now", Role::accent, Dash::solid);
}

/// The training before a rewind: the present curve covers it up to now.
void add_ahead(Figure& figure, const Observation& observation, const Selection& selection, CurveStore& curves,
               Values RunCurves::*member) {
  if (!observation.ahead) return;
  const RunCurves& run = *observation.ahead;
  figure.series.push_back(
      Line{.name = "ahead",
           .curve = curves.smoothed(figure.id + "/ahead", {run.*member, static_cast<double>(run.first_step), {}},
                                    selection.smoothing),
           .ink = Role::faint,
           .dash = Dash::solid,
           .width = 1.5,
           .is_quiet = true});
}

/// The curve according to the selection: averaged over a window, exponentially, or raw.
Curve shown_curve(CurveStore& curves, const std::string& key, const CurveSource& source, const Selection& selection) {
  if (selection.window > 0) return curves.averaged(key, source, selection.window);
  return curves.smoothed(key, source, selection.smoothing);
}

constexpr std::size_t max_earlier_runs = 6;

/// The current run and the longest run of each other seed; empty without other seeds, or if the selection leaves them
/// out.
std::vector<const RunCurves*> seeds_of(const Observation& observation, const Selection& selection) {
  std::vector<const RunCurves*> seeds;
  if (selection.earlier != EarlierRuns::seeds) return seeds;
  for (const RunCurves& run : observation.runs) {
    if (run.siblings != observation.runs.back().siblings || run.loss.empty()) continue;
    const auto same = std::ranges::find(seeds, run.seed, &RunCurves::seed);
    if (same == seeds.end())
      seeds.push_back(&run);
    else if (last_step(run) >= last_step(**same))
      *same = &run;
  }
  if (seeds.size() < 2) seeds.clear();
  return seeds;
}

/// Mean of the runs that reach a step, and one standard deviation on both sides; smoothed like a single run.
void add_seeds(Figure& figure, const std::vector<const RunCurves*>& seeds, const Selection& selection,
               CurveStore& curves, Values RunCurves::*member) {
  constexpr std::size_t max_points = 2000;
  std::vector<Curve> each;
  std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
  for (const RunCurves* run : seeds) {
    each.push_back(shown_curve(curves, figure.id + "/seeds/" + run->run,
                               {run->*member, static_cast<double>(run->first_step), {}}, selection));
    first = std::min(first, static_cast<std::size_t>(run->first_step));
    last = std::max(last, static_cast<std::size_t>(last_step(*run)));
  }
  std::vector<double> x, mean, deviation;
  const std::size_t stride = std::max<std::size_t>(1, (last - first) / max_points);
  for (std::size_t step = first; step <= last; step += stride) {
    double count = 0, sum = 0, squares = 0;
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      const auto begin = static_cast<std::size_t>(seeds[i]->first_step);
      const CurveView curve(each[i]);
      const double y = step < begin || step - begin >= curve.size() ? std::nan("") : curve.y(step - begin);
      if (!std::isfinite(y)) continue;
      ++count;
      sum += y;
      squares += y * y;
    }
    x.push_back(static_cast<double>(step));
    mean.push_back(sum / count);  // NaN between two runs, so that no line joins them
    deviation.push_back(count > 1 ? std::sqrt(std::max(0.0, (squares - sum * sum / count) / (count - 1))) : 0.0);
  }
  Line line = line_through("mean of " + std::to_string(seeds.size()) + " seeds", std::move(x), std::move(mean),
                           Role::text, Dash::automatic, 2.2);
  add_with_spread(line, deviation, figure);
}

/// The visible runs: the current one, and the newest of the earlier ones unless they are hidden.
std::vector<std::size_t> shown_runs(const Observation& observation, const Selection& selection) {
  std::vector<std::size_t> shown;
  const std::size_t runs = observation.runs.size();
  const bool are_hidden = selection.earlier == EarlierRuns::hidden || selection.earlier == EarlierRuns::seeds;
  const std::size_t earlier = are_hidden ? 0 : std::min(runs - 1, max_earlier_runs);
  for (std::size_t r = runs - 1 - earlier; r < runs; ++r) shown.push_back(r);
  return shown;
}

/// Colour, dash and width of a run's lines: the present one has no colour, because colours mean layers and modes;
/// earlier ones are grey with different dashes, or have colours of their own.
void dress_run(Line& line, const Observation& observation, const Selection& selection, std::size_t r) {
  const std::size_t age = observation.runs.size() - 1 - r;
  const bool is_ghost = age > 0 && selection.earlier == EarlierRuns::grey;
  line.ink = is_ghost ? Ink(Role::faint) : age == 0 ? Ink(Role::text) : run_ink(r);
  line.dash = is_ghost ? plain_dashes[(age - 1) % plain_dashes.size()] : age == 0 ? Dash::solid : Dash::automatic;
  line.width = age == 0 ? 2.2 : 1.5;
}

/// "0.132"; "0" for values that a fixed axis cannot show, such as 10⁻⁷ after smoothing.
std::string last_value_text(const Axis& y, double value) {
  constexpr double least = 5e-4;
  return number_text(y.range && std::abs(value) < least * y.range->high ? 0 : value, 3);
}

/// One smoothed line for each run with its raw values behind it, the current run strongest.
void add_runs(Figure& figure, const Observation& observation, const Selection& selection, CurveStore& curves,
              Values RunCurves::*member, const char* alone) {
  const std::vector<const RunCurves*> seeds = seeds_of(observation, selection);
  if (!seeds.empty()) return add_seeds(figure, seeds, selection, curves, member);
  add_ahead(figure, observation, selection, curves, member);
  for (const std::size_t r : shown_runs(observation, selection)) {
    const RunCurves& run = observation.runs[r];
    const bool is_current = r + 1 == observation.runs.size();
    const CurveSource source{run.*member, static_cast<double>(run.first_step), {}};
    const std::string key = figure.id + "/" + std::to_string(r);
    Line line{.name = observation.runs.size() == 1 ? alone : run.run};
    dress_run(line, observation, selection, r);
    line.curve = shown_curve(curves, key, source, selection);
    const bool is_smoothed = selection.window > 0 || selection.smoothing > 0;
    if (is_smoothed && (is_current || selection.earlier == EarlierRuns::coloured)) line.raw = curves.raw(key, source);
    if (is_current && line.curve.pyramid->size())
      line.end_value = last_value_text(figure.y, line.curve.pyramid->y(line.curve.pyramid->size() - 1));
    figure.series.emplace_back(std::move(line));
  }
}

/// Held-out accuracy of the current run; those of all runs would be unreadable.
void add_held_out(Figure& figure, const Observation& observation, CurveStore& curves) {
  if (observation.runs.empty() || observation.runs.back().held_out_accuracy.empty()) return;
  const RunCurves& run = observation.runs.back();
  figure.series.push_back(
      Line{.name = "held out",
           .curve = curves.raw(figure.id + "/held out/" + run.run, {run.held_out_accuracy, 0, run.held_out_step}),
           .ink = Role::text,
           .dash = Dash::dotted,
           .width = 1.2,
           .marker = Marker::diamond,
           .end_value = number_text(run.held_out_accuracy.back(), 3)});
}

void say_how_to_begin(Figure& figure, const Observation& observation) {
  const bool is_empty = std::ranges::all_of(observation.runs, [](const RunCurves& run) { return run.loss.empty(); });
  if (!is_empty || observation.ahead || observation.running) return;
  figure.text_labels.push_back({figure.x.range->high / 2, figure.y.range->high / 2,
                                "Nothing is trained yet. Press Space to train.", Role::dim, Anchor::middle,
                                /*is_centred=*/true});
}

Figure accuracy_figure(const Observation& observation, const Selection& selection, CurveStore& curves) {
  const std::string& quality = observation.measures.quality;
  std::string title = quality;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  Figure figure = step_figure(observation, "accuracy", title, {.label = quality, .range = Range{0, 1.02}});
  add_runs(figure, observation, selection, curves, &RunCurves::accuracy, "training");
  add_held_out(figure, observation, curves);
  add_marks(figure, observation);
  say_how_to_begin(figure, observation);
  return figure;
}

Figure loss_figure(const Observation& observation, const Selection& selection, CurveStore& curves) {
  const MeasureNames& names = observation.measures;
  Figure figure = step_figure(observation, "loss", "Loss", {names.loss, names.loss_unit, Scale::log});
  add_runs(figure, observation, selection, curves, &RunCurves::loss, "loss");
  add_marks(figure, observation);
  return figure;
}

Figure gradient_figure(const Observation& observation, const Selection& selection, CurveStore& curves) {
  Figure figure = step_figure(observation, "gradient_norm", "Gradient norm",
                              {.label = "gradient norm |∂L/∂θ|", .scale = Scale::log});
  if (observation.runs.empty()) return figure;
  if (const std::vector<const RunCurves*> seeds = seeds_of(observation, selection); !seeds.empty()) {
    add_seeds(figure, seeds, selection, curves, &RunCurves::gradient_norm);
    return figure;
  }
  const RunCurves& run = observation.runs.back();
  const auto add = [&](const std::string& name, const Values& values, Ink ink, Dash dash, double width) {
    figure.series.push_back(Line{.name = name,
                                 .curve = shown_curve(curves, figure.id + "/" + run.run + "/" + name,
                                                      {values, static_cast<double>(run.first_step), {}}, selection),
                                 .ink = ink,
                                 .dash = dash,
                                 .width = width});
  };
  const std::size_t parts = run.layer_gradient_norms.size(), max_named = 16;
  if (parts > max_named) {
    figure.labels = LabelPlacement::none;
    figure.subtitle = "one line for each of " + std::to_string(parts) + " parts, the strong one for all";
  }
  std::map<std::string, int> seen;
  LinesOfColour lines;
  for (std::size_t l = 0; l < parts; ++l) {
    const std::string kind = l < observation.model.layers.size() ? observation.model.layers[l].kind : "";
    // Series names must be unique in a figure; labels of layers need not be.
    std::string name = run.layer_gradient_norms[l].name;
    if (seen[name]++) name += " (" + std::to_string(l) + ")";
    const Ink ink = layer_ink(kind);
    add(name, run.layer_gradient_norms[l].values, ink, plain_dashes[lines.add(ink) % plain_dashes.size()],
        static_cast<int>(l) == selection.layer ? 2.4 : 1.4);
  }
  for (const std::size_t r : shown_runs(observation, selection)) {
    const RunCurves& earlier = observation.runs[r];
    if (r + 1 == observation.runs.size()) break;
    Line line{.name = "all, " + earlier.run};
    dress_run(line, observation, selection, r);
    line.curve = shown_curve(curves, figure.id + "/all/" + std::to_string(r),
                             {earlier.gradient_norm, static_cast<double>(earlier.first_step), {}}, selection);
    figure.series.emplace_back(std::move(line));
  }
  add_ahead(figure, observation, selection, curves, &RunCurves::gradient_norm);
  add("all", run.gradient_norm, Role::text, Dash::solid, 1.8);
  add_marks(figure, observation);
  return figure;
}

Figure rate_figure(const Observation& observation, const Selection& selection, CurveStore& curves) {
  Figure figure = step_figure(observation, "learning_rate", "Learning rate", {"learning rate"});
  Selection unsmoothed = selection;
  unsmoothed.smoothing = unsmoothed.window = 0;
  add_runs(figure, observation, unsmoothed, curves, &RunCurves::learning_rate, "rate");
  // From zero on: otherwise the first steps of a slow decay would look like a fall.
  add_level(figure, 0, "", Role::faint, Dash::solid);
  add_marks(figure, observation);
  return figure;
}

}  // namespace

std::vector<Mark> marks_by_step(const Observation& o) {
  std::vector<Mark> marks, joined;
  if (!o.runs.empty()) marks = o.ahead ? o.ahead->marks : o.runs.back().marks;
  for (std::size_t i = 0; i < o.notes.size(); ++i) {
    const RunNote& note = o.notes[i];
    if (note.token < 0 && note.figure.empty()) marks.push_back({note.step, note.text, i + 1});
  }
  std::ranges::stable_sort(marks, {}, &Mark::step);
  for (const Mark& mark : marks) {
    if (joined.empty() || joined.back().step != mark.step) joined.push_back({mark.step, ""});
    joined.back().text += (joined.back().text.empty() ? "" : ", ") + mark.text;
    joined.back().note = std::max(joined.back().note, mark.note);
  }
  return joined;
}

std::string training_subtitle(const Observation& observation, const Selection& selection) {
  if (observation.runs.empty()) return "No step yet. Press Space to train.";
  if (observation.folder) return "from the logs in " + observation.folder->name;
  const std::size_t seeds = seeds_of(observation, selection).size();
  std::string text = observation.measures.quality + " and loss";
  if (seeds > 0) return text + " · mean and one standard deviation of " + std::to_string(seeds) + " seeds";
  if (selection.window > 0) {
    text += " · mean of " + std::to_string(selection.window) + " steps, raw curve pale";
  } else if (selection.smoothing > 0) {
    text += " · smoothed " + number_text(selection.smoothing, 3) + ", raw curve pale";
  }
  if (selection.earlier == EarlierRuns::seeds)
    text += " · no other seed yet: the command \"compare seeds=5\" trains some";
  if (observation.runs.size() > 1 && selection.earlier == EarlierRuns::grey) text += " · earlier runs in grey";
  if (observation.ahead) text += " · grey after now: trained before the rewind";
  return text;
}

std::vector<Figure> training_figures(const Observation& observation, const Selection& selection, CurveStore& curves) {
  if (observation.runs.empty()) return {};
  if (observation.folder && !observation.folder->curves.empty()) return log_figures(observation);
  return {accuracy_figure(observation, selection, curves), loss_figure(observation, selection, curves),
          gradient_figure(observation, selection, curves), rate_figure(observation, selection, curves)};
}

std::vector<Figure> log_figures(const Observation& observation) {
  std::vector<Figure> figures;
  for (const LoggedCurve& curve : observation.folder->curves) {
    std::string title = curve.name;
    for (const char* word : {"learning_rate", "grad_norm", "accuracy", "loss"}) {
      if (curve.name.find(word) != std::string::npos) title = word;
    }
    std::string id = "training_" + title;
    std::ranges::replace_if(
        id, [](unsigned char c) { return !std::isalnum(c); }, '_');
    auto figure = std::ranges::find(figures, id, &Figure::id);
    if (figure == figures.end()) {
      figures.push_back(sheet(id, title, "", {.label = "step"}, {.label = title}));
      figure = std::prev(figures.end());
      figure->x.range = Range{0, static_cast<double>(observation.final_step)};
      add_moment(*figure, static_cast<double>(observation.step), "", Role::accent, Dash::solid);
      add_marks(*figure, observation);
    }
    Line line = line_through(curve.name, Values(curve.steps), Values(curve.values), run_ink(figure->series.size()));
    figure->series.emplace_back(styled(line, {.marker = curve.steps.size() > 60 ? Marker::none : Marker::circle}));
  }
  // A small panel shows the first ones: what is learned, and last what only counts the steps.
  std::ranges::stable_partition(figures, [](const Figure& one) { return one.title != "epoch"; });
  std::ranges::stable_partition(
      figures, [](const Figure& one) { return one.title == "loss" || one.title.find("acc") != std::string::npos; });
  return figures;
}

}  // namespace afterglow
