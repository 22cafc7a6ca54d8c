// Tells that files of some folders have changed, where the system says so at once (inotify of Linux).
#pragma once
#include <filesystem>

namespace afterglow {

/// Network and FUSE file systems do not tell what other machines change, and the number of watched folders is limited:
/// who must see every change also looks by itself from time to time.
class FolderWatch {
 public:
  FolderWatch();
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;
  /// Watches the files directly in a folder, from before they are read, so that no change is missed. Repeating it costs
  /// little; a folder that was removed and made again must be added again.
  void add(const std::filesystem::path& folder) const;
  /// Whether something has changed since the last call. Never waits.
  bool has_changed() const;

 private:
  int events_;  // a file descriptor; -1 where the system has none left
};

}  // namespace afterglow
