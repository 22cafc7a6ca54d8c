// The targets. A reader that takes a path gets the bytes in a file of this process, on a file system in memory where
// there is one.
#include "tests/support/fuzz_targets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/window/script.h"
#include "app/window/settings.h"
#include "core/engine/training/objective.h"
#include "core/engine/training/saved/saved_run.h"
#include "core/figure/files/page.h"
#include "core/io/arrays/npy.h"
#include "core/io/atomic_file.h"
#include "core/io/csv.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/safetensors.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/recipe/lesson.h"
#include "core/recipe/lesson_plan.h"
#include "core/remote/framed_line.h"
#include "core/remote/wire.h"
#include "core/tasks/token_labels.h"
#include "core/text/tokenizer.h"
#include "tests/support/folders.h"
#include "tests/support/lesson_text.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

namespace {

namespace fs = std::filesystem;

void hold(bool property, const char* what) {
  if (!property) throw std::logic_error(what);
}

/// A name of this process; what has it at the end, a file or a folder, is removed.
class OwnName {
 public:
  explicit OwnName(std::string_view extension) {
    const fs::path memory = "/dev/shm";
    path_ = (fs::is_directory(memory) ? memory : fs::temp_directory_path()) /
            ("afterglow_fuzz_" + std::to_string(::getpid()) + std::string(extension));
  }
  OwnName(const OwnName&) = delete;
  OwnName& operator=(const OwnName&) = delete;
  ~OwnName() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// A file of these bytes.
struct FileOf : OwnName {
  FileOf(const std::string& bytes, std::string_view extension) : OwnName(extension) { put(path(), bytes); }
};

bool same_tensors(const TensorFile& a, const TensorFile& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const HostTensor& tensor : a.tensors) {
    const HostTensor* other = b.find(tensor.name);
    if (!other || other->type != tensor.type || other->shape != tensor.shape || other->bytes != tensor.bytes)
      return false;
  }
  return true;
}

void open_safetensors(const std::string& bytes) {
  const FileOf file(bytes, ".safetensors");
  const TensorFile read = read_safetensors(file.path());
  const OwnName place(".again.safetensors");
  write_safetensors(place.path(), read);
  hold(same_tensors(read, read_safetensors(place.path())), "tensors change when they are written and read again");
}

void open_recipe(const std::string& bytes) {
  const Recipe recipe = parse_recipe(bytes, "recipe");
  const std::string written = to_json(recipe).dump();
  hold(to_json(parse_recipe(written, "recipe")).dump() == written,
       "a recipe changes when it is written and read again");
}

void open_command(const std::string& bytes) {
  const Command command = parse_command(parse_json(bytes, "command"));
  hold(parse_command(to_json(command)) == command, "a command changes when it is written and read again");
}

void open_csv(const std::string& bytes) {
  const CsvTable table = parse_csv(bytes, "table");
  std::vector<CsvColumn> columns;
  for (std::size_t c = 0; c < table.columns(); ++c) {
    std::vector<std::string> texts;
    for (std::size_t row = 0; row < table.rows(); ++row) texts.emplace_back(table.text(row, c));
    columns.push_back({table.names()[c], std::move(texts)});
  }
  if (bytes.find_first_of(";\t|") != std::string::npos || bytes.find("sep=") != std::string::npos)
    return;  // what is written with commas could be taken for a table with this other separator
  const CsvTable again = parse_csv(format_csv(columns), "table");
  hold(again.names() == table.names() && again.rows() == table.rows(),
       "a table changes when it is written and read again");
  for (std::size_t c = 0; c < table.columns(); ++c) {
    for (std::size_t row = 0; row < table.rows(); ++row)
      hold(again.text(row, c) == table.text(row, c), "a cell changes when it is written and read again");
  }
}

/// As the program does: the recipe is read, its model is declared, the weights are held against it.
void open_run(const std::string& bytes, std::string_view extension) {
  const FileOf file(bytes, extension);
  const SavedRun saved = open_saved_run(file.path());
  ParameterStore store;
  make_objective(saved.recipe, store);
  if (saved.snapshot) check_weights(*saved.snapshot, store);
}
/// The config.json of a folder whose weights are a Mamba-2 model of one block.
void open_config(const std::string& bytes) {
  const OwnName place(".folder");
  fs::create_directory(place.path());
  put(place.path() / "config.json", bytes);
  // Written, for a copy ends where libFuzzer's clock interrupts it.
  static const std::string weights =
      read_file(source_folder() / "tests/fuzz/checkpoint/model.safetensors", std::size_t{1} << 20);
  put(place.path() / "model.safetensors", weights);
  const Checkpoint checkpoint(place.path());
  ParameterStore store;
  make_objective(checkpoint_recipe(checkpoint), store);
  checkpoint.check(store);
}

/// With its plan, as everything that opens a lesson makes one.
void open_lesson_text(const std::string& bytes) {
  const Lesson lesson = parse_lesson(bytes, "lesson");
  const std::string written = text_of(lesson);
  hold(text_of(parse_lesson(written, "lesson")) == written, "a lesson changes when it is written and read again");
  plan_lesson(lesson);
}

void open_npy(const std::string& bytes) {
  const FileOf file(bytes, ".npy");
  const WholeNumbers read = read_npy_integers(file.path());
  std::int64_t count = 1;
  for (const std::int64_t extent : read.shape) count *= extent;
  hold(count == static_cast<std::int64_t>(read.values.size()), "an array has another number of values than its shape");
}

void open_tokenizer(const std::string& bytes) {
  const FileOf file(bytes, ".json");
  const Tokenizer tokenizer(file.path());
  hold(token_names(tokenizer, 64).labels.size() == 64, "not every token has a label");
  tokenizer.decode(tokenizer.encode("Ein Text, 3 <s>\n  ✓", true, true).ids);
}

std::vector<Command> commands_of(Script script) {
  constexpr double end_of_time = 1e10;
  constexpr std::int64_t end = INT64_MAX;
  std::vector<Command> commands;
  while (!script.is_done()) {
    for (Command& command : script.due(end, end_of_time, end)) commands.push_back(std::move(command));
  }
  return commands;
}

void open_script(const std::string& bytes) {
  const std::vector<Command> commands = commands_of(Script(parse_json(bytes, "script"), "script"));
  nlohmann::json written = nlohmann::json::array();
  for (const Command& command : commands) written.push_back(to_json(command));
  const std::vector<Command> again = commands_of(Script(written, "script"));
  hold(std::ranges::equal(commands, again,
                          [](const Command& a, const Command& b) { return a.name == b.name && a.value == b.value; }),
       "a script changes when it is written and read again");
}

bool same_settings(const WindowSettings& a, const WindowSettings& b) {
  return a.theme == b.theme && a.zoom == b.zoom && a.width == b.width && a.height == b.height &&
         a.workspace == b.workspace && a.splits == b.splits && a.shown_figure == b.shown_figure &&
         a.layouts == b.layouts && a.recent == b.recent;
}

void open_settings(const std::string& bytes) {
  const WindowSettings settings = parse_settings(bytes, "settings");
  hold(same_settings(settings, parse_settings(to_json(settings).dump(), "settings")),
       "settings change when they are written and read again");
}

/// What a window sends to a session, and what a session sends back.
void open_request(const std::string& bytes) {
  const std::string written = encode(decode_request(bytes));  // with the names in commands in order
  hold(encode(decode_request(written)) == written, "a request changes when it is written again");
}
void open_answer(const std::string& bytes) {
  ReceivedParts there, here;
  SentParts sent;
  const Answer answer = decode_answer(bytes, there);
  decode_answer(encode(answer, sent), here);
  const Sight* const sight = std::get_if<Sight>(&answer);
  if (!sight || !sight->now) return;
  CurveStore curves;
  for (const PlotKind& kind : plot_kinds()) {
    for (const Figure& figure : prepared_figures(kind, *sight->now, {}, curves))
      svg_text(figure, page_size(SizePreset::one_column, figure));
  }
}

/// Bytes of a peer before they are messages.
void open_line(const std::string& bytes) {
  const FileOf file(bytes, ".line");
  FramedLine line(Descriptor(::open(file.path().c_str(), O_RDONLY)), Descriptor(::open("/dev/null", O_WRONLY)));
  line.move();
  while (line.receive()) {
  }
}

void open_snapshot(const std::string& bytes) { open_run(bytes, ".safetensors"); }
void open_svg(const std::string& bytes) { open_run(bytes, ".svg"); }
void open_pdf(const std::string& bytes) { open_run(bytes, ".pdf"); }
void open_png(const std::string& bytes) { open_run(bytes, ".png"); }
void open_figure_csv(const std::string& bytes) { open_run(bytes, ".csv"); }

constexpr std::array targets{
    FuzzTarget{"safetensors", open_safetensors},
    FuzzTarget{"recipe", open_recipe},
    FuzzTarget{"command", open_command},
    FuzzTarget{"csv", open_csv},
    FuzzTarget{"snapshot", open_snapshot},
    FuzzTarget{"svg", open_svg},
    FuzzTarget{"pdf", open_pdf},
    FuzzTarget{"png", open_png},
    FuzzTarget{"figure_csv", open_figure_csv},
    FuzzTarget{"config", open_config},
    FuzzTarget{"npy", open_npy},
    FuzzTarget{"tokenizer", open_tokenizer},
    FuzzTarget{"lesson", open_lesson_text},
    FuzzTarget{"script", open_script},
    FuzzTarget{"settings", open_settings},
    FuzzTarget{"request", open_request},
    FuzzTarget{"answer", open_answer},
    FuzzTarget{"line", open_line},
};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return targets; }

const FuzzTarget& find_fuzz_target(std::string_view name) {
  std::string names;
  for (const FuzzTarget& target : targets) {
    if (target.name == name) return target;
    names += (names.empty() ? "" : ", ") + std::string(target.name);
  }
  throw std::out_of_range("there is no fuzz target '" + std::string(name) + "'; choose one of " + names);
}

bool opens(const FuzzTarget& target, const std::string& bytes) {
  try {
    target.open(bytes);
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_input) throw;
    return false;
  }
}

}  // namespace afterglow
