// An option has the effect that it names, or the message lists what there is.
#include <gmock/gmock.h>

#include <sstream>

#include "core/io/csv.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Options : public ProgramTest {
 protected:
  /// What `plot` says of a wrong choice.
  std::string refusal(const std::string& arguments, int code = 2) {
    const ProgramResult result = run("plot " + arguments + " --recipe small.json --steps 2 --device cpu --svg no.svg");
    EXPECT_EQ(result.code, code) << arguments << ": " << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "no.svg")) << arguments;
    return result.err;
  }
};

TEST_F(Options, HelpOfEveryCommandHasItsOwnExamplesAndTheCommonOptions) {
  for (const std::string command : {"train", "eval", "plot", "info", "bench", "layer", "forward", "generate", "export",
                                    "table", "sweep", "completion", "manual"}) {
    const ProgramResult help = run(command + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, HasSubstr("afterglow " + command + " ")) << "an example of its own";
    EXPECT_THAT(help.out, Not(HasSubstr("the window, training"))) << "not the window's";
    for (const char* option : {"--json", "--quiet", "--device", "--threads", "--precision", "--force"})
      EXPECT_THAT(help.out, HasSubstr(option)) << command;
  }
}

TEST_F(Options, ClaimsHaveNumbersCommandsAndVerdicts) {
  const ProgramResult result = run("claims --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const json claims = json::parse(result.out)["claims"];
  EXPECT_GE(claims.size(), 25u);
  for (const json& claim : claims) {
    for (const char* field : {"paper", "claim", "published", "number", "command", "seeds", "verdict"})
      EXPECT_TRUE(claim.contains(field)) << claim;
    EXPECT_THAT(claim["verdict"].get<std::string>(), testing::AnyOf("holds", "holds in part", "does not", "not tried"));
    EXPECT_FALSE(claim["published"].is_null()) << claim << ": from the file or from a table";
  }
  EXPECT_THAT(run("claims").out, HasSubstr("0.393; here 0.376 ± 0.005")) << "published as the table etth1 has it";
}

TEST_F(Options, LayersAreFoundByNumberAndName) {
  const auto figure = [&](const std::string& layer) {
    const ProgramResult result = run("plot spectrum --layer '" + layer +
                                     "' --head 1 --recipe small.json --steps 2 --device cpu --force --csv s.csv");
    EXPECT_EQ(result.code, 0) << layer << ": " << result.err;
    return text_of(folder_ / "s.csv");
  };
  const std::string by_number = figure("3");
  for (const char* name : {"1.ska", "1 ska", "ska"}) EXPECT_EQ(figure(name), by_number);
  const ProgramResult mlp =
      run("plot spectrum --layer koopman_mlp --recipe small.json --steps 2 --device cpu --csv mlp.csv");
  EXPECT_EQ(mlp.code, 0) << mlp.err;
  EXPECT_NE(text_of(folder_ / "mlp.csv"), by_number);
}

TEST_F(Options, LayersHeadsAndFiguresThatAreNotThereAreRefusedWithWhatThereIs) {
  EXPECT_THAT(refusal("spectrum --layer 99"), AllOf(HasSubstr("--layer 99"), HasSubstr("3 (1.ska)")));
  EXPECT_THAT(refusal("spectrum --layer 1.skaa"), HasSubstr("3 (1.ska)"));
  EXPECT_THAT(refusal("spectrum --layer 1"), AllOf(HasSubstr("1 (0.mamba2)"), HasSubstr("3 (1.ska)")));
  EXPECT_THAT(refusal("power_filter --layer 1.koopman_mlp"), AllOf(HasSubstr("of 3 (1.ska)"), Not(HasSubstr(", 4"))));
  EXPECT_THAT(refusal("perturbation --layer 0.mamba2"), HasSubstr("3 (1.ska)"));
  EXPECT_THAT(refusal("spectrum --head 99"), HasSubstr("heads 0 to 1"));
  EXPECT_THAT(refusal("stepper --layer 1.ska --head 99"), HasSubstr("heads 0 to 1"));
  EXPECT_THAT(refusal("stepper --token 999"), HasSubstr("tokens 0 to 23"));
  EXPECT_THAT(refusal("training --figure 99"), HasSubstr("0 (training_"));
  refusal("spectrum --figure -1");
}

TEST_F(Options, AWrongNumberOrNameSaysWhatWouldDo) {
  const auto said = [&](const std::string& arguments, int code) {
    const ProgramResult result = run("train " + arguments + " --device cpu --out none");
    EXPECT_EQ(result.code, code) << arguments << ": " << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "none")) << arguments;
    return result.err;
  };
  EXPECT_THAT(said("--steps -4", 2), HasSubstr("--steps: expected a whole number from 1 on, got '-4'"));
  EXPECT_THAT(said("--steps 1.5", 2), HasSubstr("expected a whole number"));
  EXPECT_THAT(said("--save-minutes nan", 2), HasSubstr("--save-minutes: expected a number from 0 on, got 'nan'"));
  EXPECT_THAT(said("--seed -1", 2), HasSubstr("from 0 to 9007199254740992"));
  EXPECT_THAT(said("--preset tinny", 2), HasSubstr("did you mean 'tiny'?"));
  EXPECT_THAT(said("--recipe small.json --set learning_rte=1", 2), HasSubstr("did you mean 'learning_rate'?"));
  EXPECT_THAT(said("--recipe small.json --set lengh=8", 2), HasSubstr("did you mean 'length'?"));
  EXPECT_THAT(said("--recipe small.json --set q=8", 2), HasSubstr("; there are learning_rate, batch"));
  EXPECT_THAT(said("--recipe small.json --figures some", 2), HasSubstr("--figures"));
}

