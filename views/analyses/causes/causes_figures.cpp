// Ablation, answers by depth, read-outs and replaced memories.
#include "views/analyses/causes/causes_figures.h"

#include <algorithm>
#include <cmath>

#include "core/engine/observation/mode_numbers.h"
#include "core/figure/axis.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

constexpr std::size_t shown_parts = 10;

/// A bar to the right: a thick line from 0, with a dot of size 0 that carries the name.
void add_bar(Figure& figure, Scatter& ends, double row, double value, const std::string& name, Ink ink) {
  Line bar = line_through(name, std::vector<double>{0, value}, std::vector<double>{row, row}, ink, Dash::solid, 9);
  bar.is_quiet = true;
  if (value != 0) figure.series.emplace_back(std::move(bar));
  ends.points.push_back({.x = value, .y = row, .radius = 1, .ink = ink, .id = name, .presence = 0});
}

/// "1 ska head 3 mode 12" becomes "1 ska h3 mode 12", because a small window would cut the whole name.
std::string short_name(const AblatedPart& part) {
  constexpr std::string_view head = " head ";
  const std::size_t at = part.name.find(head);
  if (part.sort != "mode" || at == std::string::npos) return part.name;
  return part.name.substr(0, at) + " h" + part.name.substr(at + head.size());
}

/// Every part, also those without room in the picture.
std::vector<TableColumn> table_of(const AblationView& view) {
  return {{"part", mapped(view.parts, &AblatedPart::name)},
          {"sort", mapped(view.parts, &AblatedPart::sort)},
          {"accuracy", mapped(view.parts, &AblatedPart::accuracy)},
          {"accuracy lost", mapped(view.parts, [&](const AblatedPart& part) { return view.accuracy - part.accuracy; })},
          {"loss", mapped(view.parts, &AblatedPart::loss)},
          {"loss added", mapped(view.parts, [&](const AblatedPart& part) { return part.loss - view.loss; })}};
}

bool is_whole(const LogitLensView& view) {
  const std::size_t cells = view.depths.size() * static_cast<std::size_t>(std::max(0, view.tokens));
  return cells > 0 && view.answer.size() == cells && view.best.size() == cells &&
         view.best_probability.size() == cells && view.best_labels.size() == view.depths.size() &&
         view.hooks.size() == view.depths.size() && view.pair.asked >= 0 && view.pair.asked < view.tokens;
}

Figure lens_bars(const LogitLensView& view) {
  Figure figure = sheet("logit_lens_answer", "Answer by depth",
                        "after token " + std::to_string(view.pair.asked) + " · at the bar: the most probable token",
                        {"probability of " + view.pair.clean_label}, {"depth"}, LabelPlacement::none);
  const auto cell_of = [&](std::size_t depth) {
    return depth * static_cast<std::size_t>(view.tokens) + static_cast<std::size_t>(view.pair.asked);
  };
  double largest = 0;
  for (std::size_t d = 0; d < view.depths.size(); ++d) largest = std::fmax(largest, view.answer[cell_of(d)]);
  const double limit = probability_limit(largest);
  figure.x.range = Range{0, 1.3 * limit};
  for (const double at : {0.0, limit / 2, limit}) figure.x.ticks.push_back({at, number_text(at, 2)});
  Scatter ends{.name = "answer"};
  const auto depths = static_cast<double>(view.depths.size());
  constexpr std::size_t max_texts = 14;  // more would overlap in a low panel
  const std::size_t every = (view.depths.size() + max_texts - 1) / max_texts;
  figure.y.range = Range{-depths + 0.4, 0.6};
  for (std::size_t d = 0; d < view.depths.size(); ++d) {
    const std::size_t cell = cell_of(d);
    const double row = -static_cast<double>(d);
    const bool is_right = view.best[cell] == view.pair.clean_answer;
    add_bar(figure, ends, row, view.answer[cell], view.depths[d], is_right ? Ink(0) : Ink(2));
    figure.y.ticks.push_back({row, view.depths[d]});
    if (d % every != 0 && d + 1 != view.depths.size()) continue;
    figure.text_labels.push_back({view.answer[cell] + 0.03 * limit, row,
                                  view.best_labels[d] + " " + number_text(view.best_probability[cell], 2),
                                  is_right ? Role::text : Role::dim, Anchor::start, true});
  }
  figure.series.emplace_back(std::move(ends));
  return figure;
}

