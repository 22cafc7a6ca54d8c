// The most probable tokens, found where the logits are: those of the host, in its order.
#include "core/backend/token_ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/random/random.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

class TokenRanking : public GpuTest {
 protected:
  std::vector<double> on_gpu(const std::vector<float>& logits, double temperature, std::int64_t count) {
    HostValues values(*cuda_);
    const auto vocab = static_cast<std::int64_t>(logits.size());
    const Tensor ranked(cuda_->allocate(static_cast<std::size_t>(1 + 2 * count) * sizeof(double)), {1 + 2 * count},
                        DType::f64);
    dynamic_cast<TokenRanker&>(*cuda_).rank_logits(values.f32({1, vocab}, logits), temperature, ranked);
    std::vector<double> answer(static_cast<std::size_t>(1 + 2 * count));
    cuda_->download(answer.data(), ranked);
    cuda_->release(ranked.data);
    return answer;
  }
};

TEST_F(TokenRanking, IsThatOfTheHost) {
  Random random(3);
  for (const std::int64_t vocab : {1, 2, 29, 2047, 2048, 2049, 50280, 248320}) {
    std::vector<float> logits;
    for (std::int64_t i = 0; i < vocab; ++i)  // many are equal
      logits.push_back(static_cast<float>(std::round(8 * random.normal()) / 8) * (i % 5 == 0 ? -0.0f : 1.0f));
    const std::vector<double> wide(logits.begin(), logits.end());
    for (const std::int64_t count :
         {std::int64_t{1}, std::min<std::int64_t>(vocab, 40), std::min<std::int64_t>(vocab, 256)}) {
      for (const double temperature : {0.0, 0.7}) {
        std::vector<double> wanted = ranked_logits(wide, temperature, static_cast<std::size_t>(count)),
                            found = on_gpu(logits, temperature, count);
        EXPECT_NEAR(found[0], wanted[0], 1e-12 * wanted[0]) << vocab << " " << count;
        EXPECT_EQ(on_gpu(logits, temperature, count), found) << "the same bits again";
        found[0] = wanted[0] = 0;
        EXPECT_EQ(found, wanted) << vocab << " " << count;
      }
    }
  }
}

TEST_F(TokenRanking, TellsOfNumbersThatAreNotFinite) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(on_gpu({1, std::nanf(""), 2}, 1, 2)[1]));
  EXPECT_TRUE(std::isnan(on_gpu({1, -std::nanf(""), infinity}, 1, 2)[1]));
  EXPECT_EQ(on_gpu({1, infinity, 2}, 0, 1), (std::vector<double>{0, infinity, 1}));
  EXPECT_EQ(on_gpu({-infinity, 3, -infinity}, 1, 2), (std::vector<double>{1, 3, -infinity, 1, 0}));
}

}  // namespace
}  // namespace afterglow::testing
