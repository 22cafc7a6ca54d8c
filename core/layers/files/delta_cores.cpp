// Runs the recurrences of the delta-rule family from a file.
#include <cmath>

#include "core/io/json_file.h"
#include "core/layers/files/file_run.h"
#include "core/ops/ops.h"

namespace afterglow {
namespace {

enum class Gate { none, of_head, of_channel };
constexpr const char* core_names[] = {"deltanet_core", "gated_deltanet_core", "gla_core"};  // by their gates

class DeltaCore final : public FileSubject {
 public:
  DeltaCore(const nlohmann::json& config, Gate gate) : gate_(gate) {
    JsonFields fields(config, core_names[static_cast<int>(gate)]);
    heads_ = fields.integer("H", {}, 1, 4096);
    keys_ = fields.integer("Dk", {}, 1, 65536);
    width_ = fields.integer("Dv", {}, 1, 65536);
    scale_ = fields.number("scale", 1.0 / std::sqrt(static_cast<double>(keys_)), -1e30, 1e30);
    fields.refuse_others();
  }

  void run(FileRun& run) override {
    DeltaVars in;
    in.scale = scale_;
    in.q = run.input("q", {FileRun::any, FileRun::any, heads_, keys_});
    const std::int64_t batch = in.q.shape()[0], tokens = in.q.shape()[1];
    in.k = run.input("k", in.q.shape());
    in.v = run.input("v", {batch, tokens, heads_, width_});
    if (gate_ != Gate::of_channel) in.beta = run.input("beta", {batch, tokens, heads_});
    if (gate_ == Gate::of_head) in.g = run.input("g", {batch, tokens, heads_});
    if (gate_ == Gate::of_channel) in.g = run.input("g", in.q.shape());
    const Tensor state = run.tape().scratch({batch, heads_, keys_, width_}, run.dtype());
    run.output("y", delta_scan(run.tape(), in, state));
    run.tape().hook("final_state", state);
  }

 private:
  Gate gate_;
  std::int64_t heads_, keys_, width_;
  double scale_;
};

/// Inputs `q`, `k` [B,T,H,Dk], `v` [B,T,H,Dv], `beta` [B,T,H] where the rule corrects, `g` [B,T,H] or [B,T,H,Dk] where
/// it fades; output `y`.
template <Gate gate>
FileKind core_with() {
  return {core_names[static_cast<int>(gate)],
          [](const nlohmann::json& config, const ParameterScope&) -> std::unique_ptr<FileSubject> {
            return std::make_unique<DeltaCore>(config, gate);
          }};
}

}  // namespace

FileKind deltanet_core() { return core_with<Gate::none>(); }

FileKind gated_deltanet_core() { return core_with<Gate::of_head>(); }

FileKind gla_core() { return core_with<Gate::of_channel>(); }

}  // namespace afterglow