Figure lens_map(const LogitLensView& view) {
  Figure figure = sheet(
      "logit_lens_map", "Answer by depth and token", "probability of " + view.pair.clean_label + " after every token",
      {.label = "token", .ticks = token_ticks(view.pair.clean, view.pair.asked, view.pair.changed)}, {"depth"});
  HeatMap map{.name = "probability",
              .rows = static_cast<int>(view.depths.size()),
              .cols = view.tokens,
              .cells = view.answer,
              .value = {.label = "probability", .range = Range{0, 1}},
              .row_labels = view.depths,
              .col_labels = mapped(view.pair.clean, &TokenView::label),
              .nan_is_blank = true};
  figure.y.ticks = ticks_of(view.depths);
  figure.series.emplace_back(std::move(map));
  std::vector<std::string> depths, hooks, tokens;
  std::vector<double> positions;
  for (std::size_t d = 0; d < view.depths.size(); ++d) {
    for (int t = 0; t < view.tokens; ++t) {
      depths.push_back(view.depths[d]);
      hooks.push_back(view.hooks[d]);
      positions.push_back(t);
      tokens.push_back(view.pair.clean[static_cast<std::size_t>(t)].label);
    }
  }
  const std::vector<double> best(view.best.begin(), view.best.end());
  figure.table = {{"depth", depths},
                  {"hook", hooks},
                  {"position", positions},
                  {"token", tokens},
                  {"probability", view.answer},
                  {"likeliest", best},
                  {"its probability", view.best_probability}};
  return figure;
}

bool is_whole(const ReadoutView& view) {
  const std::size_t keys = view.keys.size(), tokens = view.tokens.size();
  const auto is_place = [&](int t) { return t >= 0 && static_cast<std::size_t>(t) < tokens; };
  return keys > 0 && view.places.size() == keys && std::ranges::all_of(view.places, is_place) &&
         view.accuracy.size() == keys * tokens && view.shuffled.size() == tokens;
}

std::int64_t tokens_read(const ReadoutView& view) {
  return std::ranges::count_if(view.shuffled, [](double share) { return std::isfinite(share); });
}

/// The last row is the control with shuffled labels.
Figure readout_map(const ReadoutView& view, const std::string& subtitle) {
  Figure figure = sheet("readout", "What the state holds", subtitle,
                        {.label = "token", .ticks = token_ticks(view.tokens, static_cast<int>(view.tokens.size()) - 1)},
                        {"value of the key"});
  std::vector<double> cells = view.accuracy;
  cells.insert(cells.end(), view.shuffled.begin(), view.shuffled.end());
  HeatMap map{.name = "held-out accuracy",
              .rows = static_cast<int>(view.keys.size()) + 1,
              .cols = static_cast<int>(view.tokens.size()),
              .cells = std::move(cells),
              .value = {.label = "held-out accuracy", .range = Range{0, 1}},
              .row_labels = view.keys,
              .col_labels = mapped(view.tokens, &TokenView::label),
              .nan_is_blank = true};
  map.row_labels.emplace_back("shuffled");
  figure.y.ticks = ticks_of(map.row_labels);
  figure.series.emplace_back(std::move(map));
  std::vector<std::string> keys, tokens;
  std::vector<double> positions, accuracy, shuffled;
  for (std::size_t key = 0; key < view.keys.size(); ++key) {
    for (std::size_t t = 0; t < view.tokens.size(); ++t) {
      keys.push_back(view.keys[key]);
      positions.push_back(static_cast<double>(t));
      tokens.push_back(view.tokens[t].label);
      accuracy.push_back(view.accuracy[key * view.tokens.size() + t]);
      shuffled.push_back(view.shuffled[t]);
    }
  }
  figure.table = {{"key", keys},
                  {"position", positions},
                  {"token", tokens},
                  {"accuracy", accuracy},
                  {"shuffled, mean of all keys", shuffled}};
  return figure;
}

