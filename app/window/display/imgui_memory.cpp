// Replaces malloc and free in Dear ImGui by the operators of C++.
#include "app/window/display/imgui_memory.h"

#include <imgui.h>

#include <new>

namespace afterglow {

void let_imgui_throw_without_memory() {
  ImGui::SetAllocatorFunctions([](std::size_t size, void*) { return ::operator new(size); },
                               [](void* memory, void*) { ::operator delete(memory); });
}

}  // namespace afterglow
