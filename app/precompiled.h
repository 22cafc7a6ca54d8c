// What most files of the program include, parsed once; see core/precompiled.h.
#pragma once
#include <CLI/CLI.hpp>

#include "core/precompiled.h"
