// Bytes of plain structs, derived from their members: no list names them. `travel` writes a value or reads it. Only
// wire.cpp and its test include this file, because it instantiates much.
#pragma once
#include <array>
#include <bit>
#include <boost/pfr.hpp>
#include <complex>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/engine/session/analysis_table.h"
#include "core/io/error.h"
#include "core/remote/wire.h"

namespace afterglow {

constexpr std::size_t most_unpacked = std::size_t{1} << 30;  // bytes of memory that a peer makes this side use
static_assert(std::endian::native == std::endian::little, "numbers travel as bytes of memory");

[[noreturn]] void refuse_message(const std::string& what);
// Refuse what figures take for granted: lengths and signs that an honest session never breaks.
void require_sound(const struct RunStatus& run);
void require_sound(const struct LayerCost& costs);
void require_sound(const struct RoutingView& routing);
void require_sound(const struct SoftmaxTheory& theory);
void require_sound(const struct DepthView& depth);
/// The part, and whether it is new.
std::pair<SharedPart&, bool> sent_part(SentParts& parts, std::shared_ptr<const void> value);
/// Null without one of this number. Refuses one of another type.
SharedPart* received_part(ReceivedParts& parts, std::uint64_t number, const void* type);
/// Refuses more than `most_unpacked` in all.
void keep_part(ReceivedParts& parts, std::uint64_t number, SharedPart part);

/// Whether T is `Of` with any arguments.
template <class T, template <class...> class Of>
constexpr bool is_a = false;
template <class... A, template <class...> class Of>
constexpr bool is_a<Of<A...>, Of> = true;
template <class T>
constexpr bool is_array = false;
template <class E, std::size_t n>
constexpr bool is_array<std::array<E, n>> = true;
/// Travels as its memory.
template <class T>
constexpr bool is_flat = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || is_a<T, std::complex>;
/// Travels member by member; a struct with a base or a constructor does not, nor does a pointer or a function.
template <class T>
constexpr bool is_plain = std::is_aggregate_v<T>&& std::is_class_v<T> && !is_array<T>;
template <class T>
constexpr char type_mark = 0;  ///< its address stands for the type

/// Whether the enumeration names the value, as the compiler spells it: "(Severity)7" where it does not.
template <auto value>
constexpr bool is_enumerator() {
  const std::string_view text = __PRETTY_FUNCTION__;
  return text[text.find("value = ") + 8] != '(';
}
/// The number of enumerators, which count from 0.
template <class E, int first = 0>
constexpr int enumerators() {
  if constexpr (is_enumerator<static_cast<E>(first)>()) return enumerators<E, first + 1>();
  return first;
}

struct Writer {
  static constexpr bool reads = false;
  void raw(const void* from, std::size_t size) { bytes.append(static_cast<const char*>(from), size); }
  std::size_t count(std::size_t size, std::size_t) {
    raw(&size, sizeof size);
    return size;
  }
  std::string& bytes;
  SentParts& parts;
};

struct Reader {
  static constexpr bool reads = true;
  void raw(void* to, std::size_t size) {
    if (size > bytes.size()) refuse_message("it ends early");
    if (size > 0) std::memcpy(to, bytes.data(), size);
    bytes.remove_prefix(size);
  }
  /// A number of elements with at least `least` bytes each, which are there.
  std::size_t count(std::size_t, std::size_t least) {
    std::size_t stored = 0;
    raw(&stored, sizeof stored);
    if (stored > bytes.size() / least) refuse_message("it names more values than it has");
    make_room(stored * least);
    return stored;
  }
  /// Asked before this many bytes are allocated: a list of empty texts takes four times the bytes that travel.
  void make_room(std::size_t size) {
    if (size > room) refuse_message("it unpacks to more than 1 GiB");
    room -= size;
  }
  std::string_view bytes;
  ReceivedParts& parts;
  std::size_t room = most_unpacked;
};

template <class S, class T>
void travel(S& stream, T& value);

/// One byte below `most`.
template <class S>
int travel_choice(S& stream, int choice, int most) {
  auto byte = static_cast<unsigned char>(choice);
  stream.raw(&byte, 1);
  if (byte >= most) refuse_message("it has an unknown choice");
  return byte;
}

template <class S, class T>
void travel_list(S& stream, T& list) {
  using Element = typename T::value_type;
  const std::size_t size = stream.count(list.size(), is_flat<Element> ? sizeof(Element) : 1);
  if constexpr (is_flat<Element> || std::is_same_v<Element, char>) {
    if constexpr (S::reads) list.resize(size);
    stream.raw(list.data(), size * sizeof(Element));
  } else if constexpr (S::reads) {
    list.clear();
    for (std::size_t i = 0; i < size; ++i) {
      stream.make_room(sizeof(Element));
      Element element{};
      travel(stream, element);
      list.insert(list.end(), std::move(element));
    }
  } else {
    for (const auto& element : list) travel(stream, element);
  }
}

/// Makes the alternative of this index and lets it travel.
template <class S, class T, std::size_t... I>
void travel_variant(S& stream, T& value, std::index_sequence<I...>) {
  const int index = travel_choice(stream, static_cast<int>(value.index()), sizeof...(I));
  const auto one = [&]<std::size_t i>() {
    if constexpr (S::reads) value.template emplace<i>();
    travel(stream, std::get<i>(value));
  };
  ((index == static_cast<int>(I) ? one.template operator()<I>() : void()), ...);
}

template <class T>
void travel_part(Writer& stream, const std::shared_ptr<const T>& part) {
  const std::uint64_t nothing = 0;
  if (!part) return stream.raw(&nothing, sizeof nothing);
  const auto [known, is_new] = sent_part(stream.parts, part);
  stream.raw(&known.number, sizeof known.number);
  if (is_new) travel(stream, *part);
}

template <class T>
void travel_part(Reader& stream, std::shared_ptr<const T>& part) {
  std::uint64_t number = 0;
  stream.raw(&number, sizeof number);
  part = nullptr;
  if (number == 0) return;
  if (const auto* known = received_part(stream.parts, number, &type_mark<T>)) {
    part = std::static_pointer_cast<const T>(known->value);
    return;
  }
  const std::size_t before = stream.room;
  stream.make_room(sizeof(T));
  const auto made = std::make_shared<T>();
  travel(stream, *made);
  part = made;
  keep_part(stream.parts, number, {made, &type_mark<T>, 0, 0, 0, before - stream.room});
}

void travel_curve(Writer& stream, const Values& curve);
void travel_curve(Reader& stream, Values& curve);
void travel_json(Writer& stream, const nlohmann::json& object);
void travel_json(Reader& stream, nlohmann::json& object);
void travel_name(Writer& stream, const std::string_view& name);
void travel_name(Reader& stream, std::string_view& name);

template <class S, class T>
void travel(S& stream, T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (is_flat<Plain>) {
    stream.raw(&value, sizeof value);
  } else if constexpr (std::is_same_v<Plain, bool>) {
    const bool is_on = travel_choice(stream, value, 2) == 1;
    if constexpr (S::reads) value = is_on;
  } else if constexpr (std::is_enum_v<Plain>) {
    const int choice = travel_choice(stream, static_cast<int>(value), enumerators<Plain>());
    if constexpr (S::reads) value = static_cast<Plain>(choice);
  } else if constexpr (std::is_same_v<Plain, std::string> || is_a<Plain, std::vector>) {
    travel_list(stream, value);
  } else if constexpr (is_a<Plain, std::map>) {  // whose keys are constant
    std::vector<std::pair<typename Plain::key_type, typename Plain::mapped_type>> pairs(value.begin(), value.end());
    travel(stream, pairs);
    if constexpr (S::reads) value = Plain(pairs.begin(), pairs.end());
  } else if constexpr (is_array<Plain>) {
    for (auto& element : value) travel(stream, element);
  } else if constexpr (is_a<Plain, std::pair>) {
    travel(stream, value.first);
    travel(stream, value.second);
  } else if constexpr (is_a<Plain, std::optional>) {
    const bool has_value = travel_choice(stream, value.has_value(), 2) == 1;
    if constexpr (S::reads) has_value ? (void)value.emplace() : value.reset();
    if (has_value) travel(stream, *value);
  } else if constexpr (is_a<Plain, std::variant>) {
    travel_variant(stream, value, std::make_index_sequence<std::variant_size_v<Plain>>());
  } else if constexpr (is_a<Plain, std::shared_ptr>) {
    travel_part(stream, value);
  } else if constexpr (std::is_same_v<Plain, Values>) {
    travel_curve(stream, value);
  } else if constexpr (std::is_same_v<Plain, std::string_view>) {
    travel_name(stream, value);
  } else if constexpr (std::is_same_v<Plain, Command>) {
    travel(stream, value.name);
    travel_json(stream, value.value);
  } else if constexpr (std::is_same_v<Plain, Observation>) {
    static_assert(sizeof(Plain) == sizeof(RunStatus) + sizeof(AnalysisResults) + sizeof(ModelSummary));
    travel(stream, static_cast<std::conditional_t<S::reads, RunStatus, const RunStatus>&>(value));
    travel(stream, static_cast<std::conditional_t<S::reads, AnalysisResults, const AnalysisResults>&>(value));
    travel(stream, value.model);
  } else if constexpr (is_plain<Plain>) {
    boost::pfr::for_each_field(value, [&](auto& field) { travel(stream, field); });
    if constexpr (std::is_same_v<S, Reader> && requires { require_sound(value); }) require_sound(value);
  } else {
    static_assert(sizeof(T) == 0, "a value of this type does not travel between machines");
  }
}

}  // namespace afterglow
