// Runs a Karhunen-Loeve decomposition from a file.
#include "core/layers/files/kl_file.h"

#include "core/io/error.h"
#include "core/io/json_file.h"

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

KlConfig read_kl_config(const nlohmann::json& config, const KlFields& fields, const std::string& where) {
  KlConfig kl;
  const std::string strategy = get_string(config, fields.strategy, "empirical", where);
  if (!parse_kl_strategy(strategy, kl.strategy))
    throw Error(ExitCode::bad_input,
                where + "." + fields.strategy + ": \"" + strategy + "\" is unknown; choose empirical or kernel");
  const std::string kernel = get_string(config, fields.kernel, "exp", where);
  if (!parse_kl_kernel(kernel, kl.kernel))
    throw Error(ExitCode::bad_input, where + "." + fields.kernel + ": \"" + kernel +
                                         "\" is unknown; choose exp, gauss, matern or matern_eq21");
  kl.tau = get_number(config, fields.tau, kl.tau, 1e-6, 1e9, where);
  kl.components = static_cast<int>(get_integer(config, fields.components, kl.components, 1, 4096, where));
  kl.lambda_scaling = get_bool(config, fields.scaling, true, where);
  return kl;
}

void check_mode_sign(const nlohmann::json& config, const std::string& where) {
  const std::string known = "first_of_0.999_max_positive";
  if (get_string(config, "mode_sign", known, where) != known)
    throw Error(ExitCode::bad_input, where + ".mode_sign: the only rule for the sign of a mode is " + known);
}

FileKind kl_decompose_file_kind() {
  return {
      "kl_decompose", [](const nlohmann::json& config, const ParameterScope&) -> std::unique_ptr<FileSubject> {
        const std::string where = "kl_decompose";
        refuse_unknown_keys(config, {"strategy", "kernel", "tau", "components", "lambda_scaling", "mode_sign"}, where);
        check_mode_sign(config, where);
        return std::make_unique<Decomposition>(read_kl_config(config, field_names, where));
      }};
}

}  // namespace afterglow
