// Rows of the grid from the model's own places and states, cells in the order of their promise.
#include "core/engine/causes/patch_measurement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/causes/pair_view.h"
#include "core/engine/influence/jacobian_measure.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

namespace {

constexpr double not_yet = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t most_cells = 256;

/// What a row is called behind its part.
std::string word_of(const std::string& place) {
  static const std::map<std::string, std::string, std::less<>> words = {
      {"stream", "residual"}, {"readout", "heads"}, {"all", "memory"}};
  const auto known = words.find(place);
  return known == words.end() ? place : known->second;
}

}  // namespace

PatchMeasurement::PatchMeasurement(const nlohmann::json& model, Trainer& trainer)
    : copy_(model, trainer),
      tape_(trainer.looking_tape()),
      places_(copy_.model(), tape_, trainer.dtype()),
      states_(copy_.model(), tape_, trainer.dtype()),
      paths_(copy_.model(), tape_, trainer.dtype(), places_) {}

bool PatchMeasurement::is_mixer(std::size_t branch) const {
  const auto& branches = copy_.model().branches();
  return branch < branches.size() && mixes_tokens(branches[branch].layer->kind());
}

int PatchMeasurement::layer_of(std::size_t branch) const {
  const auto& parts = copy_.trainer().parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].branch == static_cast<int>(branch)) return static_cast<int>(i);
  }
  return static_cast<int>(parts.size()) - 1;
}

void PatchMeasurement::add_row(std::size_t branch, const std::string& place, PatchGroup group, std::string hook) {
  const int layer = layer_of(branch);
  const std::string part = copy_.trainer().parts()[static_cast<std::size_t>(layer)].label;
  now_.rows.push_back({layer, part + " " + word_of(place), place, std::move(hook), group});
}

void PatchMeasurement::add_place_rows() {
  row_of_place_.clear();
  std::string block;
  for (const PlaceValues& place : places_.places()) {
    const std::string last = place.name.substr(place.name.rfind('.') + 1);
    const bool is_stream = last == "stream", is_behind = place.branch == copy_.model().branches().size();
    const std::string own_block = place.name.substr(0, place.name.find('.', place.name.find('.') + 1));
    const std::string hook = is_behind ? "blocks." + block.substr(block.find('.') + 1) + ".hook_resid_post"
                                       : hook_name(place.name, is_mixer(place.branch), own_block != block);
    if (!is_stream) block = own_block;
    row_of_place_.push_back(now_.rows.size());
    add_row(place.branch, last, is_stream || last == "output" ? PatchGroup::stream : PatchGroup::inside, hook);
  }
}

void PatchMeasurement::add_memory_rows() {
  Trainer& trainer = copy_.trainer();
  memory_cells_.clear();
  const auto& branches = copy_.model().branches();
  for (std::size_t b = 0; b < branches.size(); ++b) {
    for (const StateParts& part : state_parts(*branches[b].layer, trainer.backend(), trainer.dtype())) {
      const std::string block = branches[b].scope.substr(7, branches[b].scope.find('.', 7) - 7);
      const std::string hook = "blocks." + block + ".attn.hook_state" + (part.name == "all" ? "" : "_" + part.name);
      for (int t = 0; t < pair_.asked; ++t) memory_cells_.push_back({{b, part.tensors, t}, now_.rows.size()});
      add_row(b, part.name, PatchGroup::memory, hook);
    }
  }
}

void PatchMeasurement::begin(const ProbeSetup& setup) {
  copy_.take();
  Trainer& trainer = copy_.trainer();
  const Example clean = probe_example(setup, trainer.task(), trainer.seed(), copy_.model().vocab());
  pair_ = pair_of(setup, clean, trainer.task());
  places_.read(pair_);
  unpatched_.clear();
  unpatched_memories_.clear();
  now_ = {};
  now_.step = copy_.step();
  now_.pair = view_of(pair_, places_.clean_logits(), places_.corrupted_logits(), trainer.task());
  now_.tokens = static_cast<int>(pair_.clean.tokens.size());
  add_place_rows();
  add_memory_rows();
  const std::size_t cells = now_.rows.size() * static_cast<std::size_t>(now_.tokens);
  now_.attributed.assign(cells, not_yet);
  now_.exact.assign(cells, not_yet);
  attribute();
  plan();
  plan_paths();
  planned_ = pieces_left();
  turn_ = 0;
  working_ = true;
  publish();
}

