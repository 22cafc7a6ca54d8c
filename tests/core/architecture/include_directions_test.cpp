// The architecture holds: every source is read and checked, and planted violations prove that the check sees.
#include <gmock/gmock.h>

#include "core/layers/layer_kind.h"
#include "tests/core/architecture/rules.h"
#include "tests/core/architecture/sources.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Architecture, EverySourceKeepsTheRules) {
  const std::vector<Source> sources = all_sources();
  EXPECT_GT(sources.size(), 20) << "the sources were not found";
  for (const Source& source : sources) {
    for (const std::string& violation : broken_rules(source)) ADD_FAILURE() << violation;
  }
}

/// Without "mlp", which is the word of a stack for a part of its blocks as well.
std::vector<std::string> names_of_kinds() {
  std::vector<std::string> names;
  for (const LayerKind& kind : layer_kinds())
    if (kind.name != "mlp") names.push_back(kind.name);
  return names;
}

TEST(Architecture, NoFileSwitchesOnTheKindOfALayer) {
  for (const Source& source : all_sources()) {
    for (const std::string& violation : named_kinds(source, names_of_kinds())) ADD_FAILURE() << violation;
  }
}

TEST(Architecture, KindsOfLayersAreFoundWhereTheyAreNamed) {
  const auto named = [](const std::string& path, const std::string& text) {
    return named_kinds({path, "// For a test.\n" + text + "\n"}, names_of_kinds());
  };
  EXPECT_THAT(named("views/a.cpp", "if (kind == \"ska\") return;"), ElementsAre(HasSubstr("views/a.cpp:2: names")));
  EXPECT_THAT(named("app/a.cpp", "char c = '\"';\nint n = 1'000;\nauto list = {\"mamba2\", \"gka\"};"),
              ElementsAre(HasSubstr("app/a.cpp:4"), HasSubstr("app/a.cpp:4")));
  EXPECT_THAT(named("core/engine/a.cpp", "auto j = R\"({\n\"kind\": \"ska\"})\";\nf(\"sessa\");"),
              ElementsAre(HasSubstr("core/engine/a.cpp:4")));
  EXPECT_THAT(named("core/layers/ska.cpp", "return \"ska\";"), IsEmpty());
  EXPECT_THAT(named("views/a.cpp", "// \"ska\"\n/* \"ska\" */ f(\"{\\\"kind\\\": \\\"ska\\\"}\", \"the ska layer\");"),
              IsEmpty());
}

TEST(Architecture, NoFileCastsALayerToItsClass) {
  const std::vector<Source> sources = all_sources();
  std::vector<std::string> classes;
  for (const Source& source : sources) {
    for (const std::string& one : classes_of_layers(source)) classes.push_back(one);
  }
  EXPECT_THAT(classes, testing::IsSupersetOf({"Ska", "Gka"}));
  for (const Source& source : sources) {
    for (const std::string& violation : named_classes(source, classes)) ADD_FAILURE() << violation;
  }
  const auto named = [&](const std::string& path, const std::string& text) {
    return named_classes({path, "// Ska\n" + text + "\n"}, classes);
  };
  EXPECT_THAT(named("core/engine/a.cpp", "f(\"Ska\");\nauto& ska = static_cast<const Ska&>(layer);"),
              ElementsAre(HasSubstr("core/engine/a.cpp:3: names the class Ska")));
  EXPECT_THAT(named("core/layers/a.cpp", "Gka gka;"), IsEmpty());
  EXPECT_THAT(named("views/a.cpp", "SkaHead head;"), IsEmpty());
}

TEST(Architecture, NothingIsOwnedByARawPointer) {
  for (const Source& source : all_sources()) {
    for (const std::string& violation : owning_pointers(source)) ADD_FAILURE() << violation;
  }
}