Figure transplant_answers(const TransplantView& view) {
  Figure figure = sheet("transplant_answer", "Answer", "bars: with the memory put in; outlines: without",
                        {"next token"}, {"probability"}, LabelPlacement::none);
  Bars bars{.name = "probability"};
  for (std::size_t i = 0; i < view.answers.size(); ++i) {
    const double x = static_cast<double>(i);
    const bool is_clean = view.answers[i] == view.pair.clean_answer;
    bars.bars.push_back({x, view.transplanted[i], view.corrupted[i], is_clean ? Ink(0) : Ink(2)});
    figure.x.ticks.push_back({x, view.labels[i]});
  }
  add_answers(figure, std::move(bars));
  figure.table = {{"token", view.labels},
                  {"clean", view.clean},
                  {"corrupted", view.corrupted},
                  {"transplanted", view.transplanted}};
  return figure;
}

Figure state_figure(const StatePart& part, const TransplantView& view, bool is_clean) {
  Figure figure = sheet("transplant_" + part.name + (is_clean ? "_clean" : "_corrupted"),
                        part.name + (is_clean ? ", clean" : ", corrupted"),
                        "head " + std::to_string(view.shown_head) + ", after token " + std::to_string(view.token),
                        {.label = "column of the state", .integer_ticks = true},
                        {.label = "row of the state", .integer_ticks = true});
  HeatMap map = signed_map(part.name, part.rows, part.columns, is_clean ? part.clean : part.corrupted,
                           std::max(max_magnitude(part.clean), max_magnitude(part.corrupted)));
  map.value.label = part.name;
  figure.series.emplace_back(std::move(map));
  return figure;
}

}  // namespace

std::string ablation_subtitle(const Observation& observation, const Selection&) {
  if (!observation.ablation)
    return why_not_yet(observation, "Switching the parts off one by one: starts within seconds.");
  const AblationView& view = *observation.ablation;
  std::string text = "accuracy " + number_text(view.accuracy, 3) + " on " + std::to_string(view.examples) +
                     " sequences with all parts on";
  if (!view.is_complete)
    text += " · " + std::to_string(view.parts.size()) + " of " + std::to_string(view.planned.size()) + " parts";
  return text + age_text(observation, view.step);
}

Figure ablation_bars(const AblationView& view, const std::string& subtitle, std::size_t first, std::size_t count) {
  Figure figure = sheet("ablation", "Ablation", subtitle, {"accuracy lost"}, {"part"}, LabelPlacement::none);
  Scatter ends{.name = "accuracy lost"};
  double most = 0.01, gained = 0;  // a part that harms has a bar to the left
  for (const AblatedPart& part : view.parts) {
    most = std::max(most, view.accuracy - part.accuracy);
    gained = std::max(gained, part.accuracy - view.accuracy);
  }
  const double width = most + gained;
  figure.x.range = Range{-gained - 0.05 * width, most + 0.25 * width};  // the bars end with numbers
  figure.y.range = Range{-static_cast<double>(count) + 0.4, 0.6};
  for (std::size_t i = first; i < std::min(first + count, view.parts.size()); ++i) {
    const AblatedPart& part = view.parts[i];
    const double row = -static_cast<double>(i - first), lost = view.accuracy - part.accuracy;
    add_bar(figure, ends, row, lost, part.name, Ink(1));
    figure.y.ticks.push_back({row, short_name(part)});
    figure.text_labels.push_back(
        {std::max(lost, 0.0) + 0.03 * width, row, number_text(lost, 3), Role::dim, Anchor::start, true});
  }
  figure.series.emplace_back(std::move(ends));
  figure.table = table_of(view);
  return figure;
}

std::vector<Figure> ablation_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  if (!observation.ablation || observation.ablation->parts.empty()) return {};
  const AblationView& view = *observation.ablation;
  const std::size_t count = std::min(shown_parts, view.parts.size());
  std::string subtitle = ablation_subtitle(observation, selection);
  if (count < view.parts.size())
    subtitle += " · the " + std::to_string(count) + " most needed of " + std::to_string(view.parts.size());
  return {ablation_bars(view, subtitle, 0, count)};
}

