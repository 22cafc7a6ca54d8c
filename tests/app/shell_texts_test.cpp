// Completion and manual hold every command and option that the program's help holds.
#include <gmock/gmock.h>

#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ShellTexts : public ProgramTest {
 protected:
  /// What bash offers after these words, the last of which is begun; one offer a line.
  std::string offers(const std::string& words) {
    write("ask.sh",
          "source <(\"$AFTERGLOW\" completion bash)\n"
          "COMP_WORDS=(afterglow " +
              words +
              ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
              "_afterglow\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
    const ProgramResult result = run_line("export AFTERGLOW; bash ask.sh", folder_.path());
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
};

TEST_F(ShellTexts, BashCompletesCommandsOptionsAndValues) {
  EXPECT_THAT(offers("tr"), "train\n");
  EXPECT_THAT(offers("train --pres"), "--preset\n");
  EXPECT_THAT(offers("train --preset tiny-s"), "tiny-ssm\n");
  EXPECT_THAT(offers("--device cu"), "cuda\n");
  EXPECT_THAT(offers("plot spectru"), "spectrum\n");
  EXPECT_THAT(offers("table mq"), HasSubstr("mqar\n"));
  EXPECT_THAT(offers("plot spectrum --svg fi"), "\n") << "files are bash's own";
  EXPECT_THAT(offers("info --opt"), "--optimiser\n");
  EXPECT_THAT(offers("''"), AllOf(HasSubstr("sweep\n"), Not(HasSubstr("--"))));
  EXPECT_THAT(offers("--"), AllOf(HasSubstr("--theme\n"), Not(HasSubstr("--optimiser"))));
}

TEST_F(ShellTexts, EveryShellAndTheManualKnowEveryOption) {
  const std::string manual = run("manual").out;
  EXPECT_THAT(manual, HasSubstr(".SH ENVIRONMENT\n.TP\n.B AFTERGLOW_PLUGIN_PATH\n"));
  const std::string zsh = run("completion zsh").out, fish = run("completion fish").out;
  for (const std::string command : {"train", "sweep", "export"}) {
    EXPECT_THAT(manual, HasSubstr(".SS " + command + "\n"));
    EXPECT_THAT(zsh, HasSubstr("_afterglow_" + command + "() {"));
    EXPECT_THAT(fish, HasSubstr("-a " + command + " "));
    std::istringstream help(run(command + " --help").out);
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with("  --")) continue;
      const std::string name = line.substr(4, line.find_first_of(" {", 4) - 4);
      EXPECT_THAT(zsh, HasSubstr("*--" + name + "["));
      EXPECT_THAT(fish, HasSubstr("-l " + name + " "));
      std::string in_manual;
      for (const char letter : name) in_manual += letter == '-' ? std::string("\\-") : std::string(1, letter);
      EXPECT_THAT(manual, HasSubstr("\\fB\\-\\-" + in_manual + "\\fR"));
    }
  }
  EXPECT_THAT(manual, AllOf(HasSubstr(".SH EXIT STATUS"), HasSubstr("130 interrupted")));
}

TEST_F(ShellTexts, AnUnknownShellIsRefused) {
  const ProgramResult result = run("completion tcsh");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("bash"));
}

}  // namespace
}  // namespace afterglow
