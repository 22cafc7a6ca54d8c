// Bars with grey outlines: the outline is the model as it was trained.
#include "views/analyses/inspected/inspection_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

constexpr double no_ghost = std::numeric_limits<double>::quiet_NaN();

/// "whole sequence at once, after token 63 k1, right answer v2"; what was typed or written need not be right.
std::string place_text(const InspectedView& inspected, int token) {
  const TokenView& there = inspected.tokens[static_cast<std::size_t>(token)];
  std::string text = "whole sequence at once, after token " + std::to_string(token) + " " + there.label;
  const bool is_written = inspected.task.starts_with("text,");
  if (there.target >= 0)
    text += (is_written ? ", followed by " : ", right answer ") + inspected_label(inspected, there.target);
  return text;
}

/// A message instead of numbers that were not computed for a token of a long sequence or a large vocabulary.
void say_what_is_read(Figure& figure, const std::string& missing, const std::string& read) {
  figure.x.range = figure.y.range = Range{0, 1};
  figure.x.ticks = figure.y.ticks = {{0, ""}};
  figure.text_labels.push_back({0.5, 0.55, missing, Role::dim, Anchor::middle});
  figure.text_labels.push_back({0.5, 0.45, read, Role::dim, Anchor::middle});
}

Figure answer_figure(const InspectedView& inspected, int token) {
  const InspectedAnswer& answer = inspected.answers[static_cast<std::size_t>(token)];
  const int target = inspected.tokens[static_cast<std::size_t>(token)].target;
  Figure figure = sheet("probe_answer", "Answer", place_text(inspected, token), {"next token"}, {"probability"},
                        LabelPlacement::none);
  const auto read =
      std::ranges::count_if(inspected.answers, [](const InspectedAnswer& one) { return !one.tokens.empty(); });
  if (answer.tokens.empty() && read > 0) {
    say_what_is_read(figure, "token " + std::to_string(token) + " has no computed answer",
                     std::to_string(read) + " tokens have one: the questions, then the last tokens");
    return figure;
  }
  Bars bars{.name = "probability"};
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    const double x = static_cast<double>(i);
    const double after = i < answer.after.size() ? answer.after[i] : no_ghost;
    bars.bars.push_back({x, after, inspected.is_edited() && i < answer.before.size() ? answer.before[i] : no_ghost,
                         answer.tokens[i] == target ? Ink(0) : Ink(2)});
    figure.x.ticks.push_back({x, inspected_label(inspected, answer.tokens[i])});
  }
  add_answers(figure, std::move(bars));
  return figure;
}

/// Row `token` of the weights of a head; empty if it does not exist.
std::vector<float> weight_row(const TokenWeights& weights, int head, int token) {
  const auto tokens = static_cast<std::size_t>(std::max(weights.tokens, 0));
  if (head < 0 || static_cast<std::size_t>(head) >= weights.weights.size() || static_cast<std::size_t>(token) >= tokens)
    return {};
  const std::vector<float>& all = weights.weights[static_cast<std::size_t>(head)];
  if (all.size() != tokens * tokens) return {};
  const auto row = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * tokens);
  return {row, row + static_cast<std::ptrdiff_t>(tokens)};
}

