// A writer that changes one of the values which it writes.
#include "tests/support/changed_observation.h"

#include <iterator>
#include <limits>

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
#include "core/remote/fields.h"

namespace afterglow {
namespace {

struct Changer {
  static constexpr bool reads = false;

  bool changes() { return is_observation && asleep == 0 && place++ == wanted; }
  void write(const void* from, std::size_t size) { bytes.append(static_cast<const char*>(from), size); }
  void write_count(std::size_t count) { write(&count, sizeof count); }
  /// A number.
  void raw(const void* from, std::size_t size) {
    const std::size_t at = bytes.size();
    write(from, size);
    if (changes()) change(bytes.data() + at, size);
  }
  void change(char* number, std::size_t size) const {
    const auto put = [&](auto value) { std::memcpy(number, &value, sizeof value); };
    constexpr double wild[] = {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               0.0,
                               -1.0,
                               1e300,
                               -1e300,
                               5e-324,
                               3.0};
    constexpr std::int64_t whole[] = {0, 1, 2, 7, 1000, -1, -2, 1'000'000'000, -2'000'000'000};
    const std::int64_t which = static_cast<std::int64_t>(way % 20);
    if (size >= 8) {
      std::int64_t value = 0;
      std::memcpy(&value, number, 8);
      if (which < 9) return put(wild[which]);
      put(which < 18 ? whole[which - 9] : which == 18 ? std::numeric_limits<std::int64_t>::max() : value + 1);
    } else if (size == 4) {
      std::int32_t value = 0;
      std::memcpy(&value, number, 4);
      if (which < 9) return put(static_cast<float>(wild[which]));
      put(which < 18 ? static_cast<std::int32_t>(whole[which - 9]) : value + (which == 18 ? 1 : -1));
    } else {
      number[0] = static_cast<char>(way);
    }
  }

  std::int64_t wanted = -1;
  std::uint64_t way = 0;
  std::string bytes{};
  std::int64_t place = 0;
  int asleep = 0;
  bool is_observation = false;
  std::uint64_t part = 0;
};

int travel_choice(Changer& stream, int choice, int most) {
  if (stream.changes()) choice = static_cast<int>((static_cast<std::uint64_t>(choice) + 1 + stream.way) % most);
  const auto byte = static_cast<unsigned char>(choice);
  stream.write(&byte, 1);
  return choice;
}

std::string wild_text(std::uint64_t way) {
  const std::string texts[] = {"",  "\xff\xfe\xf0", std::string(20'000, 'm'), "../../../tmp/x", "%s%n%s",
                               "{", "0 ska 9"};
  return texts[way % std::size(texts)];
}

template <class T>
void travel_list(Changer& stream, T& list) {
  using Element = typename T::value_type;
  if constexpr (std::is_same_v<Element, char>) {
    const std::string text = stream.changes() ? wild_text(stream.way) : list;
    stream.write_count(text.size());
    return stream.write(text.data(), text.size());
  } else {
    std::remove_const_t<T> changed = list;
    if (stream.changes()) {
      const std::size_t size = list.size();
      const std::size_t sizes[] = {0, size > 0 ? size - 1 : 0, size + 1, 2 * size, 1, size / 2};
      changed.resize(sizes[stream.way % std::size(sizes)]);
    }
    const std::size_t size = changed.size();
    stream.write_count(size);
    if constexpr (is_flat<Element>) {
      const std::size_t at = stream.bytes.size();
      stream.write(changed.data(), size * sizeof(Element));
      if (stream.changes() && size > 0)
        stream.change(stream.bytes.data() + at + (stream.way / 20 % size) * sizeof(Element), sizeof(Element));
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        const int skipped = i == 0 || i == size / 2 || i + 1 == size ? 0 : 1;
        stream.asleep += skipped;
        const Element& element = changed[i];
        travel(stream, element);
        stream.asleep -= skipped;
      }
    }
  }
}

template <class T>
void travel_part(Changer& stream, const std::shared_ptr<const T>& part) {
  const bool is_observation = std::is_same_v<T, Observation>;
  const bool is_there = part && !(stream.changes() && stream.way % 2 == 0);
  const std::uint64_t number = is_there ? ++stream.part : 0;
  stream.write(&number, sizeof number);
  stream.is_observation = stream.is_observation || is_observation;
  if (is_there) travel(stream, *part);
}

void travel_curve(Changer& stream, const Values& curve) {
  std::vector<double> values(curve.span().begin(), curve.span().end());
  if (stream.changes()) values.resize(std::array{std::size_t{0}, values.size() / 2, 2 * values.size()}[stream.way % 3]);
  if (stream.changes() && !values.empty())
    stream.change(reinterpret_cast<char*>(&values[stream.way / 20 % values.size()]), sizeof(double));
  const std::uint64_t number = values.empty() ? 0 : ++stream.part;
  stream.write(&number, sizeof number);
  if (values.empty()) return;
  stream.write_count(values.size());
  stream.write_count(values.size());
  stream.write(values.data(), values.size() * sizeof(double));
}

void travel_name(Changer& stream, const std::string_view& name) {
  const std::string text(stream.changes() ? analysis_table()[stream.way % analysis_count].name : name);
  stream.write_count(text.size());
  stream.write(text.data(), text.size());
}

/// Writes everything, and changes one value if `stream` wants one.
void write(Changer& stream, const Observation& now) {
  const Answer sight = Sight{1, {std::shared_ptr<const Observation>(), &now}};
  travel(stream, sight);
}

}  // namespace

std::int64_t changeable_values(const Observation& now) {
  Changer counter;
  write(counter, now);
  return counter.place;
}

std::string changed_sight(const Observation& now, std::int64_t place, std::uint64_t way) {
  Changer stream{.wanted = place, .way = way};
  write(stream, now);
  return std::move(stream.bytes);
}

}  // namespace afterglow
