// Which colour stands for what, and how counts are written.
#include "views/figures/semantic_colours.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace afterglow {

Ink layer_ink(std::string_view kind) {
  struct Entry {
    std::string_view kind;
    Ink ink;
  };
  static constexpr std::array entries{Entry{"ska", 0},         Entry{"mamba2", 2},         Entry{"mamba3", 2},
                                      Entry{"koopman_mlp", 4}, Entry{"attention", 1},      Entry{"linear_attention", 5},
                                      Entry{"swiglu", 3},      Entry{"sessa", 4},          Entry{"gka", 3},
                                      Entry{"deltanet", 5},    Entry{"gated_deltanet", 4}, Entry{"gla", 5},
                                      Entry{"kalman", 3}};
  for (const Entry& entry : entries) {
    if (entry.kind == kind) return entry.ink;
  }
  return Role::faint;
}

Ink token_ink(TokenRole role) {
  switch (role) {
    case TokenRole::value:
      return 0;
    case TokenRole::query:
    case TokenRole::arrow:
    case TokenRole::equals:
      return 1;
    case TokenRole::key:
    case TokenRole::text:
      return 2;
    case TokenRole::action:
      return 4;
    case TokenRole::blank:
    case TokenRole::start:
    case TokenRole::separator:
    case TokenRole::filler:
      break;
  }
  return Role::faint;
}

std::string why_no_layer(const Observation& observation, std::string_view kind, std::string_view name) {
  for (const LayerSummary& layer : observation.model.layers) {
    if (layer.kind == kind) return "the first look at the " + std::string(name) + " layers comes within seconds";
  }
  if (observation.model.layers.empty()) return "nothing has been opened yet";
  return "this model has no " + std::string(name) + " layer; Ctrl P, load {\"preset\": \"tiny\"} opens one that has";
}

std::string why_not_yet(const Observation& observation, std::string_view soon) {
  if (!observation.model.is_forecaster) return std::string(soon);
  return "a forecaster reads rows of a series, no tokens; Ctrl P, load {\"preset\": \"tiny\"} opens a model that does";
}

std::string layer_name(const Observation& observation, int layer) {
  if (layer < 0 || layer >= static_cast<int>(observation.model.layers.size())) return "layer " + std::to_string(layer);
  return observation.model.layers[static_cast<std::size_t>(layer)].label;
}

double colour_reach(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  const double decade = std::pow(10.0, std::floor(std::log10(largest)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * decade >= largest * (1 - 1e-12)) return factor * decade;
  }
  return largest;
}

std::string grouped_number(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > 3 + sign;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array units{"B", "KB", "MB", "GB", "TB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1000 && unit + 1 < units.size()) {
    size /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || size >= 100 ? "%.0f %s" : "%.1f %s", size, units[unit]);
  return text;
}

}  // namespace afterglow
