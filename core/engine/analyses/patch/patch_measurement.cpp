// Rows of the grid from the model's hook points and states, cells sorted by estimate.
#include "core/engine/analyses/patch/patch_measurement.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/engine/analyses/influence/jacobian_measure.h"
#include "core/engine/analyses/measured_analysis.h"
#include "core/engine/causes/hook_passes.h"
#include "core/engine/session/analysis_table.h"
#include "core/io/named.h"
#include "core/layers/host_values.h"
#include "core/layers/layer_kind.h"

namespace afterglow {
namespace {

constexpr double not_yet = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t max_cells = 256;

/// The word after the part in a row's label.
std::string word_of(const std::string& place) {
  static const std::map<std::string, std::string, std::less<>> words = {
      {"stream", "residual"}, {"readout", "heads"}, {"all", "memory"}};
  const auto known = words.find(place);
  return known == words.end() ? place : known->second;
}

}  // namespace

PatchMeasurement::PatchMeasurement(const nlohmann::json& model, Trainer& trainer)
    : CopyMeasurement(model, trainer),
      places_(copy_.model(), tape_, trainer.dtype()),
      states_(copy_.model(), tape_, trainer.dtype()),
      slopes_(copy_.model(), tape_, trainer.dtype()),
      paths_(copy_.model(), tape_, trainer.dtype(), places_) {}

int PatchMeasurement::layer_of(std::size_t branch) const {
  const auto& parts = copy_.trainer().parts();
  const auto found = std::ranges::find(parts, static_cast<int>(branch), &ModelPart::branch) - parts.begin();
  return static_cast<int>(std::min(found, std::ssize(parts) - 1));
}

void PatchMeasurement::add_row(std::size_t branch, int head, const std::string& place, PatchGroup group,
                               const std::string& hook) {
  const int layer = layer_of(branch);
  std::string label = copy_.trainer().parts()[static_cast<std::size_t>(layer)].label + " ";
  label += head < 0 || place == "all" ? word_of(place) : place;
  if (head >= 0) label += " head " + std::to_string(head);
  now_.rows.push_back({layer, std::move(label), place, hook, group, head});
}

/// Only -1 (all heads together) unless the view has a row for each head.
std::vector<int> PatchMeasurement::heads_of(std::size_t branch, bool has_heads) const {
  std::vector<int> heads{-1};
  if (!by_heads_ || !has_heads) return heads;
  heads.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, copy_.model().branches()[branch].layer->heads())));
  std::iota(heads.begin(), heads.end(), 0);
  return heads;
}

void PatchMeasurement::add_place_rows() {
  place_rows_.clear();
  const auto& branches = copy_.model().branches();
  std::string block;
  for (std::size_t p = 0; p < places_.places().size(); ++p) {
    const HookValues& place = places_.places()[p];
    const std::string last = place.name.substr(place.name.rfind('.') + 1);
    const bool is_stream = last == "stream", is_behind = place.branch == branches.size();
    const std::string own_block = place.name.substr(0, place.name.find('.', place.name.find('.') + 1));
    const std::string hook =
        is_behind ? "blocks." + block.substr(block.find('.') + 1) + ".hook_resid_post"
                  : hook_name(place.name, mixes_tokens(branches[place.branch].layer->kind()), own_block != block);
    if (!is_stream) block = own_block;
    for (const int head : heads_of(place.branch, place.heads > 1)) {
      place_rows_.push_back({p, 0, false, head});
      add_row(place.branch, head, last, is_stream || last == "output" ? PatchGroup::stream : PatchGroup::inside, hook);
    }
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
      for (const int head : heads_of(b, part.has_heads)) {
        for (int t = 0; t < pair_.asked; ++t) memory_cells_.push_back({{b, part.tensors, t, head}, now_.rows.size()});
        add_row(b, head, part.name, PatchGroup::memory, hook);
      }
    }
  }
}

