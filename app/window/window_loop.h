// The main loop of the window: waits, draws if something is new, passes commands on.
#pragma once
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>

#include "app/window/accessibility/accessible_window.h"
#include "app/window/commands/window_commands.h"
#include "app/window/display/gl_window.h"
#include "app/window/display/second_window.h"
#include "app/window/film/film_files.h"
#include "app/window/script.h"
#include "app/window/second_run.h"
#include "app/window/settings.h"
#include "app/window/view_history.h"
#include "app/window/window.h"
#include "core/engine/session/observation_source.h"
#include "views/frame/frame.h"
#include "views/page/lesson_notes.h"
#include "views/plots/report_page.h"

namespace afterglow {

class WindowLoop {
 public:
  /// Opens the second run of a comparison by a word of the command line; throws Error.
  using OpenSecond = std::function<std::unique_ptr<ObservationSource>(const std::string& word)>;
  WindowLoop(const WindowOptions& options, std::unique_ptr<ObservationSource> source, OpenSecond open_second = {});
  /// Returns when the user closes the window, or a signal ends it.
  void run(bool (*is_interrupted)() = [] { return false; });

 private:
  void start_page();
  void handle_key(const Chord& chord);
  void refresh_look();
  bool is_over() const;
  void wait_for_reason();
  void draw();
  void give(const Command& command);
  bool awaits_engine(const Command& command) const;
  bool change_view_back(const Command& command);
  void give_all();
  void send_to_engine(Command command);
  void compare_with(const std::string& word);
  void swap_runs();
  void follow_report();
  void forget_report(Severity severity, const std::string& words);
  void follow_second();
  void open_dropped(const std::string& path);
  double shortest_frame() const;
  void follow_presenter();
  void follow_status();
  void follow_line();
  void save_of_far_session(const Command& command);
  void save_film(FilmForm form);
  void film_frame(double start);
  void follow_film();
  void speak(double now);
  void tell_problems(double since) const;
  void end_vain_script() const;

  WindowOptions options_;
  std::unique_ptr<ObservationSource> source_;
  OpenSecond open_second_;
  std::optional<SecondRun> second_;
  std::future<std::optional<SecondRun>> next_second_;  ///< the next one, or none, while another thread opens it
  std::map<std::string, Command> looks_;               ///< by name, the last that chose what A inspects
  std::vector<Command> early_;                         ///< others from the time in which B opens
  std::optional<ReportTour> tour_;                     ///< a report that is being made
  std::vector<std::string> warnings_;                  ///< declared before the settings, whose reading fills them
  WindowSettings settings_;
  bool keeps_settings_ = true;
  bool (*is_interrupted_)() = nullptr;  ///< set by `run`
  GlWindow window_;
  std::optional<SecondWindow> presenter_;
  LessonNotes shown_notes_;  ///< in it
  FontFiles font_files_;
  FontSet fonts_;
  Look look_;
  std::string look_key_;  ///< theme and scale of the baked fonts
  PageState page_;
  FigureCache figures_;
  CommandQueue commands_;
  ViewHistory history_{page_};
  WindowActions actions_;
  Script script_;
  std::shared_ptr<const Observation> observation_;
  std::uint64_t revision_ = 0;
  std::uint64_t sent_ = 0, taken_ = 0;  ///< commands to the engine, and those whose effects the observation shows
  std::int64_t frames_ = 0;
  int frames_owed_ = 3;  ///< input needs a few frames until everything has reacted
  double last_frame_ = -1, frame_cost_ = 0, last_input_ = -1;
  std::vector<std::string> pictures_;  ///< to be written with the next frame
  std::string status_path_, status_;   ///< path of the status file, empty: none; and its text
  Film film_;
  std::future<std::string> written_film_;  ///< sentence for when the file is written
  AccessibleWindow accessible_{"Afterglow"};
  double spoken_at_ = -1, announced_ = -1;  ///< times of the last summaries and of the last spoken note
  std::string save_at_, told_;              ///< "here" or "there", as asked; the line's last note
  std::string lost_picture_;                ///< why the picture of --screenshot could not be written
};

}  // namespace afterglow
