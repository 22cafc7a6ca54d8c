// `report`: a page that needs nothing but itself.
#include <gmock/gmock.h>

#include "core/io/atomic_file.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ReportProgram : public ProgramTest {
 protected:
  ReportProgram() {
    json recipe = small_recipe_json();
    recipe["name"] = "own & a";
    recipe["training"]["steps"] = 6;
    recipe["training"]["evaluate_every"] = 2;
    write("own.json", recipe.dump());
  }
  /// What the page's script reads.
  json data_of(const std::string& page) {
    const std::string begin = "id=\"data\">";
    const std::size_t at = page.find(begin) + begin.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at));
  }
};

TEST_F(ReportProgram, MovesItsFiguresOverTheStepsOfARepeatedTraining) {
  const json result = parsed(run("report own.json -o own.html --states 4 --device cpu --json"));
  EXPECT_THAT(result["steps"], ElementsAre(0, 2, 4, 6));
  EXPECT_LT(result["bytes"].get<int>(), 5 << 20);
  const std::string page = read_file(folder_ / "own.html", 1 << 24);
  EXPECT_THAT(page, Not(testing::ContainsRegex("src=|href=|@import|https?://[^w]"))) << "nothing from elsewhere";
  EXPECT_THAT(page, HasSubstr("What own &amp; a remembers"));
  EXPECT_THAT(page, Not(HasSubstr("{{"))) << "every part is filled in";
  EXPECT_THAT(page, Not(HasSubstr(folder_.path().string()))) << "no path of this machine";
  const json data = data_of(page);
  EXPECT_EQ(data["numbers"].size(), 4u);
  EXPECT_EQ(data["recipe"]["seed"], 3);
  bool has_spectrum = false;
  for (const json& states : data["figures"]) {
    ASSERT_TRUE(states.size() == 4 || states.size() == 1);
    for (const json& state : states) EXPECT_THAT(state["svg"].get<std::string>(), testing::StartsWith("<svg"));
    EXPECT_EQ(states.size() == 1, !states[0]["cursors"].is_null()) << "curves over the training are drawn once";
    has_spectrum = has_spectrum || states[0]["x"]["label"] == "Re λ";
  }
  EXPECT_TRUE(has_spectrum);
  // The same bits as a training.
  const json trained = parsed(run("train --recipe own.json --no-figures --out own --device cpu --json"));
  EXPECT_THAT(page, HasSubstr(trained["checksum"].get<std::string>()));
  EXPECT_EQ(run("report own.json -o own.html").code, 3) << "is not overwritten";
}

TEST_F(ReportProgram, OfASnapshotHasOneStepAndNoSlider) {
  ASSERT_EQ(run("train --recipe own.json --no-figures --out own --device cpu").code, 0);
  const json one = parsed(run("report own -o one.html --plot spectrum --device cpu --json"));
  EXPECT_THAT(one["steps"], ElementsAre(6));
  const json last = parsed(run("report own.json --states 1 -o last.html --device cpu --json"));
  EXPECT_THAT(last["steps"], ElementsAre(6));
  EXPECT_EQ(run("report nothing -o n.html").code, 2);
  EXPECT_EQ(run("report own.json -o n.html --plot nothing").code, 2);
  EXPECT_EQ(run("report own/recipe_none.json -o n.html").code, 2);
}

TEST_F(ReportProgram, OfAFolderGoesOverItsCheckpoints) {
  for (const char* steps : {"2", "4"})
    ASSERT_EQ(run("train --recipe own.json --no-figures --out own --device cpu --until " + std::string(steps)).code, 0);
  const json result = parsed(run("report own -o own.html --device cpu --json"));
  EXPECT_THAT(result["steps"], ElementsAre(2, 4));
}

TEST_F(ReportProgram, RunsInABrowserAsAPageOfALesson) {
  if (std::system("command -v chromium > /dev/null") != 0) GTEST_SKIP() << "there is no Chromium on this machine";
  write("own.md",
        "# Own\nabout: Curves.\n\n## One\nset: preset = few-modes ; seed = 7\nrun: 5 steps\nfocus: training\n"
        "say: They fall.\n\n## Two\nsay: More.\n");
  for (const char* what : {"own.json", "own.md"}) {
    ASSERT_EQ(run(std::string("report ") + what + " -o page.html --states 3 --device cpu --force").code, 0);
    const ProgramResult page = run_line(
        "chromium --headless --no-sandbox --disable-gpu --user-data-dir=chromium --dump-dom \"file://$PWD/page.html\"",
        folder_.path());
    EXPECT_THAT(page.out, HasSubstr(std::string("class=\"now\">") + (what == std::string("own.md") ? "1<" : "6<")));
    EXPECT_THAT(page.out, Not(HasSubstr("=\"undefined\""))) << what << ": the script drew what is not there";
    EXPECT_THAT(page.out, Not(HasSubstr("=\"NaN\""))) << what;
    // A step of a lesson that trains has a slider of its own.
    EXPECT_EQ(page.out.find("Training step<b>5</b>") != std::string::npos, what == std::string("own.md"));
  }
}

}  // namespace
}  // namespace afterglow
