// Records the values at the hook points of a pass, and writes clean numbers over corrupted ones.
#include "core/engine/causes/hook_passes.h"

#include <algorithm>
#include <map>

#include "core/engine/training/inspected_example.h"
#include "core/io/error.h"
#include "core/layers/host_values.h"

namespace afterglow {

bool HookValues::is_equal(int token, int head) const {
  return std::ranges::equal(row(clean, token, head), row(corrupted, token, head));
}

double HookValues::attributed(int token, int head) const {
  const auto from = row(corrupted, token, head), to = row(clean, token, head), slope = row(gradient, token, head);
  double sum = 0;
  for (std::size_t i = 0; i < slope.size(); ++i) sum += (to[i] - from[i]) * slope[i];
  return sum;
}

Tensor tokens_at(const Tensor& place, std::int64_t sequence, std::int64_t first, std::int64_t count) {
  const std::int64_t length = place.shape[1], rows = place.rows() / (place.shape[0] * length);
  const std::int64_t begin = (sequence * length + first) * rows * place.row_stride;
  Tensor tokens(place.as<std::byte>() + begin * static_cast<std::int64_t>(size_of(place.dtype)),
                {count * rows, place.columns()}, place.dtype);
  tokens.row_stride = place.row_stride;
  return tokens;
}

std::vector<std::vector<double>> rows_of_logits(Tape& tape, const Tensor& logits, int token) {
  const std::int64_t batch = logits.shape[0], vocab = logits.shape.last();
  const Tensor rows = tape.scratch({batch, vocab}, logits.dtype);
  for (std::int64_t b = 0; b < batch; ++b)
    tape.backend().copy(rows.at(b).reshaped({1, vocab}), tokens_at(logits, b, token, 1));
  const std::vector<double> all = to_host(tape.backend(), rows);
  std::vector<std::vector<double>> result;
  for (std::int64_t b = 0; b < batch; ++b) result.emplace_back(all.begin() + b * vocab, all.begin() + (b + 1) * vocab);
  return result;
}

namespace {

/// At all hook points; three times as many are stored. The streams of Echo-50M with 1,024 tokens are 30 million.
constexpr std::int64_t max_numbers = std::int64_t{32} << 20;

bool is_of_stream(const std::string& place) { return place.ends_with(".stream") || place.ends_with(".output"); }

/// The branch whose scope begins the name; one past the last for the head.
std::size_t branch_of(const Model& model, const std::string& name) {
  const auto& branches = model.branches();
  const auto begins = [&](const Branch& branch) { return name.starts_with(branch.scope + "."); };
  return static_cast<std::size_t>(std::ranges::find_if(branches, begins) - branches.begin());
}

/// The heads, if they are an axis [B,T,H,width] or if the layer says that columns belong to them.
std::size_t heads_of(const Model& model, std::size_t branch, const std::string& place, const Tensor& value) {
  if (branch >= model.branches().size()) return 1;
  const Layer& layer = *model.branches()[branch].layer;
  if (value.shape.rank() == 3) return static_cast<std::size_t>(layer.heads_at(place.substr(place.rfind('.') + 1)));
  return layer.heads() > 0 && value.shape[2] == layer.heads() ? static_cast<std::size_t>(layer.heads()) : 1;
}

/// One of a token's rows [H,width], or the head's columns of its only row.
Tensor head_at(Tensor token, int head, std::size_t heads) {
  if (token.rows() == 1 && heads > 1) {
    const std::int64_t width = token.columns() / static_cast<std::int64_t>(heads);
    return token.column_range(head * width, width);
  }
  token.data = token.as<std::byte>() + head * token.row_stride * static_cast<std::int64_t>(size_of(token.dtype));
  token.shape = {1, token.columns()};
  return token;
}

std::vector<double> numbers_at(Tape& tape, const Tensor& place) { return to_host(tape.backend(), place); }

}  // namespace

Var HookPasses::forward(const Example& example, Var x, std::size_t branch, std::size_t rows) {
  const Tensor mask = repeated(*tape_, static_cast<std::int64_t>(rows), example.context);
  return model_->forward_with(*tape_, x, branch, [&](std::size_t i, const Var& in) {
    return model_->branches()[i].layer->forward(*tape_, in, mask);
  });
}

/// For a large model only the stream and the outputs; throws if even those are too many.
void HookPasses::choose_places(std::span<const std::pair<std::string, Tensor>> seen) {
  places_.clear();
  const auto count = [&](bool streams_only) {
    std::int64_t numbers = 0;
    for (const auto& [name, value] : seen) numbers += streams_only && !is_of_stream(name) ? 0 : value.elements();
    return numbers;
  };
  const bool streams_only = count(false) > max_numbers;
  if (streams_only && count(true) > max_numbers)
    throw BadInput("the residual streams of this model hold ", count(true),
                   " numbers for one sequence, more than the limit (", max_numbers, "); choose a shorter sequence");
  for (const auto& [name, value] : seen) {
    if (streams_only && !is_of_stream(name)) continue;
    const auto columns = static_cast<std::size_t>(value.elements() / value.shape[1]);
    const std::size_t branch = branch_of(*model_, name);
    places_.push_back({name, branch, columns, heads_of(*model_, branch, name, value), {}, {}, {}});
  }
}

std::vector<double> HookPasses::run_whole(const Example& example, int asked, std::vector<double> HookValues::*noted) {
  tape_->begin(false);
  std::vector<std::pair<std::string, Tensor>> seen;
  const TapeObserver observer(*tape_, patched_hooks,
                              [&](const Hooked& at) { seen.emplace_back(at.name, at.var.value); });
  const Var x = model_->embed(*tape_, uploaded(*tape_, example).tokens);
  const Var logits = forward(example, x, 0, 1);
  if (noted == &HookValues::clean) choose_places(seen);
  std::size_t next = 0;
  for (const auto& [name, value] : seen) {
    if (noted == nullptr || next == places_.size() || places_[next].name != name) continue;
    places_[next].*noted = numbers_at(*tape_, value);
    ++next;
  }
  return rows_of_logits(*tape_, logits.value, asked).front();
}

void HookPasses::run_both(SequencePair& pair, std::vector<double> HookValues::*corrupted) {
  clean_logits_ = run_whole(pair.clean, pair.asked, &HookValues::clean);
  corrupted_logits_ = run_whole(pair.corrupted, pair.asked, corrupted);
  take_answers(pair, clean_logits_, corrupted_logits_);
}

void HookPasses::read(SequencePair& pair) {
  run_both(pair, &HookValues::corrupted);
  tape_->begin(true);
  tape_->set_frozen(true);
  std::vector<Var> seen;
  {
    const TapeObserver observer(*tape_, patched_hooks, [&](const Hooked& at) {
      if (seen.size() < places_.size() && places_[seen.size()].name == at.name) seen.push_back(at.var);
    });
    const Var embedded = model_->embed(*tape_, uploaded(*tape_, pair.corrupted).tokens);
    const Var logits = forward(pair.corrupted, tape_->input(embedded.value), 0, 1);
    const Tensor slope = filled(*tape_, logits.shape(), dtype_, 0.0).value;
    tape_->backend().copy(tokens_at(slope, 0, pair.asked, 1),
                          to_device(*tape_, {1, model_->vocab()}, dtype_, measure_gradient(pair, corrupted_logits_)));
    tape_->backward(logits, slope);
  }
  for (std::size_t i = 0; i < seen.size(); ++i) places_[i].gradient = numbers_at(*tape_, tape_->gradient_of(seen[i]));
  tape_->set_frozen(false);
}

std::vector<std::vector<double>> HookPasses::run(const SequencePair& pair, std::size_t branch, std::size_t runs,
                                                 std::span<const PlaceCell> cells) {
  tape_->begin(false);
  const auto stream = std::ranges::find_if(
      places_, [&](const HookValues& place) { return place.branch == branch && place.name.ends_with(".stream"); });
  const Tensor all = repeated(*tape_, static_cast<std::int64_t>(runs), model_->width(), dtype_, stream->corrupted);
  const TapeObserver observer(*tape_, patched_hooks, [&](const Hooked& at) {
    for (const PlaceCell& cell : cells) {
      const HookValues& place = places_[cell.place];
      if (place.name != at.name) continue;
      const Tensor whole = tokens_at(at.var.value, static_cast<std::int64_t>(cell.run), cell.token, 1);
      const Tensor target = cell.head < 0 ? whole : head_at(whole, cell.head, place.heads);
      const std::vector<double> numbers = cell.is_control ? numbers_at(*tape_, target) : numbers_of(cell);
      tape_->backend().copy(target, to_device(*tape_, {target.rows(), target.columns()}, dtype_, numbers));
    }
  });
  const Var logits = forward(pair.corrupted, tape_->constant(all), branch, runs);
  return rows_of_logits(*tape_, logits.value, pair.asked);
}

std::vector<double> HookPasses::numbers_of(const PlaceCell& cell) const {
  const HookValues& place = places_[cell.place];
  const auto from = place.row(place.corrupted, cell.token, cell.head),
             to = place.row(place.clean, cell.token, cell.head);
  if (cell.share == 1) return {to.begin(), to.end()};
  std::vector<double> between(from.begin(), from.end());
  for (std::size_t i = 0; i < between.size(); ++i) between[i] += cell.share * (to[i] - from[i]);
  return between;
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
