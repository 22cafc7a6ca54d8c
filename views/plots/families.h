// The families of plots, one file each; plot_kinds.cpp joins the rows with the texts and sizes in assets/plots. The
// texts of their formula cards are in assets/cards, which says how to add one; formula_card.cpp joins them with the
// numbers.
#pragma once
#include <string>

#include "core/io/embedded_text.h"
#include "views/figures/plot_functions.h"
#include "views/figures/selection.h"
#include "views/plots/formula_card.h"
#include "views/plots/plot_kinds.h"
#include "views/plots/registered.h"

namespace afterglow {

/// Writes the present numbers of a card.
struct CardNumbers {
  std::string_view card;  ///< id of the card
  NumbersText numbers;
};

/// The functions of a plot; the members are those of PlotKind.
struct PlotRow {
  std::string_view id;
  AnalysisSet analyses;
  LayerTraits needs;
  SubtitleOfPlot* subtitle;
  FiguresOfPlot* prepare;
  FollowedNumber* followed = nullptr;
};

struct PlotFamily {
  std::span<const PlotRow> plots;
  std::span<const CardNumbers> numbers;  ///< of the cards that have numbers
};

/// The numbers of a card that are one text about a result; empty without the result.
template <auto result, auto text>
std::string text_about(const Observation& observation, const Selection&) {
  return observation.*result ? text(*(observation.*result)) : "";
}

/// The files of assets/plots, assets/cards, assets/analyses and assets/page.
std::span<const EmbeddedText> plot_texts();
std::span<const EmbeddedText> card_texts();
std::span<const EmbeddedText> analysis_texts();
std::span<const EmbeddedText> page_texts();

/// The gain γ of the selected head and its effect on A_w; empty without a head.
std::string gamma_numbers(const Observation& observation, const Selection& selection);
/// Condition number, smallest eigenvalue and ridge of the selected head's Gram matrix; empty without a head.
std::string kappa_numbers(const Observation& observation, const Selection& selection);

/// A cell of a grid, or a path; without a place the brightest cell.
FollowedNumber followed_patch;
/// The accuracy lost without a bar's part; without a place that of the most needed part.
FollowedNumber followed_ablation;
/// A cell; without a place the first value after the last token that was read.
FollowedNumber followed_readout;
/// A cell or bar; without a place the model's own answer.
FollowedNumber followed_lens;
FollowedNumber followed_transplant;
/// The modulus of the chosen mode, or of the strongest one.
FollowedNumber followed_mode;

}  // namespace afterglow
