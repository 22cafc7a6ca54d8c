// The ridge layer as an operation of the tape, and the network around it.
#include "core/studies/ridge_network.h"

#include <string>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/backend/backend.h"
#include "core/ops/ops.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

/// One head of a tensor [1,T,H,D] in float64, [T,D].
Eigen::Map<RowMajor, 0, Eigen::OuterStride<>> view_of(const Tensor& tensor, std::int64_t head) {
  const std::int64_t heads = tensor.shape[2], width = tensor.shape[3];
  return {tensor.as<double>() + head * width, tensor.shape[1], width, Eigen::OuterStride<>(heads * width)};
}

std::vector<double> head_of(const Tensor& tensor, std::int64_t head) { return stored(view_of(tensor, head)); }

void put_head(const Tensor& tensor, std::int64_t head, const std::vector<double>& values, bool accumulate) {
  auto rows = view_of(tensor, head);
  if (!accumulate) rows.setZero();
  rows += RowMajorView(values.data(), rows.rows(), rows.cols());
}

enum class Reading { ahead, transposed, from_the_end };

/// y_t = U_t x_t with U_t = sum over s <= t of a_s b_s^T; the same with U_t^T; or with the sum over s >= t.
std::vector<double> read_out(const std::vector<double>& x, const std::vector<double>& a, const std::vector<double>& b,
                             std::size_t width, Reading reading = Reading::ahead) {
  const auto columns = static_cast<Eigen::Index>(width), tokens = static_cast<Eigen::Index>(x.size() / width);
  const auto rows = [&](const std::vector<double>& of) { return RowMajorView(of.data(), tokens, columns); };
  RowMajor U = RowMajor::Zero(columns, columns), y(tokens, columns);
  for (Eigen::Index done = 0; done < tokens; ++done) {
    const Eigen::Index t = reading == Reading::from_the_end ? tokens - 1 - done : done;
    U += rows(a).row(t).transpose() * rows(b).row(t);
    y.row(t) = rows(x).row(t) * (reading == Reading::transposed ? U : RowMajor(U.transpose()));
  }
  return stored(y);
}

struct RidgeVarsOfStudy {
  Var q, k, v;
};

void ridge_layer_backward(Tape& tape, const RidgeMethod& way, const RidgeVarsOfStudy& in, const Tensor& solutions,
                          const Var& y) {
  const Tensor dy = tape.upstream(y);
  const std::int64_t heads = y.shape()[2], width = y.shape()[3];
  const Grad dq = tape.gradient(in.q), dk = tape.gradient(in.k), dv = tape.gradient(in.v);
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto D = static_cast<std::size_t>(width);
    const std::vector<double> q = head_of(in.q.value, h), k = head_of(in.k.value, h), v = head_of(in.v.value, h),
                              x = head_of(solutions, h), up = head_of(dy, h);
    const std::vector<double> dx = read_out(up, v, k, D, Reading::transposed);
    SequenceGradient solve =
        sequence_gradient({static_cast<int>(y.shape()[1]), static_cast<int>(width), k, q, way.strength}, way.solver,
                          way.route, way.iterations, way.arithmetic, dx);
    const std::vector<double> through_memory =
        read_out(v, x, up, D, Reading::from_the_end);  // dk_s = sum_t (v_s . dy_t) x_t
    for (std::size_t i = 0; i < through_memory.size(); ++i) solve.keys[i] += through_memory[i];
    put_head(dq.tensor, h, solve.queries, dq.accumulate);
    put_head(dk.tensor, h, solve.keys, dk.accumulate);
    put_head(dv.tensor, h, read_out(k, up, x, D, Reading::from_the_end),
             dv.accumulate);  // dv_s = sum_t dy_t (k_s . x_t)
  }
}

