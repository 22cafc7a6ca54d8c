// Interventions on the selected head, with their effect on the accuracy.
#include <algorithm>

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

/// One chip for each head, lit while the head is on; a click selects the head, a click on the selected head switches it
/// off or on.
double draw_head_switches(Frame& frame, const HeadSpectrum& head, const Rect& row) {
  constexpr int max_heads = 8;
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  row_text(frame.look, canvas, row, "heads", {body_size, FontFace::regular, theme.dim, Anchor::start});
  const int heads = heads_of_layer(*frame.seen().spectra, head.layer);
  double right = row.right();
  for (int h = std::min(heads, max_heads) - 1; h >= 0; --h) {
    HeadSpectrum other;
    other.layer = head.layer;
    other.head = h;
    const InspectedHead* inspected = inspected_head(frame.seen(), other);
    const bool is_off = inspected && inspected->head_is_off, is_selected = h == head.head;
    const std::string name = std::to_string(h) + (is_off ? " off" : "");
    const ChipResult chip = header_chip(frame, ("h" + std::to_string(h)).c_str(), right, row, name, is_selected,
                                        is_selected ? (is_off ? "Switches this head on" : "Switches this head off")
                                                    : "Selects head " + std::to_string(h));
    if (chip.clicked && is_selected) {
      frame.commands.send("head_off", {{"layer", head.layer}, {"head", h}, {"off", !is_off}});
    } else if (chip.clicked) {
      frame.commands.send("select", {{"head", h}, {"all_heads", false}});
    }
    right = chip.left;
  }
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

/// Of a Koopman MLP only modes can be changed.
double draw_pair_interference(Frame& frame, const MlpSpectrum& mlp, const Rect& area) {
  const InspectedMlp* inspected = inspected_mlp(frame.seen(), mlp);
  frame.state.drawn.interventions = true;
  ImGui::PushID("interference");
  double y = area.y;
  const auto row = [&](double height) { return Rect{area.x, y, area.width, frame.px(height)}; };
  y += section_head(frame, row(20), "Intervene · " + layer_name(frame.seen(), mlp.layer));
  y += draw_consequence(frame, row(fact_height));
  y += draw_mode_switch(frame, mlp.layer, 0, mlp.eigenvalues.size(),
                        inspected ? inspected->is_off : std::vector<bool>{}, row(switch_height));
  ImGui::PopID();
  return y - area.y;
}

}  // namespace

double draw_interference(Frame& frame, const Rect& area) {
  if (mlp_is_selected(frame.seen(), frame.state.selection))
    return draw_pair_interference(frame, *selected_mlp(frame.seen(), frame.state.selection), area);
  const HeadSpectrum* trained = selected_head(frame.seen(), frame.state.selection);
  if (!trained) return draw_awaited(frame, area);
  frame.state.drawn.interventions = true;
  const InspectedHead* inspected = inspected_head(frame.seen(), *trained);
  const HeadSpectrum& seen = inspected ? inspected->spectrum : *trained;
  ImGui::PushID("interference");
  double y = area.y;
  const auto row = [&](double height) { return Rect{area.x, y, area.width, frame.px(height)}; };
  y += section_head(
      frame, row(20),
      "Intervene · " + layer_name(frame.seen(), trained->layer) + " · head " + std::to_string(trained->head));
  y += draw_consequence(frame, row(fact_height));
  y += draw_head_switches(frame, *trained, row(switch_height));
  y += draw_mode_switch(frame, trained->layer, trained->head, seen.eigenvalues.size(),
                        inspected ? inspected->is_off : std::vector<bool>{}, row(switch_height));
  const auto token = static_cast<std::size_t>(std::max(0, asked_token(frame.seen(), frame.state.selection)));
  const auto& view = frame.seen().inspected;
  const bool is_summed = view && view->summed_layer == trained->layer && token < view->sum_weights.size();
  for (const Setting& knob :
       knobs_of(seen, *trained, static_cast<int>(token), is_summed ? view->sum_weights[token] : 1)) {
    Setting setting = knob;
    setting.key = "override " + knob.key;
    y += value_slider(frame, setting, row(0), [&](double value, bool is_live) {
      const bool is_of_token = knob.key == "token";
      nlohmann::json fields{{"layer", trained->layer}, {"to", value}, {"live", is_live}};
      fields[is_of_token ? "tokens" : "key"] = is_of_token ? nlohmann::json(token) : nlohmann::json(knob.key);
      if (knob.key == "gamma" || knob.key == "eta") fields["head"] = trained->head;
      frame.commands.send(is_of_token ? "mask" : "override", fields);
    });
  }
  ImGui::PopID();
  return y - area.y;
}

}  // namespace afterglow
