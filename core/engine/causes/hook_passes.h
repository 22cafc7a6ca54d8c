// Passes over two sequences that read, differentiate and replace the values at the model's hook points (Tape::place).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/engine/inspection/sequence_pair.h"
#include "core/models/model.h"

namespace afterglow {

/// The numbers at one hook point, token by token.
struct HookValues {
  std::string name;                      ///< "layers.1.ska.keys"
  std::size_t branch;                    ///< index into Model::branches; their number for the head
  std::size_t columns;                   ///< for each token
  std::size_t heads;                     ///< equal parts of the columns, one a head; 1 without heads
  std::vector<double> clean, corrupted;  ///< [T * columns]
  std::vector<double> gradient;          ///< of the measure, in the corrupted run

  std::span<const double> row(const std::vector<double>& of, int token) const {
    return std::span(of).subspan(static_cast<std::size_t>(token) * columns, columns);
  }
  /// The numbers of one head; -1: of all.
  std::span<const double> row(const std::vector<double>& of, int token, int head) const {
    const std::size_t width = columns / heads;
    return head < 0 ? row(of, token) : row(of, token).subspan(static_cast<std::size_t>(head) * width, width);
  }
  /// Whether both runs have the same numbers there.
  bool is_equal(int token, int head = -1) const;
  /// First-order change of the measure if the clean numbers replace the corrupted ones at the token.
  double attributed(int token, int head = -1) const;
};

/// One hook point at one token of one run.
struct PlaceCell {
  std::size_t place = 0;  ///< index into HookPasses::places
  int token = 0;
  bool is_control = false;  ///< inserts the run's own numbers
  int head = -1;            ///< -1: every head
  std::size_t run = 0;      ///< its row in the batch
  double share = 1;         ///< of the difference, from the corrupted numbers to the clean ones
};

class HookPasses {
 public:
  HookPasses(Model& model, Tape& tape, DType dtype) : model_(&model), tape_(&tape), dtype_(dtype) {}

  /// Runs both sequences and the backward pass of the measure; fills in the pair's answers.
  void read(SequencePair& pair);
  /// Without the backward pass and the corrupted numbers.
  void read_clean(SequencePair& pair) { run_both(pair, nullptr); }
  const std::vector<HookValues>& places() const { return places_; }
  /// Logits at the queried token.
  const std::vector<double>& clean_logits() const { return clean_logits_; }
  const std::vector<double>& corrupted_logits() const { return corrupted_logits_; }

  /// Logits at the queried token of corrupted runs with the clean numbers of cells, all of them in or after the branch
  /// at which the runs begin. Rounding may depend on a run's row in the batch, so shares use the difference to the run
  /// without cells in the same row.
  std::vector<std::vector<double>> run(const SequencePair& pair, std::size_t branch, std::size_t runs,
                                       std::span<const PlaceCell> cells);

 private:
  std::vector<double> numbers_of(const PlaceCell& cell) const;
  Var forward(const Example& example, Var x, std::size_t branch, std::size_t rows);
  void choose_places(std::span<const std::pair<std::string, Tensor>> seen);
  void run_both(SequencePair& pair, std::vector<double> HookValues::*corrupted);
  /// Logits at the queried token of one run; `noted`: the member that receives the numbers of all hook points; may be
  /// null.
  std::vector<double> run_whole(const Example& example, int asked, std::vector<double> HookValues::*noted);

  Model* model_;
  Tape* tape_;
  DType dtype_;
  std::vector<HookValues> places_;
  std::vector<double> clean_logits_, corrupted_logits_;
};

/// Row `token` of each sequence of logits [B,T,V], on the host.
std::vector<std::vector<double>> rows_of_logits(Tape& tape, const Tensor& logits, int token);

/// Patches need every value of a pass as one of its own, also where a run without patches is compared.
inline const Hooks patched_hooks{.values = true, .form = PassForm::unfused};

/// Tokens [first, first + count) of sequence `sequence` at a hook point [B,T,..]; rows may be strided.
Tensor tokens_at(const Tensor& place, std::int64_t sequence, std::int64_t first, std::int64_t count);

/// "layers.1.ska.keys" -> "blocks.1.attn.hook_k", TransformerLens' name of the hook point.
std::string hook_name(const std::string& place, bool is_mixer, bool is_first_of_block);

}  // namespace afterglow
