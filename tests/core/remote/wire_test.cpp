// Every member of everything that travels, shared parts, growing curves, and bytes of a hostile peer.
#include "core/remote/wire.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "core/engine/analyses/costs/cost_view.h"
#include "core/engine/analyses/forces/forces_view.h"
#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/analyses/influence/influence_view.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/analyses/solvers/solver_view.h"
#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/observation/causes_view.h"
#include "core/engine/observation/curve.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/random/random.h"
#include "core/recipe/interventions.h"
#include "core/remote/fields.h"
#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

/// A reader that makes up what it reads: every member gets a value that no other has, every list two elements.
class Filler {
 public:
  static constexpr bool reads = true;
  void raw(void* to, std::size_t size) {
    const std::size_t whole = size % sizeof(double) == 0 ? sizeof(double) : size;
    for (std::size_t at = 0; at < size; at += whole) {
      if (whole == sizeof(double)) {
        const double number = ++made;
        std::memcpy(static_cast<char*>(to) + at, &number, sizeof number);
      } else {
        std::memset(static_cast<char*>(to) + at, 1 + ++made % 100, whole);
      }
    }
  }
  std::size_t count(std::size_t, std::size_t) { return 2; }
  void make_room(std::size_t) {}
  int made = 0;
};
int travel_choice(Filler& stream, int, int most) { return most == 2 ? 1 : ++stream.made % most; }
template <class T>
void travel_part(Filler& stream, std::shared_ptr<const T>& part) {
  const auto made = std::make_shared<T>();
  travel(stream, *made);
  part = made;
}
void travel_curve(Filler& stream, Values& curve) { curve = Values{1.0 * ++stream.made, 2.0 * ++stream.made}; }
void travel_name(Filler& stream, std::string_view& name) {
  name = analysis_table()[static_cast<std::size_t>(++stream.made) % analysis_count].name;
}

/// A writer of all bytes behind every pointer: equal values have equal texts.
class Printer {
 public:
  static constexpr bool reads = false;
  void raw(const void* from, std::size_t size) { text.append(static_cast<const char*>(from), size); }
  std::size_t count(std::size_t size, std::size_t) {
    raw(&size, sizeof size);
    return size;
  }
  std::string text;
};
template <class T>
void travel_part(Printer& stream, const std::shared_ptr<const T>& part) {
  stream.text += part ? '*' : '0';
  if (part) travel(stream, *part);
}
void travel_curve(Printer& stream, const Values& curve) { stream.raw(curve.span().data(), 8 * curve.size()); }
void travel_name(Printer& stream, const std::string_view& name) { stream.raw(name.data(), name.size()); }

template <class T>
std::string text_of(const T& value) {
  Printer stream;
  travel(stream, value);
  return stream.text;
}

Observation made_up(int first = 0) {
  Filler stream;
  stream.made = first;
  Observation now;
  travel(stream, now);
  now.stop_when = "loss < " + std::to_string(++stream.made);
  return now;
}

std::string sent(const Observation& now, SentParts& parts) {
  return encode(Sight{1, std::make_shared<Observation>(now)}, parts);
}
const Observation& seen(const Answer& answer) { return *std::get<Sight>(answer).now; }

