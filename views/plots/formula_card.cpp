// Joins the texts of cards with the functions that write their numbers, and finds cards.
#include "views/plots/formula_card.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "core/figure/axis.h"
#include "core/figure/math/math_text.h"
#include "core/io/named.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

using LatexSigns = std::vector<std::pair<std::string, std::string>>;

/// The signs of formulas that LaTeX writes otherwise; where several fit, the first one counts.
const LatexSigns& latex_signs() {
  static const LatexSigns signs = nlohmann::json::parse(page_texts().back().json);
  return signs;
}

FormulaCard read_card(const nlohmann::json& card) {
  return {card.at("id"),
          card.at("name"),
          card.at("formula"),
          card.at("meaning"),
          card.at("source"),
          card.value("unit", ""),
          card.value("axes", std::vector<std::string>())};
}

NumbersText numbers_of_card(const std::string& card) {
  for (const auto family : plot_families) {
    for (const CardNumbers& own : family().numbers)
      if (own.card == card) return own.numbers;
  }
  return nullptr;
}

}  // namespace

const std::vector<FormulaCard>& formula_cards() {
  static const std::vector<FormulaCard> cards = [] {
    std::vector<FormulaCard> all;
    const auto add = [&](const nlohmann::json& list) {
      for (const nlohmann::json& card : list) {
        all.push_back(read_card(card));
        all.back().numbers = numbers_of_card(all.back().id);
      }
    };
    for (const EmbeddedText& text : card_texts()) add(nlohmann::json::parse(text.json));
    for (const EmbeddedText& text : analysis_texts()) add(nlohmann::json::parse(text.json).at("cards"));
    return all;
  }();
  return cards;
}

const FormulaCard* find_card(std::string_view id) { return find_by(formula_cards(), id, &FormulaCard::id); }

const FormulaCard* card_of_axis(const Figure& figure, std::string_view label) {
  for (const FormulaCard& card : formula_cards()) {
    if (!label.empty() && std::ranges::count(card.axes, label) > 0) return &card;
  }
  return card_of_figure(figure.id);
}

const FormulaCard* card_of_figure(std::string_view id) {
  for (;;) {
    if (const FormulaCard* card = find_card(id)) return card;
    const std::size_t end = id.rfind('_');
    if (end == std::string_view::npos) return nullptr;
    id = id.substr(0, end);
  }
}

const FormulaCard* card_of_point(const Figure& figure, std::string_view id) {
  const FormulaCard* card = find_card(id.substr(0, id.find(' ')));
  return card ? card : card_of_figure(figure.id);
}

const FormulaCard* card_of_setting(std::string_view key) {
  return find_card("setting_" + std::string(key.substr(key.find_last_of(". ") + 1)));
}

std::string latex_of(std::string_view formula) {
  std::string latex;
  while (!formula.empty()) {
    const auto sign = std::ranges::find_if(latex_signs(), [&](const auto& s) { return formula.starts_with(s.first); });
    if (sign != latex_signs().end()) {
      latex += sign->second;
      formula.remove_prefix(sign->first.size());
    } else if (formula.size() > 1 && (formula[0] == '_' || formula[0] == '^') &&
               std::isalnum(static_cast<unsigned char>(formula[1]))) {
      // Every script of a word, above or below.
      std::size_t end = 1;
      while (end < formula.size() && std::isalnum(static_cast<unsigned char>(formula[end]))) ++end;
      latex += std::string(1, formula[0]) + "{" + std::string(formula.substr(1, end - 1)) + "}";
      formula.remove_prefix(end);
    } else if (const auto fraction = fraction_at(formula)) {
      latex += "\\frac{" + latex_of(fraction->above) + "}{" + latex_of(fraction->below) + "}";
      formula.remove_prefix(fraction->length);
    } else {
      latex += formula[0];
      formula.remove_prefix(1);
    }
  }
  return latex;
}

std::string gamma_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  return head ? "A = " + number_text(head->gamma, 3) + " / max(" + number_text(head->sigma, 3) +
                    ", 1) · A_w = " + number_text(head->scale, 3) + " A_w"
              : "";
}

std::string kappa_numbers(const Observation& o, const Selection& s) {
  const HeadSpectrum* head = selected_head(o, s);
  return head ? "κ = " + number_text(head->kappa, 3) + ", λ_min = " + number_text(head->lambda_min, 3) +
                    ", ε = " + number_text(head->ridge, 3)
              : "";
}

}  // namespace afterglow
