// Rows of Jacobian blocks, computed pass by pass.
#include "core/engine/analyses/influence/jacobian_measure.h"

#include <algorithm>
#include <numeric>

#include "core/layers/host_values.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

constexpr std::int64_t memory_of_a_pass = std::int64_t{256} << 20;  // bytes; small enough for laptop GPUs
constexpr int first_pass_tokens = 1024;                             // of one branch

/// Tokens [first, first + count) of sequence b of a contiguous [B,T,d].
Tensor tokens_of(const Tensor& sequences, std::int64_t b, std::int64_t first, std::int64_t count) {
  const std::int64_t length = sequences.shape[1], width = sequences.shape[2];
  auto* address =
      sequences.as<std::byte>() + (b * length + first) * width * static_cast<std::int64_t>(size_of(sequences.dtype));
  return Tensor(address, {count, width}, sequences.dtype);
}

}  // namespace

int tokens_in_a_pass(const Backend& backend) { return backend.name() == "cpu" ? 512 : 32768; }

int PassSize::tokens() const {
  if (bytes_of_a_token_ == 0) return std::min(max_tokens_, first_pass_tokens / branches_);
  return static_cast<int>(std::min<std::int64_t>(max_tokens_, memory_of_a_pass / bytes_of_a_token_));
}

void PassSize::note(std::int64_t tokens, std::size_t bytes) {
  bytes_of_a_token_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes) / tokens);
}

JacobianMeasure::JacobianMeasure(Tape& tape, DType dtype, std::vector<double> x, std::vector<std::uint8_t> context,
                                 SequenceMap map, JacobianPlan plan)
    : tape_(&tape),
      dtype_(dtype),
      x_(std::move(x)),
      context_(std::move(context)),
      map_(std::move(map)),
      plan_(std::move(plan)),
      width_(static_cast<int>(x_.size() / context_.size())),
      directions_(std::min(plan_.directions, width_)),
      complete_(plan_.directions >= width_),
      order_(plan_.blocks.size()),
      size_(plan_.tokens_at_once, plan_.branches),
      found_(plan_.blocks.size() * static_cast<std::size_t>(directions_ * width_)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return plan_.blocks[a].query < plan_.blocks[b].query; });
}

std::vector<double> JacobianMeasure::cotangent(std::size_t block, int direction) const {
  std::vector<double> u(static_cast<std::size_t>(width_), 0.0);
  if (complete_) {
    u[static_cast<std::size_t>(direction)] = 1;
    return u;
  }
  Random random(plan_.seed, cotangent_stream, block * static_cast<std::size_t>(directions_) + direction);
  for (double& value : u) value = random.normal();
  return u;
}

Tensor JacobianMeasure::repeated_input(int batch, int length) {
  const std::span<const double> first(x_.data(), static_cast<std::size_t>(length * width_));
  const Tensor one = to_device(*tape_, {1, length, width_}, dtype_, first);
  const Tensor all = tape_->scratch({batch, length, width_}, dtype_);
  for (int b = 0; b < batch; ++b) tape_->backend().copy(tokens_of(all, b, 0, length), one.reshaped({length, width_}));
  return all;
}

Tensor JacobianMeasure::repeated_context(int batch, int length) {
  std::vector<std::uint8_t> rows;
  for (int b = 0; b < batch; ++b) rows.insert(rows.end(), context_.begin(), context_.begin() + length);
  const Tensor mask = tape_->scratch({batch, length}, DType::u8);
  tape_->backend().upload(mask, rows.data());
  return mask;
}

bool JacobianMeasure::advance() {
  if (done()) return false;
  const auto directions = static_cast<std::size_t>(directions_);
  const auto length_at = [&](std::size_t row) {
    return plan_.causal ? plan_.blocks[order_[row / directions]].query + 1 : tokens();
  };
  std::size_t end = next_ + 1;
  while (end < rows() && static_cast<int>(end + 1 - next_) * length_at(end) <= size_.tokens()) ++end;
  const int batch = static_cast<int>(end - next_), length = length_at(end - 1);

  Backend& backend = tape_->backend();
  tape_->begin(true);
  tape_->set_frozen(true);
  const Var x = tape_->input(repeated_input(batch, length));
  const Var y = map_(*tape_, x, repeated_context(batch, length));
  const Tensor upstream = tape_->scratch({batch, length, width_}, dtype_);
  backend.fill(upstream, 0.0);
  std::vector<double> cotangents;
  for (std::size_t row = next_; row < end; ++row) {
    const std::vector<double> u = cotangent(order_[row / directions], static_cast<int>(row % directions));
    cotangents.insert(cotangents.end(), u.begin(), u.end());
  }
  const Tensor queries = to_device(*tape_, {batch, 1, width_}, dtype_, cotangents);
  const Tensor answers = tape_->scratch({batch, 1, width_}, dtype_);
  for (int b = 0; b < batch; ++b) {
    const int query = plan_.blocks[order_[(next_ + b) / directions]].query;
    backend.copy(tokens_of(upstream, b, query, 1), tokens_of(queries, b, 0, 1));
  }
  tape_->backward(y, upstream);
  const Tensor gradient = tape_->gradient_of(x);
  for (int b = 0; b < batch; ++b) {
    const int source = plan_.blocks[order_[(next_ + b) / directions]].source;
    backend.copy(tokens_of(answers, b, 0, 1), tokens_of(gradient, b, source, 1));
  }
  size_.note(batch * length, tape_->arena().used());
  const std::vector<double> found = to_host(backend, answers);
  for (std::size_t row = next_; row < end; ++row) {
    const std::size_t place = order_[row / directions] * directions + row % directions;
    std::copy_n(found.begin() + static_cast<std::ptrdiff_t>((row - next_) * width_), width_,
                found_.begin() + static_cast<std::ptrdiff_t>(place * width_));
  }
  next_ = end;
  return !done();
}

std::vector<NormEstimate> JacobianMeasure::norms() const {
  std::vector<NormEstimate> norms;
  const auto size = static_cast<std::size_t>(directions_ * width_);
  for (std::size_t block = 0; block < plan_.blocks.size(); ++block) {
    norms.push_back(spectral_norm_from_rows({found_.data() + block * size, size}, directions_, width_, complete_));
  }
  return norms;
}

}  // namespace afterglow
