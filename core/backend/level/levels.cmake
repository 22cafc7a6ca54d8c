# Builds the CPU kernels once for each generation of processors. All functions of a level stay inside it: its object files
# become one, in which every symbol but the function that makes the back end is local. Otherwise the linker would keep
# one copy of each inline function and template (Eigen's, the library's), and where it took that of the highest level the
# program would end with an illegal instruction on an older processor. A test of the package reads the result.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR AFTERGLOW_NATIVE)
  message(FATAL_ERROR "AFTERGLOW_LEVELS needs an x86-64 processor, g++ 12 or newer and -DAFTERGLOW_NATIVE=OFF")
endif()
if(AFTERGLOW_TESTS)
  message(FATAL_ERROR "AFTERGLOW_LEVELS hides the kernels, which the tests link: give -DAFTERGLOW_TESTS=OFF")
endif()
file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/backend/cpu/*.cpp)
set(made _ZN9afterglow21make_compiled_backendEi)  # afterglow::make_compiled_backend(int)
foreach(level v2 v3 v4)
  set(kernels afterglow_kernels_${level})
  add_library(${kernels} OBJECT ${kernel_sources})
  target_link_libraries(${kernels} PRIVATE afterglow_flags)
  target_include_directories(${kernels} PRIVATE ${CMAKE_BINARY_DIR}/generated)
  target_compile_options(${kernels} PRIVATE -march=x86-64-${level} -fno-gnu-unique -Wno-maybe-uninitialized -Wno-uninitialized)
  target_precompile_headers(${kernels} PRIVATE ${precompiled_headers})
  string(REPLACE "21make_compiled_backend" "24make_compiled_backend_${level}" renamed ${made})
  set(objects $<FILTER:$<TARGET_OBJECTS:${kernels}>,INCLUDE,[.]o$>)  # without the precompiled header
  set(whole ${CMAKE_CURRENT_BINARY_DIR}/kernels_${level}.o)
  add_custom_command(OUTPUT ${whole} VERBATIM COMMAND_EXPAND_LISTS
    DEPENDS ${kernels} ${objects}
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${whole} ${objects}
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${made} ${whole}
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym ${made}=${renamed} ${whole})
  set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(afterglow_core PRIVATE ${whole})
endforeach()
