// Draws at most at display rate, only after a change, and less often if drawing takes processor time from training.
#include "app/window/window_loop.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

#include "app/window/accessibility/spoken_page.h"
#include "app/window/display/picture_clipboard.h"
#include "app/window/display/screenshot.h"
#include "app/window/key_routing.h"
#include "app/window/lesson_player.h"
#include "core/backend/parallel.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/kept_runs.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json.h"
#include "core/io/terminal_text.h"
#include "core/recipe/lesson_plan.h"
#include "views/page/page.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

constexpr double display_interval = 1.0 / 60;
constexpr double shared_interval = 1.0 / 15;  ///< seconds between frames on a GPU that also trains
constexpr double slowest_shared = 1.0 / 6;    ///< the same, at most, if steps are long
constexpr double shared_steps = 12;           ///< training steps between frames there, within these limits
constexpr double software_interval = 1.0 / 20;
constexpr double software_share = 0.02;       ///< largest share of all processors for drawing new data
constexpr double slowest_software = 1.0 / 3;  ///< seconds between frames, however expensive one is
constexpr double poll_interval = 1.0 / 60;
constexpr double touched_poll_interval = 1.0 / 250;  ///< while the user drags, the window waits for the answer
constexpr double touched_time = 0.5;                 ///< seconds after an input that still count as input
constexpr int frames_after_input = 3;
constexpr int film_niceness = 10;
constexpr double time_between_summaries = 1;  ///< seconds; for screen readers

json lesson_of(const LessonPane& pane) {
  if (!pane.lesson) return nullptr;
  const LessonStepPlan& plan = (*pane.plans)[pane.step];
  return {{"name", pane.lesson->name},
          {"step", pane.step + 1},
          {"steps", pane.lesson->steps.size()},
          {"begun", pane.begun},
          {"done", pane.deed >= plan.deeds.size()},
          {"asks", pane.asks},
          {"choices", plan.question ? plan.question->choices.size() : 0},
          {"answer", plan.answer},
          {"answered", pane.answered},
          {"reached", pane.reached},
          {"problem", pane.problem}};
}

/// The state of run, page and lesson as JSON, for programs that control the window and read the result: always one
/// object with the same keys. `is_settled`: the observation shows the effects of all commands.
std::string status_of(const PageState& page, const Observation& now, bool is_settled) {
  const json recipe = json::parse(now.recipe, nullptr, false);
  const json status = {{"lesson", lesson_of(page.lesson)},
                       {"run",
                        {{"settled", is_settled},
                         {"step", now.step},
                         {"running", now.running},
                         {"checksum", now.checksum},
                         {"checksum_step", now.checksum_step},
                         {"runs", now.runs.size()},
                         {"recipe", recipe.is_discarded() ? json(nullptr) : recipe}}},
                       {"page",
                        {{"workspace", page.workspace},
                         {"maximised", page.maximised},
                         {"shown_figure", page.shown_figure},
                         {"selection", json::parse(selection_value(page.selection))},
                         {"theme", page.theme},
                         {"presenting", page.presentation.is_on},
                         {"blank", page.presentation.is_blank},
                         {"presenter", page.presentation.has_presenter}}}};
  return status.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

/// Whether the figures of a report can be drawn at its present step.
bool is_complete(const ReportTour& tour, const Observation& now) {
  const auto is_under_way = [&](const AnalysisWork& work) {
    const bool is_shown = (tour.page.analyses() >> (&work - now.work.data()) & 1) != 0;
    return is_shown && (work.phase == AnalysisPhase::waiting || work.phase == AnalysisPhase::computing);
  };
  return now.step == tour.steps[tour.begun - 1] && now.rebuilds_to < 0 && std::ranges::none_of(now.work, is_under_way);
}

/// "Report: step 3 of 21 · ablation 40 %, about 12 s · about 4 min left · Esc ends it".
std::string report_words(const ReportTour& tour, const Observation& now, double time) {
  const double done = static_cast<double>(tour.begun) - 1, rest = static_cast<double>(tour.steps.size()) - done;
  std::string words = "Report: step " + std::to_string(tour.begun) + " of " + std::to_string(tour.steps.size());
  if (const std::string work = pending_work(now).shown; !work.empty()) words += " · " + work;
  if (done > 0) words += " · about " + rough_duration_text(std::max(1.0, (time - tour.began) / done * rest)) + " left";
  return words + " · Esc ends it";
}

/// Draws the figures of one step. After the last one it writes the page and returns a sentence.
std::string record_step(ReportTour& tour, const Observation& now, const std::string& program) {
  const bool is_last = tour.begun == tour.steps.size();
  tour.page.record(now, is_last);
  if (!is_last) return "";
  std::error_code ignored;  // writing reports a folder that cannot be made
  std::filesystem::create_directories(std::filesystem::path(tour.file).parent_path(), ignored);
  const std::string html = tour.page.html(now, program);
  const auto file = write_file_atomically(tour.file, html, Existing::keep);
  return file.string() + " written, " + bytes_text(static_cast<std::int64_t>(html.size())) + ".";
}

/// Processor seconds of this thread, which also draws if OpenGL is software.
double processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// "14:05", local time.
std::string wall_clock() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16] = {};
  std::strftime(text, sizeof text, "%H:%M", &local);
  return text;
}

