// Runs a Karhunen-Loeve decomposition from a file.
#include "core/layers/files/kl_file.h"

namespace afterglow {
namespace {

constexpr KlFields field_names{"strategy", "kernel", "tau", "components", "lambda_scaling"};

class Decomposition final : public FileSubject {
 public:
  explicit Decomposition(const KlConfig& config) : config_(config) {}
  void run(FileRun& run) override {
    const std::vector<double> history = run.numbers("history", {FileRun::any, FileRun::any});
    const Shape shape = run.shape_of("history");
    const KlDecomposition kl = kl_decompose(config_, history, static_cast<int>(shape[0]), static_cast<int>(shape[1]));
    run.output("components", {kl.count, kl.width}, kl.components);
    run.output("eigenvalues", {kl.count}, kl.eigenvalues);
    run.output("modes", {kl.rows, kl.count}, kl.modes);
  }

 private:
  KlConfig config_;
};

}  // namespace

KlConfig read_kl_config(JsonFields& config, const KlFields& names) {
  KlConfig kl;
  const std::string strategy = config.text(names.strategy, "empirical"), kernel = config.text(names.kernel, "exp");
  if (!parse_kl_strategy(strategy, kl.strategy))
    config.refuse(".", names.strategy, ": \"", strategy, "\" is unknown; choose empirical or kernel");
  if (!parse_kl_kernel(kernel, kl.kernel))
    config.refuse(".", names.kernel, ": \"", kernel, "\" is unknown; choose exp, gauss, matern or matern_eq21");
  kl.tau = config.number(names.tau, kl.tau, 1e-6, 1e9);
  kl.components = static_cast<int>(config.integer(names.components, kl.components, 1, 4096));
  kl.lambda_scaling = config.flag(names.scaling, true);
  return kl;
}

void check_mode_sign(JsonFields& config) {
  const std::string known = "first_of_0.999_max_positive";
  if (config.text("mode_sign", known) != known)
    config.refuse(".mode_sign: the only rule for the sign of a mode is ", known);
}

FileKind kl_decompose_file_kind() {
  return {"kl_decompose", [](const nlohmann::json& config, const ParameterScope&) -> std::unique_ptr<FileSubject> {
            JsonFields fields(config, "kl_decompose");
            check_mode_sign(fields);
            const KlConfig kl = read_kl_config(fields, field_names);
            fields.refuse_others();
            return std::make_unique<Decomposition>(kl);
          }};
}

}  // namespace afterglow