Var ridge_layer(Tape& tape, const RidgeMethod& way, const RidgeVarsOfStudy& in) {
  const Shape& shape = in.q.shape();
  const Var y = tape.result(shape, DType::f64, {in.q, in.k, in.v});
  const Tensor solutions = tape.scratch(shape, DType::f64);
  for (std::int64_t h = 0; h < shape[2]; ++h) {
    const std::vector<double> q = head_of(in.q.value, h), k = head_of(in.k.value, h), v = head_of(in.v.value, h);
    const std::vector<double> x =
        solve_sequence({static_cast<int>(shape[1]), static_cast<int>(shape[3]), k, q, way.strength}, way.solver,
                       way.iterations, way.arithmetic);
    put_head(solutions, h, x, false);
    put_head(y.value, h, read_out(x, v, k, static_cast<std::size_t>(shape[3])), false);
  }
  tape.record("ridge_layer", y, [way, in, solutions, y](Tape& t) { ridge_layer_backward(t, way, in, solutions, y); });
  return y;
}

}  // namespace

RidgeNetwork::RidgeNetwork(const RidgeNetworkSize& size, std::uint64_t seed)
    : size_(size), backend_(make_cpu_backend(0)), arena_(*backend_), tape_(*backend_, arena_) {
  const std::int64_t d = std::int64_t{size.heads} * size.width;
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    return &store_.add(name, {out, in}, fan_in_uniform());
  };
  embedding_ = &store_.add("embedding", {size.vocabulary, d}, normal(1));
  for (int l = 0; l < size.layers; ++l) {
    const std::string at = std::to_string(l) + ".";
    blocks_.push_back({&store_.add(at + "norm", {d}, constant(1)), matrix(at + "q", d, d), matrix(at + "k", d, d),
                       matrix(at + "v", d, d), matrix(at + "o", d, d), &store_.add(at + "mlp_norm", {d}, constant(1)),
                       matrix(at + "gate", 2 * d, d), matrix(at + "up", 2 * d, d), matrix(at + "down", d, 2 * d)});
  }
  head_ = matrix("head", size.vocabulary, d);
  store_.allocate(*backend_, DType::f64);
  store_.initialise(seed);
  Random random(seed, task_design_stream);
  for (int t = 0; t <= size.tokens; ++t)
    ids_.push_back(static_cast<std::int32_t>(random.uniform_int(static_cast<std::uint64_t>(size.vocabulary))));
}

Var RidgeNetwork::forward(const RidgeMethod& way) {
  constexpr double eps = 1e-6;
  const Shape tokens{1, size_.tokens}, heads{1, size_.tokens, size_.heads, size_.width};
  const Shape flat{1, size_.tokens, std::int64_t{size_.heads} * size_.width};
  Var x = embedding(tape_, {ids_.data(), tokens, DType::i32}, tape_.parameter(*embedding_));
  const auto project = [&](const Var& from, const Parameter* weight) {
    return linear(tape_, from, tape_.parameter(*weight));
  };
  for (const Block& block : blocks_) {
    const Var n = rms_norm(tape_, x, tape_.parameter(*block.norm), eps);
    const auto split = [&](const Parameter* weight) { return tape_.reshape(project(n, weight), heads); };
    const Var y = ridge_layer(
        tape_, way, {unit_norm(tape_, split(block.q), eps), unit_norm(tape_, split(block.k), eps), split(block.v)});
    x = add(tape_, x, project(tape_.reshape(y, flat), block.o));
    const Var m = rms_norm(tape_, x, tape_.parameter(*block.mlp_norm), eps);
    x = add(tape_, x, project(silu_multiply(tape_, project(m, block.gate), project(m, block.up)), block.down));
  }
  return cross_entropy(tape_, project(x, head_), {ids_.data() + 1, tokens, DType::i32}).loss;
}

double RidgeNetwork::loss(const RidgeMethod& way) {
  tape_.begin(false);
  return *forward(way).value.as<double>();
}

std::vector<double> RidgeNetwork::gradient(const RidgeMethod& way) {
  tape_.begin(true);
  const Var loss = forward(way);
  double one = 1;
  tape_.backward(loss, {&one, {1}, DType::f64});
  std::vector<double> all;
  for (const Parameter& parameter : store_.all()) {
    const std::vector<double> own = store_.download(parameter.gradient);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace afterglow