/// Width and height.
std::pair<int, int> wanted_size(const WindowOptions& options, const WindowSettings& settings) {
  int width = settings.width, height = settings.height;
  if (!options.size.empty() && (std::sscanf(options.size.c_str(), "%dx%d", &width, &height) != 2 || width < 320 ||
                                height < 240 || width > 16384 || height > 16384))
    throw UsageError("--size " + options.size + ": give width and height such as 1600x1000");
  return {width, height};
}

/// The analyses that the visible panels need.
AnalysisSet analyses_of(const PageState& page) {
  AnalysisSet analyses = 0;
  for (const ShownPanel& shown : page.drawn.panels) analyses |= analyses_for(shown.panel);
  analyses |= analyses_of_lesson(page);
  if (page.workspace == workspaces().front().id)
    analyses = analyses | Analysis::trace;  // for the tokens below the first page
  return page.drawn.interventions ? analyses | Analysis::inspected : analyses;
}

/// Shows an opened figure with its stored view.
void follow_opening(PageState& page, const Observation& observation, CommandQueue& commands) {
  if (observation.opened == page.opened.number) return;
  page.opened.number = observation.opened;
  if (page.opened.number > 1) page.opened.kept_run.clear();
  const json view = json::parse(observation.view, nullptr, false);
  if (view.is_object()) commands.send("view", view);
}

}  // namespace

WindowLoop::WindowLoop(const WindowOptions& options, std::unique_ptr<ObservationSource> source, OpenSecond open_second)
    : options_(options),
      source_(std::move(source)),
      open_second_(std::move(open_second)),
      settings_(is_automatic(options) ? WindowSettings()
                                      : read_settings(settings_path(options.is_portable), warnings_)),
      keeps_settings_(!is_automatic(options)),
      window_("Afterglow", wanted_size(options, settings_).first, wanted_size(options, settings_).second),
      observation_(source_->observe()),
      film_(processors()) {
  // If the graphics card draws, a picture costs few milliseconds, so recording starts at once and F9 finds ten seconds.
  film_.keep(!window_.is_software() && keeps_settings_);
  if (!options.script.empty()) script_ = Script(options.script);
  start_page();
}

