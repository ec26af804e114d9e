//===- strangers_test.cpp - connections of strangers ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/mesh.h"
#include "core/control_server.h"
#include "core/secret.h"
#include "cts/fabrics.h"
#include "cts/support.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

using namespace std::chrono_literals;

class StrangersTest : public testing::Test {
protected:
  static Deadline soon() { return Clock::now() + 10s; }

  static Socket knock(int64_t port) {
    Expected<Socket> made = Socket::connect("127.0.0.1", port, soon());
    EXPECT_OK(made.status());
    return std::move(*made);
  }

  /// Whether the other end closes the connection.
  static bool isClosed(const Socket &socket) {
    std::string bytes;
    Deadline deadline = soon();
    return !socket.read(1 << 20, deadline, bytes) && Clock::now() < deadline;
  }

  Watchdog watchdog{60};
};

void expectThatTheJobGoesOn(Controls &controls) {
  inProcesses(int64_t(controls.size()), [&](int64_t process) {
    Control &own = *controls[size_t(process)];
    EXPECT_OK(own.exchange("number", std::to_string(process)).status());
  });
}

//===----------------------------------------------------------------------===//
// Proofs
//===----------------------------------------------------------------------===//

std::string hexOf(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

/// As Python's hashlib.blake2b has it.
TEST(KeyedHash, IsBlake2b) {
  Key key = keyOf(kSecret);
  EXPECT_EQ(hexOf(key),
            "36e1fe14af9294d5ed6c540d7094f7c9a6bb512d46c75155d7d9c780f3f88d68");
  EXPECT_EQ(hexOf(keyedHash(key, "text")),
            "15594a269649c7888ddf89b0789cedc6825146546439aaa1dd16025448c9f1b8");
  EXPECT_NE(makeNonce(), makeNonce());
  EXPECT_EQ(makeSecret().size(), 64u);
}

struct Pair {
  Socket a, b;
};

Pair makePair() {
  int both[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both), 0);
  return {Socket(both[0]), Socket(both[1])};
}

/// What a sealed socket has sent, for others to send again.
std::string sealedBytes(const Key &key,
                        std::initializer_list<const char *> texts) {
  Pair pair = makePair();
  pair.a.seal(key, key);
  for (const char *text : texts)
    pair.a.send(text, Clock::now() + 1s);
  std::string bytes;
  pair.b.readSome(4096, bytes);
  return bytes;
}

TEST_F(StrangersTest, SealedMessagesCannotBeChangedOrSentAgain) {
  Key key = keyOf(kSecret), other = keyOf("other");
  auto received = [&](const std::string &bytes) {
    Pair pair = makePair();
    pair.b.seal(other, key);
    EXPECT_TRUE(pair.a.write(bytes, soon()));
    std::vector<std::string> messages;
    bool open = pair.b.receive(messages);
    return open ? int(messages.size()) : -1;
  };
  std::string one = sealedBytes(key, {"one"}),
              two = sealedBytes(key, {"one", ""});
  EXPECT_EQ(received(one), 1);
  EXPECT_EQ(received(two), 2);
  EXPECT_EQ(received(two.substr(0, two.size() - 1)), 1);
  EXPECT_EQ(received(one + one), -1) << "a message that was sent before";
  EXPECT_EQ(received(sealedBytes(other, {"one"})), -1);
  for (size_t at = 4; at < one.size(); ++at) {
    std::string changed = one;
    changed[at] ^= 1;
    EXPECT_EQ(received(changed), -1) << at;
  }
}

TEST_F(StrangersTest, NoLengthIsBelieved) {
  Pair pair = makePair();
  EXPECT_TRUE(pair.a.write(std::string(4, '\xff'), soon()));
  std::vector<std::string> messages;
  EXPECT_FALSE(pair.b.receive(messages));
}

