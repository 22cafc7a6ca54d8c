// Things kept by name for as long as someone asks for them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace afterglow {

/// Forgets what was not asked for while 10,000 others were: a page in use asks hundreds of times a second. What has
/// just been asked for stays where it is.
template <class Value>
class RecentlyUsed {
 public:
  /// The one of this name, made where there is none.
  Value& operator[](std::string_view name) {
    Entry& entry = entries_.try_emplace(std::string(name)).first->second;
    entry.asked = ++asked_;
    if (asked_ % forget_after == 0) {
      std::erase_if(entries_, [this](const auto& item) { return asked_ - item.second.asked >= forget_after; });
    }
    return entry.value;
  }
  std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::uint64_t forget_after = 10000;
  struct Entry {
    Value value;
    std::uint64_t asked = 0;  ///< number of the last time
  };
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t asked_ = 0;
};

}  // namespace afterglow