void WindowLoop::start_page() {
  settings_.is_first_start = settings_.is_first_start && keeps_settings_;
  settings_.shows_intro = settings_.shows_intro && keeps_settings_;
  apply_settings(settings_, page_);
  page_.presentation.is_locked = page_.presentation.hides_controls = options_.is_locked;
  if (!options_.theme.empty()) page_.theme = options_.theme;
  if (options_.scale > 0) page_.zoom = std::clamp(options_.scale, 0.5, 3.0);
  for (const std::string& warning : warnings_) {
    add_note(page_, Severity::warning, warning, 0);
    std::fprintf(stderr, "afterglow: %s\n", terminal_text(warning).c_str());
  }
  std::vector<std::filesystem::path> folders = font_folders();
  for (const std::filesystem::path& folder : asset_folders()) folders.push_back(folder / "fonts");
  font_files_ = find_fonts(folders);
  actions_.export_folder = options_.session.save_folder.empty() ? "." : options_.session.save_folder.string();
  if (keeps_settings_ && !options_.is_locked && source_->line().host.empty()) {
    actions_.kept_folder = kept_runs_folder(options_.is_portable).string();
    const std::vector<KeptRun> kept = kept_runs(actions_.kept_folder);
    if (!kept.empty() && options_.lesson.empty()) page_.opened.kept_run = kept.front().label;
  }
  actions_.toggle_full_screen = [this] { window_.toggle_full_screen(); };
  actions_.save_picture = [this](const std::string& path) { pictures_.push_back(path); };
  actions_.save_film = [this](FilmForm form) { save_film(form); };
  actions_.keep_status = [this](const std::string& path) {
    status_path_ = path;
    status_.clear();
  };
  actions_.close = [this] { window_.close(); };
  actions_.copy_text = [](const std::string& text) { ImGui::SetClipboardText(text.c_str()); };
  actions_.copy_picture = [](const std::string& png) { copy_picture(png); };
  window_.on_key = [this](const Chord& chord) { handle_key(chord); };
  window_.has_field = [this] { return page_.palette.is_open || page_.picker.is_open || page_.edit.is_typing; };
  window_.on_drop = [this](const std::string& path) { open_dropped(path); };
  actions_.compare_with = [this](const std::string& word) { compare_with(word); };
  actions_.swap_runs = [this] { swap_runs(); };
  actions_.begin_report = [this](ReportTour tour) { tour_ = std::move(tour); };
  if (!options_.lesson.empty()) commands_.send("lesson", {{"open", options_.lesson}});
  if (!options_.against.name.empty()) commands_.send("against", {{"open", options_.against.name}});
  page_.presentation.has_presenter = options_.has_presenter;
}

void WindowLoop::handle_key(const Chord& chord) { route_key(page_, commands_, chord, ImGui::GetIO().WantTextInput); }

void WindowLoop::refresh_look() {
  const Theme& theme = theme_named(page_.theme);
  const float usual = look_scale(theme, window_.content_scale(), page_.zoom);
  const float scale = page_.presentation.is_on ? std::max(usual, presenting_scale(window_.height())) : usual;
  const double density = window_.density();
  const bool is_slide = page_.presentation.is_on;
  const std::string fonts = (is_slide ? " slides " : " ") + std::to_string(density),
                    key = std::string(theme.name) + " " + std::to_string(scale) + fonts;
  if (key == look_key_) return;
  const bool same_fonts = look_.fonts && look_.scale == scale && look_key_.ends_with(fonts);
  look_key_ = key;
  look_ = Look{&theme, scale, &fonts_};
  if (!same_fonts) {
    fonts_.bake(*ImGui::GetIO().Fonts, font_files_, scale, static_cast<float>(density), is_slide);
    window_.upload_fonts();
  }
  apply_style(look_);
}

/// Seconds between two frames that show new data.
double WindowLoop::shortest_frame() const {
  const std::string_view device = observation_ ? observation_->device : std::string_view();
  if (window_.draws_on(device.substr(0, device.find(", ")))) {
    const double speed = observation_->running ? observation_->steps_per_second : 0;
    return speed > 0 ? std::clamp(shared_steps / speed, shared_interval, slowest_shared) : shared_interval;
  }
  if (!window_.is_software()) return display_interval;
  return std::clamp(frame_cost_ / (software_share * processors()), software_interval, slowest_software);
}

/// Returns when a frame is due: after input, for a new observation, or when a part of the page requested one.
void WindowLoop::wait_for_reason() {
  while (!is_over()) {
    accessible_.serve();
    follow_line();
    const double now = window_time();
    if (window_.take_input()) {
      frames_owed_ = frames_after_input;
      last_input_ = now;
    }
    const bool is_touched = now - last_input_ < touched_time;
    const double fastest = window_.is_software() ? 0.5 * software_interval : 0.0;
    const bool is_counted = options_.exit_after_frames > 0 || script_.counts_frames(frames_);
    double due = 1e300;
    if (!script_.is_done()) due = last_frame_ + (window_.is_software() ? fastest : shortest_frame());
    if (frames_owed_ > 0 || is_counted || !commands_.waiting().empty() || written_film_.valid() ||
        next_second_.valid() || (tour_ && tour_->drawing.valid()))
      due = last_frame_ + fastest;
    const bool is_news = source_->revision() != revision_ || (second_ && second_->has_news());
    if (is_news) due = std::min(due, last_frame_ + (is_touched ? fastest : shortest_frame()));
    due = std::min(due, std::max(page_.wake_at, last_frame_ + display_interval));
    follow_presenter();
    if (due <= now) return;
    window_.wait_events(std::clamp(due - now, 0.001, is_touched ? touched_poll_interval : poll_interval));
  }
}

