// Theorem 12's network with constructed weights (Sessa, definition 5 and appendix K): transport score, competitors and
// margin against the lag by backward passes, compared with diffuse attention and a failed freeze time (proposition 13).
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/autograd/tape.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/layers/written/retrieval_network.h"

namespace afterglow {

struct RetrievalConfig {
  RetrievalNetwork network{.leak = 1e-4};
  double freeze_step =
      0.2;  ///< time step of the stacks with failing freeze time: the state decays by exp(-step) a token
  bool operator==(const RetrievalConfig&) const = default;
};

/// {"beta": 0.5, "jumps": 2, "source": 4, "leak": 1e-4, "tokens": 256, "freeze_step": 0.2}; absent fields keep their
/// value. Throws Error(bad_input) that names the field.
RetrievalConfig parse_retrieval(const nlohmann::json& value, RetrievalConfig config);
nlohmann::json to_json(const RetrievalConfig& config);

/// Needs no model: float64 on one CPU thread, always the same bits. The input is noise within the bound that the
/// network is built for.
class RetrievalExperiment {
 public:
  explicit RetrievalExperiment(RetrievalConfig config);
  ~RetrievalExperiment();
  /// One backward pass; false if all is known.
  bool advance();
  /// Null until `advance` has finished.
  const std::shared_ptr<const RetrievalView>& view() const { return view_; }

 private:
  struct Stack;
  void add_stack(const std::vector<WrittenBlock>& blocks);
  void read_channels();
  void measure_copies();
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
