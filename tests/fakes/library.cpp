// A library that others need.
extern "C" int afterglow_fake_library() { return 1; }
