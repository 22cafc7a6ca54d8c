// Attention of sequences that are one tile, which blocks make for themselves: the bits must be those of tiles that are
// made before, as of the same tokens with others after them.
#include <bit>

#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

struct AttentionSizes {
  std::int64_t batch, queries, keys, heads, key_heads, width;
};

void PrintTo(const AttentionSizes& n, std::ostream* out) {
  *out << n.queries << " of " << n.keys << ", " << n.heads << " over " << n.key_heads << " heads of " << n.width;
}

class LoneAttention : public OnGpu<::testing::TestWithParam<AttentionSizes>> {
 protected:
  void TearDown() override {
    if (cuda_ != nullptr) cuda_->set_precision(Precision::fp32);
  }

  /// Numbers [batch,tokens,columns] as float, or the bits of bfloat16; those of a token do not depend on how many come
  /// behind it. They are zero from token `zero_from` on.
  template <class T>
  static std::vector<T> numbers(std::int64_t tokens, std::int64_t columns, std::uint64_t seed, std::int64_t zero_from) {
    std::vector<T> all;
    for (std::int64_t b = 0; b < GetParam().batch; ++b) {
      std::vector<float> values = random_floats(tokens * columns, seed + 10 * static_cast<std::uint64_t>(b));
      for (std::int64_t i = zero_from * columns; i < tokens * columns; ++i) values[static_cast<std::size_t>(i)] = 0;
      for (const float value : values) all.push_back(as<T>(value));
    }
    return all;
  }
  template <class T>
  static T as(float value) {
    if constexpr (std::is_same_v<T, float>) {
      return value;
    } else {
      return static_cast<T>(std::bit_cast<std::uint32_t>(value) >> 16);
    }
  }
  /// The first `kept` numbers of each sequence.
  template <class T>
  static std::vector<T> first_of_each(const std::vector<T>& all, std::int64_t kept) {
    std::vector<T> some;
    const auto whole = static_cast<std::ptrdiff_t>(all.size()) / GetParam().batch;
    for (std::int64_t b = 0; b < GetParam().batch; ++b) {
      const auto begin = all.begin() + b * whole;
      some.insert(some.end(), begin, begin + kept);
    }
    return some;
  }

  /// y, dq, dk and dv of the tokens in GetParam() where `behind` others follow, whose answers have no gradient.
  template <class T>
  std::vector<std::vector<T>> answers(std::int64_t behind) {
    const auto& [batch, own_queries, own_keys, heads, key_heads, width] = GetParam();
    const std::int64_t queries = own_queries + behind, keys = own_keys + behind;
    const Shape of_queries{batch, queries, heads, width}, of_keys{batch, keys, key_heads, width};
    HostValues host(*cuda_);
    const auto tensor = [&](const Shape& shape, std::uint64_t seed, std::int64_t zero_from) {
      return host.tensor(shape, std::is_same_v<T, float> ? DType::f32 : DType::bf16,
                         numbers<T>(shape[1], shape[2] * shape[3], seed, zero_from));
    };
    const Tensor q = tensor(of_queries, 1, queries), k = tensor(of_keys, 2, keys), v = tensor(of_keys, 3, keys),
                 dy = tensor(of_queries, 4, own_queries), y = tensor(of_queries, 5, queries),
                 dq = tensor(of_queries, 6, queries), dk = tensor(of_keys, 7, keys), dv = tensor(of_keys, 8, keys);
    const Tensor log_sum =
        host.f32({batch, heads, queries}, std::vector<float>(static_cast<std::size_t>(batch * heads * queries)));
    cuda_->attention(q, k, v, 0.3, 1 << 20, y, log_sum);
    cuda_->attention_backward(q, k, v, 0.3, 1 << 20, y, log_sum, dy, {dq, false}, {dk, false}, {dv, false});
    const std::int64_t query_numbers = own_queries * heads * width, key_numbers = own_keys * key_heads * width;
    return {first_of_each(host.read<T>(y), query_numbers), first_of_each(host.read<T>(dq), query_numbers),
            first_of_each(host.read<T>(dk), key_numbers), first_of_each(host.read<T>(dv), key_numbers)};
  }
  template <class T>
  void expect_same_bits(Precision precision) {
    cuda_->set_precision(precision);
    EXPECT_EQ(answers<T>(0), answers<T>(65 - GetParam().keys)) << name_of(precision);
  }
};

TEST_P(LoneAttention, HasTheBitsOfTilesThatAreMadeBefore) {
  for (const Precision precision : {Precision::fp32, Precision::tf32}) expect_same_bits<float>(precision);
  expect_same_bits<std::uint16_t>(Precision::bf16);
}

// Whole tiles and few rows, fewer queries than keys, heads that share keys, rows in fours of numbers and one by one.
INSTANTIATE_TEST_SUITE_P(AttentionSizes, LoneAttention,
                         ::testing::Values(AttentionSizes{2, 64, 64, 4, 4, 32}, AttentionSizes{3, 64, 64, 2, 1, 64},
                                           AttentionSizes{2, 37, 37, 6, 2, 18}, AttentionSizes{1, 5, 5, 1, 1, 8},
                                           AttentionSizes{2, 21, 60, 4, 2, 33}, AttentionSizes{1, 33, 64, 3, 3, 15},
                                           AttentionSizes{2, 48, 63, 3, 1, 20}));

}  // namespace
}  // namespace afterglow::testing
