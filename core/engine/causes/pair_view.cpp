// Labels and probabilities of a pair.
#include "core/engine/causes/pair_view.h"

#include <limits>
#include <map>

#include "core/analysis/attention/softmax.h"
#include "core/engine/training/inspected_example.h"

namespace afterglow {

namespace {

double probability_of(std::span<const double> logits, int token) {
  std::vector<double> p(logits.begin(), logits.end());
  softmax_in_place(p);
  return p[static_cast<std::size_t>(token)];
}

}  // namespace

PairView view_of(const SequencePair& pair, std::span<const double> clean, std::span<const double> corrupted,
                 const Task& task) {
  PairView view;
  view.clean = token_views(pair.clean, task);
  view.corrupted = token_views(pair.corrupted, task);
  view.asked = pair.asked;
  view.clean_answer = pair.clean_answer;
  view.corrupted_answer = pair.corrupted_answer;
  view.clean_label = task.token_label(pair.clean_answer);
  view.corrupted_label = task.token_label(pair.corrupted_answer);
  view.clean_probability = probability_of(clean, pair.clean_answer);
  view.corrupted_probability = probability_of(corrupted, pair.corrupted_answer);
  view.measure = pair.measure;
  view.clean_measure = measured(pair, clean);
  view.corrupted_measure = measured(pair, corrupted);
  for (std::size_t t = 0; t < view.clean.size(); ++t) {
    if (view.clean[t].id != view.corrupted[t].id) view.changed.push_back(static_cast<int>(t));
  }
  return view;
}

double restored_share(double clean, double corrupted, double now) {
  if (clean == corrupted) return std::numeric_limits<double>::quiet_NaN();
  return (now - corrupted) / (clean - corrupted);
}

std::string hook_name(const std::string& place, bool is_mixer, bool is_first_of_block) {
  static const std::map<std::string, std::string, std::less<>> letters = {
      {"queries", "hook_q"}, {"keys", "hook_k"}, {"values", "hook_v"}, {"readout", "hook_z"}};
  const std::string block = "blocks." + place.substr(place.find('.') + 1, place.find('.', 7) - 7);
  const std::string last = place.substr(place.rfind('.') + 1);
  if (last == "stream") return block + (is_first_of_block ? ".hook_resid_pre" : ".hook_resid_mid");
  if (last == "output") return block + (is_mixer ? ".hook_attn_out" : ".hook_mlp_out");
  const auto known = letters.find(last);
  return block + (is_mixer ? ".attn." : ".mlp.") + (known == letters.end() ? "hook_" + last : known->second);
}

}  // namespace afterglow
