// The table of folders, and the rules that are checked line by line.
#include "tests/core/architecture/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>

namespace afterglow {
namespace {

using Texts = std::vector<std::string>;

/// What each folder may include, itself included: arrows point down only.
std::map<std::string, Texts> made_folders() {
  const Texts numerics = {"core/autograd", "core/backend", "core/tensor", "core/random", "core/io"};
  const auto with = [](Texts first, const Texts& more) {
    first.insert(first.end(), more.begin(), more.end());
    return first;
  };
  const Texts layers = with({"core/ops", "core/analysis"}, numerics);
  const Texts models = with({"core/layers"}, layers);
  const Texts below_engine = with({"core/models", "core/tasks", "core/text", "core/figure"}, models);
  std::map<std::string, Texts> table = {
      {"core/random", {}},
      {"core/tensor", {}},
      {"core/figure", {}},
      {"core/io", {"core/tensor"}},
      {"core/backend", {"core/tensor", "core/random"}},
      {"core/autograd", {"core/backend", "core/tensor", "core/random"}},
      {"core/ops", {"core/autograd", "core/backend", "core/tensor", "core/random"}},
      {"core/analysis", {"core/tensor", "core/random"}},
      {"core/layers", layers},
      {"core/models", models},
      {"core/text", {"core/io"}},
      {"core/tasks", {"core/random", "core/io", "core/text"}},
      {"gpu", {"core/backend", "core/tensor", "core/random", "core/io"}},
  };
  Texts engine = with({"core/recipe", "core/ranks"}, below_engine);
  table["core/recipe"] = below_engine;
  table["core/ranks"] = numerics;
  for (const char* folder :
       {"core/engine/observation", "core/engine/training", "core/engine/inspection", "core/engine/causes",
        "core/engine/sweeps", "core/engine/session", "core/engine/analyses", "core/studies", "core/remote"}) {
    table[folder] = engine;
    engine.push_back(folder);
  }
  // Figures and rows of plots know one another; above them the rooms of the window, in this order.
  Texts views = {"core/figure",   "core/recipe", "core/engine/observation",
                 "views/figures", "views/plots", "views/analyses"};
  for (const char* folder : {"figures", "plots", "analyses", "look", "frame", "widgets", "panels", "page"}) {
    const std::string name = std::string("views/") + folder;
    table[name] = views;
    views.push_back(name);
  }
  table["app"] = with(with({"gpu"}, views), engine);
  return table;
}

const std::map<std::string, Texts>& folders() {
  static const std::map<std::string, Texts> table = made_folders();
  return table;
}

/// The exceptions of the project may be thrown anywhere, and JSON has one name. Numbers, sizes and CSV fields are
/// written by the same functions on the screen, in files and in messages, so that a value reads the same wherever it
/// stands; names are looked up by one function. Plots stand alone but for writing their files safely, UTF-8 and the
/// checksum of PNG. Data of assets are compiled in everywhere.
bool is_for_everyone(const std::string& include, const std::string& folder) {
  return include == "core/io/error.h" || include == "core/io/number_text.h" || include == "core/io/embedded_text.h" ||
         include == "core/io/named.h" || include == "core/io/json.h" ||
         (folder.starts_with("views/") && include == "core/io/field_table.h") ||
         (folder == "core/figure" && (include == "core/io/atomic_file.h" || include == "core/io/byte_parts.h" ||
                                      include == "core/io/terminal_text.h"));
}

/// Where the platform must decide what is compiled: for every version of Dear ImGui that distributions ship, and where
/// nvcc compiles functions for the host that run on the device alone.
bool may_compile_conditionally(const std::string& path) {
  return path == "views/look/imgui_compat.h" || path == "tests/views/drawing/imgui_input.h" ||
         path == "gpu/ops/elementwise/koopman_modes.cu";
}

constexpr std::array<std::string_view, 9> window_and_gpu = {"imgui",    "GLFW/",  "GL/",  "cuda", "cublas",
                                                            "cusolver", "curand", "cub/", "nccl"};

bool contains(const Texts& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool ends_with_any(const std::string& path, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return path.ends_with(ending); });
}

std::string without_leading_spaces(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : line.substr(begin);
}

/// The file that a line includes, with `quoted` telling "..." from <...>; empty if it includes none.
std::string included_file(const std::string& line, bool& quoted) {
  const std::size_t open = line.find_first_of("\"<");
  if (!line.starts_with("#include") || open == std::string::npos) return "";
  quoted = line[open] == '"';
  const std::size_t close = line.find(quoted ? '"' : '>', open + 1);
  return close == std::string::npos ? "" : line.substr(open + 1, close - open - 1);
}

std::string what_is_wrong_with_include(const std::string& path, const std::string& include, bool quoted) {
  const std::string folder = folder_of(path), target = folder_of(include);
  if (quoted && target.empty() && folder.starts_with("core/")) {
    return "includes \"" + include + "\", which is not written from the root";
  }
  const bool window_or_gpu = std::any_of(window_and_gpu.begin(), window_and_gpu.end(),
                                         [&](std::string_view start) { return include.starts_with(start); });
  if (target.empty() && window_or_gpu && folder.starts_with("core/")) {
    return "includes " + include + ", a header of the window or the GPU, in core";
  }
  if (include.starts_with("Eigen/") && ends_with_any(path, {".cu", ".cuh"})) {
    return "includes " + include + ", which nvcc does not compile well, in device code";
  }
  if (target.empty() || target == folder || contains(folders().at(folder), target) || is_for_everyone(include, folder))
    return "";
  return "includes \"" + include + "\", which points up: " + folder + " may not know " + target;
}

std::string what_is_wrong_with_directive(const std::string& path, const std::string& line) {
  for (const std::string_view start : {"#if", "#elif", "#else", "#endif", "#undef"}) {
    if (line.starts_with(start) && !may_compile_conditionally(path)) return "compiles conditionally (" + line + ")";
  }
  if (!line.starts_with("#define ")) return "";
  const std::size_t name_end =
      line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", 8);
  const bool takes_arguments = name_end != std::string::npos && line[name_end] == '(';
  return takes_arguments ? "defines a macro with arguments where a function should be (" + line + ")" : "";
}

/// "# include" and "#include" are the same to the compiler.
std::string without_spaces_after_hash(std::string line) {
  const std::size_t next = line.find_first_not_of(" \t", 1);
  if (line.starts_with('#') && next != std::string::npos) line.erase(1, next - 1);
  return line;
}

}  // namespace

