// Memory of Dear ImGui.
#pragma once

namespace afterglow {

/// Dear ImGui uses the memory it asks for without looking whether it came. From here on missing memory is
/// std::bad_alloc there as everywhere else. Called before the first context is made.
void let_imgui_throw_without_memory();

}  // namespace afterglow