/// Whether it is not known yet which change is the newest: the engine has not answered all commands.
bool WindowLoop::awaits_engine(const Command& command) const {
  const bool undoes = command.name == "undo", acts = undoes || command.name == "redo";
  return acts && taken_ < sent_ && !history_.is_newest(undoes, sent_);
}

/// Undoes or repeats changes of the view. The engine gets the selection, as when it was made.
bool WindowLoop::change_view_back(const Command& command) {
  const bool undoes = command.name == "undo";
  if (!undoes && command.name != "redo") return false;
  const Selection before = page_.selection;
  const bool is_changed = history_.act(undoes, observation_->journal, sent_);
  const bool is_in_vain = !is_changed && !undoes && history_.ends_redo(observation_->journal);
  if (is_in_vain) add_note(page_, Severity::info, "there is nothing to redo", window_time());
  const std::int64_t layer = page_.selection.layer, head = page_.selection.head;
  if (layer != before.layer) send_to_engine({"trace", {{"layer", layer}}});
  if (layer != before.layer || head != before.head) send_to_engine({"theory", {{"layer", layer}, {"head", head}}});
  return is_changed || is_in_vain;
}

/// On another thread, because the disk that it opens from and an analysis of the one that it closes may take long.
void WindowLoop::compare_with(const std::string& word) {
  auto work = [this, word, before = std::move(next_second_),
               old = std::exchange(second_, std::nullopt)]() mutable -> std::optional<SecondRun> {
    before = {};  // waits, and closes what was still being opened
    old.reset();
    if (word.empty() || !open_second_) return std::nullopt;
    return SecondRun(open_second_(word), word.find('@') != word.npos && !std::filesystem::exists(word));
  };
  next_second_ = std::async(std::launch::async | std::launch::deferred, std::move(work));
  early_.clear();
  if (!word.empty()) add_note(page_, Severity::info, "Opening " + word + " as B.", window_time());
}

/// The first run becomes the second one, with all that counts its commands.
void WindowLoop::swap_runs() {
  if (!second_) return add_note(page_, Severity::info, "There is no second run to swap with.", window_time());
  second_->swap(source_);
  sent_ = taken_ = source_->taken_commands();
  observation_ = source_->observe();
  page_.opened.number = observation_->opened;
  history_ = ViewHistory(page_);
}

/// Waits at each step of a report until its figures are complete and another thread has drawn them. Esc, a click on
/// the words or another command ends it.
void WindowLoop::follow_report() {
  if (!tour_ || taken_ < sent_) return;
  const auto go = [&](Command command) {
    ++sent_;
    source_->send(std::move(command));
  };
  const auto go_to = [&](std::int64_t step) { go({"rewind", {{"step", step}}}); };
  const auto end = [&](Severity severity, const std::string& words) {
    go_to(tour_->present);
    if (tour_->was_running) go({"run"});
    forget_report(severity, words);
  };
  if (tour_->begun > 0 && page_.report.empty()) return end(Severity::info, "The report was ended; nothing is written.");
  bool is_next = tour_->begun == 0;
  if (tour_->drawing.valid()) {
    if (tour_->drawing.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) return;
    try {
      const std::string written = tour_->drawing.get();
      if (!written.empty()) return end(Severity::info, written);
    } catch (const std::exception& error) {  // of texts that are no UTF-8, too
      return end(Severity::warning, error.what());
    }
    is_next = true;
  }
  if (is_next) go_to(tour_->steps[tour_->begun++]);
  page_.report = report_words(*tour_, *observation_, window_time());
  if (is_next || !is_complete(*tour_, *observation_)) return;
  tour_->drawing = std::async(std::launch::async | std::launch::deferred,
                              [tour = &*tour_, now = observation_, program = options_.hello.version] {
                                return record_step(*tour, *now, program);
                              });
}

void WindowLoop::forget_report(Severity severity, const std::string& words) {
  tour_.reset();  // waits for the other thread
  page_.report.clear();
  add_note(page_, severity, words, window_time());
}

