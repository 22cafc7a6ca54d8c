// `afterglow layer FILE --out RESULT`: runs one layer from a file forward and backward, for comparison with another
// implementation.
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "core/layers/files/file_run.h"

namespace afterglow {

nlohmann::json layer(const LayerOptions& options, const CommonOptions& common, Output& output) {
  const std::unique_ptr<Backend> backend = chosen_backend(common);
  const DType dtype = options.float64 ? DType::f64 : DType::f32;
  if (!backend->supports(dtype)) throw UsageError("--float64 runs on the CPU only; add --device cpu");
  require_free_name(options.out, common);
  run_layer_file(options.file, options.out, *backend, dtype);
  output.line("written  ", options.out);
  return {{"file", options.file}, {"result", options.out}, {"device", backend->name()}, {"dtype", name_of(dtype)}};
}

}  // namespace afterglow
