//===- secret.cpp - secret of a job ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/secret.h"
#include "core/keyed_hash.h"
#include "core/text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem::rt {

namespace {
using Path = std::filesystem::path;

constexpr size_t kLeastCharacters = 16;
constexpr const char *kRemedy =
    ", expected TANDEM_JOB_SECRET, the same in all processes of the job";

Path pathFrom(const Environment &environment) {
  const char *home = environment("HOME");
  if (const char *base = environment("XDG_CONFIG_HOME"))
    return Path(base) / "tandem" / "job-secret";
  return home ? Path(home) / ".config" / "tandem" / "job-secret" : Path();
}

/// Of one line.
std::string readLine(int file) {
  char buffer[4096];
  ssize_t count = read(file, buffer, sizeof buffer);
  std::string_view text(buffer, size_t(std::max<ssize_t>(count, 0)));
  return std::string(text.substr(0, text.find('\n')));
}

/// Empty where there is no file.
Expected<std::string> readOwn(const Path &path) {
  int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT)
    return std::string();
  struct stat info{};
  if (file < 0 || fstat(file, &info) != 0)
    return errorOf("cannot read '", path.string(), "': ", std::strerror(errno),
                   kRemedy);
  bool isOwn = S_ISREG(info.st_mode) && info.st_uid == geteuid();
  bool isOpen = info.st_mode & (S_IRWXG | S_IRWXO);
  std::string secret = isOwn && !isOpen ? readLine(file) : "";
  close(file);
  if (!isOwn)
    return errorOf("'", path.string(), "' is a file of user ", info.st_uid,
                   ", expected one of user ", geteuid());
  if (isOpen)
    return errorOf("'", path.string(), "' is open to other users, expected ",
                   "one that only its owner reads: remove it, as they may know "
                   "it");
  if (secret.size() < kLeastCharacters)
    return errorOf("'", path.string(), "' has ", secret.size(),
                   " characters, expected at least ", kLeastCharacters,
                   ": remove it");
  return secret;
}

/// Where another process is first, its file stays.
Status writeOwn(const Path &path) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path().parent_path(),
                                      ignored);
  mkdir(path.parent_path().c_str(), S_IRWXU);
  std::string text = makeSecret() + "\n";
  Path part = concat(path.string(), ".", makeSecret().substr(0, 16));
  int file = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  S_IRUSR | S_IWUSR);
  bool isWritten =
      file >= 0 &&
      write(file, text.data(), text.size()) == ssize_t(text.size()) &&
      fsync(file) == 0;
  if (isWritten && link(part.c_str(), path.c_str()) != 0)
    isWritten = errno == EEXIST;
  int error = errno;
  if (file >= 0) {
    close(file);
    unlink(part.c_str());
  }
  if (isWritten)
    return Status::success();
  return errorOf("cannot keep a secret in '", path.string(),
                 "': ", std::strerror(error), kRemedy);
}
} // namespace

Expected<std::string> secretFrom(const Environment &environment) {
  if (const char *given = environment("TANDEM_JOB_SECRET")) {
    std::string secret = given;
    if (secret.size() < kLeastCharacters)
      return errorOf("environment variable TANDEM_JOB_SECRET has ",
                     secret.size(), " characters, expected at least ",
                     kLeastCharacters);
    return secret;
  }
  Path path = pathFrom(environment);
  if (path.empty())
    return errorOf("the job has no secret, and no home to keep one", kRemedy);
  Expected<std::string> own = readOwn(path);
  if (!own.ok() || !own->empty())
    return own;
  if (Status status = writeOwn(path); !status.ok())
    return status;
  return readOwn(path);
}

} // namespace tandem::rt