void PatchMeasurement::attribute() {
  const double reach = now_.pair.clean_measure - now_.pair.corrupted_measure;
  for (std::size_t p = 0; p < row_of_place_.size(); ++p) {
    for (int t = 0; t < now_.tokens; ++t) {
      const double change = places_.places()[p].attributed(t);
      now_.attributed[now_.cell(row_of_place_[p], t)] = reach == 0 ? not_yet : change / reach + 0.0;  // no -0 in files
    }
  }
}

/// Cells at which both runs have the same numbers restore nothing, and are known without running on.
void PatchMeasurement::plan() {
  cells_.clear();
  for (std::size_t p = 0; p < row_of_place_.size(); ++p) {
    for (int t = 0; t < now_.tokens; ++t) {
      if (places_.places()[p].is_equal(t)) {
        set_exact(row_of_place_[p], t, 0.0);
      } else {
        cells_.push_back({p, t});
      }
    }
  }
  const auto promise = [&](const PlaceCell& cell) {
    const double share = std::abs(now_.attributed[now_.cell(row_of_place_[cell.place], cell.token)]);
    return std::isfinite(share) ? share : 0.0;
  };
  std::ranges::stable_sort(cells_, std::greater<>(), promise);
  // The memory after a token that both sequences begin with is the same, and so is one that is put in too late.
  const int first = now_.pair.changed.empty() ? now_.tokens : now_.pair.changed.front();
  for (const MemoryCell& cell : memory_cells_) {
    if (cell.state.token < first) set_exact(cell.row, cell.state.token, 0.0);
  }
  std::erase_if(memory_cells_, [&](const MemoryCell& cell) { return cell.state.token < first; });
  for (std::size_t row = 0; row < now_.rows.size(); ++row) {
    for (int t = pair_.asked; now_.rows[row].group == PatchGroup::memory && t < now_.tokens; ++t)
      set_exact(row, t, 0.0);
  }
}

void PatchMeasurement::set_exact(std::size_t row, int token, double share) {
  now_.exact[now_.cell(row, token)] = share + 0.0;
  ++now_.exact_cells;
}

/// As many as a pass bears, and of a large model fewer, so that a command is soon heard.
std::size_t PatchMeasurement::cells_in_a_piece() const {
  constexpr std::int64_t operations_of_a_token = 10'000'000;
  const Trainer& trainer = copy_.trainer();
  const std::int64_t tokens = std::max(1, now_.tokens), in_a_pass = tokens_in_a_pass(trainer.backend());
  const std::int64_t bearable = 2 * in_a_pass / tokens,
                     soon = in_a_pass * operations_of_a_token / (2 * trainer.parameters().count() * tokens + 1);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(std::min(bearable, soon), 1, most_cells));
}

bool PatchMeasurement::advance() {
  if (!working_) return false;
  const std::array<bool, 3> is_left{!memory_cells_.empty(), !cells_.empty(), !path_pieces_.empty()};
  for (std::size_t i = 0; i < is_left.size(); ++i, ++turn_) {
    if (!is_left[static_cast<std::size_t>(turn_) % is_left.size()]) continue;
    constexpr std::array sorts{&PatchMeasurement::patch_memories, &PatchMeasurement::patch_places,
                               &PatchMeasurement::follow_paths};
    (this->*sorts[static_cast<std::size_t>(turn_++) % sorts.size()])();
    break;
  }
  working_ = !cells_.empty() || !memory_cells_.empty() || !path_pieces_.empty();
  now_.is_complete = !working_;
  publish();
  return working_;
}

const std::vector<double>& PatchMeasurement::unpatched(std::size_t branch, std::size_t rows) {
  std::vector<double>& found = unpatched_[{branch, rows}];
  if (!found.empty()) return found;
  for (const std::vector<double>& logits : places_.unpatched(pair_, branch, rows))
    found.push_back(measured(pair_, logits));
  return found;
}