TEST(Architecture, RawPointersAreFoundWhereTheyAreMade) {
  const auto found = [](const std::string& text) {
    return owning_pointers({"core/io/a.cpp", "// A new test.\n" + text});
  };
  EXPECT_THAT(found("auto* a = new int[3];\ndelete[] a;"),
              ElementsAre(HasSubstr("core/io/a.cpp:2: `new`"), HasSubstr("core/io/a.cpp:3: `delete`")));
  EXPECT_THAT(found("std::shared_ptr<A> a(new A);"), ElementsAre(HasSubstr("a.cpp:2")));
  EXPECT_THAT(found("A(const A&) = delete;\nvoid* p = ::operator new(3);\n::operator delete(p);"), IsEmpty());
  EXPECT_THAT(found("#include <new>\nauto* a = new (arena) A;"), IsEmpty());
  EXPECT_THAT(found("f(\"a new one\", R\"(new A)\", 'n');  /* new A */\nint renew = 1'000, new_one = 2;"), IsEmpty());
}

std::vector<std::string> planted(const std::string& path, const std::string& line) {
  return broken_rules({path, "// For a test.\n#pragma once\n" + line + "\n"});
}

TEST(Architecture, FoldersAreThoseOfTheTable) {
  EXPECT_EQ(folder_of("core/figure/figure.h"), "core/figure");
  EXPECT_EQ(folder_of("views/figures/training/losses.h"), "views/figures");
  EXPECT_EQ(folder_of("views/analyses/spectra/spectrum_panels.cpp"), "views/panels");
  EXPECT_EQ(folder_of("gpu/ops/a.cu"), "gpu");
  EXPECT_EQ(folder_of("core/engine/training/saved/snapshot.h"), "core/engine/training");
  EXPECT_EQ(folder_of("core/engine/x.h"), "");
  EXPECT_EQ(folder_of("core/cellar/x.h"), "");
  EXPECT_EQ(folder_of("main.cpp"), "");
}