void WindowLoop::follow_second() {
  if (next_second_.valid() && next_second_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) {
    try {
      second_ = next_second_.get();
      if (second_) {
        for (const auto& [name, command] : looks_) second_->follow(command);
        for (const Command& command : early_) second_->follow(command);
      }
    } catch (const Error& error) {
      add_note(page_, Severity::warning, "B: " + std::string(error.what()), window_time());
    }
  }
  figures_.compare(second_ ? second_->observe(*observation_, page_.asked) : nullptr);
  const std::optional<std::string> problem = second_ ? second_->new_problem() : std::nullopt;
  if (problem) add_note(page_, Severity::warning, "B: " + *problem, window_time());
}

void WindowLoop::send_to_engine(Command command) {
  ++sent_;
  if (tour_) forget_report(Severity::warning, "The report was not written, because of " + command.name + ".");
  if (second_) second_->follow(command);
  if (command.name == "load") looks_.clear();
  if (SecondRun::looks(command.name))
    looks_.insert_or_assign(command.name, command);
  else if (next_second_.valid())
    early_.push_back(command);
  source_->send(std::move(command));
}

/// Opens a lesson, or any other kind of file.
void WindowLoop::open_dropped(const std::string& path) {
  if (page_.presentation.is_locked) return;
  if (!path.ends_with(".md") && !page_.line.text.empty())
    return add_note(page_, Severity::warning, "Files open on the session's machine: copy it there, then load its path.",
                    window_time());
  path.ends_with(".md") ? commands_.send("lesson", {{"open", path}}) : commands_.send("load", {{"path", path}});
}

void WindowLoop::give(const Command& command) {
  complete_hint(page_, command);
  if (command.name == "load") note_recent(page_, command);
  if (change_view_back(command)) return;
  if (command.name == "save" && !page_.line.text.empty()) return save_of_far_session(command);
  const CommandSpec* spec = find_command(command.name);
  if (spec && spec->target == CommandTarget::engine) {
    send_to_engine(command);
    return;
  }
  CommandQueue following;
  CommandContext context{page_, figures_, observation_, following, actions_, window_time()};
  run_window_command(context, command);
  for (Command& next : following.take()) send_to_engine(std::move(next));
}

/// An undo that must wait for the engine's answer keeps the commands after it waiting.
void WindowLoop::give_all() {
  bool waits = false;
  for (Command& command : commands_.take()) {
    waits = waits || awaits_engine(command);
    waits ? commands_.send(std::move(command)) : give(command);
    frames_owed_ = std::max(frames_owed_, 2);
  }
}

/// Draws the second window when its text has changed, once a second, independent of the main one.
void WindowLoop::follow_presenter() {
  if (presenter_ && presenter_->wants_to_close()) page_.presentation.has_presenter = false;
  if (!page_.presentation.has_presenter) return presenter_.reset();
  if (!presenter_) {
    try {
      presenter_.emplace("Afterglow notes", window_.handle());
    } catch (const Error& error) {
      page_.presentation.has_presenter = false;
      return add_note(page_, Severity::warning, error.what(), window_time());
    }
    presenter_->on_key = [this](const Chord& chord) {
      if (chord == Chord{.key = "Escape"}) {
        page_.presentation.has_presenter = false;
      } else {
        handle_key(chord);
      }
    };
  }
  LessonNotes notes = lesson_notes(page_, window_time(), wall_clock());
  if (!presenter_->take_damage() && notes == shown_notes_) return;
  presenter_->draw(dark_theme(), font_files_, page_.zoom, [&](const Look& look, Canvas& canvas, const Rect& area) {
    draw_lesson_notes(look, canvas, notes, area);
  });
  shown_notes_ = std::move(notes);
}

/// A frame is due when the words about the line to the session change.
void WindowLoop::follow_line() {
  const LineState line = source_->line();
  if (line.machine) page_.machine = line.machine;
  if (page_.palette.is_open && page_.machine->devices.empty()) page_.machine = options_.machine();
  constexpr std::size_t longest = 30;  // bytes of its name, so that the numbers after it have room
  std::string words = file_name_of(line.host, longest) + (line.host.size() > longest ? "…" : "");
  if (line.round_trip > 0)
    words += " · " + number_text(1000 * line.round_trip, 2) + " ms · " +
             bytes_text(static_cast<std::int64_t>(line.bytes_per_second)) + "/s";
  if (words != page_.line.text || line.problem != page_.line.problem) frames_owed_ = std::max(frames_owed_, 1);
  page_.line = {words, line.problem};
  if (std::exchange(told_, line.said) != line.said) add_note(page_, Severity::info, line.said, window_time());
}