/// Who sends without an end does not hold up its reader.
TEST_F(StrangersTest, OneCallReadsAMegabyteAtMost) {
  Pair pair = makePair();
  std::atomic<bool> ends = false;
  std::thread sender([&] {
    std::string zeros(1 << 16, '\0');
    while (!ends && pair.a.write(zeros, Clock::now() + 2s))
      ;
  });
  std::vector<std::string> messages;
  for (int i = 0; i < 20; ++i) {
    messages.clear();
    EXPECT_TRUE(pair.b.receive(messages));
    EXPECT_LE(messages.size(), size_t(1 << 20) / 4);
    std::this_thread::sleep_for(1ms);
  }
  ends = true;
  sender.join();
}

//===----------------------------------------------------------------------===//
// At the port of a job
//===----------------------------------------------------------------------===//

/// Before a job is complete, and while it works.
TEST_F(StrangersTest, NothingThatTheySendIsReadByAJob) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  auto intrude = [&] {
    // Zeros were empty messages once, gigabytes of them.
    Socket zeros = knock(port);
    std::string megabyte(1 << 20, '\0');
    while (zeros.write(megabyte, Clock::now() + 2s))
      ;
    Socket length = knock(port);
    length.write(Packer().number(uint64_t(1) << 60).text(), soon());
    length.write(std::string(kAnswerBytes, 'x'), soon());
    EXPECT_TRUE(isClosed(length));
    // A Hello of rank 1, and of another world size, as the job's own.
    for (uint64_t size : {2, 7}) {
      Socket hello = knock(port);
      hello.send(Packer().number(0).number(1).number(size).string("it").text(),
                 soon());
      hello.write(std::string(kAnswerBytes, '\0'), soon());
      EXPECT_TRUE(isClosed(hello));
    }
    expectError(join(1, 2, port, 2s, {}, "of somebody else's job"),
                "process 0 of this job at 127.0.0.1 port " +
                    std::to_string(port) +
                    " has another secret, expected the same TANDEM_JOB_SECRET");
  };
  Controls controls{2};
  auto comes = [&](int64_t process) {
    auto made = Control::connect({.rank = process,
                                  .worldSize = 2,
                                  .masterPort = port,
                                  .secret = kSecret},
                                 process ? Listener() : std::move(*listener));
    EXPECT_OK(made.status());
    controls[size_t(process)] = *made;
  };
  std::thread first([&] { comes(0); });
  intrude();
  comes(1);
  first.join();
  for (auto &control : controls)
    control->open([] {});
  intrude();
  expectThatTheJobGoesOn(controls);
  EXPECT_FALSE(controls[1]->isStopped(0));
}

/// More than there is place for, who say nothing or a byte at a time.
TEST_F(StrangersTest, ACrowdThatOnlyWaitsKeepsNobodyOut) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  Controls controls{2};
  std::vector<Socket> crowd;
  std::thread first([&] {
    controls[0] = *Control::connect(
        {.worldSize = 2, .masterPort = port, .secret = kSecret},
        std::move(*listener));
  });
  for (size_t i = 0; i < 2 * Gate::kMaxStrangers; ++i) {
    crowd.push_back(knock(port));
    crowd.back().write("t", soon());
  }
  controls[1] = *Control::connect(
      {.rank = 1, .worldSize = 2, .masterPort = port, .secret = kSecret});
  first.join();
  EXPECT_TRUE(isClosed(crowd.front()));
  expectThatTheJobGoesOn(controls);
}

/// However often it says something.
TEST_F(StrangersTest, AProofHasItsTime) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  Gate gate(std::move(*listener), keyOf(kSecret), "test", 200ms);
  Socket slow = knock(port);
  auto begin = Clock::now();
  while (gate.numRefused() == 0 && Clock::now() < begin + 10s) {
    slow.write("t", Clock::now());
    EXPECT_TRUE(gate.admit().empty());
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(gate.numRefused(), 1u);
  EXPECT_EQ(gate.lastRefused(), "127.0.0.1");
  EXPECT_TRUE(isClosed(slow));
}

