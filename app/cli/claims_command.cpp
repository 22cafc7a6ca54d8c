// `afterglow claims`: the list of core/studies/claims_view.h.
#include "app/cli/command_line.h"
#include "core/io/json.h"
#include "core/studies/claims_view.h"

namespace afterglow {

json claims(const Output& output) {
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  const auto value = [](const std::string& text) { return text.empty() ? json() : json(text); };
  json all = json::array();
  for (const PaperClaim& one : paper_claims()) {
    output.line(one.verdict, ": ", one.paper, ". ", one.claim);
    output.line("  published ", shown(one.published), "; here ", shown(one.number), ", seeds ", one.seeds, "; ",
                shown(one.command), one.recorded.empty() ? "" : "; written down " + one.recorded);
    all.push_back({{"paper", one.paper},
                   {"claim", one.claim},
                   {"published", json::accept(one.published) ? json::parse(one.published) : value(one.published)},
                   {"number", value(one.number)},
                   {"command", one.command},
                   {"device", value(one.device)},
                   {"recorded", value(one.recorded)},
                   {"seeds", one.seeds},
                   {"verdict", one.verdict}});
  }
  return {{"claims", std::move(all)}};
}

}  // namespace afterglow
