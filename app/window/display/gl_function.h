// OpenGL functions, which the program requests from the driver at run time: linked to OpenGL it could not even train on
// a machine without it.
#pragma once
#include <GLFW/glfw3.h>

namespace afterglow {

/// The version for which Dear ImGui's shaders are written; OpenGL 3.3 has it.
inline constexpr const char* shader_version = "#version 330 core";

/// Call it while a window's context is current.
template <class Function>
Function* gl_function(const char* name) {
  return reinterpret_cast<Function*>(glfwGetProcAddress(name));
}

}  // namespace afterglow
