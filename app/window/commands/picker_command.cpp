// Fills the sheet of presets: what can be opened, its size, and its training time on this device.
#include <algorithm>
#include <filesystem>

#include "app/window/commands/window_commands.h"
#include "core/engine/session/kept_runs.h"
#include "core/figure/axis.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/recipe/lesson.h"
#include "core/recipe/recipe.h"
#include "core/studies/table.h"

namespace afterglow {
namespace {

constexpr std::size_t most_recent = 12, max_files = 400;

/// Seconds of one training step on the machine that made the pictures; 0 for a preset without a picture.
double reference_seconds(const Preset& preset) {
  return preset.picture.empty() ? 0 : json::parse(preset.picture).value("seconds_per_step", 0.0);
}

/// How many times slower this device is, estimated from the preset that it trains now; 1 before it has trained one.
double slowness(const Observation& now) {
  const Preset* present = find_by(presets(), now.preset, &Preset::name);
  const double reference = present ? reference_seconds(*present) : 0;
  return reference > 0 && now.steps_per_second > 0 ? 1 / (now.steps_per_second * reference) : 1;
}

/// Size and time only of one that this program has, too.
PickerEntry entry_of(const PresetName& preset, const CommandContext& context) {
  const Observation& now = *context.observation;
  const Preset* own = find_by(presets(), preset.name, &Preset::name);
  PickerEntry entry{.name = preset.name,
                    .sentence = preset.about.empty() ? preset.title : preset.about,
                    .words = preset.title + " " + preset.task,
                    .picture = own ? own->picture : "",
                    .command = {"load", {{"preset", preset.name}}}};
  if (!own || own->picture.empty()) return entry;
  entry.size = grouped_number(json::parse(own->picture).value("parameters", std::int64_t{0})) + " parameters";
  const double steps = parse_recipe(own->text, own->name).training.steps;
  const bool is_far = !context.page.line.text.empty();
  const std::string device = is_far ? " there" : now.device.starts_with("CPU") ? " on this CPU" : " here";
  entry.time = "about " + rough_duration_text(std::max(1.0, steps * reference_seconds(*own) * slowness(now))) + device;
  return entry;
}

PickerEntry entry_of(const Lesson& lesson, const std::string& name_or_path) {
  PickerEntry entry{.section = PickerSection::lessons, .name = lesson.title};
  const LessonLine* about = find_line(lesson.head, LessonWord::about);
  const LessonLine* minutes = find_line(lesson.head, LessonWord::minutes);
  if (about) entry.sentence = about->text;
  entry.words = name_or_path + " lesson";
  entry.size = std::to_string(lesson.steps.size()) + (lesson.steps.size() == 1 ? " step" : " steps");
  if (minutes) entry.time = minutes->text + " min";
  entry.command = {"lesson", {{"open", name_or_path}}};
  return entry;
}

/// Included lessons, then those in the user's own folder; an unreadable one is left out, and opening it says why.
void add_lessons(std::vector<PickerEntry>& entries) {
  for (const ShippedLesson& shipped : shipped_lessons())
    entries.push_back(entry_of(parse_lesson(shipped.text, shipped.name), shipped.name));
  std::error_code error;
  std::vector<std::filesystem::path> own;
  for (const auto& file : std::filesystem::directory_iterator(user_folders().data / "lessons", error)) {
    if (file.path().extension() == ".md") own.push_back(file.path());
  }
  std::ranges::sort(own);
  for (const std::filesystem::path& path : own) {
    try {
      entries.push_back(entry_of(open_lesson(path.string()), path.string()));
    } catch (const Error&) {
    }
  }
}

/// A table in the window: its presets, trained one after the other, with their curves in the same plots.
PickerEntry entry_of(const Table& table) {
  json names = json::array();
  for (const TableRow& row : table.rows) {
    if (std::ranges::find(names, json(row.preset)) == names.end()) names.push_back(row.preset);
  }
  return PickerEntry{.section = PickerSection::tables,
                     .name = table.title,
                     .sentence = table.about,
                     .size = std::to_string(names.size()) + (names.size() == 1 ? " model" : " models"),
                     .words = table.name + " table paper",
                     .command = {"compare", {{"presets", names}}}};
}

PickerEntry entry_of_file(const std::filesystem::path& path, PickerSection section) {
  PickerEntry entry{.section = section, .name = path.filename().string(), .sentence = path.parent_path().string()};
  const bool is_lesson = path.extension() == ".md";
  entry.command = {is_lesson ? "lesson" : "load", {{is_lesson ? "open" : "path", path.string()}}};
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error) entry.size = bytes_text(static_cast<std::int64_t>(bytes));
  return entry;
}

/// Runs of closed windows come first.
void add_recent(const CommandContext& context, std::vector<PickerEntry>& entries) {
  for (const KeptRun& run : kept_runs(context.actions.kept_folder)) {
    entries.push_back(entry_of_file(run.path, PickerSection::recent));
    entries.back().name = "Go on: " + run.label;
  }
  for (const std::string& recent : context.page.recent) {
    const PresetName* preset = find_by(context.page.machine->presets, recent, &PresetName::name);
    if (!preset && !context.page.line.text.empty()) continue;  // a file of this machine
    entries.push_back(preset ? entry_of(*preset, context) : entry_of_file(recent, PickerSection::recent));
    entries.back().section = PickerSection::recent;
  }
}

bool can_be_opened(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return std::ranges::any_of(std::array{".safetensors", ".json", ".svg", ".pdf", ".png", ".csv", ".md", ".txt"},
                             [&](const char* known) { return extension == known; });
}

PickerEntry entry_of_folder(const std::filesystem::path& folder, const std::string& name) {
  return PickerEntry{.section = PickerSection::files,
                     .name = name,
                     .sentence = "folder",
                     .command = {"presets", {{"folder", folder.string()}}},
                     .is_folder = true};
}

/// Folders first, then files that can be opened, both by name. A folder that cannot be read lists only its parent.
void add_files(const std::filesystem::path& folder, std::vector<PickerEntry>& entries) {
  std::vector<std::filesystem::path> folders, files;
  std::error_code error;
  std::filesystem::directory_iterator place(folder, std::filesystem::directory_options::skip_permission_denied, error);
  for (; !error && place != std::filesystem::directory_iterator(); place.increment(error)) {
    const std::filesystem::path& path = place->path();
    if (path.filename().string().starts_with('.') || folders.size() + files.size() >= max_files) continue;
    std::error_code unknown;
    const bool is_model = std::filesystem::exists(path / "config.json", unknown);  // a folder that opens as one model
    if (place->is_directory(unknown)) (is_model ? files : folders).push_back(path);
    if (place->is_regular_file(unknown) && can_be_opened(path)) files.push_back(path);
  }
  std::ranges::sort(folders);
  std::ranges::sort(files);
  if (folder.has_parent_path() && folder.parent_path() != folder)
    entries.push_back(entry_of_folder(folder.parent_path(), ".. (" + folder.parent_path().string() + ")"));
  for (const auto& path : folders) entries.push_back(entry_of_folder(path, path.filename().string() + "/"));
  for (const auto& path : files) entries.push_back(entry_of_file(path, PickerSection::files));
}

}  // namespace

