// A run of any program as a folder: the states of a model over steps, and curves from the logs next to them.
#pragma once
#include <map>
#include <memory>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// A checkpoint: the folder of a model, a .safetensors file with a config.json near it, or a snapshot.
struct StoredState {
  std::int64_t step = 0;
  std::filesystem::path path;
  bool is_snapshot = false;  ///< of Afterglow; else another program's model
};

constexpr std::int64_t newest_state = INT64_MAX;  ///< the last state, where a step is expected

/// States have a number in their names: "checkpoint-500", "step_1000.safetensors", "epoch=1-step=200", "model-7"; a
/// snapshot says its step itself. Pickles are not opened, folders are searched three levels down, without links.
class RunFolder {
 public:
  RunFolder() = default;
  explicit RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) { update(); }
  /// Looks for new, complete and deleted files; true if any has changed. Throws Error(bad_input) without the folder.
  bool update();
  /// Whether the system has said that there may be something to update; the first call begins to listen. Network and
  /// FUSE file systems do not tell what other machines change, so that callers also update from time to time.
  bool has_news();

  /// States, or curves of a folder that is no model itself.
  bool is_run() const { return !states_.empty() || (!is_model_ && !log_.curves.empty()); }
  bool is_model() const { return is_model_; }
  const std::map<std::int64_t, StoredState>& states() const { return states_; }
  std::shared_ptr<const FolderView> view() const { return view_; }
  /// As the log says, at least those of the last state and curve.
  std::int64_t planned_steps() const;
  /// Where the user's notes on the run are kept, because another program's folder stays as it is.
  std::filesystem::path notes_file() const;
  const std::vector<std::string>& notes() const { return notes_; }  ///< what was left out, damaged or incomplete
  /// The last state at or before `step`, else the first one; or `by` states after it, within those that there are.
  /// Throws Error(bad_input) without any.
  const StoredState& near(std::int64_t step, std::int64_t by = 0) const;
  /// The state of exactly this step. Throws Error(usage) that names those that there are, and as `near`.
  const StoredState& at(std::int64_t step) const;

 private:
  struct Scan;
  struct Watch;
  void look_into(const std::filesystem::path& folder, int depth, Scan& scan);
  void take_state(const std::filesystem::path& path, const std::filesystem::path& weights, std::int64_t step,
                  Scan& scan);
  void read_logs(std::vector<std::filesystem::path> files);

  using Stamp = std::int64_t;  // size and time of a file as one number
  std::filesystem::path folder_;
  bool is_model_ = false;
  std::map<std::int64_t, StoredState> states_;
  std::shared_ptr<const FolderView> view_ = std::make_shared<const FolderView>();
  TrainingLog log_;
  std::shared_ptr<const Watch> watch_;  // null until a caller asks
  std::vector<std::string> notes_;
  std::map<std::filesystem::path, Stamp> read_;                              // logs
  std::map<std::filesystem::path, std::pair<Stamp, std::int64_t>> checked_;  // weights; the step of a snapshot, -1
};

}  // namespace afterglow