void PatchMeasurement::begin(const InspectionSetup& setup) {
  copy_.take();
  Trainer& trainer = copy_.trainer();
  pair_ = pair_of(setup, inspected_example(setup, trainer), trainer.task());
  places_.read(pair_);
  slopes_.read(pair_);
  unpatched_.clear();
  unpatched_memories_.clear();
  now_ = {};
  now_.step = copy_.step();
  now_.pair = view_of(pair_, places_.clean_logits(), places_.corrupted_logits(), trainer.task());
  now_.tokens = static_cast<int>(pair_.clean.tokens.size());
  by_heads_ = setup.pair.heads;
  add_place_rows();
  add_memory_rows();
  const std::size_t cells = now_.rows.size() * static_cast<std::size_t>(now_.tokens);
  now_.attributed.assign(cells, not_yet);
  now_.exact.assign(cells, not_yet);
  attribute();
  plan();
  plan_paths();
  begin_work(pieces_left());
  now_.is_complete = !working();
  turn_ = 0;
  publish();
}

void PatchMeasurement::attribute() {
  const double reach = now_.pair.clean_measure - now_.pair.corrupted_measure;
  for (std::size_t row = 0; row < place_rows_.size(); ++row) {
    for (int t = 0; t < now_.tokens; ++t) {
      const double change = places_.places()[place_rows_[row].place].attributed(t, place_rows_[row].head);
      now_.attributed[now_.cell(row, t)] = reach == 0 ? not_yet : change / reach + 0.0;  // avoids -0 in files
    }
    copy_.trainer().analysis_threads().yield();
  }
  for (const MemoryCell& cell : memory_cells_) {
    if (slopes_.knows(cell.state.branch))
      now_.attributed[now_.cell(cell.row, cell.state.token)] = slopes_.attributed(cell.state) + 0.0;
  }
}

/// Unknown estimates rank last.
double PatchMeasurement::promise(std::size_t row, int token) const {
  const double share = std::abs(now_.attributed[now_.cell(row, token)]);
  return std::isfinite(share) ? share : 0.0;
}

/// Cells at which both runs have the same numbers restore nothing and need no run.
void PatchMeasurement::plan() {
  cells_.clear();
  for (std::size_t row = 0; row < place_rows_.size(); ++row) {
    PlaceCell at = place_rows_[row];
    for (at.token = 0; at.token < now_.tokens; ++at.token) {
      if (places_.places()[at.place].is_equal(at.token, at.head)) {
        set_exact(row, at.token, 0.0);
      } else {
        cells_.push_back({at, row});
      }
    }
  }
  std::ranges::stable_sort(cells_, std::greater<>(),
                           [&](const PatchedCell& cell) { return promise(cell.row, cell.at.token); });
  // States are equal before the first difference, and too late after the queried token.
  const int first = now_.pair.changed.empty() ? now_.tokens : now_.pair.changed.front();
  std::erase_if(memory_cells_, [&](const MemoryCell& cell) { return cell.state.token < first; });
  for (std::size_t row = place_rows_.size(); row < now_.rows.size(); ++row) {
    for (int t = 0; t < now_.tokens; ++t) {
      if (t >= first && t < pair_.asked) continue;
      set_exact(row, t, 0.0);
      now_.attributed[now_.cell(row, t)] = 0;
    }
  }
  std::ranges::stable_sort(memory_cells_, std::greater<>(),
                           [&](const MemoryCell& cell) { return promise(cell.row, cell.state.token); });
}

void PatchMeasurement::set_exact(std::size_t row, int token, double share) {
  now_.exact[now_.cell(row, token)] = share + 0.0;
  ++now_.exact_cells;
}

/// As many as fit into a pass; fewer for a large model, so that commands wait less.
std::size_t PatchMeasurement::cells_in_a_piece() const {
  constexpr std::int64_t operations_of_a_token = 10'000'000;
  const Trainer& trainer = copy_.trainer();
  const std::int64_t tokens = std::max(1, now_.tokens), in_a_pass = tokens_in_a_pass(trainer.backend());
  const std::int64_t bearable = 2 * in_a_pass / tokens,
                     soon = in_a_pass * operations_of_a_token / (2 * trainer.parameters().count() * tokens + 1);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(std::min(bearable, soon), 1, max_cells));
}

