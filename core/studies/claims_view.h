// What the papers say, what was measured here and by which command, and whether it holds.
#pragma once
#include <string>
#include <vector>

namespace afterglow {

/// A sentence of a paper. An empty text is missing.
struct PaperClaim {
  std::string paper, claim;
  std::string published, number;  ///< in the paper and here: "0.393", "0.376 ± 0.005"
  std::string command, device;    ///< what measured it
  std::string verdict;            ///< "holds", "holds in part", "does not" or "not tried"
  std::string recorded;           ///< "2026-11-23": when a number was written down that no kept results hold
  int seeds = 0;
};

/// Those of assets/claims, paper by paper; numbers of a table come from what it publishes and from its kept results
/// (assets/tables/results).
const std::vector<PaperClaim>& paper_claims();

}  // namespace afterglow
