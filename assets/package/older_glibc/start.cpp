// The first function of a program that was linked with glibc 2.34 or newer leaves it to glibc to run the constructors
// of the program, which an older glibc leaves to the program. So the program brings a function that runs them; every
// glibc calls it instead of looking for them itself. A linker option puts this in the place of __libc_start_main.
extern "C" {

using Main = int (*)(int, char**, char**);
using Constructor = void (*)(int, char**, char**);

void _init();
extern const Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern const Constructor __init_array_end[] __attribute__((visibility("hidden")));

int __real___libc_start_main(Main main, int count, char** arguments, Constructor constructors, void (*destructors)(),
                             void (*end_of_loader)(), void* stack);

static void run_constructors(int count, char** arguments, char** environment) {
  _init();
  for (const Constructor* constructor = __init_array_start; constructor != __init_array_end; ++constructor)
    (*constructor)(count, arguments, environment);
}

int __wrap___libc_start_main(Main main, int count, char** arguments, Constructor, void (*destructors)(),
                             void (*end_of_loader)(), void* stack) {
  return __real___libc_start_main(main, count, arguments, run_constructors, destructors, end_of_loader, stack);
}
}