const std::vector<double>& PatchMeasurement::unpatched_memories(std::size_t cells) {
  std::vector<double>& found = unpatched_memories_[cells];
  if (!found.empty()) return found;
  const std::vector<StateCell> none(cells);
  const std::vector<std::vector<double>> logits = states_.run(pair_, none);
  for (std::size_t i = 2; i < logits.size(); ++i) found.push_back(measured(pair_, logits[i]));
  return found;
}

/// The best cell, and the next best that lie in the same branch. The last run of a pass is the control.
void PatchMeasurement::patch_places() {
  const std::size_t branch = places_.places()[cells_.front().place].branch, most = cells_in_a_piece();
  std::vector<PlaceCell> chosen;
  for (auto cell = cells_.begin(); cell != cells_.end() && chosen.size() < most;) {
    if (places_.places()[cell->place].branch == branch) {
      chosen.push_back(*cell);
      cell = cells_.erase(cell);
    } else {
      ++cell;
    }
  }
  std::vector<PlaceCell> runs = chosen;
  runs.push_back({chosen.front().place, chosen.front().token, true});
  const std::vector<std::vector<double>> logits = places_.patched(pair_, branch, runs);
  const std::vector<double>& corrupted = unpatched(branch, runs.size());
  const auto share = [&](std::size_t run) {
    return restored_share(now_.pair.clean_measure, corrupted[run], measured(pair_, logits[run]));
  };
  for (std::size_t i = 0; i < chosen.size(); ++i) set_exact(row_of_place_[chosen[i].place], chosen[i].token, share(i));
  now_.control = std::max(now_.control, std::abs(share(chosen.size())));
}

void PatchMeasurement::patch_memories() {
  const std::size_t count = std::min(cells_in_a_piece(), memory_cells_.size());
  std::vector<MemoryCell> chosen(memory_cells_.begin(), memory_cells_.begin() + static_cast<std::ptrdiff_t>(count));
  memory_cells_.erase(memory_cells_.begin(), memory_cells_.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<StateCell> runs;
  for (const MemoryCell& cell : chosen) runs.push_back(cell.state);
  runs.push_back(chosen.front().state);
  runs.back().is_control = true;
  const std::vector<std::vector<double>> logits = states_.run(pair_, runs);
  const std::vector<double>& corrupted = unpatched_memories(runs.size());
  const double clean = measured(pair_, logits.front());
  const auto share = [&](std::size_t run) {
    return restored_share(clean, corrupted[run], measured(pair_, logits[run + 2]));
  };
  for (std::size_t i = 0; i < chosen.size(); ++i) set_exact(chosen[i].row, chosen[i].state.token, share(i));
  now_.control = std::max(now_.control, std::abs(share(chosen.size())));
}

/// From the embedding and every layer to every later layer and the head.
void PatchMeasurement::plan_paths() {
  path_pieces_.clear();
  const std::size_t count = copy_.model().branches().size() + 2, most = cells_in_a_piece();
  for (const ModelPart& part : copy_.trainer().parts()) now_.parts.push_back(part.label);
  now_.paths.assign(count * count, not_yet);
  for (std::size_t receiver = 1; paths_.has_paths() && now_.parts.size() == count && receiver < count; ++receiver) {
    PathPiece piece{receiver};
    for (std::size_t sender = 0; sender < receiver; ++sender) {
      piece.senders.push_back(sender);
      if (piece.senders.size() < most && sender + 1 < receiver) continue;
      path_pieces_.push_back(piece);
      piece.senders.clear();
    }
  }
}

void PatchMeasurement::follow_paths() {
  const PathPiece piece = path_pieces_.front();
  path_pieces_.pop_front();
  const auto with = paths_.run(pair_, piece.senders, piece.receiver, 1.0),
             without = paths_.run(pair_, piece.senders, piece.receiver, 0.0);
  for (std::size_t i = 0; i < piece.senders.size(); ++i) {
    now_.paths[piece.senders[i] * now_.parts.size() + piece.receiver] =
        restored_share(now_.pair.clean_measure, measured(pair_, without[i]), measured(pair_, with[i])) + 0.0;
  }
}

void PatchMeasurement::publish() { view_ = std::make_shared<const PatchView>(now_); }

}  // namespace afterglow
