// A base of classes whose objects others point to.
#pragma once

namespace afterglow {

/// An object that stays where it was made: neither copied nor moved.
struct Immovable {
  Immovable() = default;
  Immovable(const Immovable&) = delete;
  Immovable& operator=(const Immovable&) = delete;
};

}  // namespace afterglow
