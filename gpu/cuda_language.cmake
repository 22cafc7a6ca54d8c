# Switches CUDA on for the whole build: executables that link the CUDA back end need the language too.
# During development one architecture is enough, since nvcc is slow for each: that of this machine's GPU, or compute
# capability 9.0. A package is built for all; the environment variable CUDAARCHS chooses fewer.
if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS} AND NOT AFTERGLOW_NATIVE)
  set(CMAKE_CUDA_ARCHITECTURES all-major)
elseif(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
  if(no_gpu)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "CUDA architectures; all-major for a release")
  else()
    set(CMAKE_CUDA_ARCHITECTURES native CACHE STRING "CUDA architectures; all-major for a release")
  endif()
endif()
enable_language(CUDA)
if(CMAKE_CUDA_ARCHITECTURES STREQUAL "all-major")
  # Those of the toolkit that have what the kernels use: asynchronous copies came with 8.0. Boards of 11.0 have ARM
  # processors.
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+0\n" known "${known}")
  string(REPLACE "\n" "" known "${known}")
  list(FILTER known EXCLUDE REGEX "^([5-7]0|110)$")
  list(TRANSFORM known APPEND "-real")
  list(POP_BACK known newest)
  string(REPLACE "-real" "" newest "${newest}")  # with its instructions for GPUs to come
  set(CMAKE_CUDA_ARCHITECTURES ${known} ${newest})
endif()
set(CMAKE_CUDA_STANDARD 20)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know yet that nvcc has this dialect.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
