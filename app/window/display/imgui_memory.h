// Memory of Dear ImGui.
#pragma once

namespace afterglow {

/// Dear ImGui does not check whether an allocation succeeded. After this call missing memory throws std::bad_alloc
/// there, too. Call it before the first context is created.
void let_imgui_throw_without_memory();

}  // namespace afterglow
