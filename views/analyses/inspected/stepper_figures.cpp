// State matrices as heat maps whose colours stay the same over the tokens, and the answer as bars.
#include <algorithm>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

using Matrix = std::vector<float>;

struct MatrixView {
  std::string id, title, subtitle, row_axis, col_axis;
  int rows = 0, cols = 0;
};

/// `before` is empty for the state itself; otherwise the figure shows now - before.
Figure matrix_figure(const MatrixView& view, const Matrix& now, const Matrix& before, double reach) {
  HeatMap map = signed_map(view.id, view.rows, view.cols, now, reach);
  std::vector<double> cells(now.begin(), now.end());
  const bool is_change = before.size() == now.size() && !now.empty();
  for (std::size_t i = 0; is_change && i < cells.size(); ++i) cells[i] -= static_cast<double>(before[i]);
  map.cells = std::move(cells);
  Figure figure =
      sheet("stepper_" + view.id + (is_change ? "_change" : ""), view.title, view.subtitle,
            {.label = view.col_axis, .integer_ticks = true}, {.label = view.row_axis, .integer_ticks = true});
  figure.series.emplace_back(std::move(map));
  return figure;
}

void add_head_matrices(std::vector<Figure>& figures, const Trace& trace, std::size_t token, std::size_t head,
                       bool change) {
  const HeadStep& now = trace.steps[token].heads[head];
  const HeadStep& last = trace.steps.back().heads[head];
  const auto add = [&](const MatrixView& view, Matrix HeadStep::*member) {
    Matrix before;
    if (change) before = token > 0 ? trace.steps[token - 1].heads[head].*member : Matrix((now.*member).size(), 0.0f);
    double reach = std::max(max_magnitude(now.*member), max_magnitude(last.*member));
    if (change) {
      Matrix difference(now.*member);
      for (std::size_t i = 0; i < difference.size() && i < before.size(); ++i) difference[i] -= before[i];
      reach = max_magnitude(difference);
    }
    figures.push_back(matrix_figure(view, now.*member, before, reach));
  };
  add({"G", "G", "Σ z zᵀ: which keys were seen", "key dimension", "key dimension", trace.rank, trace.rank},
      &HeadStep::G);
  add({"M", "M", "Σ z₊ zᵀ: which key follows which", "next key", "key", trace.rank, trace.rank}, &HeadStep::M);
  add({"C", "C", "Σ v zᵀ: which value belongs to which key", "value dimension", "key dimension", trace.value_width,
       trace.rank},
      &HeadStep::C);
}

void add_generic_state(std::vector<Figure>& figures, const Observation& observation, std::size_t token, bool change) {
  const Trace& trace = *observation.trace;
  const Matrix& now = trace.steps[token].state;
  if (now.empty() || trace.state_rows <= 0 || trace.state_columns <= 0) return;
  Matrix before;
  if (change) before = token > 0 ? trace.steps[token - 1].state : Matrix(now.size(), 0.0f);
  const double reach = std::max(max_magnitude(now), max_magnitude(trace.steps.back().state));
  figures.push_back(matrix_figure({"state", "State of " + layer_name(observation, trace.layer), "", "row of the state",
                                   "column of the state", trace.state_rows, trace.state_columns},
                                  now, before, reach));
}

Figure answer_figure(const Trace& trace, std::size_t token) {
  Figure figure = sheet("stepper_answer", "Answer", "read token by token: most probable next tokens", {"next token"},
                        {"probability"}, LabelPlacement::none);
  const TokenStep& step = trace.steps[token];
  const int target = token < trace.tokens.size() ? trace.tokens[token].target : -1;
  Bars bars{.name = "probability", .width = 0.6};
  const std::size_t shown = std::min(step.top_tokens.size(), step.top_probabilities.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Ink ink = step.top_tokens[i] == target ? Ink(0) : Ink(2);  // as in the panel of the sequence
    bars.bars.push_back(
        {static_cast<double>(i), step.top_probabilities[i], std::numeric_limits<double>::quiet_NaN(), ink});
    figure.x.ticks.push_back({static_cast<double>(i), label_among(trace.labels, step.top_tokens[i])});
  }
  figure.x.range = Range{-0.6, std::max(1.0, static_cast<double>(shown)) - 0.4};
  figure.y.range = Range{0, probability_limit(bars)};
  figure.series.emplace_back(std::move(bars));
  return figure;
}

/// The pictures of a head at the chosen token; nullptr without any.
const std::vector<StepPicture>* chosen_pictures(const Observation& observation, const Selection& selection) {
  const int token = selected_token(observation, selection);
  if (token < 0) return nullptr;
  const auto& all = observation.trace->steps[static_cast<std::size_t>(token)].pictures;
  if (all.empty()) return nullptr;
  return &all[static_cast<std::size_t>(std::clamp(selection.head, 0, static_cast<int>(all.size()) - 1))];
}

