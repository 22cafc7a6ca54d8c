// Dear ImGui without memory.
#include <gtest/gtest.h>
#include <imgui.h>

#include <limits>
#include <new>

#include "app/window/display/gl_window.h"

namespace afterglow {
namespace {

TEST(ImguiMemory, IsRefusedByAnExceptionAndNeverByNothing) {
  ImGuiMemAllocFunc allocate = nullptr;
  ImGuiMemFreeFunc release = nullptr;
  void* user_data = nullptr;
  ImGui::GetAllocatorFunctions(&allocate, &release, &user_data);
  let_imgui_throw_without_memory();
  const std::size_t beyond_all = std::numeric_limits<std::ptrdiff_t>::max();
  EXPECT_THROW(ImGui::MemAlloc(beyond_all), std::bad_alloc);
  void* memory = ImGui::MemAlloc(100);
  EXPECT_NE(memory, nullptr);
  ImGui::MemFree(memory);
  ImGui::SetAllocatorFunctions(allocate, release, user_data);
}

}  // namespace
}  // namespace afterglow
