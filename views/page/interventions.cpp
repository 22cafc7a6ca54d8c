// Interventions on the selected head, with their effect on the accuracy.
#include <algorithm>
#include <utility>

#include "core/figure/axis.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/page/page.h"
#include "views/panels/panel.h"
#include "views/widgets/sliders.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr double fact_height = 23, switch_height = 24;  ///< of its rows, in layout units

/// The settings of the layer, then those of the head alone; `seen` is the head with its interventions. The last is the
/// weight of a token in the layer's sums.
std::vector<Setting> knobs_of(const HeadSpectrum& seen, const HeadSpectrum& trained, int token, double weight) {
  return {
      {"K", "power K", "", "Answers use another power; training keeps its own.", static_cast<double>(seen.power), 0, 8,
       static_cast<double>(trained.power), false, true},
      {"ridge", "ridge ε", "", "Answers use another ridge; training keeps its own.", seen.ridge, 1e-6, 1, trained.ridge,
       true, false},
      {"gamma", "gain γ", "", "Answers use another gain on this head's eigenvalues.", seen.gamma, 0, 2, trained.gamma,
       false, false},
      {"eta", "gain η", "", "Answers use another gain on this head's output.", seen.eta, 0, 4, trained.eta, false,
       false},
      {"token", "weight of token " + std::to_string(token), "",
       "Answers use this weight of the token in the layer's sums; 0 leaves it out.", weight, 0, 1, 1, false, false}};
}

/// A click on the selected head switches it off or on.
double draw_head_switches(Frame& frame, int layer, int heads, int selected, const Rect& row) {
  FigureCanvas canvas = frame.look.canvas();
  row_text(frame.look, canvas, row, "heads", {body_size, FontFace::regular, frame.look.theme->dim, Anchor::start});
  draw_head_chips(frame, row.right(), row, heads, selected, layer);
  return row.height;
}

/// "modes off  3 of 16": a click on the number switches all modes off, or on again.
double draw_mode_switch(Frame& frame, int layer, int head, std::size_t modes, const std::vector<bool>& is_off,
                        const Rect& row) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const auto off = std::count(is_off.begin(), is_off.end(), true);
  row_text(frame.look, canvas, row, "modes off", {body_size, FontFace::regular, theme.dim, Anchor::start});
  const std::string text = std::to_string(off) + " of " + std::to_string(modes);
  command_chip(frame, {"mode_off", {{"layer", layer}, {"head", head}, {"off", off == 0}}}, "modes", row.right(), row,
               text, off > 0,
               off > 0 ? "Switches all modes on" : "Switches all modes off; right click a dot to switch one mode");
  return row.height;
}

double draw_consequence(const Frame& frame, const Rect& row) {
  constexpr const char* label = "resulting accuracy";
  const auto& inspected = frame.seen().inspected;
  const Theme& theme = *frame.look.theme;
  if (!inspected || !inspected->is_edited())
    return draw_fact(frame, row, label, inspected ? "unchanged" : "–", theme.faint, FontFace::mono);
  return draw_fact(frame, row, label, accuracy_change(*inspected, [](double share) { return number_text(share, 3); }),
                   inspected->accuracy_after < inspected->accuracy_before ? theme.failure : theme.series[0],
                   FontFace::mono);
}

/// Keeps the height of the section before its head is known, so that nothing below moves later; 0 if the model has no
/// such head.
double draw_awaited(Frame& frame, const Rect& area) {
  const auto has_heads = [](const LayerSummary& layer) { return shows(layer.kind, LayerTrait::koopman_heads); };
  if (std::ranges::none_of(frame.seen().model.layers, has_heads)) return 0;
  const double head = section_head(frame, area, "Intervene");
  FigureCanvas canvas = frame.look.canvas();
  row_text(frame.look, canvas, {area.x, area.y + head, area.width, frame.px(fact_height)},
           "Appears with the first spectrum.", {small_size, FontFace::regular, frame.look.theme->faint, Anchor::start});
  return head +
         frame.px(fact_height + 2 * switch_height + static_cast<double>(knobs_of({}, {}, 0, 1).size()) * slider_height);
}

