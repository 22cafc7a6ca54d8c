// Functions of OpenGL, asked of the driver when they are needed: a program that were linked to it would not even train
// on a machine without.
#pragma once
#include <GLFW/glfw3.h>

namespace afterglow {

/// What Dear ImGui's shaders are written for; OpenGL 3.3 has it.
inline constexpr const char* shader_version = "#version 330 core";

/// To be called while a window's context is current.
template <class Function>
Function* gl_function(const char* name) {
  return reinterpret_cast<Function*>(glfwGetProcAddress(name));
}

}  // namespace afterglow