/// Where the snapshots of a session elsewhere go is asked once; a script that does not say it saves there.
void WindowLoop::save_of_far_session(const Command& command) {
  json value = command.value;
  const std::string usual = value.contains("path") || !keeps_settings_ ? "there" : save_at_;
  const std::string at = value.value("at", usual);
  if (at.empty()) {
    page_.palette = {.is_open = true, .wants_focus = true, .text = "save at=here", .selected = TextStretch{8, 12}};
    return add_note(page_, Severity::info,
                    "Enter saves on this machine, in " + std::filesystem::absolute(actions_.export_folder).string() +
                        ". Type there to save on the session's. The next snapshots follow.",
                    window_time());
  }
  if (value.contains("at")) save_at_ = at;
  const std::string name = file_name_of(observation_->preset + "_seed" + std::to_string(observation_->seed) + "_step" +
                                        std::to_string(observation_->step));
  std::error_code ignored;  // writing reports a folder that cannot be made
  if (at == "here" && !value.contains("path")) {
    std::filesystem::create_directories(actions_.export_folder, ignored);
    value["path"] = (std::filesystem::path(actions_.export_folder) / (name + ".safetensors")).string();
  }
  send_to_engine({"save", value});
}

/// A failure to write the file is reported once, and then the file is no longer written.
void WindowLoop::follow_status() {
  if (status_path_.empty()) return;
  std::string status = status_of(page_, *observation_, taken_ >= sent_);
  if (status == status_) return;
  status_ = std::move(status);
  try {
    write_file_atomically(status_path_, status_);
  } catch (const Error& error) {
    add_note(page_, Severity::warning, error.what(), window_time());
    status_path_.clear();
  }
}

/// Writes films on a second thread, so that the window never waits, at low priority; if no thread can be created, on
/// this one.
void WindowLoop::save_film(FilmForm form) {
  if (film_.is_on()) {
    if (written_film_.valid()) return;
    written_film_ = std::async(std::launch::async | std::launch::deferred,
                               [frames = film_.frames(window_time()), folder = actions_.export_folder, form,
                                window = std::this_thread::get_id()] {
                                 if (std::this_thread::get_id() != window)
                                   setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), film_niceness);
                                 return write_film(frames, folder, form);
                               });
  }
  add_note(
      page_, Severity::info,
      film_.is_on() ? "Saving the last ten seconds." : "From now on the last ten seconds are recorded; F9 saves them.",
      window_time());
  film_.keep(true);
}

/// Takes a picture of the frame that was drawn, if the film needs one.
void WindowLoop::film_frame(double start) {
  if (!film_.wants(start) || window_.pixel_width() <= 0 || window_.pixel_height() <= 0) return;
  finish_drawing();
  const double begin = processor_time();
  Pixels pixels = read_back_buffer(window_.pixel_width(), window_.pixel_height(), Film::max_width, Film::max_height);
  film_.add(start, std::move(pixels), processor_time() - begin);
}

void WindowLoop::follow_film() {
  if (!film_.is_on() && (page_.lesson.lesson || page_.theme == "projector")) film_.keep(true);
  if (!written_film_.valid() || written_film_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) return;
  try {
    add_note(page_, Severity::info, written_film_.get(), window_time());
  } catch (const Error& error) {
    add_note(page_, Severity::warning, error.what(), window_time());
  }
}

/// Reports the visible page to screen readers, at most once a second, and notes as they appear.
void WindowLoop::speak(double now) {
  if (!accessible_.is_heard()) return;
  if (now - spoken_at_ >= time_between_summaries) {
    accessible_.show(spoken_panels(page_, observation_, figures_));
    spoken_at_ = now;
  }
  accessible_.focus(page_.focus.panel);
  for (const Note& note : page_.notes) {
    if (note.born > announced_) accessible_.announce(note.text);
  }
  if (!page_.notes.empty()) announced_ = std::max(announced_, page_.notes.back().born);
}

