// Runs the recurrences of the delta-rule family from a file.
#include <cmath>

#include "core/io/json_file.h"
#include "core/layers/files/file_run.h"
#include "core/ops/ops.h"

namespace afterglow {

namespace {

enum class Gate { none, of_head, of_channel };

class DeltaCore final : public FileSubject {
 public:
  DeltaCore(const nlohmann::json& config, const std::string& kind, bool corrects, Gate gate)
      : corrects_(corrects), gate_(gate) {
    refuse_unknown_keys(config, {"H", "Dk", "Dv", "scale"}, kind);
    heads_ = get_integer(config, "H", std::nullopt, 1, 4096, kind);
    keys_ = get_integer(config, "Dk", std::nullopt, 1, 65536, kind);
    width_ = get_integer(config, "Dv", std::nullopt, 1, 65536, kind);
    scale_ = get_number(config, "scale", 1.0 / std::sqrt(static_cast<double>(keys_)), -1e30, 1e30, kind);
  }

  void run(FileRun& run) override {
    DeltaVars in;
    in.scale = scale_;
    in.q = run.input("q", {FileRun::any, FileRun::any, heads_, keys_});
    const std::int64_t batch = in.q.shape()[0], tokens = in.q.shape()[1];
    in.k = run.input("k", in.q.shape());
    in.v = run.input("v", {batch, tokens, heads_, width_});
    if (corrects_) in.beta = run.input("beta", {batch, tokens, heads_});
    if (gate_ == Gate::of_head) in.g = run.input("g", {batch, tokens, heads_});
    if (gate_ == Gate::of_channel) in.g = run.input("g", in.q.shape());
    const Tensor state = run.tape().scratch({batch, heads_, keys_, width_}, run.dtype());
    run.output("y", delta_scan(run.tape(), in, state));
    run.tape().hook("final_state", state);
  }

 private:
  bool corrects_;
  Gate gate_;
  std::int64_t heads_, keys_, width_;
  double scale_;
};

}  // namespace

/// Inputs `q`, `k` [B,T,H,Dk], `v` [B,T,H,Dv], `beta` [B,T,H] where the rule corrects, `g` [B,T,H] or [B,T,H,Dk] where
/// it fades; output `y`.
FileKind deltanet_core() {
  return {"deltanet_core", [](const nlohmann::json& config, const ParameterScope&) -> std::unique_ptr<FileSubject> {
            return std::make_unique<DeltaCore>(config, "deltanet_core", true, Gate::none);
          }};
}

FileKind gated_deltanet_core() {
  return {"gated_deltanet_core",
          [](const nlohmann::json& config, const ParameterScope&) -> std::unique_ptr<FileSubject> {
            return std::make_unique<DeltaCore>(config, "gated_deltanet_core", true, Gate::of_head);
          }};
}

FileKind gla_core() {
  return {"gla_core", [](const nlohmann::json& config, const ParameterScope&) -> std::unique_ptr<FileSubject> {
            return std::make_unique<DeltaCore>(config, "gla_core", false, Gate::of_channel);
          }};
}

}  // namespace afterglow
