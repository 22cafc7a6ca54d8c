// Reads assets/plots and assets/analyses, finds plots by name, and adds the line about their source to figures.
#include "views/plots/plot_kinds.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/figure/axis.h"
#include "core/figure/overlay.h"
#include "core/io/named.h"
#include "views/figures/semantic_colours.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

/// Refers to the texts of `info`, the plot's object in assets/plots, which must outlive it.
PlotKind kind_of(const PlotRow& row, const nlohmann::json& info) {
  const auto text = [&](const char* key) {
    return info.contains(key) ? std::string_view(info[key].get_ref<const std::string&>()) : std::string_view();
  };
  PlotKind kind{row.id, text("title"), text("about"), row.analyses, row.subtitle, row.prepare, row.needs};
  if (info.contains("smallest")) kind.smallest = {info["smallest"][0], info["smallest"][1]};
  kind.follows_inspected = info.value("follows_inspected", false);
  kind.moves_points = info.value("moves_points", false);
  kind.moves_tokens = info.value("moves_tokens", false);
  kind.steps_figures = info.value("steps_figures", false);
  kind.needs_model = info.value("needs_model", true);
  kind.followed = row.followed;
  if (const auto asks = info.find("asks"); asks != info.end())
    kind.asks = {{(*asks)[0], (*asks)[1]}, (*asks)[2].get_ref<const std::string&>()};
  kind.former_id = text("former_id");
  return kind;
}

}  // namespace

std::span<const PlotKind> plot_kinds() {
  static nlohmann::json infos;
  static const std::vector<PlotKind> kinds = [] {
    for (const EmbeddedText& file : plot_texts()) infos.update(nlohmann::json::parse(file.json));
    for (const EmbeddedText& file : analysis_texts()) infos.update(nlohmann::json::parse(file.json).at("plots"));
    std::vector<PlotKind> all;
    for (const auto family : plot_families) {
      for (const PlotRow& row : family().plots) all.push_back(kind_of(row, infos.at(std::string(row.id))));
    }
    return all;
  }();
  return kinds;
}

bool fits(const PlotKind& kind, const ModelSummary& model) {
  const LayerTrait whole = model.is_forecaster ? LayerTrait::series : LayerTrait::tokens;
  return model.layers.empty() || kind.needs == LayerTraits() || kind.needs.overlaps(whole) ||
         std::ranges::any_of(model.layers, [&](const LayerSummary& layer) { return shows(layer.kind, kind.needs); });
}

std::string why_not(const PlotKind& kind) {
  return kind.needs == LayerTraits() ? "" : "Needs " + words_for(kind.needs) + ".";
}

const PlotKind* find_plot_kind(std::string_view id) {
  return find_where(plot_kinds(),
                    [&](const PlotKind& kind) { return kind.id == id || (!id.empty() && kind.former_id == id); });
}

std::string_view present_id(std::string_view name) {
  const PlotKind* kind = find_plot_kind(name);
  return kind ? kind->id : name;
}

AnalysisSet analyses_for(std::string_view plot) {
  const PlotKind* kind = find_plot_kind(plot);
  return kind ? kind->analyses : all_analyses;
}

std::string without_interventions(const PlotKind& kind, const Observation& observation) {
  constexpr AnalysisSet of_the_model = Analysis::spectra | Analysis::trace | Analysis::solvers | Analysis::influence |
                                       Analysis::theory | Analysis::patch | Analysis::transplant | Analysis::readout |
                                       Analysis::logit_lens | Analysis::ablation | Analysis::forces |
                                       Analysis::accuracy;
  const bool is_left_out = !kind.follows_inspected && (kind.analyses & of_the_model) != 0 && observation.inspected &&
                           observation.inspected->is_edited();
  return is_left_out ? " · without interventions" : "";
}

std::string provenance_of(const Observation& o) {
  std::string line = o.preset.empty() ? "afterglow" : o.preset;
  line += " · seed " + std::to_string(o.seed) + " · step " + std::to_string(o.step);
  if (!o.checksum.empty() && o.checksum_step == o.step) line += " · " + o.checksum;
  // "CPU, 2 threads": a figure is the same for any number of threads, so they are left out.
  if (!o.device.empty()) line += " · " + o.device.substr(0, o.device.find(", "));
  return line;
}

std::optional<Command> same_sequence(const Observation& first, const Observation& second) {
  const auto ids = [](const Observation& o) {
    std::vector<int> tokens;
    const std::vector<TokenView> none;
    for (const TokenView& token : o.inspected ? o.inspected->tokens : o.trace ? o.trace->tokens : none)
      tokens.push_back(token.id);
    return tokens;
  };
  const std::vector<int> wanted = ids(first), present = ids(second);
  if (wanted.empty() || present.empty() || wanted == present) return std::nullopt;
  return Command{"probe_sequence", {{"tokens", wanted}}};
}