/// Notes of a script may be visible for a moment only, so failures are also printed on the terminal that started it.
void WindowLoop::tell_problems(double since) const {
  for (const Note& note : page_.notes) {
    if (note.severity != Severity::info && note.born >= since)
      std::fprintf(stderr, "afterglow: %s\n", terminal_text(note.text).c_str());
  }
}

/// Without this, a script that waits for steps of a failed training would wait for ever.
void WindowLoop::end_vain_script() const {
  const bool is_at_rest = !observation_->running && taken_ == sent_;
  if (!is_at_rest || !script_.awaits_training(observation_->step) || observation_->events.empty()) return;
  const Event& last = observation_->events.back();
  if (last.severity == Severity::failure)
    throw Error(ExitCode::failure, "the script waits for a training that does not continue: " + last.text);
}

void WindowLoop::draw() {
  const double start = window_time(), processor_start = processor_time();
  revision_ = source_->revision();
  taken_ = source_->taken_commands();  // before the observation, which shows at least as much
  sent_ = std::max(sent_, taken_);     // other windows may have sent some
  observation_ = source_->observe();
  follow_report();
  follow_second();
  const bool is_opened = observation_->opened != page_.opened.number;
  const Observation& o = *observation_;
  // Whether there are curves to show, or will be at once.
  const bool is_trained =
      o.running || o.rebuilds_to >= 0 || o.latest_step > 0 || (!o.runs.empty() && !o.runs.back().loss.empty());
  follow_model(page_, o.model, is_trained);
  follow_opening(page_, *observation_, commands_);
  for (const Command& command : script_.due(frames_, start, observation_->step)) commands_.send(command);
  end_vain_script();
  give_all();
  follow_lesson(page_, {*observation_, [this](const Command& command) { give(command); }, [this] { return sent_; },
                        taken_, window_time(), last_input_});
  refresh_look();
  window_.begin_frame();
  Frame frame{observation_, look_, page_, commands_, figures_, start};
  draw_page(frame);
  ask_frame(page_, lesson_returns_at(page_, last_input_));
  if (const std::optional<std::string> path = typed_path(page_.palette.text)) {
    page_.palette.paths = source_->paths(*path);
    ask_frame(page_, start + 0.1);  // the answer may be in flight
  }
  if (page_.presentation.is_locked) commands_.drop_controls();
  page_.asked = tour_ ? analyses_of(page_) | tour_->page.analyses() : analyses_of(page_);
  source_->request_analyses(page_.asked);
  const bool is_last = options_.exit_after_frames > 0 && frames_ + 1 >= options_.exit_after_frames;
  if (is_last && !options_.screenshot.empty()) pictures_.push_back(options_.screenshot);
  window_.end_frame(look_.theme->ground, [&] {
    for (const std::string& path : pictures_) {
      const std::string problem = save_screenshot(path, window_.pixel_width(), window_.pixel_height());
      if (!problem.empty()) add_note(page_, Severity::warning, problem, start);
      if (path == options_.screenshot) lost_picture_ = problem;
    }
    pictures_.clear();
    film_frame(start);
  });
  follow_film();
  speak(start);
  give_all();
  follow_status();
  if (!options_.script.empty()) tell_problems(start);
  is_opened ? history_.accept() : history_.watch(ImGui::IsAnyMouseDown(), start, sent_);
  ++frames_;
  if (frames_owed_ > 0) --frames_owed_;
  if (is_last) window_.close();
  last_frame_ = start;
  frame_cost_ = 0.8 * frame_cost_ + 0.2 * (processor_time() - processor_start);
}

bool WindowLoop::is_over() const { return window_.wants_to_close() || is_interrupted_(); }

void WindowLoop::run(bool (*is_interrupted)()) {
  is_interrupted_ = is_interrupted;
  while (!is_over()) {
    window_.wait_events(0);
    draw();
    wait_for_reason();
  }
  if (const std::string lost = source_->line().problem; !lost.empty())
    std::fprintf(stderr, "afterglow: %s\n", terminal_text(lost).c_str());
  if (!lost_picture_.empty()) throw Error(ExitCode::failure, "--screenshot: " + lost_picture_);
  if (!keeps_settings_) return;
  const std::string problem =
      write_settings(settings_path(options_.is_portable), settings_of(page_, window_.width(), window_.height()));
  if (!problem.empty()) std::fprintf(stderr, "afterglow: %s\n", terminal_text(problem).c_str());
}

}  // namespace afterglow
