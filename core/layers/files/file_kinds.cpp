// What can be run from a file: the layers, and the kinds that are not layers.
#include <algorithm>

#include "core/layers/files/file_run.h"
#include "core/layers/files/kl_file.h"
#include "core/layers/layer_kind.h"

namespace afterglow {

// Each is at the end of its own file.
FileKind deltanet_core(), gated_deltanet_core(), gla_core(), spectral_memory_file_kind(), gka_file_kind();

namespace {

class LayerSubject final : public FileSubject {
 public:
  explicit LayerSubject(std::unique_ptr<Layer> layer) : layer_(std::move(layer)) {}
  void run(FileRun& run) override {
    const Var x = run.input("x", {FileRun::any, FileRun::any, FileRun::any});
    const Tensor mask = run.has("mask") ? run.flags("mask", {x.shape()[0], x.shape()[1]}) : Tensor();
    run.output("y", layer_->forward(run.tape(), x, mask));
  }

 private:
  std::unique_ptr<Layer> layer_;
};

}  // namespace

const std::vector<FileKind>& file_kinds() {
  static const std::vector<FileKind> kinds{
      deltanet_core(),          gated_deltanet_core(),       gla_core(),
      kl_decompose_file_kind(), spectral_memory_file_kind(), gka_file_kind(),
  };
  return kinds;
}

std::unique_ptr<FileSubject> make_file_subject(const std::string& kind, const nlohmann::json& config,
                                               const ParameterScope& parameters) {
  const std::vector<FileKind>& kinds = file_kinds();
  const auto found = std::ranges::find(kinds, kind, &FileKind::name);
  if (found != kinds.end()) return found->make(config, parameters);
  return std::make_unique<LayerSubject>(make_layer(kind, config, parameters));
}

}  // namespace afterglow
