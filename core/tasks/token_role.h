// The role of a token, shown as a colour.
#pragma once
#include <cstdint>

namespace afterglow {

/// The order is kept; new roles go to the end.
enum class TokenRole : std::uint8_t {
  blank,      ///< padding and unused numbers
  start,      ///< begins a sequence
  separator,  ///< ends a part of it
  query,      ///< asks for an answer
  arrow,
  equals,
  key,
  value,
  filler,  ///< noise without a meaning
  action,  ///< an action of an agent
  text,    ///< a character or letter
};

}  // namespace afterglow
