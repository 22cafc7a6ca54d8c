// The tape: sums of gradients over several uses, views, scopes, and the search for the first non-finite number.
#include "core/autograd/tape.h"

#include <gmock/gmock.h>

#include <limits>

#include "core/io/error.h"
#include "core/ops/ops.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

using ::testing::ElementsAre;

class TapeTest : public ::testing::Test {
 protected:
  TapeTest() {
    arena_.set_poison(true);
    tape_.begin(true);
  }
  Var input(const Shape& shape, const std::vector<double>& values) { return tape_.input(host_.f64(shape, values)); }
  std::vector<double> values(const Var& var) { return host_.read<double>(var.value); }
  std::vector<double> gradient(const Var& var) { return host_.read<double>(tape_.gradient_of(var)); }
  void backward(const Var& y, const std::vector<double>& upstream) {
    tape_.backward(y, host_.f64(y.shape(), upstream));
  }
  std::vector<Var> split(const Var& x, const std::vector<std::int64_t>& widths) {
    std::vector<Var> parts(widths.size());
    tape_.split_columns(x, widths, parts);
    return parts;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
};

TEST_F(TapeTest, AddsTheGradientsOfAllUses) {
  const Var x = input({2}, {3, 5});
  const Var square = multiply(tape_, x, x);
  const Var left = scale(tape_, square, 2), right = multiply(tape_, square, x);
  backward(add(tape_, add(tape_, left, right), x), {1, 10});
  // 2 x^2 + x^3 + x
  EXPECT_THAT(gradient(x), ElementsAre(4 * 3 + 3 * 9 + 1, 10 * (4 * 5 + 3 * 25 + 1)));
}

TEST_F(TapeTest, KeepsConstantsAndUnreachedInputsApart) {
  const Var x = input({2}, {3, 5}), unused = input({2}, {1, 1});
  const Var c = tape_.constant(host_.f64({2}, {7, 11}));
  EXPECT_FALSE(tape_.wants_gradient(multiply(tape_, c, c)));
  backward(multiply(tape_, x, c), {1, 1});
  EXPECT_THAT(gradient(x), ElementsAre(7, 11));
  EXPECT_THAT(gradient(unused), ElementsAre(0, 0));
}

TEST_F(TapeTest, FrozenParametersAreConstants) {
  ParameterStore store;
  const Parameter& w = store.add("w", {2}, constant(7));
  store.allocate(*backend_, DType::f64);
  store.initialise(1);
  backend_->fill(w.gradient, 42);
  tape_.set_frozen(true);
  const Var x = input({2}, {3, 5}), weight = tape_.parameter(w);
  EXPECT_FALSE(tape_.wants_gradient(weight));
  backward(multiply(tape_, x, weight), {1, 10});
  EXPECT_THAT(gradient(x), ElementsAre(7, 70));
  EXPECT_THAT(host_.read<double>(w.gradient), ElementsAre(42, 42));
}

TEST_F(TapeTest, SkipsBranchesThatDoNotReachTheOutput) {
  const Var x = input({1}, {2});
  scale(tape_, x, std::numeric_limits<double>::quiet_NaN());
  backward(scale(tape_, x, 3), {1});
  EXPECT_THAT(gradient(x), ElementsAre(3));
}

TEST_F(TapeTest, SharesOneGradientBetweenShapes) {
  const Var x = input({2, 2}, {1, 2, 3, 4});
  const Var flat = tape_.reshape(x, {4}), cube = tape_.reshape(flat, {1, 2, 2});
  const Var y = add(tape_, tape_.reshape(multiply(tape_, cube, cube), {2, 2}), x);
  backward(y, {1, 1, 1, 1});
  EXPECT_THAT(gradient(x), ElementsAre(3, 5, 7, 9));
  EXPECT_EQ(tape_.gradient_of(flat).data, tape_.gradient_of(x).data);
}

TEST_F(TapeTest, ZeroesThePartsOfASplitThatNothingReaches) {
  const Var x = scale(tape_, input({2, 3}, {1, 2, 3, 4, 5, 6}), 1);
  const std::vector<Var> parts = split(x, {1, 1, 1});
  const Var y = linear(tape_, parts[1], tape_.constant(host_.f64({1, 1}, {10})));
  backward(y, {1, 2});
  EXPECT_THAT(gradient(x), ElementsAre(0, 10, 0, 0, 20, 0));
}

TEST_F(TapeTest, AccumulatesIntoASplitValueThatIsAlsoUsedWhole) {
  const Var weight = tape_.constant(host_.f64({1, 1}, {10}));
  for (const bool whole_first : {true, false}) {
    tape_.begin(true);
    const Var x = input({2, 2}, {1, 2, 3, 4});
    const Var before = scale(tape_, x, 3);
    const std::vector<Var> parts = split(x, {1, 1});
    const Var part = linear(tape_, parts[1], tape_.constant(weight.value));
    const Var after = whole_first ? before : scale(tape_, x, 3);
    const Var joined = linear(tape_, after, tape_.constant(host_.f64({1, 2}, {1, 1})));
    backward(add(tape_, joined, part), {1, 1});
    EXPECT_THAT(gradient(x), ElementsAre(3, 13, 3, 13)) << whole_first;
  }
}

TEST_F(TapeTest, ClosesAnOpenSplitBeforeAWholeUse) {
  const Var x = input({1, 2}, {1, 2});
  const std::vector<Var> parts = split(x, {1, 1});
  const Var whole = scale(tape_, x, 3);  // its gradient comes after that of the part and before the split is closed
  const Var part = linear(tape_, parts[0], tape_.constant(host_.f64({2, 1}, {10, 20})));
  backward(add(tape_, whole, part), {1, 1});
  EXPECT_THAT(gradient(x), ElementsAre(33, 3));
}

TEST_F(TapeTest, SplitsOneValueTwice) {
  const Var x = input({1, 3}, {1, 2, 3});
  const std::vector<Var> ends = split(x, {1, 2}), starts = split(x, {2, 1});
  const Var ones = tape_.constant(host_.f64({1, 2}, {1, 1}));
  const Var y = add(tape_, linear(tape_, starts[0], ones), linear(tape_, ends[1], ones));
  backward(y, {1});
  EXPECT_THAT(gradient(x), ElementsAre(1, 2, 1));
}

TEST_F(TapeTest, SplitsPartsOfASplitAndOtherShapes) {
  const Var x = input({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Var shaped = tape_.reshape(x, {1, 2, 4});
  const std::vector<Var> halves = split(shaped, {2, 2});
  const std::vector<Var> quarters = split(halves[1], {1, 1});
  const Var whole = scale(tape_, x, 2);
  const Var part = linear(tape_, quarters[0], tape_.constant(host_.f64({4, 1}, {1, 10, 100, 1000})));
  backward(add(tape_, whole, tape_.reshape(part, {2, 4})), std::vector<double>(8, 1.0));
  EXPECT_THAT(gradient(x), ElementsAre(2, 2, 1113, 2, 2, 2, 1113, 2));
}

TEST_F(TapeTest, RefusesASplitThatDoesNotCover) {
  const Var x = input({1, 3}, {1, 2, 3});
  EXPECT_THROW(split(x, {1, 1}), Error);
  EXPECT_THROW(split(x, {1, 3}), Error);
}

TEST_F(TapeTest, ReturnsToParametersOncePerRecording) {
  ParameterStore store;
  const ParameterScope root(store, "");
  const Parameter &used = root.add("used", {2}, constant(2.0)), &unused = root.add("unused", {2}, constant(1.0));
  store.allocate(*backend_, DType::f64);
  store.initialise(1);
  backend_->fill(store.gradients(), 99.0);
  for (int step = 0; step < 2; ++step) {
    tape_.begin(true);
    const Var y = multiply(tape_, tape_.parameter(used), tape_.parameter(used));
    backward(y, {1, 3});
    tape_.zero_untouched(store);
    EXPECT_THAT(store.download(used.gradient), ElementsAre(4, 12));
    EXPECT_THAT(store.download(unused.gradient), ElementsAre(0, 0));
  }
}

/// A parameter is reported only when its gradient is complete, also one that is used twice.
TEST_F(TapeTest, SaysFromWhichParameterOnGradientsAreFinished) {
  ParameterStore store;
  const ParameterScope root(store, "");
  const Parameter& tied = root.add("tied", {2}, constant(2.0));
  const Parameter& early = root.add("early", {2}, constant(3.0));
  root.add("unused", {2}, constant(1.0));
  const Parameter& late = root.add("late", {2}, constant(5.0));
  store.allocate(*backend_, DType::f64);
  store.initialise(1);
  Var y = input({2}, {1, 1});
  const auto use = [&](const Parameter& parameter) { y = multiply(tape_, y, tape_.parameter(parameter)); };
  use(tied);
  use(early);
  y = split(y, {2})[0];
  use(late);
  use(tied);
  std::vector<int> told;
  tape_.backward(y, host_.f64({2}, {1, 1}), 0, [&](int first) {
    told.push_back(first);
    for (const Parameter& parameter : store.all()) {
      if (parameter.index < first || parameter.name == "unused") continue;
      const double expected = parameter.name == "late" ? 12 : parameter.name == "early" ? 20 : 60;
      EXPECT_THAT(store.download(parameter.gradient), ElementsAre(expected, expected)) << parameter.name;
    }
  });
  EXPECT_THAT(told, ElementsAre(2, 1, 0));
  backend_->fill(store.gradients(), 99.0);
  tape_.zero_untouched(store, 1, 3);
  EXPECT_THAT(store.download(store.all()[2].gradient), ElementsAre(0, 0));
  EXPECT_THAT(store.download(early.gradient), ElementsAre(99, 99));
}

TEST_F(TapeTest, NeedsARecordingToGoBack) {
  tape_.begin(false);
  const Var x = input({1}, {1});
  const Var y = scale(tape_, x, 2);
  EXPECT_THROW(backward(y, {1}), Error);
}

TEST_F(TapeTest, NamesCapturesByNestedScopes) {
  const Var x = input({1}, {1});
  tape_.hook("silent", x.value);
  const Capturing capturing(tape_);
  {
    const Tape::Scope layer(tape_, "layers.1");
    {
      const Tape::Scope mixer(tape_, "mixer");
      tape_.hook("A_w", x.value);
    }
    tape_.hook("norm", x);
  }
  tape_.hook("loss", x.value);
  std::vector<std::string> names;
  for (const Capture& capture : tape_.captures()) names.push_back(capture.name);
  EXPECT_THAT(names, ElementsAre("layers.1.mixer.A_w", "layers.1.norm", "loss"));
}

/// x w (x w) + w and, where there is a second input, x times it; with a sum that many values lie between.
struct TwoAnswers {
  const Parameter* w;
  Tape::Pair operator()(Tape& tape, const Tape::Pair& in) const {
    const Var product = multiply(tape, in[0], tape.parameter(*w));
    Var sum = multiply(tape, product, product);
    for (int i = 0; i < 30; ++i) sum = scale(tape, sum, i % 2 == 0 ? 4 : 0.25);
    return {add(tape, sum, tape.parameter(*w)), multiply(tape, in[0], in[1].defined() ? in[1] : product)};
  }
};

class ComputedTwice : public TapeTest {
 protected:
  ComputedTwice() : w_(store_.add("w", {2}, constant(3))) {
    store_.allocate(*backend_, DType::f64);
    store_.initialise(1);
  }
  /// Gradients of x, y and w where the answers are weighted so, x having another use as well; and what was in use.
  struct Found {
    std::vector<double> x, y, w, answers;
    std::size_t used;
  };
  Found found(bool twice, bool has_second, const std::vector<double>& weights) {
    tape_.begin(true);
    const Var x = input({2}, {2, 5}), y = has_second ? input({2}, {7, 11}) : Var();
    const TwoAnswers compute{&w_};
    Tape::Pair out;
    if (twice) {
      out = {tape_.result({2}, DType::f64, {x}), tape_.result({2}, DType::f64, {x})};
      tape_.compute_twice({x, y}, out, compute);
    } else {
      out = compute(tape_, {x, y});
    }
    Var sum = multiply(tape_, x, x);
    for (std::size_t i = 0; i < 2; ++i) {
      if (weights[i] != 0) sum = add(tape_, sum, scale(tape_, out[i], weights[i]));
    }
    backward(sum, {1, 10});
    tape_.zero_untouched(store_);
    Found all{gradient(x), {}, host_.read<double>(w_.gradient), values(out[0]), arena_.used()};
    if (has_second) all.y = gradient(y);
    return all;
  }
  ParameterStore store_;
  const Parameter& w_;
};

TEST_F(ComputedTwice, GivesTheSameValuesAndGradientsInLessMemory) {
  for (const bool has_second : {false, true}) {
    for (const std::vector<double>& weights : {std::vector<double>{2, 3}, {2, 0}, {0, 3}, {0, 0}}) {
      const Found once = found(false, has_second, weights), twice = found(true, has_second, weights);
      EXPECT_EQ(twice.answers, once.answers);
      EXPECT_EQ(twice.x, once.x);
      EXPECT_EQ(twice.y, once.y);
      EXPECT_EQ(twice.w, once.w);
    }
  }
  const Found known = found(true, true, {1, 0});
  EXPECT_THAT(known.x, ElementsAre(2 * 2 + 2 * 2 * 9, 10 * (2 * 5 + 2 * 5 * 9))) << "2x + 2 x w^2";
  EXPECT_THAT(known.w, ElementsAre(1 + 2 * 3 * 4, 10 * (1 + 2 * 3 * 25))) << "1 + 2 w x^2";
  EXPECT_THAT(known.y, ElementsAre(0, 0));
}

TEST_F(ComputedTwice, HoldsOnePieceAtATime) {
  const auto used_by = [&](bool twice, int pieces) {
    tape_.begin(true);
    Var x = input({2}, {2, 5});
    for (int i = 0; i < pieces; ++i) {
      if (twice) {
        const Tape::Pair out{tape_.result({2}, DType::f64, {x}), tape_.result({2}, DType::f64, {x})};
        tape_.compute_twice({x, {}}, out, TwoAnswers{&w_});
        x = scale(tape_, out[0], 1e-3);
      } else {
        x = scale(tape_, TwoAnswers{&w_}(tape_, {x, {}})[0], 1e-3);
      }
    }
    backward(x, {1, 1});
    return arena_.used();
  };
  EXPECT_LT(used_by(true, 8), used_by(false, 8) / 3);
  EXPECT_LT(used_by(true, 16) - used_by(true, 8), used_by(false, 8) / 6) << "another piece adds its results alone";
}

TEST_F(ComputedTwice, AFirstTimeThatIsBrokenOffLeavesNothingBehind) {
  const Found before = found(true, true, {2, 3});
  const Var x = input({2}, {2, 5});
  const Tape::Pair out{tape_.result({2}, DType::f64, {x}), {}};
  EXPECT_THROW(tape_.compute_twice(
                   {x, {}}, out,
                   [](Tape&, const Tape::Pair&) -> Tape::Pair { throw Error(ExitCode::out_of_memory, "no memory"); }),
               Error);
  const Found after = found(false, true, {2, 3});
  EXPECT_EQ(after.x, before.x);
  EXPECT_EQ(after.w, before.w);
}

TEST_F(ComputedTwice, SaysWhenItsParametersAreFinished) {
  ParameterStore store;
  const Parameter *first = &store.add("first", {2}, constant(3)), *second = &store.add("second", {2}, constant(2));
  store.allocate(*backend_, DType::f64);
  store.initialise(1);
  tape_.begin(true);
  const Var x = multiply(tape_, input({2}, {2, 5}), tape_.parameter(*first));
  const Tape::Pair out{tape_.result({2}, DType::f64, {x}), {}};
  tape_.compute_twice({x, {}}, out, [second](Tape& tape, const Tape::Pair& in) -> Tape::Pair {
    return {multiply(tape, in[0], tape.parameter(*second)), {}};
  });
  std::vector<int> finished;
  std::vector<double> of_second;
  const Tensor ones = host_.f64({2}, {1, 1});
  tape_.backward(out[0], ones, 0, [&](int from) {
    finished.push_back(from);
    if (from == 1) of_second = host_.read<double>(second->gradient);
  });
  EXPECT_THAT(finished, ElementsAre(1, 0));
  EXPECT_THAT(of_second, ElementsAre(6, 15)) << "complete when it is reported";
}

TEST_F(TapeTest, ShowsEveryResultWithItsOperation) {
  std::vector<std::string> names;
  std::optional<TapeObserver> observer;
  observer.emplace(tape_, Hooks{.operations = true, .names = "layers.0.mixer."},
                   [&](const Hooked& at) { names.push_back(at.name + " " + at.var.shape().text()); });
  const Var x = input({2, 3}, {0, 1, 2, 3, 800, 5});
  {
    const Tape::Scope scope(tape_, "layers.0");
    const Var sane = scale(tape_, x, 1);
    const Tape::Scope inner(tape_, "mixer");
    scale(tape_, unary(tape_, Unary::exp, sane), 0);
    observer.reset();
    scale(tape_, sane, 2);
  }
  EXPECT_THAT(names, ElementsAre("layers.0.mixer.unary [2, 3]", "layers.0.mixer.scale [2, 3]"));
}

TEST_F(TapeTest, AnObserverSeesWhatItRegisteredForAndChangesTheFormOnlyOnRequest) {
  const Var x = input({2}, {1, 2});
  std::vector<std::string> seen;
  {
    const TapeObserver values(tape_, {.values = true}, [&](const Hooked& at) { seen.push_back(at.name); });
    EXPECT_EQ(tape_.form(), PassForm::usual);
    EXPECT_EQ(tape_.may_store_narrow(Storage::narrow), tape_.recording());
    EXPECT_FALSE(tape_.wants("attn")) << "no observer has registered for statistics";
    const TapeObserver statistics(tape_, {.statistics = true, .names = "mixer.a", .form = PassForm::unfused}, {});
    EXPECT_EQ(tape_.form(), PassForm::unfused);
    EXPECT_FALSE(tape_.may_store_narrow(Storage::narrow));
    const Tape::Scope scope(tape_, "mixer");
    EXPECT_TRUE(tape_.wants("attn"));
    EXPECT_FALSE(tape_.wants("gamma"));
    tape_.hook("keys", x);
    tape_.hook("gamma", x.value);
  }
  EXPECT_EQ(tape_.form(), PassForm::usual);
  tape_.hook("queries", x);
  EXPECT_THAT(seen, ElementsAre("mixer.keys"));
}

TEST_F(TapeTest, RunsTenThousandOperations) {
  const Var x = input({1}, {1});
  Var y = x;
  for (int i = 0; i < 10000; ++i) y = add(tape_, y, x);
  backward(y, {1});
  EXPECT_THAT(gradient(x), ElementsAre(10001));
}

}  // namespace
}  // namespace afterglow::testing
