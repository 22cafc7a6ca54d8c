// What most tests include, parsed once: see core/precompiled.h.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/precompiled.h"
