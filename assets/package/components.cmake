# Which components a package holds and what it depends on; cpack reads this for each kind of package.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_COMPONENTS_ALL program)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  # dpkg-shlibdeps reads debian/control of the folder in which it runs.
  set(folder ${CPACK_PACKAGE_DIRECTORY}/_CPack_Packages/depends)
  file(WRITE ${folder}/debian/control "Source: ${CPACK_PACKAGE_NAME}\n\nPackage: ${CPACK_PACKAGE_NAME}\nArchitecture: any\n")
  execute_process(COMMAND dpkg-shlibdeps -O ${CPACK_AFTERGLOW_PROGRAM} WORKING_DIRECTORY ${folder}
                  OUTPUT_VARIABLE depends OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "shlibs:Depends=" "" CPACK_DEBIAN_PACKAGE_DEPENDS "${depends}")
else()
  set(CPACK_COMPONENTS_ALL program libraries portable)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
