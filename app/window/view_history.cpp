// Views are small values, so each change stores the whole view before and after it.
#include "app/window/view_history.h"

#include <nlohmann/json.hpp>

#include "core/engine/session/command_handlers.h"

namespace afterglow {

namespace {

constexpr std::size_t max_changes = 200;
constexpr double one_gesture = 0.6;  // seconds

}  // namespace

ViewHistory::View ViewHistory::view_of(const PageState& page) {
  View view{page.workspace, page.maximised, page.panel_page, page.splits, page.shown_figure, {}, page.selection};
  // A plot that was drawn and one that was not are equal until the user changes its view.
  for (const auto& [name, plot] : page.plots) {
    const PlotView seen{plot.x, plot.y, plot.x_scale, plot.y_scale, plot.hidden};
    if (!(seen == PlotView())) view.plots[name] = seen;
  }
  return view;
}

void ViewHistory::show(PageState& page, const View& view) {
  page.workspace = view.workspace;
  page.maximised = view.maximised;
  page.panel_page = view.panel_page;
  page.splits = view.splits;
  page.shown_figure = view.shown_figure;
  page.selection = view.selection;
  for (auto& [name, plot] : page.plots) {
    const auto found = view.plots.find(name);
    const PlotView seen = found == view.plots.end() ? PlotView() : found->second;
    plot.x = seen.x;
    plot.y = seen.y;
    plot.x_scale = seen.x_scale;
    plot.y_scale = seen.y_scale;
    plot.hidden = seen.hidden;
  }
}

void ViewHistory::watch(const PageState& page, bool is_held, double time) {
  if (is_held) return;
  View now = view_of(page);
  if (last_ && !(*last_ == now)) {
    const bool goes_on = !done_.empty() && !done_.back().is_of_run && time - done_.back().time < one_gesture;
    const View before = goes_on ? done_.back().before : *last_;
    if (goes_on) done_.pop_back();
    add({before, now, time, false, ""});
  }
  last_ = std::move(now);
}

void ViewHistory::accept(const PageState& page) { last_ = view_of(page); }

void ViewHistory::note(const Command& command) {
  if (!is_undoable(command.name)) return;
  const nlohmann::json value = nlohmann::json::parse(command.value, nullptr, false);
  const bool is_live = value.is_object() && value.contains("live") && value["live"] == true;
  const std::string what = command.name + (value.is_object() && value.contains("key") ? value["key"].dump() : "");
  if (!done_.empty() && done_.back().is_of_run && done_.back().dragged == what) {
    if (!is_live) done_.back().dragged.clear();
    return;
  }
  add({{}, {}, 0, true, is_live ? what : ""});
}

void ViewHistory::add(Change change) {
  done_.push_back(std::move(change));
  undone_.clear();
  if (done_.size() > max_changes) done_.erase(done_.begin());
}

bool ViewHistory::take(PageState& page, std::vector<Change>& from, std::vector<Change>& to, View Change::*view) {
  if (from.empty()) return false;
  Change change = std::move(from.back());
  from.pop_back();
  const bool is_of_run = change.is_of_run;
  if (!is_of_run) {
    show(page, change.*view);
    last_ = view_of(page);
  }
  to.push_back(std::move(change));
  return !is_of_run;
}

}  // namespace afterglow
