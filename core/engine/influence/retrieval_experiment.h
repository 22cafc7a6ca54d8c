// Theorem 12's network with written weights (Sessa, definition 5 and appendix K): transport score, competitors and
// margin against the lag by reverse passes, beside diffuse attention and a failed freeze time (proposition 13).
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/autograd/tape.h"
#include "core/engine/observation/influence_view.h"
#include "core/layers/written/retrieval_network.h"

namespace afterglow {

struct RetrievalConfig {
  RetrievalNetwork network{.leak = 1e-4};
  double freeze_step = 0.2;  ///< time step of the stacks whose freeze time fails: the state keeps exp(-step) a token
  bool operator==(const RetrievalConfig&) const = default;
};

/// {"beta": 0.5, "jumps": 2, "source": 4, "leak": 1e-4, "tokens": 256, "freeze_step": 0.2}; what is absent stays as it
/// is. Throws Error(bad_input) that names the field.
RetrievalConfig parse_retrieval(const nlohmann::json& value, RetrievalConfig config);
nlohmann::json to_json(const RetrievalConfig& config);

/// It needs no model: float64 on one thread of the CPU, always the same bits. The input is noise within the bound that
/// the network is written for.
class RetrievalExperiment {
 public:
  explicit RetrievalExperiment(RetrievalConfig config);
  ~RetrievalExperiment();
  /// One reverse pass; false when all is known.
  bool advance();
  /// Null before `advance` has come to its end.
  const std::shared_ptr<const RetrievalView>& view() const { return view_; }

 private:
  struct Stack;
  void add_stack(const std::vector<WrittenBlock>& blocks);
  void read_channels();
  void score(Stack& stack);
  void finish();
  Tensor input(int batch, int length);

  RetrievalConfig config_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Tape> tape_;
  std::vector<double> x_;  // [T, D]
  std::vector<std::unique_ptr<Stack>> stacks_;
  std::shared_ptr<RetrievalView> found_;
  std::shared_ptr<const RetrievalView> view_;
};

}  // namespace afterglow
