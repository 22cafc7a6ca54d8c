// A model of another library opens wherever a snapshot does, and goes back.
#include <gmock/gmock.h>

#include "core/io/safetensors.h"
#include "tests/app/program_test.h"

namespace afterglow {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// A small transformers model of start weights, made by exporting one of Afterglow's own.
class Checkpoints : public ProgramTest {
 protected:
  Checkpoints() {
    write("own.json", R"({"name": "own", "model": {"d_model": 16, "vocab": 40, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 8, "headdim": 8, "ngroups": 2}, "repeat": 2}]},
      "task": {"kind": "ids", "vocab": 40, "length": 16}, "training": {"steps": 4, "batch": 2, "warmup": 1, "evaluate_every": 0}})");
    write("ids.txt", "1 2 3 4 5 6 7\n8 9 10 11 12 39 0\n");
    const ProgramResult trained = run("train --recipe own.json --device cpu --threads 1 --no-figures --out own");
    EXPECT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(done("export own/own_seed7_step4.safetensors --format transformers --out model").code, 0);
  }
  ProgramResult done(const std::string& arguments) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.code, 0) << arguments << ": " << result.err;
    return result;
  }
  std::vector<float> logits(const std::string& model) {
    done("forward " + model + " --tokens ids.txt --out logits.safetensors --force --device cpu --threads 1");
    return to_floats(require_tensor(read_safetensors(folder_ / "logits.safetensors"), "logits", "logits"));
  }
};

TEST_F(Checkpoints, AnswerAsTheSnapshotThatTheyWereWrittenFrom) {
  const json result = parsed(done("forward model --tokens ids.txt --out a.safetensors --json"));
  EXPECT_EQ(result["sequences"], 2);
  EXPECT_EQ(result["length"], 7);
  EXPECT_EQ(result["vocab"], 40);
  EXPECT_EQ(logits("model"), logits("own/own_seed7_step4.safetensors"));
  EXPECT_EQ(read_safetensors(folder_ / "a.safetensors").find("logits")->shape, (std::vector<std::int64_t>{2, 7, 40}));
}

TEST_F(Checkpoints, GoRoundToTheBit) {
  done("export model --format transformers --out again");
  EXPECT_EQ(text_of(folder_ / "again" / "model.safetensors"), text_of(folder_ / "model" / "model.safetensors"));
  EXPECT_EQ(text_of(folder_ / "again" / "config.json"), text_of(folder_ / "model" / "config.json"));
  done("export model --format npz --out arrays");
  EXPECT_THAT(text_of(folder_ / "arrays" / "model.npz"), HasSubstr("layers.1.mamba2.in_proj.weight.npy"));
}

TEST_F(Checkpoints, OpenAsASnapshotDoes) {
  const json trained = parsed(done("train --resume model --steps 3 --no-figures --out out --threads 1 --json"));
  EXPECT_EQ(trained["steps"], 3);
  EXPECT_NE(logits(trained["snapshot"]), logits("model"));
  // What was trained opens without the folder, and goes back to another one.
  std::filesystem::rename(folder_ / "model", folder_ / "moved");
  done("export " + trained["snapshot"].get<std::string>() + " --format transformers --out tuned");
  EXPECT_EQ(logits("tuned"), logits(trained["snapshot"]));
  EXPECT_EQ(parsed(done("eval moved --examples 4 --json"))["cells"].size(), 1u);
  const json by_length = parsed(done("eval moved --examples 4 --lengths 8,16 --json"));
  EXPECT_EQ(by_length["cells"].size(), 2u) << "numbers have no bindings";
  EXPECT_FALSE(by_length["cells"][0].contains("bindings"));
  EXPECT_EQ(by_length["weights"], "float32");
  EXPECT_EQ(run("eval moved --examples 4 --bindings 1,2").code, 2);
  done("plot token_weights --snapshot moved --svg weights.svg --device cpu");
  EXPECT_THAT(text_of(folder_ / "weights.svg"), Not(HasSubstr(folder_.path().string()))) << "no path of this machine";
  EXPECT_THAT(done("info moved").out, AllOf(HasSubstr("transformers"), HasSubstr("layers.1.mamba2.D")));
  // A figure carries the folder's name: next to the folder it opens again.
  done("plot token_weights --recipe weights.svg --csv weights.csv --device cpu");
}

