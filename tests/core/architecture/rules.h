// What the sources must keep to, as a function of one file's path and text, so that planted violations can be tested.
#pragma once
#include <string>
#include <vector>

namespace afterglow {

struct Source {
  std::string path;  ///< from the root, with slashes: "core/figure/figure.h"
  std::string text;
};

/// The folder of a path in the table of layers, e.g. "core/figure", "core/recipe" or "views"; "" outside of all
/// of them.
std::string folder_of(const std::string& path);

/// One sentence "path:line: what" for each broken rule: includes that point up or are not written from the root, window
/// and GPU headers in core, Eigen in device code, conditional compilation, macros with arguments, a header without
/// #pragma once, a file that does not begin with a comment. Tests and build files keep to the last two only.
std::vector<std::string> broken_rules(const Source& source);

/// What people read of C++: comments without their slashes and string literals; all else is blank, and lines stay
/// lines.
std::string prose_of_source(const Source& source);

/// "path:line: names .." for every string literal of product code outside core/layers that is the name of a kind of
/// layer: what there is to see of a layer its descriptor says. Texts for people, in which a name stands inside a
/// sentence, and JSON are free; so is the table of comparisons, whose rows are recipes.
std::vector<std::string> named_kinds(const Source& source, const std::vector<std::string>& kinds);

/// Names of the layers' classes that a header of core/layers declares.
std::vector<std::string> classes_of_layers(const Source& source);
/// "path:line: names .." for each such class in product code outside core/layers: readers of the kind say what there is
/// to see and to edit of its layers.
std::vector<std::string> named_classes(const Source& source, const std::vector<std::string>& classes);

/// "path:line: .." for every `new` and `delete` of product code but those of allocators.
std::vector<std::string> owning_pointers(const Source& source);

}  // namespace afterglow
