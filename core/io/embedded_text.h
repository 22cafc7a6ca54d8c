// Texts of assets/ that are compiled in; `afterglow_embed` in CMakeLists.txt generates the function that lists a
// folder.
#pragma once

namespace afterglow {

/// The file NAME.json of a folder of assets.
struct EmbeddedText {
  const char *name, *json;
};

}  // namespace afterglow
