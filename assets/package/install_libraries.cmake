# Copies the libraries that the program needs beyond those of every Linux system, each with its licence, so that
# the program runs where none of them is installed. Libraries of the system are not copied: the C and C++ run time,
# and drivers (OpenGL, CUDA), which the program opens only when it needs them. The CUDA plugin finds NVIDIA's libraries.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")  # file(INSTALL) finds DESTDIR by itself, all else does not
file(GLOB earlier "${root}/${library_folder}/*")  # of an earlier installation
list(FILTER earlier EXCLUDE REGEX "/libafterglow-")
if(earlier)
  file(REMOVE_RECURSE ${earlier})
endif()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "${program_file}" RESOLVED_DEPENDENCIES_VAR found
  UNRESOLVED_DEPENDENCIES_VAR missing
  POST_EXCLUDE_REGEXES "/lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so" "/ld-linux")
foreach(library ${missing})
  message(FATAL_ERROR "${library} is not on this machine, so it cannot be packed")
endforeach()
foreach(library ${found})
  get_filename_component(name "${library}" NAME)
  file(REAL_PATH "${library}" real)
  file(INSTALL "${real}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${library_folder}" RENAME "${name}")
  # They find each other where they lie together.
  execute_process(COMMAND patchelf --set-rpath [[$ORIGIN]] "${root}/${library_folder}/${name}" COMMAND_ERROR_IS_FATAL ANY)
  if(lacking)  # is asked for by them and not by the program, so that the loader looks into glibc first
    execute_process(COMMAND patchelf --add-needed ${lacking} "${root}/${library_folder}/${name}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
  foreach(path "${real}" "${library}")
    # Paths are known to dpkg with or without the /usr before them.
    string(REGEX REPLACE "^/usr" "" short "${path}")
    execute_process(COMMAND dpkg -S "${path}" "${short}" "/usr${short}" OUTPUT_VARIABLE owner ERROR_QUIET)
    if(owner MATCHES "^([^:,]+)")
      set(package "${CMAKE_MATCH_1}")
      file(INSTALL "/usr/share/doc/${package}/copyright" DESTINATION "${CMAKE_INSTALL_PREFIX}/${licence_folder}" RENAME "${package}.txt")
      break()
    endif()
  endforeach()
  if(NOT EXISTS "${root}/${licence_folder}/${package}.txt")
    message(FATAL_ERROR "no licence text was found for ${library}")
  endif()
endforeach()
