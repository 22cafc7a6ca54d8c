# Runs lower.py over what this component has installed; what is lowered already stays as it is.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
file(GLOB installed "${root}/${program_place}" "${root}/${library_place}/*.so*")
if(installed)
  execute_process(COMMAND python3 "${lower}" ${oldest} "${lacking}" ${installed} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
