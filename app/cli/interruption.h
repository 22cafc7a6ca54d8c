// Ctrl C while something long is running: the first lets the present step finish, the second stops at once.
#pragma once

namespace afterglow {

/// Counts interruptions as long as it lives.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  bool wanted() const;
};

}  // namespace afterglow