std::string name_beside(const Observation& one, const Observation& other) {
  const auto name_of = [](const Observation& o) { return o.folder ? o.folder->name : o.preset; };
  const bool are_alike = name_of(one) == name_of(other) && one.seed == other.seed;
  const std::string seed = name_of(one) == name_of(other) && !are_alike ? ", seed " + std::to_string(one.seed) : "";
  const std::string weights = are_alike && one.step == other.step ? " " + one.checksum.substr(0, 4) : "";
  return name_of(one) + seed + ", step " + grouped_number(one.step) + weights;
}

namespace {

/// The recipe with the view of the figure, which the window restores when it opens the figure. Stored as text, because
/// the recipe is long and figures are prepared often.
std::string carried_recipe(const std::string& recipe, const PlotKind& kind, const Figure& figure,
                           const Selection& selection) {
  if (!recipe.ends_with('}')) return recipe;
  return recipe.substr(0, recipe.size() - 1) + (recipe.size() > 2 ? "," : "") + R"("view":{"panel":")" +
         std::string(kind.id) + R"(","plot":")" + figure.id + R"(","selection":)" + selection_value(selection) + "}}";
}

std::int64_t step_of(const PlotKind& kind, const Observation& o) {
  std::int64_t step = o.step;
  for (std::size_t place = 0; place < analysis_count; ++place) {
    if ((kind.analyses >> place & 1) != 0 && o.made_at[place] >= 0) step = std::min(step, o.made_at[place]);
  }
  return step;
}

/// "Koopman spectrum · layer 1 ska, head 0 · step 460": plot, subject, step.
std::string heading_of(const PlotKind& kind, const Figure& figure, const Observation& observation) {
  std::string heading(kind.title);
  const auto add = [&](const std::string& part) {
    if (!part.empty() && part != kind.title) heading += " · " + part;
  };
  if (figure.title != figure.subject) add(figure.title);
  if (!kind.needs_model) return heading;
  add(figure.subject.empty() ? observation.preset : figure.subject);
  add("step " + grouped_number(step_of(kind, observation)));
  return heading;
}

/// On a step a mark over every axis of steps, of which curves of the training have their own; on the figure at its
/// place, at the step of its numbers, or under the title. The chips of the tokens show the others.
void add_notes(Figure& figure, const PlotKind& kind, bool is_first, const Observation& o) {
  const bool is_over_steps = figure.x.label == "step", has_marks = figure.id.starts_with("training_");
  for (const RunNote& note : o.notes) {
    const bool is_of_now = is_over_steps || note.step == step_of(kind, o), is_here = note.figure == figure.id;
    if (is_over_steps && !has_marks && note.token < 0 && note.figure.empty())
      figure.events.push_back({static_cast<double>(note.step), note.text, Role::accent});
    if (is_here && is_of_now && std::isfinite(note.x + note.y))
      figure.text_labels.push_back({note.x, note.y, "← " + note.text, Role::accent, Anchor::start, true});
    else if (is_here || (is_first && note.figure == kind.id))
      figure.subtitle = (is_of_now ? "" : "step " + grouped_number(note.step) + ": ") + note.text +
                        (figure.subtitle.empty() ? "" : " · " + figure.subtitle);
  }
}

}  // namespace

std::vector<Figure> prepared_figures(const PlotKind& kind, const Observation& observation, const Selection& selection,
                                     CurveStore& curves) {
  std::vector<Figure> figures = kind.prepare(observation, selection, curves);
  for (Figure& figure : figures) {
    figure.recipe = carried_recipe(observation.recipe, kind, figure, selection);
    figure.provenance = provenance_of(observation);
    figure.heading = heading_of(kind, figure, observation);
    figure.subtitle += without_interventions(kind, observation);
    add_notes(figure, kind, &figure == figures.data(), observation);
  }
  return figures;
}

std::vector<Figure> compared_figures(const PlotKind& kind, std::vector<Figure> figures, const Observation& first,
                                     const Observation& second, Selection selection, CurveStore& curves) {
  selection.mode = -1;  // a number of the first observation
  const std::vector<Figure> others = prepared_figures(kind, second, selection, curves);
  const std::string why = fits(kind, second.model) ? kind.subtitle(second, selection) : why_not(kind);
  return overlaid_figures(std::move(figures), others, name_beside(second, first), why, selection.only_difference);
}

}  // namespace afterglow
