# Generates gpu/plugin/build.h, by which program and plugin recognise each other: the version, and a hash of the headers
# that both must share, because C++ objects pass between them.
file(GLOB shared_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/backend/*.h ${CMAKE_SOURCE_DIR}/core/backend/*.inc ${CMAKE_SOURCE_DIR}/core/tensor/*.h)
list(APPEND shared_headers ${CMAKE_SOURCE_DIR}/core/io/error.h ${CMAKE_SOURCE_DIR}/gpu/cuda.h ${CMAKE_CURRENT_LIST_DIR}/plugin.h)
afterglow_hash_files(shared_hash ${shared_headers})
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/gpu/plugin/build.h @ONLY CONTENT
"// Made by gpu/plugin/interface.cmake.
#pragma once

namespace afterglow {

/// What program and plugin must share: the version and a hash of the headers between them.
inline constexpr const char* plugin_build = \"@PROJECT_VERSION@-@shared_hash@\";

}  // namespace afterglow
")
