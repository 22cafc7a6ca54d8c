// `afterglow forward MODEL --tokens FILE --out RESULT`: the logits of a model; `afterglow layer FILE --out
// RESULT`: one layer from a file forward and backward. Both for comparison with another program.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "core/io/safetensors.h"
#include "core/layers/files/file_run.h"
#include "core/tasks/token_ids.h"
#include "core/tasks/token_labels.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_logits = std::int64_t{1} << 26;  // logits of one pass

/// Logits [B,T,V], computed for a few sequences at a time.
std::vector<float> answer(Trainer& trainer, const TokenIds& ids) {
  Model& model = trainer.model();
  Backend& backend = trainer.backend();
  Tape& tape = trainer.evaluation_tape();
  const std::int64_t one = ids.length * model.vocab(), at_once = std::max<std::int64_t>(1, max_logits / one);
  std::vector<float> logits(static_cast<std::size_t>(ids.sequences * one));
  for (std::int64_t first = 0; first < ids.sequences; first += at_once) {
    Interruption::check("after " + std::to_string(first) + " sequences");
    const std::int64_t count = std::min(at_once, ids.sequences - first);
    tape.begin(false);
    const Tensor tokens = tape.scratch({count, ids.length}, DType::i32);
    backend.upload(tokens, ids.values.data() + first * ids.length);
    const Var result = model.forward(tape, tokens, {});
    backend.download(logits.data() + first * one, result.value);
  }
  return logits;
}

/// The same for sequences with padding: each is computed alone, without its padding, whose logits are 0.
std::vector<float> answer_padded(Trainer& trainer, const TokenIds& ids) {
  const std::int64_t vocab = trainer.model().vocab();
  std::vector<float> logits(ids.values.size() * static_cast<std::size_t>(vocab));
  for (std::int64_t i = 0; i < ids.sequences; ++i) {
    const auto [begin, end] = ids.real[static_cast<std::size_t>(i)];
    const auto first = ids.values.begin() + i * ids.length;
    const std::vector<float> own = answer(trainer, {1, end - begin, {first + begin, first + end}, {}});
    std::ranges::copy(own, logits.begin() + (i * ids.length + begin) * vocab);
  }
  return logits;
}

TokenIds one_sequence(std::vector<int> tokens) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  return {1, length, std::move(tokens), {{0, length}}};
}

}  // namespace

nlohmann::json forward(const ForwardOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  if (options.tokens.empty() == (!options.text.text && options.text.file.empty()))
    throw UsageError("forward reads either numbers or a text: give --tokens, --text or --text-file");
  require_free_name(options.out, common);
  const SavedRun saved =
      open_with_weights(options.model, options.step, "forward needs weights", common, output, Use::only_run);
  const std::unique_ptr<Backend> backend = chosen_backend(saved, common, output);
  TrainingRun run(saved, *backend);
  const Model& model = run.trainer().model();
  if (model.places() > 0)
    throw Error(
        ExitCode::bad_input, options.model,
        ": its memory tokens precede every sequence, so its answers depend on more than the given tokens; use eval");
  const std::optional<std::string> text = options.text.read();
  const TokenIds ids = text ? one_sequence(tokens_of_prompt(run.trainer().task(), *text))
                            : read_token_ids(options.tokens, model.vocab());
  const std::int64_t padding = ids.padding();
  if (padding > 0)
    output.note(padding,
                " positions are padding according to the attention_mask: each sequence is read without them, and their "
                "logits are 0");
  const std::vector<float> logits = padding > 0 ? answer_padded(run.trainer(), ids) : answer(run.trainer(), ids);
  TensorFile file;
  file.tensors.push_back(
      make_tensor("logits", {ids.sequences, ids.length, model.vocab()}, std::span<const float>(logits)));
  write_safetensors(options.out, file, existing_files(common));
  output.line("logits [", ids.sequences, ", ", ids.length, ", ", model.vocab(), "] written to ", options.out);
  return {{"model", options.model},    {"step", run.step()},         {"tokens", options.tokens},
          {"logits", options.out},     {"sequences", ids.sequences}, {"length", ids.length},
          {"padding", padding},        {"vocab", model.vocab()},     {"parameters", run.trainer().parameters().count()},
          {"device", backend->name()}, {"weights", stored_type(run)}};
}

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
