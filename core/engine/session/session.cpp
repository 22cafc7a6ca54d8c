// Only the thread: the window's side of the mailbox is used here, the worker's in session_worker.cpp.
#include "core/engine/session/session.h"

#include <thread>

#include "core/engine/session/mailbox.h"
#include "core/engine/session/session_worker.h"
#include "core/io/error.h"

namespace afterglow {

struct Session::Thread {
  Thread(const std::string& recipe, const SessionOptions& options)
      : mailbox(options.on_publish), worker(recipe, options, mailbox), thread([this] {
          worker.begin();
          while (worker.turn()) {
          }
          worker.end();
        }) {}
  ~Thread() {
    mailbox.close();
    thread.join();
  }

  Mailbox mailbox;
  SessionWorker worker;
  std::thread thread;
};

Session::Session(const std::string& recipe, const SessionOptions& options)
    : thread_(std::make_unique<Thread>(recipe, options)) {}
Session::~Session() = default;

void Session::send(Command command) { thread_->mailbox.send(std::move(command)); }
std::shared_ptr<const Observation> Session::observe() const { return thread_->mailbox.take(); }
std::uint64_t Session::revision() const { return thread_->mailbox.revision(); }
std::uint64_t Session::taken_commands() const { return thread_->mailbox.taken_commands(); }
std::int64_t Session::trained_steps() const { return thread_->mailbox.trained_steps(); }
void Session::request_analyses(AnalysisSet analyses) { thread_->mailbox.request(analyses); }

void require_training(const Observation& now) {
  for (const Event& event : now.events) {
    if (event.severity == Severity::failure)
      throw Error(now.stopped_non_finite ? ExitCode::non_finite : ExitCode::failure, "step ", event.step, ": ",
                  event.text);
  }
}

}  // namespace afterglow
