// The interface of the MPI plug-in: one function, whose name contains the version of the interface.
#pragma once
#include "core/ranks/ranks.h"

namespace afterglow {

constexpr const char* mpi_file = "libafterglow-mpi.so";
constexpr const char* mpi_function = "afterglow_mpi_2";
/// The caller owns what it returns.
extern "C" Ranks* afterglow_mpi_2();

}  // namespace afterglow
