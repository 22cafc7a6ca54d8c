// Says at once when files of some folders change, where the system tells it (inotify of Linux).
#pragma once
#include <filesystem>
#include <functional>
#include <thread>

namespace afterglow {

/// Network and FUSE file systems do not tell what other machines change, and the number of watched folders is limited:
/// who must see every change also looks from time to time.
class FolderWatch {
 public:
  /// Calls `changed` on a thread of its own, at most 50 times a second however fast files change.
  explicit FolderWatch(std::function<void()> changed);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;
  /// Watches the files directly in a folder, before they are read so that no change is missed. Repeating it costs
  /// little; a folder that was removed and made again must be added again.
  void add(const std::filesystem::path& folder) const;

 private:
  void listen(const std::function<void()>& changed) const;
  int events_, stop_;  // file descriptors; -1 where the system has none left
  std::thread thread_;
};

}  // namespace afterglow
