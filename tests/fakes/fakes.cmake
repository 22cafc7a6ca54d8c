# Made-up plugins and libraries, in lib/fakes of the build folder: what a machine with a GPU has, and what may be wrong with
# it. None finds another by itself.
set(fakes ${CMAKE_BINARY_DIR}/lib/fakes)
function(afterglow_fake target kind source name suffix folder)
  add_library(${target} ${kind} ${CMAKE_CURRENT_SOURCE_DIR}/fakes/${source})
  target_link_libraries(${target} PRIVATE ${ARGN})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SUFFIX ${suffix} SKIP_BUILD_RPATH ON
    LIBRARY_OUTPUT_DIRECTORY ${fakes}/${folder})
endfunction()
afterglow_fake(fake_driver SHARED library.cpp cuda .so.1 driver)
afterglow_fake(fake_deep SHARED library.cpp afterglow-deep .so.2 nvidia/second/lib)
afterglow_fake(fake_needed SHARED library.cpp afterglow-needed .so.13 nvidia/first/lib fake_deep)
afterglow_fake(fake_plugin MODULE plugin.cpp afterglow-cuda .so plugin)
afterglow_fake(fake_lacking MODULE plugin.cpp afterglow-cuda .so lacking fake_needed)
afterglow_fake(fake_other_build MODULE other_build.cpp afterglow-cuda .so other_build)
afterglow_fake(fake_stranger MODULE library.cpp afterglow-cuda .so stranger)
set(afterglow_fakes fake_driver fake_deep fake_needed fake_plugin fake_lacking fake_other_build fake_stranger)