TEST_F(Checkpoints, TakeTokensAndLabels) {
  std::string ids;
  for (int i = 0; i < 700; ++i) ids += std::to_string(i % 40) + " ";
  write("long.txt", ids);
  write("model/tokenizer.json", R"({"model": {"vocab": {"Ġhello": 7}}})");
  done("train --resume model --data long.txt --steps 1 --no-figures --out out --threads 1");
  done("plot token_weights --snapshot model --csv w.csv --device cpu");
}

TEST_F(Checkpoints, AreAskedWithoutPadding) {
  const std::vector<float> whole = logits("model");
  write("ids.txt", R"({"input_ids": [[0, 0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 39, 0, 99, 99]],
    "attention_mask": [[0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 0, 0]]})");
  const json answer = parsed(done("forward model --tokens ids.txt --out a.safetensors --json"));
  EXPECT_EQ(answer["padding"], 4);
  EXPECT_THAT(answer["notes"].dump(), HasSubstr("4 positions are padding"));
  const std::vector<float> padded = logits("model");
  ASSERT_EQ(padded.size(), 2u * 9 * 40);
  for (std::size_t i = 0; i < 7 * 40; ++i) {
    EXPECT_NEAR(padded[2 * 40 + i], whole[i], 1e-5) << i;
    EXPECT_NEAR(padded[9 * 40 + i], whole[7 * 40 + i], 1e-5) << i;
  }
  for (std::size_t i = 0; i < 2 * 40; ++i) EXPECT_EQ(padded[i], 0) << i;
}

TEST_F(Checkpoints, ATextIsLearnedByTheTokensOfTheTokenizerBesideIt) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "no can ";
  std::filesystem::create_directories(folder_ / "texts");
  const std::string asked = "train --recipe texts/own.txt --until 1 --out o --no-figures --device cpu --force --json";
  write("texts/own.txt", text);
  const auto recipe_of = [&](const json& trained) {
    return json::parse(text_of(folder_ / trained["recipe"].get<std::string>()));
  };
  EXPECT_EQ(recipe_of(parsed(done(asked)))["task"]["kind"], "text");
  write("texts/tokenizer.json",
        R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
            "model": {"vocab": {"Ġ": 0, "n": 1, "o": 2, "c": 3, "a": 4, "no": 11}, "merges": ["n o"]}})");
  const json trained = parsed(done(asked));
  EXPECT_THAT(trained["notes"].dump(), HasSubstr("texts/tokenizer.json"));
  EXPECT_EQ(recipe_of(trained)["task"]["kind"], "ids");
  EXPECT_EQ(recipe_of(trained)["model"]["vocab"], 12) << "one more than the largest id";
}

TEST_F(Checkpoints, WriteTextAndTakeItAsAPrompt) {
  write("model/tokenizer.json",
        R"({"decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
            "model": {"vocab": {"Ġ": 0, "n": 1, "o": 2, "c": 3, "a": 4, "f": 5, "Ã": 6, "©": 7, "Ã©": 8, "Ġno": 9,
            "no": 10}, "merges": ["Ã ©", "n o", "Ġ no"]}})");
  const auto generate = [&](const std::string& how) {
    return parsed(done("generate model " + how + " --count 6 --temperature 0 --device cpu --threads 1 --json"));
  };
  const json named = generate("--prompt '#3 #4 #5 #8 #9'");
  EXPECT_EQ(named["begun"], "café no");
  for (const char* how : {"--prompt 'café no'", "--text 'café no'", "--text-file prompt.txt"}) {
    write("prompt.txt", "café no");
    const json written = generate(how);
    EXPECT_EQ(written["beginning"], (std::vector{3, 4, 5, 8, 9})) << how;
    EXPECT_EQ(written["tokens"], named["tokens"]);
    EXPECT_EQ(written["text"], named["text"]);
  }
  write("cafe.txt", "3 4 5 8 9");
  done("forward model --text 'café no' --out text.safetensors --device cpu --threads 1");
  done("forward model --tokens cafe.txt --out ids.safetensors --device cpu --threads 1");
  EXPECT_EQ(text_of(folder_ / "text.safetensors"), text_of(folder_ / "ids.safetensors"));
  done("export model --format transformers --out back --device cpu");
  EXPECT_EQ(text_of(folder_ / "back/tokenizer.json"), text_of(folder_ / "model/tokenizer.json"));
  EXPECT_EQ(run("forward model --out b.safetensors").code, 2) << "neither tokens nor text";
  EXPECT_EQ(run("forward model --text 'x' --out b.safetensors").code, 3) << "no token for it";
  write("model/tokenizer.json", "{");
  EXPECT_FALSE(logits("model").empty()) << "forward needs no names of tokens";
  const ProgramResult refused = run("forward model --text no --out b.safetensors");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("tokenizer.json"));
}