TEST(Wire, EveryMemberOfAnObservationTravels) {
  const Observation now = made_up();
  SentParts mine;
  ReceivedParts theirs;
  const Answer there = decode_answer(sent(now, mine), theirs);
  EXPECT_GT(text_of(now).size(), 10'000u);
  EXPECT_EQ(text_of(seen(there)), text_of(now));
  EXPECT_NE(text_of(made_up(1)), text_of(now));
  EXPECT_EQ(seen(there).patch->pair.clean_label, now.patch->pair.clean_label);
  EXPECT_EQ(seen(there).inspected->setup, now.inspected->setup);
}

TEST(Wire, RequestsTravel) {
  Hello hello;
  Filler stream;
  travel(stream, hello);
  EXPECT_EQ(text_of(std::get<Hello>(decode_request(encode(hello)))), text_of(hello));
  const Command drag = drag_mode({1, 2, true, 3}, {0.5, -0.25}, true);
  const Command back = std::get<Order>(decode_request(encode(Order{drag}))).command;
  EXPECT_EQ(back, drag);
}

TEST(Wire, PartsThatThePeerHasAreSentAsNumbers) {
  Observation now = made_up();
  SentParts mine;
  ReceivedParts theirs;
  const std::string whole = sent(now, mine);
  const Answer first = decode_answer(whole, theirs);
  ++now.step;
  const std::string again = sent(now, mine);
  EXPECT_LT(again.size(), whole.size() / 2);
  const Answer second = decode_answer(again, theirs);
  EXPECT_EQ(seen(second).spectra, seen(first).spectra) << "the same object, so figures know that nothing changed";
  EXPECT_EQ(seen(second).step, now.step);
  now.spectra = nullptr;  // both sides forget it
  now.spectrum_history.clear();
  decode_answer(sent(now, mine), theirs);
  now.spectra = made_up(7).spectra;
  EXPECT_EQ(text_of(seen(decode_answer(sent(now, mine), theirs))), text_of(now));
}

TEST(Wire, OfACurveOnlyTheGrowthIsSent) {
  GrowingCurve loss;
  Observation now;
  now.runs.resize(1);
  SentParts mine;
  ReceivedParts theirs;
  std::vector<Values> held;
  for (int step = 0; step < 3000; ++step) {
    loss.append(step);
    if (step % 7 != 0 && step < 2900) continue;
    if (step == 2950) loss.truncate(100);
    now.runs[0].loss = loss.view();
    const std::string bytes = sent(now, mine);
    const bool only_grows = step > 300 && step < 2800;
    EXPECT_LT(bytes.size(), only_grows ? 2000u : 100'000u) << step;
    held.push_back(seen(decode_answer(bytes, theirs)).runs[0].loss);
    ASSERT_TRUE(std::ranges::equal(held.back().span(), loss.view().span())) << step;
  }
  for (int i = 0; i < 300; ++i) ASSERT_EQ(held[static_cast<std::size_t>(i)].back(), 7 * i) << "old views stay";
}

TEST(Wire, AnOlderLengthOfACurveIsAView) {
  GrowingCurve loss;
  for (int i = 0; i < 50; ++i) loss.append(i);
  Observation now;
  now.runs.resize(2);
  now.runs[0].loss = loss.view();
  now.runs[1].loss = loss.view().first(10);
  SentParts mine;
  ReceivedParts theirs;
  const Answer there = decode_answer(sent(now, mine), theirs);
  EXPECT_EQ(seen(there).runs[1].loss.size(), 10u);
  EXPECT_EQ(seen(there).runs[0].loss.back(), 49);
}

/// Damaged bytes are read or refused, for no more memory than they are worth.
void expect_harmless(const std::string& bytes) {
  start_counting_memory();
  try {
    ReceivedParts parts;
    decode_answer(bytes, parts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
  }
  EXPECT_LE(max_memory_since_start(), 64 * bytes.size() + (1 << 20));
}

TEST(Wire, DamagedBytesAreRefused) {
  SentParts mine;
  const std::string whole = sent(made_up(), mine);
  ReceivedParts parts;
  EXPECT_THROW(decode_answer(whole + '\0', parts), Error) << "bytes left over";
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 40) expect_harmless(whole.substr(0, size));
  Random random(5, 0, 0);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (int j = 0; j < 3; ++j) {
      const std::size_t at = random.uniform_int(bytes.size() - 4);
      const std::uint32_t values[] = {0, 1, 0xffffffff, 0x7fffffff, 0x01000000, static_cast<std::uint32_t>(at)};
      std::memcpy(bytes.data() + at, &values[random.uniform_int(6)], 4);
    }
    expect_harmless(bytes);
  }
}

/// How much memory a value takes that is refused because a reader has room for 1 MiB only.
template <class T>
std::int64_t memory_of_refused(const T& value) {
  const std::string bytes = text_of(value);
  ReceivedParts none;
  T enough, too_much;
  Reader patient{bytes, none};
  EXPECT_NO_THROW(travel(patient, enough));
  Reader stream{bytes, none, 1 << 20};
  start_counting_memory();
  EXPECT_THROW(travel(stream, too_much), Error);
  return static_cast<std::int64_t>(max_memory_since_start());
}

TEST(Wire, WhatUnpacksToTooMuchIsRefusedBeforeItIsAllocated) {
  constexpr std::int64_t some = 4 << 20;  // lists grow by doubling
  EXPECT_LT(memory_of_refused(std::vector<std::string>(300'000)), some) << "8 bytes travel for 32";
  EXPECT_LT(memory_of_refused(std::vector<double>(300'000)), some);
  EXPECT_LT(memory_of_refused(std::vector<std::optional<Event>>(300'000)), some) << "one byte travels for 56";
  EXPECT_LT(memory_of_refused(std::map<std::string, std::string>{{"a", std::string(2 << 20, 'x')}}), some);
}

TEST(Wire, KeptPartsAreCountedInMemory) {
  Observation now;
  const auto spectra = std::make_shared<Spectra>();
  spectra->heads.resize(1000);
  now.spectra = spectra;
  SentParts mine;
  ReceivedParts theirs;
  decode_answer(sent(now, mine), theirs);
  EXPECT_GE(theirs.bytes, 1000 * sizeof(HeadSpectrum));
  now.spectra = nullptr;
  decode_answer(sent(now, mine), theirs);
  EXPECT_LT(theirs.bytes, 10'000u) << "forgotten";
}

TEST(Wire, AConditionThatCannotBeReadIsRefused) {
  Observation now;
  for (const char* condition : {"accuracy > 0.9", "%s%n%s", "{"}) {
    now.stop_when = condition;
    SentParts mine;
    ReceivedParts theirs;
    const std::string bytes = sent(now, mine);
    if (now.stop_when.starts_with("accuracy"))
      EXPECT_NO_THROW(decode_answer(bytes, theirs));
    else
      EXPECT_THROW(decode_answer(bytes, theirs), Error) << condition;
  }
}

TEST(Wire, APartIsNotTakenForAnotherOne) {
  Observation now;
  now.spectra = std::make_shared<Spectra>();
  SentParts mine;
  ReceivedParts theirs;
  decode_answer(sent(now, mine), theirs);
  Observation other;
  other.trace = std::make_shared<Trace>();
  SentParts liar;  // says that the trace is the part that the spectra were
  liar[other.trace.get()] = {other.trace, nullptr, mine.at(now.spectra.get()).number};
  EXPECT_THROW(decode_answer(sent(other, liar), theirs), Error);
}

TEST(Wire, ChoicesThatDoNotExistAreRefused) {
  static_assert(enumerators<TokenRole>() == 11 && enumerators<Severity>() == 3);
  Event event;
  const std::string bytes = text_of(event);
  for (int choice = 0; choice < 256; ++choice) {
    std::string other = bytes;
    other[8] = static_cast<char>(choice);  // after the step
    other.resize(9 + sizeof(std::size_t));
    std::fill(other.begin() + 9, other.end(), '\0');  // no text
    ReceivedParts none;
    Reader stream{other, none};
    if (choice < 3) {
      EXPECT_NO_THROW(travel(stream, event));
    } else {
      EXPECT_THROW(travel(stream, event), Error);
    }
  }
}

}  // namespace
}  // namespace afterglow