Figure sources_figure(const Observation& observation, const Selection& selection, int token) {
  const InspectedView& inspected = *observation.inspected;
  const TokenWeights* trained = observation.token_weights.get();
  const TokenWeights* shown = inspected.is_edited() ? &inspected.weights : trained;
  Figure figure = sheet("probe_sources", "Token contributions", "", {.label = "earlier token", .integer_ticks = true},
                        {"weight w"}, LabelPlacement::none);
  if (!shown || shown->weights.empty()) {
    figure.subtitle = "the chosen layer has no token weights";
    return figure;
  }
  const int head = std::clamp(selection.head, 0, static_cast<int>(shown->weights.size()) - 1);
  figure.subtitle =
      layer_name(observation, shown->layer) + " · head " + std::to_string(head) + " · coloured as the tokens";
  const std::vector<float> after = weight_row(*shown, head, token);
  if (token >= shown->tokens) {
    say_what_is_read(figure, "token " + std::to_string(token) + " has no computed weights",
                     "tokens 0 to " + std::to_string(shown->tokens - 1) + " have them");
    return figure;
  }
  const bool has_ghosts = inspected.is_edited() && trained && trained->layer == shown->layer;
  const std::vector<float> before = has_ghosts ? weight_row(*trained, head, token) : std::vector<float>{};
  Bars bars{.name = "weight"};
  for (std::size_t s = 0; s < after.size(); ++s) {
    if (std::isnan(after[s])) continue;  // the future of a causal layer
    const Ink ink = s < inspected.tokens.size() ? token_ink(inspected.tokens[s].role) : Ink(Role::faint);
    bars.bars.push_back({static_cast<double>(s), static_cast<double>(after[s]),
                         s < before.size() ? static_cast<double>(before[s]) : no_ghost,
                         ink.role == Role::faint ? Ink(Role::dim) : ink});
  }
  const auto is_zero = [](const Bar& bar) { return bar.value == 0 && !(bar.before != 0 && std::isfinite(bar.before)); };
  if (std::ranges::all_of(bars.bars, is_zero)) {
    say_what_is_read(figure, "token " + std::to_string(token) + " has weights of 0 only",
                     "the layer's memory holds no earlier token yet");
    return figure;
  }
  figure.series.emplace_back(std::move(bars));
  add_level(figure, 0, "", Role::faint, Dash::solid);
  return figure;
}

}  // namespace

void add_answers(Figure& figure, Bars bars) {
  if (!bars.bars.empty()) figure.x.range = Range{-0.6, static_cast<double>(bars.bars.size()) - 0.4};
  figure.y.range = Range{0, 1.04 * probability_limit(bars)};
  figure.series.emplace_back(std::move(bars));
}

double probability_limit(const Bars& bars) {
  double largest = 0;
  for (const Bar& bar : bars.bars) largest = std::fmax(largest, std::fmax(bar.value, bar.before));
  return probability_limit(largest);
}

double probability_limit(double largest) {
  return largest > 0 && largest < 0.1 ? std::pow(10, std::ceil(std::log10(largest))) : 1;
}

const InspectedHead* inspected_head(const Observation& observation, const HeadSpectrum& head) {
  if (!observation.inspected) return nullptr;
  return find_where(observation.inspected->heads, [&](const InspectedHead& one) {
    return one.spectrum.layer == head.layer && one.spectrum.head == head.head;
  });
}

const InspectedMlp* inspected_mlp(const Observation& observation, const MlpSpectrum& mlp) {
  if (!observation.inspected) return nullptr;
  return find_by(observation.inspected->mlps, mlp.layer, [](const InspectedMlp& one) { return one.spectrum.layer; });
}

const MlpSpectrum* seen_mlp(const Observation& observation, const Selection& selection) {
  const MlpSpectrum* mlp = selected_mlp(observation, selection);
  const InspectedMlp* inspected = mlp ? inspected_mlp(observation, *mlp) : nullptr;
  return inspected ? &inspected->spectrum : mlp;
}

const HeadSpectrum* seen_head(const Observation& observation, const Selection& selection) {
  const HeadSpectrum* head = selected_head(observation, selection);
  const InspectedHead* inspected = head ? inspected_head(observation, *head) : nullptr;
  return inspected ? &inspected->spectrum : head;
}

namespace {

/// An intervention on either mode of a pair holds for both, so a command that changes or ends it must name the same
/// mode in the same way.
void name_as_edited(const ModeEdits& edits, const HeadSpectrum& head, std::size_t i, MeantMode& mode) {
  for (std::size_t k = 0; k < head.eigenvalues.size(); ++k) {
    if (k != i && head.eigenvalues[k] != std::conj(head.eigenvalues[i])) continue;
    for (const bool is_number : {true, false}) {
      const int name = is_number ? number_of_mode(head, k) : static_cast<int>(k);
      if (!edits.contains({is_number, name})) continue;
      mode.name.is_number = is_number;
      mode.name.mode = name;
    }
  }
}

}  // namespace

