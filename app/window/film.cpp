// Keeps what was shown, and writes it at an even pace.
#include "app/window/film.h"

#include <cmath>
#include <cstdio>

#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

void Film::keep(bool is_on) {
  is_on_ = is_on;
  if (!is_on) shots_.clear();
}

void Film::add(double now, Pixels pixels) {
  shots_.push_back({now, std::move(pixels)});
  // The one before the ten seconds stays: it was shown when they began.
  while (shots_.size() > 1 && shots_[1].time <= now - length) shots_.pop_front();
}

std::vector<Pixels> Film::frames(double now) const {
  std::vector<Pixels> all;
  if (shots_.empty()) return all;
  const double start = std::max(shots_.front().time, now - length);
  const auto count = static_cast<int>(std::floor((now - start) / interval)) + 1;
  std::size_t shot = 0;
  for (int i = 0; i < count; ++i) {
    const double time = start + i * interval;
    while (shot + 1 < shots_.size() && shots_[shot + 1].time <= time) ++shot;
    all.push_back(shots_[shot].pixels);
  }
  return all;
}

std::filesystem::path write_film(std::span<const Pixels> frames, const std::filesystem::path& name) {
  const std::filesystem::path folder = free_path(name);
  std::error_code failed;
  if (!std::filesystem::create_directories(folder, failed))
    throw Error(ExitCode::bad_input, folder.string() + ": cannot make this folder for the pictures");
  for (std::size_t i = 0; i < frames.size(); ++i) {
    char file[32];
    std::snprintf(file, sizeof file, "%03zu.png", i + 1);
    write_file_atomically(folder / file, std::string_view(png_of(frames[i])));
  }
  return folder;
}

}  // namespace afterglow