/// A process with another secret is not told from a stranger; those that miss
/// it say where strangers came from.
TEST_F(StrangersTest, WhoMissesAProcessSaysThatStrangersCame) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  inProcesses(2, [&](int64_t process) {
    expectError(
        join(process, 2, port, 1s, process ? Listener() : std::move(*listener),
             process ? "of somebody else's job" : kSecret),
        process ? "has another secret"
                : "1 of 2 processes came within 1000 ms, missing: 1; "
                  "connections without the secret of the job: 1, the last "
                  "from 127.0.0.1");
  });
}

TEST_F(StrangersTest, AJobHasASecret) {
  expectError(join(0, 2, 1, 2s, {}, ""), "the job has no secret");
}

//===----------------------------------------------------------------------===//
// Who takes the port first
//===----------------------------------------------------------------------===//

/// A stranger that listens where process 0 should.
class Impostor {
public:
  explicit Impostor(std::function<void(Socket &)> answer)
      : listener(std::move(*listenHere())), thread([this, answer] {
          for (Socket guest; !ends; std::this_thread::sleep_for(1ms))
            if ((guest = listener.accept()))
              answer(guest);
        }) {}
  ~Impostor() {
    ends = true;
    thread.join();
  }
  int64_t port() const { return listener.port(); }

private:
  std::atomic<bool> ends = false;
  Listener listener;
  std::thread thread;
};

TEST_F(StrangersTest, WhoTakesThePortGivesNobodyAProgram) {
  Exchange exchange{.purpose = kControlPurpose, .ofServer = makeNonce()};
  auto answerWith =
      [&](const std::function<std::string(std::string &)> &verdict) {
        return [&exchange, verdict](Socket &guest) {
          guest.write(greetingOf(exchange), soon());
          std::string answer;
          if (guest.read(kAnswerBytes, soon(), answer))
            guest.write(verdict(answer), soon());
        };
      };
  std::map<std::string, std::function<void(Socket &)>> answers = {
      {"zeros",
       [](Socket &guest) { guest.write(std::string(4096, '\0'), soon()); }},
      {"a service",
       [](Socket &guest) { guest.write(std::string(99, 'H'), soon()); }},
      {"accepts all", answerWith([](std::string &) {
         return "accepted" + std::string(32, 'x');
       })},
      {"mirror", answerWith([](std::string &answer) {
         return "accepted" + answer.substr(48);
       })},
      {"other purpose", answerWith([&](std::string &answer) {
         Exchange other{.purpose = "data", .ofServer = exchange.ofServer};
         bool isProven = false;
         std::string verdict = judge(answer, keyOf(kSecret), other, isProven);
         EXPECT_FALSE(isProven);
         return "accepted" + verdict.substr(8);
       })}};
  for (const auto &[name, answer] : answers) {
    SCOPED_TRACE(name);
    Impostor impostor(answer);
    expectError(join(1, 2, impostor.port(), 2s),
                "what listens at 127.0.0.1 port " +
                    std::to_string(impostor.port()) +
                    " is no process 0 of this job");
  }
  Impostor closes([](Socket &guest) { guest.close(); });
  expectError(join(1, 2, closes.port(), 300ms),
              "closes the connection, expected process 0 of this job");
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// Strangers at the port of a process' data never reach Gloo.
TEST_F(StrangersTest, TheyTakeNoPlaceOfAProcessOfTheMesh) {
  Controls controls = joinAll(3);
  std::vector<std::vector<Socket>> meshes(3);
  std::vector<Socket> strangers;
  auto intrude = [&] {
    for (const char *key : {"mesh/0", "mesh/1"}) {
      std::string place = *controls[2]->get(key);
      Unpacker fields(place);
      EXPECT_EQ(fields.string(), "127.0.0.1");
      strangers.push_back(knock(int64_t(fields.number())));
      strangers.back().write(std::string(1 << 16, '\0'), soon());
    }
  };
  inProcesses(3, [&](int64_t process) {
    if (process == 2)
      intrude();
    auto made = gloo::connectMesh(*controls[size_t(process)], "mesh");
    EXPECT_OK(made.status());
    meshes[size_t(process)] = std::move(*made);
  });
  for (int64_t from = 0; from < 3; ++from)
    for (int64_t to = 0; to < 3; ++to) {
      if (from == to)
        continue;
      std::string text = std::to_string(from) + std::to_string(to), got;
      EXPECT_TRUE(meshes[size_t(from)][size_t(to)].write(text, soon()));
      EXPECT_TRUE(meshes[size_t(to)][size_t(from)].read(2, soon(), got));
      EXPECT_EQ(got, text);
    }
}

TEST_F(StrangersTest, OnlyTheAddressThatIsNamedIsListenedTo) {
  Expected<Listener> named = Listener::open("127.0.0.1", 0, soon());
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->address(), "127.0.0.1");
  EXPECT_FALSE(
      Socket::connect("127.0.0.2", named->port(), Clock::now() + 100ms).ok());
  // Of a host in front of this one, as no address of it is.
  Expected<Listener> elsewhere = Listener::open("192.0.2.1", 0, soon());
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_NE(elsewhere->address(), "192.0.2.1");
  EXPECT_TRUE(Socket::connect("127.0.0.1", elsewhere->port(), soon()).ok());
}

