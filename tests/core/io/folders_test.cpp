// The XDG folders: defaults, variables, and folders that cannot be made.
#include "core/io/folders.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Folders with(const std::map<std::string, std::string>& variables) {
  return user_folders([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

class UserFolders : public TemporaryFolder {};

TEST_F(UserFolders, DefaultsAreUnderHome) {
  const Folders folders = with({{"HOME", "/home/ada"}});
  EXPECT_EQ(folders.config, "/home/ada/.config/afterglow");
  EXPECT_EQ(folders.data, "/home/ada/.local/share/afterglow");
  EXPECT_EQ(folders.state, "/home/ada/.local/state/afterglow");
  EXPECT_EQ(folders.cache, "/home/ada/.cache/afterglow");
  EXPECT_EQ(folders.documents, "/home/ada/Documents/Afterglow");
}

TEST_F(UserFolders, VariablesWinUnlessEmptyOrRelative) {
  const Folders folders = with({{"HOME", "/home/ada"},
                                {"XDG_CONFIG_HOME", "/c"},
                                {"XDG_DATA_HOME", ""},
                                {"XDG_STATE_HOME", "relative/state"},
                                {"XDG_CACHE_HOME", "/k/"}});
  EXPECT_EQ(folders.config, "/c/afterglow");
  EXPECT_EQ(folders.data, "/home/ada/.local/share/afterglow");
  EXPECT_EQ(folders.state, "/home/ada/.local/state/afterglow");
  EXPECT_EQ(folders.cache, "/k/afterglow");
}

TEST_F(UserFolders, WithoutHomeTheAccountKnows) {
  EXPECT_TRUE(with({}).config.is_absolute());
  EXPECT_EQ(with({{"HOME", "not/absolute"}}).config, with({}).config);
}

TEST_F(UserFolders, DocumentsAreInTheDesktopsLanguage) {
  fs::create_directories(file("conf"));
  put("conf/user-dirs.dirs", "# comment\nXDG_MUSIC_DIR=\"$HOME/Musik\"\nXDG_DOCUMENTS_DIR=\"$HOME/Dokumente\"\n");
  EXPECT_EQ(with({{"HOME", "/home/ada"}, {"XDG_CONFIG_HOME", file("conf")}}).documents,
            "/home/ada/Dokumente/Afterglow");
  put("conf/user-dirs.dirs", "XDG_DOCUMENTS_DIR=\"\nXDG_DOCUMENTS_DIR=\"relative\"\n");
  EXPECT_EQ(with({{"HOME", "/home/ada"}, {"XDG_CONFIG_HOME", file("conf")}}).documents,
            "/home/ada/Documents/Afterglow");
}

TEST_F(UserFolders, LookingCreatesNothing) {
  with({{"HOME", folder_}});
  EXPECT_TRUE(names().empty());
}

TEST_F(UserFolders, NewFoldersBelongToTheOwnerAlone) {
  ensure_folder(file("a/b/afterglow"));
  ensure_folder(file("a/b/afterglow"));
  EXPECT_TRUE(fs::is_directory(file("a/b/afterglow")));
  EXPECT_EQ(fs::status(file("a/b/afterglow")).permissions(), fs::perms::owner_all);
}

TEST_F(UserFolders, AFolderThatCannotBeIsNoReasonToStop) {
  put("file", "");
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { ensure_folder(file("file/afterglow")); }),
              AllOf(HasSubstr("file"), HasSubstr("the program runs on")));
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { ensure_folder(file("file")); }), HasSubstr("is a file"));
}

TEST_F(UserFolders, SettingsStayBesideAProgramThatIsCarriedAbout) {
  fs::create_directories(file("stick/bin"));
  const fs::path bin = file("stick/bin");
  EXPECT_EQ(settings_folder(false, bin), user_folders().config);
  EXPECT_EQ(settings_folder(true, bin), bin / "afterglow-settings");
  put("stick/bin/portable", "");
  EXPECT_EQ(settings_folder(false, bin), bin / "afterglow-settings");
}

TEST_F(UserFolders, WhatComesWithTheProgramLiesBelowOrBesideItsFolder) {
  EXPECT_THAT(asset_folders("/opt/afterglow/bin"),
              ::testing::ElementsAre("/opt/afterglow/bin/share/afterglow", "/opt/afterglow/share/afterglow"));
  EXPECT_TRUE(program_folder().is_absolute());
}

}  // namespace
}  // namespace afterglow
