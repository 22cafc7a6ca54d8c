# Runs after a test program is linked and writes one ctest entry for each of its suites: a process for every single test
# costs more than most tests. The program itself lists them, so no test is left out.
# In: PROGRAM, FOLDER (prefix of the names, and label), SECONDS (limit for one suite), OUTPUT.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
# A suite is a line that is not indented and ends with a point; a comment may follow.
string(REGEX MATCHALL "\n[^ \n]+[.](\n|  #)" suites "\n${listing}")
# Suites of more than 20 seconds begin first: one that began last would run alone while the other processors wait.
set(long "OpTable|Presets|CommandLine|TrainFigures|Faults|PageDrawing|Workflow|OneNumber|LessonWindow")
set(entries "")
foreach(suite ${suites})
  string(REGEX REPLACE "^\n(.+)[.].*$" "\\1" suite "${suite}")
  string(APPEND entries "add_test([==[${FOLDER}/${suite}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
    "set_tests_properties([==[${FOLDER}/${suite}]==] PROPERTIES LABELS ${FOLDER} TIMEOUT ${SECONDS})\n")
  if(suite MATCHES "${long}")
    string(APPEND entries "set_tests_properties([==[${FOLDER}/${suite}]==] PROPERTIES COST 20)\n")
  endif()
endforeach()
file(WRITE ${OUTPUT} "${entries}")
