// What most tests include, parsed once.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