// Wrong words are wrong usage, whichever part of the recipe refuses them; a file that is missing is a missing input.
TEST_F(Options, WrongValuesAreWrongUsageAndMissingFilesAreMissingInput) {
  const std::string train = "train --recipe small.json --steps 1 --device cpu --no-figures --out none ";
  for (const char* value :
       {"learning_rate=abc", "learning_rate=5", "batch=0", "model.d_model=-3", "model.d_model=abc", "task.kind=foo",
        "task.bindings=100000", "task.bindings=abc", "length=3", "layers.9.ska.K=2", "layers.1.ska.K=-1", "seed=-1",
        "precision=foo", "name=3", "shards=3", "recompute=-1", "model.blocks.0.mixer.kind=skaa", "model.vocab=1"})
    EXPECT_EQ(run(train + "--set " + value).code, 2) << value;
  for (const char* words :
       {"sweep --recipe small.json --axis learning_rate=5 --out none", "table mqar --set learning_rate=abc --out none",
        "table mqar --set task.foo=1 --out none", "plot gka_figure5 --set foo=1 --svg no.svg",
        "plot training --recipe small.json --steps 1 --problem { --svg no.svg",
        "plot training --recipe small.json --steps 1 --ask {} --svg no.svg", "plot spectrum --power 65 --svg no.svg",
        "check 01_forget", "handout circle --html no.html", "train --recipe small.json --set batch=0",
        "train --recipe small.json --stop-when foo --steps 1 --out none", "generate nothing --draw -1"})
    EXPECT_EQ(run(std::string(words) + " --device cpu").code, 2) << words;
  for (const char* words :
       {"check nothing.md", "handout nothing.md --html no.html", "train --resume nothing --out none",
        "train --preset etth1 --data nothing --set horizon=24 --out none", "eval nothing", "info nothing",
        "train --preset etth1 --set task.path=nothing.csv --out none", "plot training --recipe nothing --svg no.svg"})
    EXPECT_EQ(run(std::string(words) + " --device cpu").code, 3) << words;
}

TEST_F(Options, AMistypedCommandPresetOrLessonIsAskedFor) {
  const auto said = [&](const std::string& arguments) {
    const ProgramResult result = run(arguments, "DISPLAY=:none WAYLAND_DISPLAY=");
    EXPECT_EQ(result.code, 2) << arguments << ": " << result.err;
    return result.err;
  };
  EXPECT_THAT(said("trian --preset tiny"), HasSubstr("did you mean 'train'?"));
  EXPECT_THAT(said("trian --steps 5"), HasSubstr("did you mean 'train'?"));
  EXPECT_THAT(said("circle"), HasSubstr("did you mean '01_forgetting_is_a_circle'?"));
  EXPECT_THAT(said("01_forget"), HasSubstr("did you mean '01_forgetting_is_a_circle'?"));
  EXPECT_THAT(said("sessa-mq"), HasSubstr("did you mean 'sessa-mqar'"));
  EXPECT_THAT(said("handout 01_forgetting_is_a_circle --out a.pdf"), HasSubstr("afterglow handout --help"));
  EXPECT_EQ(run("nothing-like-it", "DISPLAY=:none WAYLAND_DISPLAY=").code, 3) << "a file that is missing";
}

TEST_F(Options, HelpSaysWhatACommandNeedsAndNothingOfTheParsersOwn) {
  for (const std::string command : {"train", "plot", "handout"}) {
    const std::string help = run(command + " --help").out;
    EXPECT_THAT(help, Not(HasSubstr("{false}"))) << command;
    EXPECT_EQ(help.find("Usage, with --") == std::string::npos, command == "train") << command;
  }
}

