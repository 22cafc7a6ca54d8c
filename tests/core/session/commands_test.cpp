// A command acts the same however it came: as a value, as text, or over the line to another machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "core/io/json_file.h"
#include "core/recipe/command.h"
#include "core/recipe/interventions.h"
#include "core/recipe/recipe.h"
#include "core/remote/wire.h"
#include "tests/core/session/turned_worker.h"

namespace afterglow {
namespace {

Command through_text(const Command& command) { return parse_command(parse_json(to_json(command).dump(), "a script")); }

Command over_the_line(const Command& command) {
  return std::get<Order>(decode_request(encode(Order{command}))).command;
}

/// Weights, recipe, journal and messages after these commands, on a run of six steps.
std::string state_after(const std::vector<Command>& commands, Command (*way)(const Command&)) {
  TurnedWorker test;
  test.box.request(0);
  auto seen = test.after({"step", {{"count", 6}}});
  for (const Command& command : commands) seen = test.after(way(command));
  std::string state = test.worker.run().trainer().checksum() + " " + to_json(test.worker.run().recipe()).dump();
  for (const auto& time : {seen->journal.undo, seen->journal.redo}) state += " " + std::to_string(time.value_or(0));
  for (const Event& event : seen->events) state += "\n" + event.text;
  return state;
}

void expect_one_effect(const std::vector<Command>& commands) {
  const std::string plain = state_after(commands, [](const Command& command) { return command; });
  EXPECT_EQ(state_after(commands, through_text), plain) << commands.back().name;
  EXPECT_EQ(state_after(commands, over_the_line), plain) << commands.back().name;
}

TEST(CommandWays, ExamplesThatChangeOrShowTheRunHaveOneEffect) {
  constexpr std::string_view others[] = {"set", "freeze", "skip", "note", "trace", "theory", "probe", "rewind", "step"};
  for (const CommandSpec& spec : command_table()) {
    if (spec.edits_inspection || std::ranges::find(others, spec.name) != std::end(others))
      expect_one_effect({{std::string(spec.name), nlohmann::json::parse(spec.example)}});
  }
}

TEST(CommandWays, WhatTheMouseDragsHasOneEffect) {
  const ModeName mode{3, 1, true, 2};
  std::vector<Command> drag;
  for (const double share : {0.1, 1.0 / 3, 0.7}) drag.push_back(drag_mode(mode, {share, -share / 7}, share < 0.7));
  expect_one_effect(drag);
  drag.insert(drag.end(), {mode_off({3, 0, true, 1}, true), {"surgery"}, {"step", {{"count", 2}}}});
  expect_one_effect(drag);
  expect_one_effect({SetNumber{"learning_rate", 1e-3 / 3, true}, SetNumber{"learning_rate", 2e-3 / 3}, {"undo"}});
  expect_one_effect({SetNumber{"layers.1.ska.K", 3}, {"step", {{"count", 2}}}, {"rewind", {{"by", 1}}}});
}

}  // namespace
}  // namespace afterglow
