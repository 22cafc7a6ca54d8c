// A cache by name, which forgets entries that are no longer used.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace afterglow {

/// Forgets an entry after 10,000 requests for others; a page in use makes hundreds of requests a second. The entry of
/// the last request keeps its address.
template <class Value>
class RecentlyUsed {
 public:
  /// The entry of this name, created if it does not exist.
  Value& operator[](std::string_view name) {
    Entry& entry = entries_.try_emplace(std::string(name)).first->second;
    entry.asked = ++asked_;
    if (asked_ % forget_after == 0)
      std::erase_if(entries_, [this](const auto& item) { return asked_ - item.second.asked >= forget_after; });
    return entry.value;
  }
  std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::uint64_t forget_after = 10000;
  struct Entry {
    Value value;
    std::uint64_t asked = 0;  ///< number of its last request
  };
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t asked_ = 0;
};

}  // namespace afterglow
