// What the program does where no code can act any more: streams that were closed before it began, and memory that ran
// out in places that cannot report it.
#pragma once

namespace afterglow {

/// A file that is opened must not get the number of a standard stream; what is written to a closed one fails.
void occupy_standard_streams();

/// Where no memory is left for unwinding, or unwinding itself fails, the program ends with the exit code and a sentence
/// instead of a core dump. Called before anything else of the program, as tables are made before `main`.
void end_orderly_without_memory();

}  // namespace afterglow