const AblatedPart* most_needed_mode(const AblationView* view, const HeadSpectrum& head, int mode) {
  if (!view) return nullptr;
  return find_where(view->parts, [&](const AblatedPart& one) {
    return one.sort == "mode" && one.layer == head.layer && one.head == head.head && (mode < 0 || one.mode == mode);
  });
}

std::vector<Figure> mode_needs_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const HeadSpectrum* head = selected_head(observation, selection);
  if (!head) return {};
  constexpr std::size_t most_modes = 6;
  const AblationView* view = observation.ablation.get();
  Figure figure = sheet("mode_needs", "What the answers need", ablation_subtitle(observation, selection),
                        {"accuracy lost"}, {"mode"}, LabelPlacement::none);
  Scatter ends{.name = "accuracy lost"};
  double most = 0.05;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < head->eigenvalues.size() && rows < most_modes; ++i) {
    if (head->eigenvalues[i].imag() < 0 || !std::isfinite(std::abs(head->eigenvalues[i]))) continue;
    int number = number_of_mode(*head, i);
    const double row = -static_cast<double>(rows++), tokens = mode_times(head->eigenvalues[i]).half_life;
    std::string text = " half-life " + (std::isfinite(tokens) ? number_text(tokens, 2) : "∞");
    double lost = 0;
    const AblatedPart* part = most_needed_mode(view, *head, number);
    // Of a pair the row is that of the mode that the answers need more, which the hint points at.
    const auto other = std::ranges::find(head->eigenvalues, std::conj(head->eigenvalues[i]));
    const int second = number_of_mode(*head, static_cast<std::size_t>(other - head->eigenvalues.begin()));
    const AblatedPart* partner = most_needed_mode(view, *head, second);
    if (part && partner && partner->accuracy < part->accuracy) part = partner, number = second;
    if (part) lost = view->accuracy - part->accuracy;
    // While other parts are being measured, a row without a loss says nothing yet: the next model may need the mode.
    if (part && (view->is_complete || lost >= 0.01)) {
      text = " " + number_text(-100 * lost, 2) + " % ·" + text;
    } else if (!view || !view->is_complete) {
      text = " measuring ·" + text;
    }
    most = std::max(most, lost);
    add_bar(figure, ends, row, std::max(0.0, lost), "mode " + std::to_string(number), mode_ink(number));
    figure.y.ticks.push_back({row, "mode " + std::to_string(number)});
    figure.text_labels.push_back({std::max(0.0, lost), row, text, Role::dim, Anchor::start, true});
  }
  figure.y.range = Range{-static_cast<double>(rows) + 0.4, 0.6};
  figure.x.range = Range{0, 2.2 * most};  // the bars end with texts
  figure.series.emplace_back(std::move(ends));
  return {figure};
}

std::string logit_lens_subtitle(const Observation& observation, const Selection&) {
  if (!observation.logit_lens) return why_not_yet(observation, "Reading the residual stream: starts within seconds.");
  const LogitLensView& view = *observation.logit_lens;
  if (!is_whole(view)) return "There is nothing to read.";
  return "output head on the residual stream · clean answer " + view.pair.clean_label +
         age_text(observation, view.step);
}

std::vector<Figure> logit_lens_figures(const Observation& observation, const Selection&, CurveStore&) {
  if (!observation.logit_lens || !is_whole(*observation.logit_lens)) return {};
  return {lens_bars(*observation.logit_lens), lens_map(*observation.logit_lens)};
}

std::string readout_subtitle(const Observation& observation, const Selection&) {
  if (!observation.readout)
    return why_not_yet(observation, "Reading the memory after each token: starts within seconds.");
  const ReadoutView& view = *observation.readout;
  if (view.layer < 0) return "This model carries no memory from token to token.";
  if (!is_whole(view)) return "The inspected sequence has no pairs of key and value.";
  const std::int64_t read = tokens_read(view);
  if (read == 0) return "reading the memory after the first token" + age_text(observation, view.step);
  const bool is_cut = view.is_complete && static_cast<std::size_t>(read) < view.tokens.size();
  return "ridge read-out of " + layer_name(observation, view.layer) + " · one of " + std::to_string(view.choices) +
         " values, chance level " + number_text(1.0 / view.choices, 3) +
         (is_cut ? " · the first " + std::to_string(read) + " tokens" : "") + age_text(observation, view.step);
}