std::optional<MeantMode> meant_mode(const Observation& observation, const Selection& selection) {
  const auto is_off = [](const auto* inspected, std::size_t i) {
    return inspected && i < inspected->is_off.size() && inspected->is_off[i];
  };
  if (selection.mode < 0) return std::nullopt;
  if (mlp_is_selected(observation, selection)) {
    const MlpSpectrum& mlp = *seen_mlp(observation, selection);
    const auto pair = static_cast<std::size_t>(selection.mode);
    if (pair >= mlp.eigenvalues.size()) return std::nullopt;
    return MeantMode{
        {mlp.layer, 0, false, selection.mode}, mlp.eigenvalues[pair], is_off(inspected_mlp(observation, mlp), pair)};
  }
  const HeadSpectrum* head = seen_head(observation, selection);
  if (!head) return std::nullopt;
  const auto found = std::find(head->identity.begin(), head->identity.end(), selection.mode);
  if (found == head->identity.end()) return std::nullopt;
  const auto i = static_cast<std::size_t>(found - head->identity.begin());
  const InspectedHead* inspected = inspected_head(observation, *head);
  MeantMode mode{{head->layer, head->head, true, selection.mode}, head->eigenvalues[i], is_off(inspected, i)};
  if (inspected)
    name_as_edited(changes_of(observation.inspected->setup.interventions, head->layer, head->head).modes, *head, i,
                   mode);
  return mode;
}

int asked_token(const Observation& observation, const Selection& selection) {
  if (!observation.inspected || observation.inspected->tokens.empty()) return -1;
  const std::vector<TokenView>& tokens = observation.inspected->tokens;
  const int last = static_cast<int>(tokens.size()) - 1;
  if (selection.token >= 0) return std::min(selection.token, last);
  for (int t = last; t >= 0; --t) {
    if (tokens[static_cast<std::size_t>(t)].target >= 0) return t;
  }
  return last;
}

std::string inspected_label(const InspectedView& inspected, int token) {
  return label_among(inspected.labels ? std::span(*inspected.labels) : std::span<const std::string>(), token);
}

std::string accuracy_change(const InspectedView& inspected, std::string (*text)(double share)) {
  const double before = inspected.accuracy_before, after = inspected.accuracy_after;
  const std::string now = !inspected.accuracy_is_old ? text(after) : after == before ? "…" : text(after) + " …";
  return text(before) + " → " + now;
}

std::string accuracy_change(const Observation& observation) {
  if (!observation.inspected) return "";
  const InspectedView& inspected = *observation.inspected;
  const auto text = [](double share) { return number_text(share, 3); };
  return "accuracy " + (inspected.is_edited() ? accuracy_change(inspected, text) : text(inspected.accuracy_before));
}

std::string inspected_subtitle(const Observation& observation, const Selection&) {
  if (!observation.inspected) return why_not_yet(observation, "Reading the first sequence: starts within seconds.");
  const InspectedView& inspected = *observation.inspected;
  std::string text = accuracy_change(observation) + " on " + std::to_string(inspected.examples) + " sequences";
  if (!inspected.task.empty()) text = "a sequence of " + inspected.task + " · " + text;
  if (inspected.is_edited()) text += " · grey: without interventions";
  return text + age_text(observation, inspected.step);
}

std::vector<Figure> inspection_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const int token = asked_token(observation, selection);
  if (token < 0 || static_cast<std::size_t>(token) >= observation.inspected->answers.size()) return {};
  return {answer_figure(*observation.inspected, token), sources_figure(observation, selection, token)};
}

namespace {

std::string inspected_numbers(const Observation& o, const Selection&) { return accuracy_change(o); }

constexpr PlotRow sequence_rows[] = {
    {"stepper", set_of(Analysis::trace), LayerTrait::tokens, stepper_subtitle, stepper_figures},
    {"inside", set_of(Analysis::trace), LayerTrait::ridge_systems | LayerTrait::feedback, inside_subtitle,
     inside_figures},
    {"token_spectrum", set_of(Analysis::trace), LayerTrait::koopman_heads, token_spectrum_subtitle,
     token_spectrum_figures},
    {"token_weights", set_of(Analysis::trace), LayerTrait::tokens, token_weights_subtitle, token_weights_figures},
    {"probe", Analysis::inspected | Analysis::spectra | Analysis::trace, LayerTrait::tokens, inspected_subtitle,
     inspection_figures},
};

constexpr CardNumbers sequence_numbers[] = {{"probe", inspected_numbers}, {"probe_answer", inspected_numbers}};

}  // namespace

PlotFamily sequence_plots() { return {sequence_rows, sequence_numbers}; }

}  // namespace afterglow
