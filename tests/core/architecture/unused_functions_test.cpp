// No function of core/analysis is there for its test alone: the program calls it, or another one that the program
// calls.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tests/core/architecture/sources.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Names = std::set<std::string>;

const std::string analysis = "core/analysis/";

/// Without comments, texts and preprocessor lines.
std::string bare(const std::string& text) {
  static const std::regex noise(R"(//[^\n]*|"(\\.|[^"\\\n])*"|(^|\n)#[^\n]*)");
  return std::regex_replace(text, noise, " ");
}

Names identifiers(const std::string& code) {
  Names names;
  for (std::size_t i = 0; i < code.size();) {
    std::size_t end = i;
    while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) || code[end] == '_')) ++end;
    if (end > i) names.insert(code.substr(i, end - i));
    i = end + (end == i);
  }
  return names;
}

/// What is in a namespace: functions, declarations, types, constants, each from its first word to its end.
std::vector<std::string> statements(const std::string& code) {
  std::vector<std::string> result;
  std::string now;
  int parentheses = 0, braces = 0;
  static const std::regex opens_namespace(R"(\s*namespace[\w\s:]*)");
  const auto finish = [&] {
    result.push_back(now);
    now.clear();
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    const bool is_outside = parentheses == 0 && braces == 0;
    if (is_outside && ((c == '{' && std::regex_match(now, opens_namespace)) || (c == '}'))) {
      now.clear();  // a namespace begins or ends
      continue;
    }
    now += c;
    parentheses += (c == '(') - (c == ')');
    braces += (c == '{') - (c == '}');
    const std::size_t next = code.find_first_not_of(" \n", i + 1);
    const bool goes_on = next != std::string::npos && (code[next] == ',' || code[next] == '{');
    const bool is_body = c == '}' && now.find('(') < now.find('{') && now.find('=') > now.find('{') && !goes_on;
    if (parentheses == 0 && braces == 0 && (c == ';' || is_body)) finish();
  }
  return result;
}

struct Statement {
  std::string name;
  bool is_function = false;
};

/// A function's name is in front of its parameters, a constant's before its value, a type's after its keyword.
Statement read_statement(const std::string& statement) {
  static const std::regex type(R"(^\s*(template\s*<[^>]*>\s*)?(using|struct|enum class|enum|class)\s+(\w+))"),
      function(R"(^[^=({;]*\b(\w+)\s*\()"), constant(R"((\w+)\s*[={;])");
  std::smatch found;
  if (std::regex_search(statement, found, type)) return {found[3], false};
  if (std::regex_search(statement, found, function)) return {found[1], true};
  return {std::regex_search(statement, found, constant) ? found[1].str() : "", false};
}

/// "path: name" of each function that a header of core/analysis declares and the program does not need. Members of
/// classes and operators, which code calls without their name, are not asked.
std::vector<std::string> unused_functions(const std::vector<Source>& sources) {
  std::multimap<std::string, Names> bodies;  // of core/analysis: name and what it mentions
  std::set<std::pair<std::string, std::string>> declared;
  Names needed;
  for (const Source& source : sources) {
    if (source.path.starts_with("tests/") || source.path.ends_with("CMakeLists.txt")) continue;
    const std::string code = bare(source.text);
    if (!source.path.starts_with(analysis)) {
      needed.merge(identifiers(code));
      continue;
    }
    for (const std::string& statement : statements(code)) {
      const Statement read = read_statement(statement);
      bodies.emplace(read.name, identifiers(statement));
      if (read.is_function && source.path.ends_with(".h")) declared.emplace(source.path, read.name);
    }
  }
  std::vector<std::string> open(needed.begin(), needed.end());
  while (!open.empty()) {
    const auto [first, last] = bodies.equal_range(open.back());
    open.pop_back();
    for (auto body = first; body != last; ++body) {
      for (const std::string& name : body->second) {
        if (needed.insert(name).second) open.push_back(name);
      }
    }
  }
  std::vector<std::string> unused;
  for (const auto& [path, name] : declared) {
    if (!needed.contains(name)) unused.push_back(path + ": " + name);
  }
  return unused;
}

TEST(UnusedFunctions, CoreAnalysisHasNone) {
  const std::vector<Source> sources = all_sources();
  EXPECT_THAT(unused_functions(sources), IsEmpty()) << "show what they say, or delete them with their tests";

  std::vector<Source> planted = sources;
  for (Source& source : planted) {
    if (source.path == "core/analysis/linear_algebra/spectrum.h")
      source.text += "namespace afterglow { double measure_nothing(double x); }\n";
  }
  EXPECT_THAT(unused_functions(planted), ElementsAre("core/analysis/linear_algebra/spectrum.h: measure_nothing"));
}

std::vector<std::string> planted(const std::string& header, const std::string& source, const std::string& caller) {
  return unused_functions({{"core/analysis/a.h", "#pragma once\nnamespace afterglow {\n" + header + "}\n"},
                           {"core/analysis/a.cpp", "namespace afterglow {\n" + source + "}\n"},
                           {"tests/core/analysis/a_test.cpp", "void test() { f(); g(1); }\n"},
                           {"views/a.cpp", caller}});
}

TEST(UnusedFunctions, ACallMayComeThroughOthers) {
  const std::string header = "int f();\nint g(int n = {});\n",
                    source = "int f() { return g(2); }\nint g(int n) { return n; }\n";
  EXPECT_THAT(planted(header, source, "int x() { return f(); }"), IsEmpty());
  EXPECT_THAT(planted(header, source, "int x() { return g(1); }"), ElementsAre("core/analysis/a.h: f"));
  EXPECT_THAT(planted(header, source, ""), ElementsAre("core/analysis/a.h: f", "core/analysis/a.h: g"));
  const std::string helper =
      "namespace {\nstruct Sum {\n  int at() { return g(3); }\n};\n}\nint f() { return Sum{}.at(); }\n";
  EXPECT_THAT(planted(header, helper, "int x() { return f(); }"), IsEmpty());
}

TEST(UnusedFunctions, WordsAndItsOwnRecursionAreNoCalls) {
  const std::string header = "/// g is like f().\nint f();\n";
  EXPECT_THAT(planted(header, "int f() { return f(); }\n", "// f()\nconst char* x = \"f()\";\n"),
              ElementsAre("core/analysis/a.h: f"));
  EXPECT_THAT(planted(header + "template <class T>\nT g(T x) { return x; }\n", "", "int x() { return f(); }"),
              ElementsAre("core/analysis/a.h: g"));
  EXPECT_THAT(
      planted("using Solve = bool (*)(int n);\ninline constexpr int many = 3;\nstruct A {\n  int rows() const;\n};\n",
              "", ""),
      IsEmpty())
      << "types, constants and members are no functions";
}

}  // namespace
}  // namespace afterglow
