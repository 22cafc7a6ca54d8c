// What locked controls may not send.
#include "views/frame/command_queue.h"

namespace afterglow {

void CommandQueue::drop_controls() {
  std::erase_if(commands_, [](const Command& command) {
    const CommandSpec* spec = find_command(command.name);
    return spec && spec->is_control;
  });
}

}  // namespace afterglow
