// Gives Dear ImGui the operators of the language in the place of malloc and free.
#include "app/window/display/imgui_memory.h"

#include <imgui.h>

#include <new>

namespace afterglow {

void let_imgui_throw_without_memory() {
  ImGui::SetAllocatorFunctions([](std::size_t size, void*) { return ::operator new(size); },
                               [](void* memory, void*) { ::operator delete(memory); });
}

}  // namespace afterglow
