# Runs after a test program is linked and writes one ctest entry for each of its suites: a process for every single test
# costs more than most tests. The program itself lists them, so no test is left out.
# In: PROGRAM, FOLDER (prefix of the names, and label), SECONDS (limit for one suite), OUTPUT.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
# A suite is a line that is not indented and ends with a point; a comment may follow.
string(REGEX MATCHALL "\n[^ \n]+[.](\n|  #)" suites "\n${listing}")
set(entries "")
foreach(suite ${suites})
  string(REGEX REPLACE "^\n(.+)[.].*$" "\\1" suite "${suite}")
  string(APPEND entries "add_test([==[${FOLDER}/${suite}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
    "set_tests_properties([==[${FOLDER}/${suite}]==] PROPERTIES LABELS ${FOLDER} TIMEOUT ${SECONDS})\n")
endforeach()
file(WRITE ${OUTPUT} "${entries}")