bool PatchMeasurement::advance() {
  if (!working()) return false;
  const std::array<bool, 3> is_left{!memory_cells_.empty(), !cells_.empty(), !path_pieces_.empty()};
  for (std::size_t i = 0; i < is_left.size(); ++i, ++turn_) {
    if (!is_left[static_cast<std::size_t>(turn_) % is_left.size()]) continue;
    constexpr std::array sorts{&PatchMeasurement::patch_memories, &PatchMeasurement::patch_places,
                               &PatchMeasurement::follow_paths};
    (this->*sorts[static_cast<std::size_t>(turn_++) % sorts.size()])();
    break;
  }
  done_ = planned_ - pieces_left();
  now_.is_complete = !working();
  publish();
  return working();
}

const std::vector<double>& PatchMeasurement::unpatched(std::size_t branch, std::size_t rows) {
  std::vector<double>& found = unpatched_[{branch, rows}];
  if (!found.empty()) return found;
  for (const std::vector<double>& logits : places_.run(pair_, branch, rows, {}))
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

/// The best cell, and the next best ones of the same branch. The last run of a pass is the control.
void PatchMeasurement::patch_places() {
  const std::size_t branch = places_.places()[cells_.front().at.place].branch, most = cells_in_a_piece();
  std::vector<PatchedCell> chosen;
  for (auto cell = cells_.begin(); cell != cells_.end() && chosen.size() < most;) {
    if (places_.places()[cell->at.place].branch == branch) {
      chosen.push_back(*cell);
      cell = cells_.erase(cell);
    } else {
      ++cell;
    }
  }
  std::vector<PlaceCell> runs = mapped(chosen, &PatchedCell::at);
  runs.push_back(chosen.front().at);
  runs.back().is_control = true;
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].run = i;
  const std::vector<std::vector<double>> logits = places_.run(pair_, branch, runs.size(), runs);
  const std::vector<double>& corrupted = unpatched(branch, runs.size());
  const auto share = [&](std::size_t run) {
    return restored_share(now_.pair.clean_measure, corrupted[run], measured(pair_, logits[run]));
  };
  for (std::size_t i = 0; i < chosen.size(); ++i) set_exact(chosen[i].row, chosen[i].at.token, share(i));
  now_.control = std::max(now_.control, std::abs(share(chosen.size())));
}

/// Cells of the same kind: for a layer without gradients of its state each needs two more runs with a small part of the
/// difference.
std::vector<PatchMeasurement::MemoryCell> PatchMeasurement::next_memories(std::size_t runs_each) {
  const std::size_t most = (cells_in_a_piece() + runs_each - 1) / runs_each;
  const bool is_known = slopes_.knows(memory_cells_.front().state.branch);
  std::vector<MemoryCell> chosen;
  while (!memory_cells_.empty() && chosen.size() < most &&
         slopes_.knows(memory_cells_.front().state.branch) == is_known) {
    chosen.push_back(memory_cells_.front());
    memory_cells_.pop_front();
  }
  return chosen;
}

void PatchMeasurement::patch_memories() {
  constexpr double little = 1.0 / 512;
  std::vector<double> shares{1.0};
  if (!slopes_.knows(memory_cells_.front().state.branch)) shares.insert(shares.end(), {little, -little});
  const std::vector<MemoryCell> chosen = next_memories(shares.size());
  std::vector<StateCell> runs;
  for (const MemoryCell& cell : chosen) {
    for (const double of_the_way : shares) {
      runs.push_back(cell.state);
      runs.back().share = of_the_way;
    }
  }
  runs.push_back(chosen.front().state);
  runs.back().is_control = true;
  const std::vector<std::vector<double>> logits = states_.run(pair_, runs);
  const std::vector<double>& corrupted = unpatched_memories(runs.size());
  const double clean = measured(pair_, logits.front());
  const auto share = [&](std::size_t run) {
    return restored_share(clean, corrupted[run], measured(pair_, logits[run + 2]));
  };
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t run = i * shares.size();
    set_exact(chosen[i].row, chosen[i].state.token, share(run));
    if (shares.size() == 1) continue;
    now_.attributed[now_.cell(chosen[i].row, chosen[i].state.token)] = (share(run + 1) - share(run + 2)) / (2 * little);
  }
  now_.control = std::max(now_.control, std::abs(share(runs.size() - 1)));
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
  for (std::size_t i = 0; i < piece.senders.size(); ++i)
    now_.paths[piece.senders[i] * now_.parts.size() + piece.receiver] =
        restored_share(now_.pair.clean_measure, measured(pair_, without[i]), measured(pair_, with[i])) + 0.0;
}