TEST_F(Checkpoints, TokenizeTexts) {
  write("t.json",
        R"({"decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "n"}},
            {"Sequence": {"id": "A"}}], "special_tokens": {"n": {"ids": [1], "tokens": ["n"]}}},
            "model": {"vocab": {"o": 0, "n": 1, "no": 2}, "merges": [["n", "o"]]}})");
  const json one = parsed(done("tokenize t.json --text noo --json"));
  EXPECT_EQ(one["ids"], (std::vector{1, 2, 0}));
  EXPECT_EQ(one["tokens"], (json{"n", "no", "o"}));
  EXPECT_EQ(one["decoded"], "nnoo");
  write("lines.jsonl", "\"no\"\n\"\\u006fn\"\n");
  const ProgramResult lines = done("tokenize t.json --json-lines lines.jsonl --no-special");
  EXPECT_EQ(lines.out,
            "{\"decoded\":\"no\",\"ids\":[2],\"tokens\":[\"no\"]}\n"
            "{\"decoded\":\"on\",\"ids\":[0,1],\"tokens\":[\"o\",\"n\"]}\n");
  EXPECT_EQ(run("tokenize t.json").code, 2);
  EXPECT_EQ(run("tokenize t.json --text-file missing").code, 3);
  EXPECT_EQ(run("tokenize model --text a").code, 3) << "a folder without a tokenizer";
  write("lines.jsonl", "\"no\"\nno\n");
  EXPECT_THAT(run("tokenize t.json --json-lines lines.jsonl").err, HasSubstr("line 2"));
  write("t.json", R"({"model": {"type": "Unigram", "vocab": [["a", 0]]}})");
  const ProgramResult refused = run("tokenize t.json --text a");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("Unigram"));
}

TEST_F(Checkpoints, NeedNoLabelsToAnswer) {
  const std::vector<float> with_labels = logits("model");
  write("model/tokenizer.json", R"({"model": {"vocab": {"hello": 7}}})");
  const json trained = parsed(done("train --resume model --steps 1 --no-figures --out out --threads 1 --json"));
  for (const char* broken : {"", "{", "version https://git-lfs.github.com/spec/v1\n"}) {
    write("model/tokenizer.json", broken);
    EXPECT_EQ(logits("model"), with_labels);
    const json written = parsed(done("generate model --count 2 --json"));
    ASSERT_FALSE(written["notes"].empty()) << broken;
    EXPECT_THAT(written["notes"].dump(), AllOf(HasSubstr("tokenizer.json"), HasSubstr("shown as numbers")));
  }
  EXPECT_THAT(done("eval " + trained["snapshot"].get<std::string>() + " --examples 4").err, HasSubstr("as numbers"));
}

TEST_F(Checkpoints, SayWhichNormIsTakenWhereverTheyOpen) {
  for (const char* command :
       {"forward model --tokens ids.txt --out a.safetensors", "info model", "eval model --examples 4",
        "plot token_weights --snapshot model --csv a.csv", "export model --format npz --out n"}) {
    const json result = parsed(done(std::string(command) + " --json"));
    ASSERT_TRUE(result.contains("notes")) << command;
    EXPECT_THAT(result["notes"][0], HasSubstr("over all columns")) << command;
  }
}