TEST(Architecture, IncludesPointDown) {
  EXPECT_THAT(planted("core/ops/a.cpp", "#include \"core/backend/backend.h\""), IsEmpty());
  EXPECT_THAT(planted("core/ops/a.cpp", "#include \"core/ops/ops.h\""), IsEmpty());
  EXPECT_THAT(planted("app/a.cpp", "#include \"gpu/cuda.h\""), IsEmpty());
  EXPECT_THAT(planted("core/tensor/a.cpp", "#include \"core/io/error.h\""), IsEmpty());
  EXPECT_THAT(planted("core/tensor/a.cpp", "#include \"core/io/csv.h\""), ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/figure/a.cpp", "#include \"core/io/atomic_file.h\""), IsEmpty());
  EXPECT_THAT(planted("core/figure/a.cpp", "#include \"core/io/csv.h\""), ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/figure/a.cpp", "#include \"core/tensor/tensor.h\""), ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(
      planted("core/backend/a.cpp", "#include \"core/ops/ops.h\""),
      ElementsAre("core/backend/a.cpp:3: includes \"core/ops/ops.h\", which points up: core/backend may not know "
                  "core/ops"));
  EXPECT_THAT(planted("views/page/a.cpp", "#include \"core/tensor/tensor.h\""), ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("views/figures/a.cpp", "#include \"core/engine/observation/observation.h\""), IsEmpty());
  EXPECT_THAT(planted("views/page/a.cpp", "#include \"core/engine/training/trainer.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/engine/inspection/a.cpp", "#include \"core/engine/training/trainer.h\""), IsEmpty());
  EXPECT_THAT(planted("core/engine/training/a.cpp", "#include \"core/engine/inspection/observer.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/studies/a.cpp", "#include \"core/engine/training/trainer.h\""), IsEmpty());
  EXPECT_THAT(planted("core/engine/analyses/a.cpp", "#include \"core/studies/table.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/engine/session/a.cpp", "#include \"core/remote/remote.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/recipe/a.cpp", "#include \"core/engine/observation/observation.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/engine/session/a.cpp", "  #  include  \"app/main.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("core/engine/session/a.cpp", "#include <gpu/cuda.h>"), ElementsAre(HasSubstr("points up")));
}

TEST(Architecture, RoomsOfTheWindowKnowThoseBelow) {
  EXPECT_THAT(planted("views/page/a.cpp", "#include \"views/panels/panel.h\""), IsEmpty());
  EXPECT_THAT(planted("views/analyses/a/a_panel.cpp", "#include \"views/panels/panel.h\""), IsEmpty());
  EXPECT_THAT(planted("views/panels/a.cpp", "#include \"views/page/page.h\""), ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("views/analyses/a/a_panel.cpp", "#include \"views/page/page.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("views/analyses/a/a_figures.cpp", "#include \"views/panels/panel.h\""),
              ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("views/frame/a.h", "#include \"views/widgets/widgets.h\""), ElementsAre(HasSubstr("points up")));
  EXPECT_THAT(planted("views/a.cpp", ""), ElementsAre(HasSubstr("lies in no folder")));
}

TEST(Architecture, IncludesAreWrittenFromTheRoot) {
  EXPECT_THAT(planted("core/io/a.cpp", "#include \"error.h\""), ElementsAre(HasSubstr("from the root")));
  EXPECT_THAT(planted("core/io/a.cpp", "#include \"../io/error.h\""), ElementsAre(HasSubstr("from the root")));
}

TEST(Architecture, CoreKnowsNeitherWindowNorGpu) {
  for (const char* header :
       {"imgui.h", "imgui_internal.h", "GLFW/glfw3.h", "GL/gl.h", "cuda_runtime.h", "cublas_v2.h"}) {
    const std::string line = "#include <" + std::string(header) + ">";
    EXPECT_THAT(planted("core/backend/a.cpp", line), ElementsAre(HasSubstr("in core"))) << header;
  }
  EXPECT_THAT(planted("views/page/a.cpp", "#include <imgui.h>"), IsEmpty());
  EXPECT_THAT(planted("gpu/a.cu", "#include <cuda_runtime.h>"), IsEmpty());
  EXPECT_THAT(planted("gpu/a.cu", "#include <Eigen/Dense>"), ElementsAre(HasSubstr("device code")));
  EXPECT_THAT(planted("core/backend/a.cpp", "#include <Eigen/Dense>"), IsEmpty());
}

TEST(Architecture, NothingCompilesConditionally) {
  for (const char* line : {"#ifdef __CUDACC__", "#ifndef A_H", "#if 1", "#  if 0", "#endif"}) {
    EXPECT_THAT(planted("core/random/a.h", line), ElementsAre(HasSubstr("conditionally"))) << line;
  }
  EXPECT_THAT(planted("views/look/imgui_compat.h", "#if IMGUI_VERSION_NUM >= 19200"), IsEmpty());
  EXPECT_THAT(planted("core/random/a.h", "// #if in a comment"), IsEmpty());
  EXPECT_THAT(planted("core/random/a.h", "if (x) return;"), IsEmpty());
}

TEST(Architecture, FunctionsAreNotMacros) {
  EXPECT_THAT(planted("gpu/a.cpp", "#define CHECK(x) x"), ElementsAre(HasSubstr("macro with arguments")));
  EXPECT_THAT(planted("gpu/a.cpp", "#define GLFW_INCLUDE_NONE"), IsEmpty());
  EXPECT_THAT(planted("gpu/a.cpp", "#define SIZE (3 + 4)"), IsEmpty());
}

TEST(Architecture, EveryFileSaysWhatItIsFor) {
  EXPECT_THAT(broken_rules({"core/io/a.cpp", "#include <string>\n"}),
              ElementsAre(HasSubstr("a.cpp:1: does not begin")));
  EXPECT_THAT(broken_rules({"tests/core/io/a_test.cpp", ""}), ElementsAre(HasSubstr("does not begin")));
  EXPECT_THAT(broken_rules({"core/CMakeLists.txt", "add_library(x)\n"}), ElementsAre(HasSubstr("does not begin")));
  EXPECT_THAT(broken_rules({"core/CMakeLists.txt", "# The core.\nif(x)\nendif()\n"}), IsEmpty());
  EXPECT_THAT(broken_rules({"core/io/a.h", "// A header.\nint x;\n"}), ElementsAre(HasSubstr("#pragma once")));
}

}  // namespace
}  // namespace afterglow
