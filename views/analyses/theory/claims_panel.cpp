// The list of the papers' claims with verdicts and numbers; spreads and seeds are shown by the pointer and in the
// enlarged panel. A click copies the command that measured a claim.
#include <algorithm>
#include <array>

#include "core/studies/claims_view.h"
#include "views/panels/panel.h"

namespace afterglow {
namespace {

constexpr std::size_t columns = 4;

/// Verdict, claim, number of the paper, number here.
std::array<Rect, columns> cells_of(const Frame& frame, const Rect& row) {
  const double gap = frame.px(14), verdict = frame.px(78);
  const double number = std::clamp(0.19 * row.width, frame.px(80), frame.px(260));
  const std::array widths{verdict, row.width - verdict - 2 * number - 3 * gap, number, number};
  std::array<Rect, columns> cells;
  double x = row.x;
  for (std::size_t i = 0; i < columns; ++i) {
    cells[i] = {x, row.y, std::max(1.0, widths[i]), row.height};
    x += widths[i] + gap;
  }
  return cells;
}

Color verdict_color(const Theme& theme, std::string_view verdict) {
  if (verdict == "holds") return theme.accent;
  if (verdict == "does not") return theme.failure;
  return verdict == "not tried" ? theme.faint : theme.warning;
}

/// "0.973 ± 0.017, 3 seeds"
std::string measured(const PaperClaim& claim) {
  const std::string seeds = claim.seeds == 1 ? "1 seed" : std::to_string(claim.seeds) + " seeds";
  return claim.seeds == 0 ? claim.number : claim.number + (claim.number.empty() ? "" : ", ") + seeds;
}

std::string without_spreads(std::string number) {
  for (std::size_t at; (at = number.find(" ± ")) != std::string::npos;)
    number.erase(at, number.find_first_not_of("0123456789.", at + sizeof " ± " - 1) - at);
  return number;
}

/// Draws a claim from the top of the area down; returns its height.
double draw_claim(Frame& frame, const PaperClaim& claim, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const auto or_dash = [](const std::string& text) { return text.empty() ? std::string("–") : text; };
  const bool is_whole = frame.state.maximised == "claims";
  const std::array<std::string, columns> texts{claim.verdict, claim.claim, or_dash(claim.published),
                                               or_dash(is_whole ? measured(claim) : without_spreads(claim.number))};
  const std::array<Color, columns> colors{verdict_color(theme, claim.verdict), theme.text, theme.dim, theme.text};
  const double line = frame.px(17), gap = frame.px(14);
  const std::array<Rect, columns> cells = cells_of(frame, {area.x, area.y + gap / 2, area.width, line});
  std::array<std::vector<std::string>, columns> lines;
  std::size_t most = 1;
  for (std::size_t i = 0; i < columns; ++i) {
    lines[i] = wrapped_text(canvas, texts[i], cells[i].width, frame.px(small_size), FontFace::regular, 12);
    most = std::max(most, lines[i].size());
  }
  const Rect row{area.x, area.y, area.width, static_cast<double>(most) * line + gap};
  const Press press = press_area(claim.claim.c_str(), row);
  if (press.hovered) canvas.fill_rect(row, frame.px(5), theme.raised);
  for (std::size_t i = 0; i < columns; ++i)
    text_lines(frame.look, canvas, cells[i], lines[i], line, {small_size, FontFace::regular, colors[i], Anchor::start});
  canvas.fill_rect({row.x, row.bottom(), row.width, 1}, 0, theme.hairline);
  const std::string number = measured(claim);
  if (press.hovered)
    hint_box(frame, row,
             (number.empty() ? "" : number + ": ") + claim.command + (claim.device.empty() ? "" : ", " + claim.device) +
                 "; a click copies it");
  if (press.clicked) frame.commands.send("copy", {{"what", "claim"}, {"claim", claim.claim}});
  return row.height + 1;
}

void draw_heads(const Frame& frame, const Rect& row) {
  constexpr std::array<const char*, columns> heads{"verdict", "claim", "in the paper", "here"};
  FigureCanvas canvas = frame.look.canvas();
  const std::array<Rect, columns> cells = cells_of(frame, row);
  for (std::size_t i = 0; i < columns; ++i)
    row_text(frame.look, canvas, cells[i], heads[i], {tiny_size, FontFace::semibold, frame.look.theme->faint});
}

/// All papers, or the one that the header's switch has chosen.
void draw_claims(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const double margin = frame.px(10), bar = frame.px(12);
  const Rect heads{area.x + margin, area.y, area.width - 2 * margin - bar, frame.px(20)};
  draw_heads(frame, heads);
  ImGui::SetCursorScreenPos({static_cast<float>(area.x), static_cast<float>(heads.bottom())});
  ImGui::BeginChild("claims", {static_cast<float>(area.width), static_cast<float>(area.bottom() - heads.bottom())},
                    false, ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  double y = heads.bottom() - static_cast<double>(ImGui::GetScrollY());
  const int chosen = frame.state.figure_of(panel.kind->id);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (chosen >= 0 && chosen != static_cast<int>(i)) continue;
    const std::string& paper = figures[i].title;
    y += frame.px(8) + section_head(frame, {heads.x, y + frame.px(8), heads.width, frame.px(16)}, paper);
    for (const PaperClaim& claim : paper_claims()) {
      if (claim.paper == paper) y += draw_claim(frame, claim, {heads.x, y, heads.width, 0});
    }
  }
  ImGui::SetCursorScreenPos({static_cast<float>(area.x), static_cast<float>(y)});
  ImGui::Dummy({1, static_cast<float>(frame.px(8))});  // tells Dear ImGui how long the list is
  scroll_by_wheel(frame);
  ImGui::EndChild();
}

}  // namespace

std::vector<PanelDrawing> theory_drawings() { return {{"claims", draw_claims}}; }

}  // namespace afterglow