// Its numbers would be others than asked for, or there are no numbers at all.
TEST_F(Checkpoints, ArePreciseAsAskedOrNotAtAll) {
  for (const char* command :
       {"forward model --tokens ids.txt --out a.safetensors", "generate model --count 1", "eval model --examples 4",
        "train --resume model --steps 1 --out out", "plot token_weights --snapshot model --csv a.csv"}) {
    const ProgramResult refused = run(std::string(command) + " --precision bf16 --device cpu");
    EXPECT_EQ(refused.code, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("fp32 only")) << command;
    done(std::string(command) + " --precision fp32 --device cpu");
  }
  for (const char* command : {"info model", "export model --format npz --out n"}) {
    const ProgramResult refused = run(std::string(command) + " --precision bf16");
    EXPECT_EQ(refused.code, 2) << command;
    EXPECT_THAT(refused.err, HasSubstr("does not use --precision")) << command;
  }
}

// The recipe asks, not the command line: the numbers are those of fp32, which every command says.
TEST_F(Checkpoints, SayWhereThePrecisionOfARecipeIsMissing) {
  for (const char* command :
       {"train --preset tiny --set precision=bf16 --set batch=2 --steps 1 --figures none --out run",
        "eval run --examples 4", "generate run --count 1", "plot spectrum --snapshot run --csv a.csv",
        "train --resume run --steps 2 --out more",
        "sweep --preset tiny --axis precision=fp32,bf16 --set batch=2 --set steps=1 --seeds 1 --out swept"}) {
    const json result = parsed(done(std::string(command) + " --device cpu --json"));
    ASSERT_TRUE(result.contains("notes")) << command;
    EXPECT_THAT(result["notes"], Contains(HasSubstr("the recipe asks for bf16"))) << command;
  }
  const ProgramResult window = run("--preset tiny --precision bf16 --device cpu");
  EXPECT_EQ(window.code, 2);
  EXPECT_THAT(window.err, HasSubstr("fp32 only"));
}

TEST_F(Checkpoints, AreNotReplacedUnasked) {
  EXPECT_EQ(run("export model --format transformers --out model").code, 3);
  EXPECT_THAT(run("export model --format transformers --out model").err, HasSubstr("--force"));
  write("there.safetensors", "mine");
  EXPECT_EQ(run("forward model --tokens ids.txt --out there.safetensors").code, 3);
  EXPECT_EQ(text_of(folder_ / "there.safetensors"), "mine");
}

TEST_F(Checkpoints, RefuseByNameWithCode3) {
  const auto refused = [&](const std::string& arguments, const std::string& what, int code = 3) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.code, code) << arguments;
    EXPECT_THAT(result.err, HasSubstr(what)) << arguments;
  };
  refused("forward model --tokens gone.npy --out x.safetensors", "gone.npy");
  write("high.txt", "1 40");
  refused("forward model --tokens high.txt --out x.safetensors", "tokens 0 to 39");
  refused("forward own.json --tokens ids.txt --out x.safetensors", "weights");
  refused("train --resume own.json --out out", "weights");
  refused("export own/own_seed7_step4.safetensors --format onnx --out x", "--format", 2);
  std::filesystem::create_directories(folder_ / "pickles");
  std::filesystem::copy(folder_ / "model" / "config.json", folder_ / "pickles" / "config.json");
  write("pickles/pytorch_model.bin", "x");
  for (const char* command :
       {"info pickles", "eval pickles", "train --resume pickles --out out", "pickles",
        "plot training --snapshot pickles --svg p.svg", "forward pickles --tokens ids.txt --out x.safetensors"})
    refused(command, "pickle");
  refused("forward model/model.safetensors --tokens ids.txt --out x.safetensors", "the folder");
  refused("forward model/config.json --tokens ids.txt --out x.safetensors", "give its folder");
  write("model/config.json", R"({"architectures": ["Mamba2ForCausalLM"], "time_step_limit": [0.0, Infinity]})");
  refused("info model/config.json", "give its folder");
  write("model/model.safetensors.index.json", "{}");
  refused("info model/model.safetensors.index.json", "give its folder");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.safetensors"));
}

TEST_F(Checkpoints, SayWhatALibraryDoesNotHave) {
  train("--steps 2");
  const ProgramResult refused = run("export out/small_seed3_step2.safetensors --format fla --out x");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("flash-linear-attention"), HasSubstr("npz")));
  EXPECT_EQ(run("export out/small_seed3_step2.safetensors --format npz --out x").code, 0);
}

}  // namespace
}  // namespace afterglow