/// The heads of a layer without an operator, which can only be switched off; 0 for other layers.
int plain_heads(const ModelSummary& model, int layer) {
  if (model.is_forecaster || layer < 0 || std::cmp_greater_equal(layer, model.layers.size())) return 0;
  const LayerSummary& one = model.layers[static_cast<std::size_t>(layer)];
  return one.heads > 1 && !shows(one.kind, LayerTrait::koopman_heads) ? one.heads : 0;
}

/// Switches and sliders of a head with an operator.
double draw_operator_rows(Frame& frame, const HeadSpectrum& trained, const Rect& area) {
  const InspectedHead* inspected = inspected_head(frame.seen(), trained);
  const HeadSpectrum& seen = inspected ? inspected->spectrum : trained;
  double y = area.y;
  const auto row = [&](double height) { return Rect{area.x, y, area.width, frame.px(height)}; };
  y += draw_head_switches(frame, trained.layer, heads_of_layer(*frame.seen().spectra, trained.layer), trained.head,
                          row(switch_height));
  y += draw_mode_switch(frame, trained.layer, trained.head, seen.eigenvalues.size(),
                        inspected ? inspected->is_off : std::vector<bool>{}, row(switch_height));
  const auto token = static_cast<std::size_t>(std::max(0, asked_token(frame.seen(), frame.state.selection)));
  const auto& view = frame.seen().inspected;
  const bool is_summed = view && view->summed_layer == trained.layer && token < view->sum_weights.size();
  for (const Setting& knob :
       knobs_of(seen, trained, static_cast<int>(token), is_summed ? view->sum_weights[token] : 1)) {
    Setting setting = knob;
    setting.key = "override " + knob.key;
    y += value_slider(frame, setting, row(0), [&](double value, bool is_live) {
      const bool is_of_token = knob.key == "token";
      nlohmann::json fields{{"layer", trained.layer}, {"to", value}, {"live", is_live}};
      fields[is_of_token ? "tokens" : "key"] = is_of_token ? nlohmann::json(token) : nlohmann::json(knob.key);
      if (knob.key == "gamma" || knob.key == "eta") fields["head"] = trained.head;
      frame.commands.send(is_of_token ? "mask" : "override", fields);
    });
  }
  return y - area.y;
}

}  // namespace

double draw_interference(Frame& frame, int layer, const Rect& area) {
  const Observation& seen = frame.seen();
  const Selection& selection = frame.state.selection;
  const int heads = plain_heads(seen.model, layer);
  const MlpSpectrum* mlp = heads == 0 && mlp_is_selected(seen, selection) ? selected_mlp(seen, selection) : nullptr;
  const HeadSpectrum* trained = heads == 0 && !mlp ? selected_head(seen, selection) : nullptr;
  if (heads == 0 && !mlp && !trained) return draw_awaited(frame, area);
  frame.state.drawn.interventions = true;
  ImGui::PushID("interference");
  double y = area.y;
  const auto row = [&](double height) { return Rect{area.x, y, area.width, frame.px(height)}; };
  const std::string place = layer_name(seen, mlp ? mlp->layer : trained ? trained->layer : layer);
  y += section_head(frame, row(20),
                    "Intervene · " + place + (trained ? " · head " + std::to_string(trained->head) : ""));
  y += draw_consequence(frame, row(fact_height));
  if (heads > 0) y += draw_head_switches(frame, layer, heads, std::min(selection.head, heads - 1), row(switch_height));
  if (const InspectedMlp* inspected = mlp ? inspected_mlp(seen, *mlp) : nullptr; mlp)
    y += draw_mode_switch(frame, mlp->layer, 0, mlp->eigenvalues.size(),
                          inspected ? inspected->is_off : std::vector<bool>{}, row(switch_height));
  if (trained) y += draw_operator_rows(frame, *trained, row(0));
  ImGui::PopID();
  return y - area.y;
}

}  // namespace afterglow