void open_picker(CommandContext& context, const json& value) {
  refuse_unknown_keys(value, {"folder", "text"}, "the command's value");
  PageState& page = context.page;
  const bool has_folder = value.contains("folder");
  if (page.picker.is_open && value.empty()) {
    page.picker = {};
    return;
  }
  PickerState opened;
  opened.is_open = opened.wants_focus = true;
  opened.generation = page.picker.generation + 1;
  opened.text = get_string(value, "text", "", "the command's value");
  opened.folder = get_string(value, "folder", context.actions.export_folder, "the command's value");
  if (has_folder) opened.section = PickerSection::files;
  for (const PresetName& one : page.machine->presets) opened.entries.push_back(entry_of(one, context));
  add_lessons(opened.entries);
  for (const Table& table : tables()) opened.entries.push_back(entry_of(table));
  add_recent(context, opened.entries);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(opened.folder, error);
  if (page.line.text.empty())
    add_files(error ? std::filesystem::path(opened.folder) : folder, opened.entries);
  else
    opened.entries.push_back({.section = PickerSection::files,
                              .name = "A file there",
                              .sentence = "On the session's machine: its path is completed while you type it.",
                              .command = {"palette", {{"text", "load path="}}}});
  page.palette = {};
  page.help_is_open = false;
  page.picker = std::move(opened);
}

void note_recent(PageState& page, const Command& load) {
  std::string name;
  for (const char* key : {"preset", "path"}) {
    if (load.value.contains(key) && load.value[key].is_string()) name = load.value[key].get<std::string>();
  }
  if (name.empty()) return;
  if (load.value.contains("path")) {
    if (!page.line.text.empty()) return;  // of another machine
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(name, error);
    if (!error) name = whole.string();
  }
  std::erase(page.recent, name);
  page.recent.insert(page.recent.begin(), name);
  page.recent.resize(std::min(page.recent.size(), most_recent));
}

}  // namespace afterglow
