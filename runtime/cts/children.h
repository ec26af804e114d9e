//===- children.h - tandem-run as processes of a job ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_CHILDREN_H
#define TANDEM_RT_CTS_CHILDREN_H

#include "core/socket.h"
#include "cts/small_step.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tandem::rt::cts {

using namespace std::chrono_literals;

/// A tandem-run that was started as one process of a job; killed with this.
class Child {
public:
  Child(const std::vector<std::string> &variables,
        const std::vector<std::string> &arguments,
        rlim_t memory = RLIM_INFINITY,
        const std::string &program = TANDEM_RUN) {
    int ends[2];
    if (pipe(ends) != 0)
      return;
    std::vector<const char *> argv = {"env"};
    for (const std::string &variable : variables)
      argv.push_back(variable.c_str());
    argv.push_back(program.c_str());
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    id = fork();
    if (id == 0) {
      dup2(ends[1], 1), dup2(ends[1], 2);
      close(ends[0]), close(ends[1]);
      rlimit limit{memory, memory};
      setrlimit(RLIMIT_AS, &limit);
      execvp("env", const_cast<char **>(argv.data()));
      _exit(127);
    }
    close(ends[1]);
    output = ends[0];
  }
  Child(Child &&other) noexcept
      : id(std::exchange(other.id, 0)), output(std::exchange(other.output, -1)),
        text(std::move(other.text)) {}
  ~Child() {
    if (id)
      finish(0s);
    if (output >= 0)
      close(output);
  }

  void signal(int number) const { kill(id, number); }

  /// Reads on until it has printed that.
  void readUntil(const std::string &word) {
    while (text.find(word) == std::string::npos && read(30s))
      ;
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }

  /// Its exit status, or -1 for a signal; killed after `limit`.
  int finish(std::chrono::milliseconds limit) {
    auto deadline = Clock::now() + limit;
    while (read(std::chrono::milliseconds(millisecondsUntil(deadline))))
      ;
    int status = 0;
    bool ended = false;
    while (!(ended = waitpid(id, &status, WNOHANG) == id) &&
           Clock::now() < deadline)
      std::this_thread::sleep_for(5ms);
    if (!ended) {
      signal(SIGKILL);
      waitpid(id, &status, 0);
    }
    id = 0;
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const std::string &getText() const { return text; }

private:
  bool read(std::chrono::milliseconds limit) {
    pollfd wait = {output, POLLIN, 0};
    char buffer[4096];
    if (poll(&wait, 1, int(limit.count())) != 1)
      return false;
    ssize_t count = ::read(output, buffer, sizeof buffer);
    if (count > 0)
      text.append(buffer, size_t(count));
    return count > 0;
  }

  pid_t id = 0;
  int output = -1;
  std::string text;
};

/// A port that nobody is given by chance: it stays bound, which who asks for
/// it by number, to listen, does not see.
class HeldPort {
public:
  HeldPort() : holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int on = 1;
    setsockopt(holder.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    EXPECT_EQ(
        ::bind(holder.get(), reinterpret_cast<sockaddr *>(&any), sizeof any),
        0);
  }
  int64_t port() const { return holder.port(); }

private:
  Socket holder;
};

class ProcessesTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "processes-" + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    for (int64_t ranks : {2, 4})
      write("p" + std::to_string(ranks), *finish(smallStep(ranks)));
    port = std::to_string(heldPort.port());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string at(const std::string &name) const { return folder + "/" + name; }
  void write(const std::string &name, const Bytes &bytes) {
    std::ofstream(at(name), std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()),
               std::streamsize(bytes.size()));
  }

  Child start(int64_t process, int64_t processes,
              const std::vector<std::string> &arguments,
              rlim_t memory = RLIM_INFINITY) {
    std::vector<std::string> all = {"RANK=" + std::to_string(process),
                                    "WORLD_SIZE=" + std::to_string(processes),
                                    "LOCAL_RANK=" + std::to_string(process),
                                    "MASTER_ADDR=127.0.0.1",
                                    "MASTER_PORT=" + port,
                                    "TANDEM_TIMEOUT=" + timeout};
    all.insert(all.end(), variables.begin(), variables.end());
    return Child(all, arguments, memory);
  }
  /// Whether processes of GPUs have two ranks each.
  static bool isJoint() { return std::getenv("TANDEM_CTS_JOINT"); }
  /// How many processes a Program of so many ranks has: with a GPU for each
  /// rank, or with two ranks of four on each.
  static int64_t processesFor(int64_t ranks) {
    return std::getenv("TANDEM_CTS_DEVICE") && !isJoint() ? ranks : 2;
  }
  std::vector<Child> startAll(int64_t processes,
                              const std::vector<std::string> &arguments) {
    std::vector<Child> children;
    for (int64_t process = 0; process < processes; ++process)
      children.push_back(start(process, processes, arguments));
    return children;
  }

  /// What it says after "error: ", within the time that it has.
  std::string errorOfEnd(Child &child) {
    EXPECT_EQ(child.finish(25s), 1) << child.getText();
    const char *kError = "tandem-run: error: ";
    size_t at = child.getText().find(kError);
    EXPECT_NE(at, std::string::npos) << child.getText();
    return at == std::string::npos
               ? ""
               : child.getText().substr(at + std::strlen(kError));
  }

  Watchdog watchdog{120};
  HeldPort heldPort;
  std::string folder, port;
  // Seconds. Where a test is of what happens before, it is longer than a
  // machine that is busy makes a process wait.
  std::string timeout = "30";
  std::vector<std::string> variables = {}; ///< More of them, "NAME=value".
};

/// The same on emulated GPUs, where the suite is given a device that has them.
class GpuProcessesTest : public ProcessesTest {
protected:
  void SetUp() override {
    if (!std::getenv("TANDEM_CTS_DEVICE"))
      GTEST_SKIP() << "TANDEM_CTS_DEVICE names no device with GPUs";
    ProcessesTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped())
      ProcessesTest::TearDown();
  }
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_CHILDREN_H
