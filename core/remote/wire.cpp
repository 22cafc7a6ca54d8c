// Instantiates the bytes of every value that travels.
#include "core/remote/wire.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

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
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/io/json_file.h"
#include "core/recipe/lesson_condition.h"
#include "core/remote/fields.h"

namespace afterglow {
namespace {

constexpr std::size_t json_growth = 32;  // bytes of memory for a byte of text, at most

template <class Message>
Message decode(std::string_view bytes, ReceivedParts& parts) {
  Reader stream{bytes, parts};
  Message message;
  travel(stream, message);
  if (!stream.bytes.empty()) refuse_message("it has bytes left over");
  return message;
}

template <class Message>
std::string encoded(const Message& message, SentParts& parts) {
  std::string bytes;
  Writer stream{bytes, parts};
  travel(stream, message);
  return bytes;
}

template <class Map>
void forget_unused(Map& parts) {
  std::erase_if(parts, [](const auto& entry) { return !entry.second.is_used; });
  for (auto& [key, part] : parts) part.is_used = false;
}

}  // namespace

void refuse_message(const std::string& what) {
  throw BadInput("a message over the line is damaged: " + what + "; start the session there again");
}

std::pair<SharedPart&, bool> sent_part(SentParts& parts, std::shared_ptr<const void> value) {
  const auto [place, is_new] = parts.try_emplace(value.get());
  static std::atomic<std::uint64_t> last = 0;
  if (is_new) place->second = {std::move(value), nullptr, ++last};
  place->second.is_used = true;
  return {place->second, is_new};
}

SharedPart* received_part(ReceivedParts& parts, std::uint64_t number, const void* type) {
  const auto found = parts.by_number.find(number);
  if (found == parts.by_number.end()) return nullptr;
  if (found->second.type != type) refuse_message("it takes one part for another");
  found->second.is_used = true;
  return &found->second;
}

void keep_part(ReceivedParts& parts, std::uint64_t number, SharedPart part) {
  SharedPart& kept = parts.by_number[number];
  parts.bytes += part.bytes - kept.bytes;
  if (parts.bytes > most_unpacked) refuse_message("its parts are larger than 1 GiB");
  kept = std::move(part);
}

void require_sound(const RunStatus& run) {
  if (!run.stop_when.empty()) parse_condition(run.stop_when, "the session's condition");
}
void require_sound(const LayerCost& costs) {
  for (const auto* list : {&costs.pass_ms, &costs.pass_bytes, &costs.step_ms, &costs.state_bytes}) {
    if (list->size() > costs.tokens.size()) refuse_message("a layer has more costs than lengths");
  }
}
void require_sound(const RoutingView& routing) {
  for (const auto& list : routing.accumulated) {
    if (list.empty()) refuse_message("a head has no decay");
  }
}
void require_sound(const SoftmaxTheory& theory) {
  if (theory.rank < 0) refuse_message("a rank is negative");
}
void require_sound(const DepthView& depth) {
  if (depth.branch_norms.size() > depth.layers.size()) refuse_message("a norm belongs to no branch");
}

/// A curve grows in place: the sender shares its array, and the receiver has one of its own.
void travel_curve(Writer& stream, const Values& curve) {
  const std::size_t size = curve.size();
  if (size == 0) return stream.raw(&size, sizeof size);
  const double* const numbers = curve.span().data();
  const std::shared_ptr<const void> alive(std::make_shared<Values>(curve), numbers);
  SharedPart& part = sent_part(stream.parts, alive).first;
  stream.raw(&part.number, sizeof part.number);
  stream.raw(&size, sizeof size);
  const std::size_t from = std::min(part.size, size);
  stream.count(size - from, sizeof(double));
  stream.raw(numbers + from, (size - from) * sizeof(double));
  part.size = std::max(part.size, size);
}

void travel_curve(Reader& stream, Values& curve) {
  std::uint64_t number = 0;
  std::size_t size = 0;
  stream.raw(&number, sizeof number);
  curve = {};
  if (number == 0) return;
  stream.raw(&size, sizeof size);
  const std::size_t more = stream.count(0, sizeof(double));
  const SharedPart* const known = received_part(stream.parts, number, &type_mark<Values>);
  SharedPart part = known ? *known : SharedPart{nullptr, &type_mark<Values>};
  if (more > size || (more > 0 ? size != part.size + more : size > part.size))
    refuse_message("a curve has another length");
  // Values that were handed out share the array: it is written behind them only, and replaced when it is full.
  auto numbers = std::static_pointer_cast<double[]>(std::const_pointer_cast<void>(part.value));
  if (size > part.capacity) {
    part.capacity = std::max(2 * part.capacity, size);
    stream.make_room(part.capacity * sizeof(double));
    const auto larger = std::make_shared_for_overwrite<double[]>(part.capacity);
    std::copy_n(numbers.get(), part.size, larger.get());
    numbers = larger;
  }
  stream.raw(numbers.get() + (size - more), more * sizeof(double));
  part.value = numbers;
  part.size = std::max(part.size, size);
  part.bytes = part.capacity * sizeof(double);
  part.is_used = true;
  curve = Values(numbers, size);
  keep_part(stream.parts, number, std::move(part));
}

/// Of an analysis that this program has.
void travel_name(Writer& stream, const std::string_view& name) {
  const std::string text(name);
  travel(stream, text);
}
void travel_name(Reader& stream, std::string_view& name) {
  std::string text;
  travel(stream, text);
  name = "";
  for (const AnalysisInfo& row : analysis_table()) {
    if (row.name == text) name = row.name;
  }
  if (name != text) refuse_message("it names an unknown analysis");
}

void travel_json(Writer& stream, const nlohmann::json& object) {
  std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  travel(stream, text);
}

void travel_json(Reader& stream, nlohmann::json& object) {
  std::string text;
  travel(stream, text);
  stream.make_room(json_growth * text.size());
  object = parse_json(text, "a command over the line");
  if (!object.is_object()) refuse_message("the value of a command is no object");
}

bool saves_here(const Command& command) {
  return command.name == "save" && command.value.contains("at") && command.value["at"] == "here";
}

std::string encode(const Request& request) {
  SentParts none;
  return encoded(request, none);
}

std::string encode(const Answer& answer, SentParts& parts) {
  std::string bytes = encoded(answer, parts);
  if (std::holds_alternative<Sight>(answer)) forget_unused(parts);
  return bytes;
}

Request decode_request(std::string_view bytes) {
  ReceivedParts none;
  return decode<Request>(bytes, none);
}

Answer decode_answer(std::string_view bytes, ReceivedParts& parts) {
  Answer answer = decode<Answer>(bytes, parts);
  if (!std::holds_alternative<Sight>(answer)) return answer;
  forget_unused(parts.by_number);
  parts.bytes = 0;
  for (const auto& [number, part] : parts.by_number) parts.bytes += part.bytes;
  return answer;
}

}  // namespace afterglow
