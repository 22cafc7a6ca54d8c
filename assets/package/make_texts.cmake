# The manual and the completions, written by the program itself: PROGRAM, FOLDER.
function(write name)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${FOLDER}/${name} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
file(MAKE_DIRECTORY ${FOLDER})
write(afterglow.1 manual)
write(afterglow.bash completion bash)
write(_afterglow completion zsh)
write(afterglow.fish completion fish)