std::string folder_of(const std::string& path) {
  // The results of analyses and studies are plain host values, which figures read.
  const bool may_have_views = path.starts_with("core/engine/analyses/") || path.starts_with("core/studies/");
  if (may_have_views && path.ends_with("_view.h")) return "core/engine/observation";
  // Panels lie in the folders of their figures.
  if (path.starts_with("views/analyses/") && ends_with_any(path, {"_panel.cpp", "_panels.cpp"})) return "views/panels";
  // The longest of the table's folders that contains the path.
  for (std::size_t end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    if (folders().contains(path.substr(0, end))) return path.substr(0, end);
  }
  return "";
}

std::vector<std::string> broken_rules(const Source& source) {
  Texts result;
  const auto report = [&](int line, const std::string& what) {
    if (!what.empty()) result.push_back(source.path + ":" + std::to_string(line) + ": " + what);
  };
  const bool is_code = ends_with_any(source.path, {".h", ".cpp", ".cu", ".cuh", ".cpp.in"});
  if (!source.text.starts_with(is_code ? "// " : "#"))
    report(1, "does not begin with a comment that says what it is for");
  const std::string folder = folder_of(source.path);
  if (is_code && folder.empty() && source.path.starts_with("views/")) report(1, "lies in no folder of the table");
  bool pragma_once = false;
  std::istringstream lines(source.text);
  int number = 0;
  for (std::string raw; std::getline(lines, raw);) {
    ++number;
    const std::string line = without_spaces_after_hash(without_leading_spaces(raw));
    if (line.starts_with("#pragma once")) pragma_once = true;
    if (folder.empty() || !is_code) continue;
    bool quoted = false;
    const std::string include = included_file(line, quoted);
    if (!include.empty()) report(number, what_is_wrong_with_include(source.path, include, quoted));
    report(number, what_is_wrong_with_directive(source.path, line));
  }
  if (ends_with_any(source.path, {".h", ".cuh"}) && !pragma_once) report(1, "is a header without #pragma once");
  return result;
}

