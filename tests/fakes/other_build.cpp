// A plugin of another build. Nothing but its build may be asked.
#include <cstdlib>

extern "C" {

const char* afterglow_plugin_build() { return "0.0.9-000000000000"; }
const void* afterglow_plugin() { std::abort(); }
}