/// Positive quantities on a logarithmic scale, a line for each row.
Figure curves_figure(const StepPicture& picture) {
  constexpr double lowest = 1e-17;  // replaces 0
  Figure figure = sheet("", picture.symbol, picture.about, {.label = picture.across, .integer_ticks = true},
                        {.label = picture.symbol, .scale = Scale::log});
  const auto columns = static_cast<std::size_t>(picture.columns);
  for (std::size_t row = 0; row < picture.curves.size(); ++row) {
    std::vector<double> x, y;
    for (std::size_t i = 0; i < columns; ++i) {
      x.push_back(static_cast<double>(i));
      y.push_back(std::max(lowest, static_cast<double>(picture.cells[row * columns + i])));
    }
    figure.series.push_back(
        Line{.name = picture.curves[row], .curve = {std::move(x), std::move(y)}, .ink = static_cast<int>(row)});
  }
  return figure;
}

Figure picture_figure(const StepPicture& picture, std::size_t number) {
  if (!picture.curves.empty()) {
    Figure figure = curves_figure(picture);
    figure.id = "inside_" + std::to_string(number);
    return figure;
  }
  constexpr int max_numbers = 32;  // largest number of columns with numbers in the cells
  const bool is_vector = picture.rows == 1;
  Figure figure = matrix_figure(
      {std::to_string(number), picture.symbol, picture.about, is_vector ? picture.symbol : "row",
       is_vector && picture.across == "column" ? "component" : picture.across, picture.rows, picture.columns},
      picture.cells, {}, max_magnitude(picture.cells));
  figure.id = "inside_" + std::to_string(number);
  if (is_vector) figure.y.ticks = {{0, ""}};
  auto& map = std::get<HeatMap>(figure.series.front());
  map.name = picture.symbol;
  map.shows_numbers = picture.columns <= max_numbers;
  return figure;
}

/// The divisor of a head's keys after the token; empty for layers without such a scale.
std::string scale_text(const Trace& trace, const Selection& selection, int token) {
  const int head = selected_trace_head(trace, selection);
  const std::vector<HeadStep>& heads = trace.steps[static_cast<std::size_t>(token)].heads;
  if (head < 0 || static_cast<std::size_t>(head) >= heads.size()) return "";
  const std::string scale = " · m " + number_text(heads[static_cast<std::size_t>(head)].m, 3);
  const int behind = trace.scale_kept_behind;
  return behind < 0 || token <= behind ? scale : scale + " frozen after token " + std::to_string(behind);
}

}  // namespace

std::string stepper_subtitle(const Observation& observation, const Selection& selection) {
  const int token = selected_token(observation, selection);
  if (token < 0) return why_not_yet(observation, "Computing the states token by token: starts within seconds.");
  const Trace& trace = *observation.trace;
  std::string text = layer_name(observation, trace.layer);
  if (const int head = selected_trace_head(trace, selection); head >= 0) text += " · head " + std::to_string(head);
  text += " · token " + std::to_string(token);
  if (token < static_cast<int>(trace.tokens.size())) text += " " + trace.tokens[static_cast<std::size_t>(token)].label;
  return text + scale_text(trace, selection, token) + " · " + bytes_text(trace.state_bytes) + " of state" +
         age_text(observation, trace.step);
}

std::vector<Figure> stepper_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const int chosen = selected_token(observation, selection);
  if (chosen < 0) return {};
  const auto token = static_cast<std::size_t>(chosen);
  const Trace& trace = *observation.trace;
  std::vector<Figure> figures;
  const int head = selected_trace_head(trace, selection);
  if (head >= 0 && static_cast<std::size_t>(head) < trace.steps[token].heads.size()) {
    add_head_matrices(figures, trace, token, static_cast<std::size_t>(head), selection.change);
  } else {
    add_generic_state(figures, observation, token, selection.change);
  }
  figures.push_back(answer_figure(trace, token));
  return figures;
}

std::string inside_subtitle(const Observation& observation, const Selection& selection) {
  const int token = selected_token(observation, selection);
  if (token < 0) return why_not_yet(observation, "Computing the states token by token: starts within seconds.");
  const Trace& trace = *observation.trace;
  const std::string layer = layer_name(observation, trace.layer);
  const std::vector<StepPicture>* pictures = chosen_pictures(observation, selection);
  if (!pictures && trace.steps.back().pictures.empty()) return layer + " has no such steps: choose another layer.";
  if (!pictures) return layer + " is large, so only its last token is shown: choose that.";
  return layer + " · head " + std::to_string(std::max(0, selection.head)) + " · token " + std::to_string(token) + " " +
         trace.tokens[static_cast<std::size_t>(token)].label + " · in " + std::to_string(pictures->size()) +
         " pictures";
}

std::vector<Figure> inside_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  std::vector<Figure> figures;
  const std::vector<StepPicture>* pictures = chosen_pictures(observation, selection);
  if (!pictures) return figures;
  for (const StepPicture& picture : *pictures) figures.push_back(picture_figure(picture, figures.size() + 1));
  return figures;
}

}  // namespace afterglow
