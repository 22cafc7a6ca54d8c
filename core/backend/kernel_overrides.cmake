# Generates the override declarations of all kernels, for the classes that implement them and for the class whose kernels
# do nothing and that hands questions on, from the one list in kernels.h. The files are written, and compiled, again only when a signature changes.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/kernels.h)
file(READ ${CMAKE_CURRENT_LIST_DIR}/kernels.h kernels)
string(REGEX REPLACE "//[^\n]*" "" kernels "${kernels}")
string(REGEX REPLACE "\n +" " " kernels "${kernels}")
string(REGEX MATCHALL "virtual [^;{}=]+= 0" kernels "${kernels}")
list(JOIN kernels ";\n  " kernels)
string(REPLACE "virtual " "" kernels "${kernels};")
string(REPLACE " = 0;" " override;" kernels "${kernels}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/core/backend/kernel_overrides.inc
     CONTENT "  // Made by core/backend/kernel_overrides.cmake from core/backend/kernels.h.\n  @kernels@\n" @ONLY)
string(REPLACE " override;" " override {}" stubs "\n  ${kernels}")
string(REGEX MATCHALL "(std::int64_t|DType|bool) [^{}]+ const override {}" questions "${stubs}")
string(REGEX REPLACE "\n *(std::int64_t|DType|bool) [^{}]+{}" "" stubs "${stubs}")
foreach(question IN LISTS questions)  # handed on to the device
  string(REGEX MATCH "([a-z_]+)\\(([^()]*)\\)" call "${question}")
  set(name ${CMAKE_MATCH_1})
  string(REGEX REPLACE "[^,]*[ &]([A-Za-z_]+)" "\\1" arguments "${CMAKE_MATCH_2}")
  string(REPLACE "{}" "{ return device_->${name}(${arguments}); }" question "${question}")
  if(NOT name STREQUAL linear_kept)  # depends on the weights that the class holds
    string(APPEND stubs "\n  ${question}")
  endif()
endforeach()
set(written_out gemm gemm_sum linear_forward_many linear_gradients linear_backward swiglu_gate_up swiglu_gate_up_backward
    attention ssd_scan delta_scan feedback_solve  # which hold memory of their own
    hold_weights release_weights)                 # which later questions depend on
list(JOIN written_out "|" written_out)
string(REGEX REPLACE "\n *void (${written_out})\\([^{}]+{}" "" stubs "${stubs}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/core/backend/kernel_stubs.inc
     CONTENT "  // Made by core/backend/kernel_overrides.cmake from core/backend/kernels.h.\n  @stubs@\n" @ONLY)