AnalysisInfo patch_row() {
  constexpr auto begin = [](auto& measurement, const AnalysisSubject& of) { measurement.begin(of.inspected->now()); };
  // Streams and outputs at every token, each from its branch on; states token by token; paths.
  const auto work = [](const AnalysisSubject& subject) -> ModelWork {
    constexpr double memories_of_a_layer = 3;
    const double T = length_of(subject), branches = branches_of(subject), setup = (2 + reverse) * T;
    const double tokens = setup + (2 * branches + 1) * T * T / 2 + branches * branches * T;
    const double steps = memories_of_a_layer * branches * T * T;
    return {tokens, steps, setup / (tokens + passes_of_a_step * steps)};
  };
  using Form = SpareTimeAnalysis<PatchMeasurement, Analysis::patch, begin, &AnalysisResults::patch>;
  return {{}, Analysis::patch, "patch grid", make_of_tokens<Form, true>, work};
}

bool PathPasses::has_paths() const {
  return std::ranges::all_of(model_->branches(), [](const Branch& branch) { return branch.norm != nullptr; });
}

const HookValues& PathPasses::place(const std::string& name) const {
  if (const HookValues* found = find_by(places_->places(), name, &HookValues::name)) return *found;
  throw Error(ExitCode::failure, "the pair has not been read at ", name);
}

/// The sender's contribution to the stream.
const HookValues& PathPasses::sent_by(std::size_t sender) const {
  const auto& branches = model_->branches();
  if (sender == 0) return branches.empty() ? place("head.stream") : place(branches.front().scope + ".stream");
  return place(branches[sender - 1].scope + ".output");
}

Tensor PathPasses::stream_before(std::size_t branch, std::span<const std::size_t> senders, double share) const {
  const auto& branches = model_->branches();
  const HookValues& stream = place(branch < branches.size() ? branches[branch].scope + ".stream" : "head.stream");
  std::vector<double> numbers;
  for (const std::size_t sender : senders) {
    const HookValues& sent = sent_by(sender);
    for (std::size_t i = 0; i < stream.corrupted.size(); ++i)
      numbers.push_back(stream.corrupted[i] + share * (sent.clean[i] - sent.corrupted[i]));
  }
  const auto width = static_cast<std::int64_t>(stream.columns);
  const auto length = static_cast<std::int64_t>(stream.corrupted.size() / stream.columns);
  return to_device(*tape_, {static_cast<std::int64_t>(senders.size()), length, width}, dtype_, numbers);
}

std::vector<std::vector<double>> PathPasses::run(const SequencePair& pair, std::span<const std::size_t> senders,
                                                 std::size_t receiver, double share) const {
  const auto& branches = model_->branches();
  const std::size_t branch = receiver - 1;
  const auto rows = static_cast<std::int64_t>(senders.size());
  const auto finish = [&](const Tensor& stream) {
    const Tensor mask = repeated(*tape_, rows, pair.corrupted.context);
    const Var logits = model_->forward_with(*tape_, tape_->constant(stream), branch, [&](std::size_t i, const Var& in) {
      return branches[i].layer->forward(*tape_, in, mask);
    });
    return rows_of_logits(*tape_, logits.value, pair.asked);
  };
  tape_->begin(false);
  const Tensor read = stream_before(branch, senders, share);
  if (branch == branches.size()) {
    const TapeObserver unfused(*tape_, {.form = PassForm::unfused}, {});
    return finish(read);
  }
  const Hooks hooks{.values = true, .names = branches[branch].scope + ".output", .form = PassForm::unfused};
  std::vector<double> answered;
  {
    const TapeObserver observer(*tape_, hooks,
                                [&](const Hooked& at) { answered = to_host(tape_->backend(), at.var.value); });
    const Tensor mask = repeated(*tape_, rows, pair.corrupted.context);
    model_->forward_branches(*tape_, tape_->constant(read), mask, branch, branch + 1);
  }
  tape_->begin(false);
  const TapeObserver observer(*tape_, hooks, [&](const Hooked& at) {
    tape_->backend().copy(at.var.value, to_device(*tape_, at.var.shape(), dtype_, answered));
  });
  return finish(stream_before(branch, senders, 0.0));
}

}  // namespace afterglow