namespace {

enum class Piece { comment, raw_literal, literal, character };

/// Walks C++ and calls see(piece, begin, end) for all that is no code.
template <class See>
void for_each_piece(const std::string& text, const See& see) {
  const auto after = [&](std::string_view closing, std::size_t from) {
    const std::size_t at = text.find(closing, from);
    return at == std::string::npos ? text.size() : at + closing.size();
  };
  const auto after_quote = [&](std::size_t open) {
    std::size_t at = open + 1;
    while (at < text.size() && text[at] != text[open]) at += text[at] == '\\' ? 2 : 1;
    return std::min(at + 1, text.size());
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at++;
    if (text.compare(begin, 2, "//") == 0) {
      at = std::min(text.find('\n', begin), text.size());
      see(Piece::comment, begin, at);
    } else if (text.compare(begin, 2, "/*") == 0) {
      at = after("*/", begin + 2);
      see(Piece::comment, begin, at);
    } else if (text.compare(begin, 2, "R\"") == 0) {
      const std::size_t open = std::min(text.find('(', begin), text.size());
      at = after(")" + text.substr(begin + 2, open - begin - 2) + "\"", open);
      see(Piece::raw_literal, begin, at);
    } else if (text[begin] == '"') {
      at = after_quote(begin);
      see(Piece::literal, begin, at);
    } else if (text[begin] == '\'' && (begin == 0 || !std::isalnum(static_cast<unsigned char>(text[begin - 1])))) {
      at = after_quote(begin);  // after a digit it would separate thousands
      see(Piece::character, begin, at);
    }
  }
}

std::string line_of(const Source& source, std::size_t at) {
  const auto end = source.text.begin() + static_cast<std::ptrdiff_t>(at);
  return source.path + ":" + std::to_string(1 + std::count(source.text.begin(), end, '\n'));
}

/// The layers themselves, what tests them, kernels, which know no layers and name their operations, and the tables of
/// what other libraries call them.
constexpr const char* free_folders[] = {"core/layers/", "core/models/checkpoints/", "tests/", "gpu/"};

bool is_free(const Source& source) {
  return std::any_of(std::begin(free_folders), std::end(free_folders),
                     [&](const char* folder) { return source.path.starts_with(folder); });
}

/// Comments and literals are blank.
std::string code_of(const Source& source) {
  std::string code = source.text;
  for_each_piece(source.text, [&](Piece, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) code[i] = code[i] == '\n' ? '\n' : ' ';
  });
  return code;
}

}  // namespace

Texts classes_of_layers(const Source& source) {
  Texts classes;
  if (!source.path.starts_with("core/layers/") || !source.path.ends_with(".h")) return classes;
  static const std::regex shape(R"(class\s+(\w+)\s+final\s*:\s*public\s+Layer\b)");
  for (std::sregex_iterator found(source.text.begin(), source.text.end(), shape); found != std::sregex_iterator();
       ++found)
    classes.push_back((*found)[1].str());
  return classes;
}

Texts named_classes(const Source& source, const Texts& classes) {
  Texts result;
  if (is_free(source)) return result;
  const std::string code = code_of(source);
  static const std::regex word(R"(\w+)");
  for (std::sregex_iterator found(code.begin(), code.end(), word); found != std::sregex_iterator(); ++found) {
    if (contains(classes, found->str()))
      result.push_back(line_of(source, static_cast<std::size_t>(found->position())) + ": names the class " +
                       found->str() + "; the readers of its kind say what there is to see of it");
  }
  return result;
}

Texts named_kinds(const Source& source, const Texts& kinds) {
  Texts result;
  if (is_free(source)) return result;
  for_each_piece(source.text, [&](Piece piece, std::size_t begin, std::size_t end) {
    const std::string literal = source.text.substr(begin + 1, end - begin - 2);
    if (piece == Piece::literal && contains(kinds, literal)) {
      result.push_back(line_of(source, begin) + ": names the kind \"" + literal +
                       "\"; a descriptor in core/layers says what there is to see of it");
    }
  });
  return result;
}

std::string prose_of_source(const Source& source) {
  std::string prose = source.text;
  std::ranges::replace_if(
      prose, [](char c) { return c != '\n'; }, ' ');
  for_each_piece(source.text, [&](Piece piece, std::size_t begin, std::size_t end) {
    if (piece == Piece::comment) begin = std::min(source.text.find_first_not_of("/*<", begin), end);
    if (piece == Piece::literal && end > begin + 1) ++begin, --end;  // a sentence goes on in the next literal
    if (piece != Piece::character) prose.replace(begin, end - begin, source.text, begin, end - begin);
  });
  return prose;
}

Texts owning_pointers(const Source& source) {
  Texts result;
  if (folder_of(source.path).empty()) return result;
  const std::string code = code_of(source);
  // Neither `= delete`, nor an allocator's own `operator new`, nor an object in the memory of an arena, nor the header.
  static const std::regex word(R"(operator\s+(new|delete)\b|=\s*delete\b|\bnew\s*\(|<new>|\b(new|delete)\b)");
  for (std::sregex_iterator found(code.begin(), code.end(), word); found != std::sregex_iterator(); ++found) {
    if (!(*found)[2].matched) continue;
    result.push_back(line_of(source, static_cast<std::size_t>(found->position())) + ": `" + (*found)[2].str() +
                     "` by hand; std::make_unique, std::make_shared or a container frees what it holds");
  }
  return result;
}

}  // namespace afterglow
