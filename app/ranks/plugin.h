// What the library for MPI offers: one function, by the name that its number of version is part of.
#pragma once
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

constexpr const char* mpi_file = "libafterglow-mpi.so";
constexpr const char* mpi_function = "afterglow_mpi_2";
/// The caller owns what it returns.
extern "C" Ranks* afterglow_mpi_2();

}  // namespace afterglow