// As in a shell below mpirun or srun: what it left in the environment is no other process.
TEST_F(Options, ProcessesThatAreNotThereAreToldWithTheWayToTrainAlone) {
  const ProgramResult result = train("--until 1", "PMIX_RANK=0 OMPI_COMM_WORLD_SIZE=3");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("env -u OMPI_COMM_WORLD_SIZE -u PMIX_RANK afterglow train"));
}

TEST_F(Options, SizesOfTheWindowOutsideOfItsRangeAreRefused) {
  for (const char* scale : {"nan", "0", "-1", "100", "inf", "0.4", "3.1", "x"}) {
    const ProgramResult result = run(std::string("--scale ") + scale, "DISPLAY=:none WAYLAND_DISPLAY=");
    EXPECT_EQ(result.code, 2) << scale;
    EXPECT_THAT(result.err, HasSubstr("from 0.5 to 3")) << scale;
  }
  EXPECT_EQ(run("--frames -1", "DISPLAY=:none WAYLAND_DISPLAY=").code, 2);
}

TEST_F(Options, APlotThatHasNothingToShowSaysWhy) {
  const ProgramResult none = run("plot spectrum --preset forecast --steps 1 --device cpu --svg no.svg");
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_THAT(none.err, HasSubstr("plot spectrum has nothing to show of forecast: needs an SKA layer"));
  EXPECT_THAT(none.err, HasSubstr("the preset few-modes has one"));
  const ProgramResult other = run("plot state_growth --recipe small.json --steps 1 --device cpu --svg no.svg");
  EXPECT_EQ(other.code, 3) << other.err;
  EXPECT_THAT(other.err, HasSubstr("--layer takes 1 (0.mamba2)"))
      << "the layer that is traced unasked has no such state";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no.svg"));
  const ProgramResult empty = run("plot training --recipe small.json --steps 0 --device cpu --svg no.svg");
  EXPECT_EQ(empty.code, 3) << empty.err;
  EXPECT_THAT(empty.err, HasSubstr("empty"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "no.svg"));
}

TEST_F(Options, FiguresOfATrainingHaveAFolderOfTheirOwn) {
  const std::string command = "train --recipe small.json --device cpu --until 3 --json --out out";
  for (const char* folder : {"out/figures_small_seed3_step3/", "out/figures_small_seed3_step3_2/"}) {
    const json result = parsed(run(command));
    ASSERT_FALSE(result["figures"].empty());
    for (const json& figure : result["figures"]) EXPECT_THAT(figure.get<std::string>(), testing::StartsWith(folder));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out"))
    EXPECT_TRUE(entry.is_directory() || entry.path().extension() != ".svg") << entry.path();
}

TEST_F(Options, FollowingGivesLinesOfJsonAlone) {
  const ProgramResult result = train("--until 3 --follow");
  std::istringstream lines(result.out);
  std::vector<json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(json::parse(line));
  ASSERT_EQ(objects.size(), 4u) << result.out;
  EXPECT_EQ(objects[0]["step"], 1);
  EXPECT_EQ(objects[3]["steps"], 3);
  EXPECT_EQ(objects[3]["ok"], true);
}

TEST_F(Options, WhatTheWindowCannotDoIsToldBeforeItOpens) {
  const auto refused = [&](const std::string& arguments, int code) {
    const ProgramResult result = run(arguments, "DISPLAY=:none WAYLAND_DISPLAY=");
    EXPECT_EQ(result.code, code) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused("--theme blue", 2), HasSubstr("projector"));
  EXPECT_THAT(refused("--screenshot nowhere/x.png --frames 1", 3), HasSubstr("nowhere/x.png"));
  EXPECT_THAT(refused("--screenshot . --frames 1", 3), HasSubstr("it is a folder"));
}

TEST_F(Options, InfoOfAFileBeginsWithItsSummary) {
  const std::string snapshot = parsed(train("--until 1 --json"))["snapshot"];
  const ProgramResult brief = run("info '" + snapshot + "'"), whole = run("info --optimiser '" + snapshot + "'");
  EXPECT_THAT(brief.out, testing::StartsWith("small"));
  EXPECT_LT(brief.out.find("checksum"), brief.out.find("embedding.weight"));
  EXPECT_THAT(brief.out, AllOf(HasSubstr("embedding.weight"), Not(HasSubstr("optim.")), HasSubstr("--optimiser")));
  EXPECT_THAT(whole.out, HasSubstr("optim.first_moment.embedding.weight"));
}

TEST_F(Options, EvalSaysTheBindingsOfTheTaskAsTrained) {
  const std::string snapshot = parsed(train("--until 1 --json"))["snapshot"];
  EXPECT_THAT(run("eval '" + snapshot + "' --device cpu --examples 4").out, HasSubstr("bindings 2 (as trained)"));
  EXPECT_EQ(parsed(run("eval '" + snapshot + "' --device cpu --examples 4 --json"))["cells"][0]["bindings"], 2);
}

TEST_F(Options, DataOfATaskThatReadsNoneIsRefused) {
  write("a.csv", "date,x\n1,2\n");
  const ProgramResult result = train("--data a.csv");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("sysprompt"), HasSubstr("takes no --data"), HasSubstr("forecast")));
}