//===----------------------------------------------------------------------===//
// The secret
//===----------------------------------------------------------------------===//

class SecretTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "tandem-XXXXXX");
    home = mkdtemp(name.data());
    variables["HOME"] = home;
  }
  void TearDown() override { std::filesystem::remove_all(home); }

  Expected<std::string> find() {
    return secretFrom([&](const char *name) {
      auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    });
  }
  std::string path() const { return home + "/.config/tandem/job-secret"; }

  std::string home;
  std::map<std::string, std::string> variables;
};

TEST_F(SecretTest, IsThatOfTheUserWhereNoneIsGiven) {
  Expected<std::string> made = find();
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->size(), 64u);
  EXPECT_EQ(*find(), *made);
  struct stat info{};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  auto files = std::filesystem::directory_iterator(home + "/.config/tandem");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "a part is left";
  variables["TANDEM_JOB_SECRET"] = "0123456789abcdef";
  EXPECT_EQ(*find(), "0123456789abcdef");
}

TEST_F(SecretTest, ProcessesThatMakeItAtOnceHaveOne) {
  std::vector<std::string> found(8);
  inProcesses(8, [&](int64_t i) { found[size_t(i)] = *find(); });
  EXPECT_EQ(found, std::vector<std::string>(8, found[0]));
}

TEST_F(SecretTest, IsRefusedWhereOthersMayKnowIt) {
  ASSERT_TRUE(find().ok());
  chmod(path().c_str(), 0640);
  expectError(find().status(), "' is open to other users, expected one that "
                               "only its owner reads: remove it");
  chmod(path().c_str(), 0600);
  std::ofstream(path()) << "short\n";
  expectError(find().status(), "' has 5 characters, expected at least 16");
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path().c_str(), 12345, 12345), 0);
    expectError(find().status(),
                "' is a file of user 12345, expected one of user 0");
  }
  std::filesystem::remove(path());
  std::ofstream(home + "/other") << std::string(64, 'a') << "\n";
  std::filesystem::create_symlink(home + "/other", path());
  expectError(find().status(), "cannot read '" + path());
}

TEST_F(SecretTest, IsAskedForWhereNoneCanBeKept) {
  variables["TANDEM_JOB_SECRET"] = "password";
  expectError(find().status(), "environment variable TANDEM_JOB_SECRET has 8 "
                               "characters, expected at least 16");
  variables = {{"HOME", "/proc/nowhere"}};
  expectError(find().status(), "cannot keep a secret in "
                               "'/proc/nowhere/.config/tandem/job-secret'");
  variables.clear();
  expectError(find().status(), "expected TANDEM_JOB_SECRET, the same in all "
                               "processes of the job");
}

} // namespace
} // namespace tandem::rt::cts
