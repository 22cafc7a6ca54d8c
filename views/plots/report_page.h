// The page of `afterglow report` and of the window's button: figures that move over the recorded steps, in one file.
#pragma once
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"

namespace afterglow {

struct Figure;
struct PlotKind;  // views/plots/plot_kinds.h

class ReportPage {
 public:
  /// Shows all figures of the plots; without plots what says most about such a model, at most six.
  ReportPage(std::vector<const PlotKind*> plots, const ModelSummary& model);
  /// What an observation must hold.
  AnalysisSet analyses() const;
  /// Takes over one step; steps ascend. Curves over the training are drawn at the last one, for all.
  void record(const Observation& observation, bool is_last);
  const std::vector<std::int64_t>& steps() const { return steps_; }
  std::size_t figures() const { return figures_.size(); }
  /// `last`: the observation that was recorded last. `program`: "afterglow 0.1.0".
  std::string html(const Observation& last, const std::string& program) const;

 private:
  std::vector<const PlotKind*> plots_;
  bool is_all_;
  std::vector<std::int64_t> steps_;
  std::vector<nlohmann::ordered_json> numbers_;  ///< of each step
  nlohmann::ordered_json figures_;  ///< by id: the caption and the states, one for each step or one for all
};

/// A figure as the script of a page draws it, with what the cursor reads, and in curves over the training the places of
/// the steps.
nlohmann::ordered_json living_figure(const Figure& figure, const std::vector<std::int64_t>& steps = {});
/// A page of assets/report, "report" or "lesson", in which each {{name}} is a part; `data` is what its script reads.
std::string living_page(const std::string& kind, std::map<std::string, std::string> parts,
                        const nlohmann::ordered_json& data);

/// At most `count` steps at even distances, with the last one; of a folder of its states.
std::vector<std::int64_t> spread_steps(std::int64_t first, std::int64_t last, std::int64_t count,
                                       const FolderView* folder = nullptr);

/// A report of a run that is open: the window goes to each step, as by hand, records it, and comes back.
struct ReportTour {
  ReportPage page;
  std::vector<std::int64_t> steps;
  std::string file;
  std::int64_t present = 0;
  bool was_running = false;
  double began = 0;                    ///< when, in the window's time
  std::size_t begun = 0;               ///< steps that the window has gone to
  std::future<std::string> drawing{};  ///< of the last one on another thread; after all a sentence about the file
};

}  // namespace afterglow