std::string series_of(int rows, const std::string& last) {
  std::string text = "date,load\n";
  for (int i = 0; i < rows; ++i) text += std::to_string(i) + "," + std::to_string((i * 37) % 11) + "\n";
  return text + last;
}

TEST_F(Options, SeriesSayWhatWasReadOfThem) {
  std::string rows = "Unnamed: 0,date,load\n";
  for (int i = 0; i < 500; ++i) rows += std::to_string(i) + ",2016-07-01," + std::to_string((i * 37) % 11) + "\n";
  write("series.csv", rows);
  const std::string settings =
      " --set task.length=8 --set task.horizon=4 --set task.rows=400 --device cpu --threads 1 ";
  const ProgramResult trained =
      run("train --preset forecast --data series.csv --steps 1 --no-figures --out o --json" + settings);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto expect_read = [](const nlohmann::json& answer) {
    EXPECT_EQ(answer["channels"], (std::vector<std::string>{"load"}));
    EXPECT_EQ(answer["time_columns"], (std::vector<std::string>{"Unnamed: 0", "date"}));
    EXPECT_EQ(answer["rows_read"], 400);
    EXPECT_EQ(answer["rows_in_file"], 500);
    EXPECT_THAT(answer["notes"].dump(), AllOf(HasSubstr("400 of 500 rows"), HasSubstr("task.rows=500")));
  };
  expect_read(parsed(trained));
  const std::string snapshot = parsed(trained)["snapshot"], recipe = parsed(trained)["recipe"];
  for (const std::string& file : {snapshot, recipe}) expect_read(parsed(run("info '" + file + "' --json")));
  std::filesystem::remove(folder_ / "series.csv");
  EXPECT_THAT(parsed(run("info '" + snapshot + "' --json"))["notes"].dump(), HasSubstr("series.csv"));
}

// A figure is mailed: it tells neither who made it nor where, and on another machine whether the data are the same.
TEST_F(Options, FiguresTellTheirDataByNameAndContent) {
  std::filesystem::create_directory(folder_ / "private");
  write("private/series.csv", series_of(500, ""));
  const std::string settings = " --set length=8 --set horizon=4 --set steps=2 --device cpu ";
  const ProgramResult drawn =
      run("plot training --preset forecast --data private/series.csv --svg a.svg --pdf a.pdf" + settings);
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(text_of(folder_ / "a.svg"), AllOf(HasSubstr("series.csv"), Not(HasSubstr("private"))));
  const std::string again = "train --no-figures --device cpu --recipe a.svg --out again";
  const ProgramResult absent = run(again);
  EXPECT_EQ(absent.code, 3);
  EXPECT_THAT(absent.err, AllOf(HasSubstr("series.csv"), HasSubstr("--data")));
  write("series.csv", series_of(500, "500,3\n"));
  const ProgramResult other = run(again);
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, AllOf(HasSubstr("not the file"), HasSubstr("--data")));
  write("series.csv", series_of(500, ""));
  EXPECT_EQ(run(again).code, 0);
}

TEST_F(Options, FiguresHaveTheSameBytesOnEveryMachine) {
  const std::string plot =
      "plot training --recipe small.json --steps 3 --device cpu --force --svg a.svg --pdf a.pdf --png a.png";
  ASSERT_EQ(run(plot + " --threads 1", "TZ=UTC").code, 0);
  const std::string svg = text_of(folder_ / "a.svg"), pdf = text_of(folder_ / "a.pdf"),
                    png = text_of(folder_ / "a.png");
  ASSERT_EQ(run(plot + " --threads 3", "TZ=Asia/Kolkata").code, 0);
  EXPECT_EQ(text_of(folder_ / "a.svg"), svg);
  EXPECT_TRUE(text_of(folder_ / "a.pdf") == pdf);
  EXPECT_TRUE(text_of(folder_ / "a.png") == png);
}

TEST_F(Options, SeedsThatARecipeCannotHoldAreRefused) {
  EXPECT_EQ(train("--until 1 --seed 9007199254740993").code, 2);
  const std::string snapshot = parsed(train("--until 1 --json --seed 9007199254740992"))["snapshot"];
  EXPECT_EQ(run("train --device cpu --no-figures --until 2 --out out --resume '" + snapshot + "'").code, 0);
}

}  // namespace
}  // namespace afterglow