std::vector<Figure> readout_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  if (!observation.readout || !is_whole(*observation.readout) || tokens_read(*observation.readout) == 0) return {};
  return {readout_map(*observation.readout, readout_subtitle(observation, selection))};
}

std::string transplant_subtitle(const Observation& observation, const Selection&) {
  if (!observation.transplant) return why_not_yet(observation, "Reading both sequences: starts within seconds.");
  const TransplantView& view = *observation.transplant;
  if (view.layer < 0) return "This model carries no memory from token to token.";
  const std::string layer = layer_name(observation, view.layer), after = " after token " + std::to_string(view.token);
  if (view.choice.part == "none") return layer + after + " · nothing is put in" + age_text(observation, view.step);
  const std::string part = view.choice.part == "all" ? "all of its memory" : view.choice.part;
  const std::string head = view.choice.head >= 0 ? ", head " + std::to_string(view.choice.head) : "";
  const std::string share = std::isfinite(view.share) ? number_text(view.share, 3) : "no";
  return layer + head + " · " + part + after + " · " + share + " of the answer is carried over" +
         age_text(observation, view.step);
}

std::vector<Figure> transplant_figures(const Observation& observation, const Selection&, CurveStore&) {
  if (!observation.transplant || observation.transplant->layer < 0) return {};
  const TransplantView& view = *observation.transplant;
  const std::size_t answers = view.answers.size();
  if (view.labels.size() != answers || view.transplanted.size() != answers || view.corrupted.size() != answers)
    return {};
  std::vector<Figure> figures{transplant_answers(view)};
  for (const StatePart& part : view.parts) {
    for (const bool is_clean : {true, false}) figures.push_back(state_figure(part, view, is_clean));
  }
  return figures;
}

namespace {

std::string patch_numbers(const Observation& o, const Selection&) {
  if (!o.patch) return "";
  const PairView& pair = o.patch->pair;
  return std::string(name_of(pair.measure)) + ": clean " + number_text(pair.clean_measure, 3) + ", corrupted " +
         number_text(pair.corrupted_measure, 3) + ", control " + number_text(o.patch->control, 3);
}

std::string transplant_numbers(const Observation& o, const Selection& selection) {
  return o.transplant ? transplant_subtitle(o, selection) : "";
}

std::string ablation_numbers(const Observation& o, const Selection& selection) {
  return o.ablation ? ablation_subtitle(o, selection) : "";
}

constexpr PlotRow causes_rows[] = {
    {"patch", set_of(Analysis::patch), LayerTrait::tokens, patch_subtitle, patch_figures, followed_patch},
    {"transplant", set_of(Analysis::transplant), LayerTrait::tokens, transplant_subtitle, transplant_figures,
     followed_transplant},
    {"readout", set_of(Analysis::readout), LayerTrait::tokens, readout_subtitle, readout_figures, followed_readout},
    {"logit_lens", set_of(Analysis::logit_lens), LayerTrait::tokens, logit_lens_subtitle, logit_lens_figures,
     followed_lens},
    {"ablation", set_of(Analysis::ablation), LayerTrait::tokens, ablation_subtitle, ablation_figures,
     followed_ablation},
    {"mode_needs", Analysis::spectra | Analysis::ablation, LayerTrait::koopman_heads, ablation_subtitle,
     mode_needs_figures},
};

constexpr CardNumbers causes_numbers[] = {{"patch", patch_numbers},           {"share_restored", patch_numbers},
                                          {"patch_path", patch_numbers},      {"patch_memory", patch_numbers},
                                          {"transplant", transplant_numbers}, {"ablation", ablation_numbers}};

}  // namespace

PlotFamily causes_plots() { return {causes_rows, causes_numbers}; }

}  // namespace afterglow
