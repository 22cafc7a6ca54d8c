// Last handling of failures: standard streams that were closed before the program began, and memory that ran out in
// places that cannot report it.
#pragma once

namespace afterglow {

/// Keeps a newly opened file from getting the number of a closed standard stream; writing to the stream fails instead.
void occupy_standard_streams();

/// Sets memory aside that is freed when memory first runs out: destructors of JSON values allocate and cannot fail.
/// When no memory is left for unwinding, or unwinding fails, the program ends with the exit code and a sentence instead
/// of a core dump. Call it before all other code, because static tables are built before `main`.
void end_orderly_without_memory();

/// Whether memory has run out once; then a training ends at its next step and keeps what it has.
bool memory_is_short();

}  // namespace afterglow
