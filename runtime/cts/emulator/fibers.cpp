//===- fibers.cpp - threads of a block ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A switch takes some 20 ns on x86-64, and a system call elsewhere.
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <memory>
#include <sys/mman.h>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace tandem::rt::cuda::emulated {

namespace {
constexpr size_t kStackBytes = 64 * 1024;

/// Stacks are kept for the next block.
class Stacks {
public:
  char *get(unsigned index) {
    while (stacks.size() <= index) {
      void *stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (stack == MAP_FAILED)
        std::abort();
      stacks.push_back(static_cast<char *>(stack));
    }
    return stacks[index];
  }
  ~Stacks() {
    for (char *stack : stacks)
      munmap(stack, kStackBytes);
  }

private:
  std::vector<char *> stacks;
};

struct Fiber;
void enter(Fiber *fiber);
} // namespace

#ifdef __x86_64__
extern "C" void tandemSwitchStack(void **save, void *load);
asm(R"(
.text
.local tandemSwitchStack
.type tandemSwitchStack, @function
tandemSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tandemSwitchStack, .-tandemSwitchStack
)");

namespace {
thread_local Fiber *starting = nullptr;
extern "C" void tandemEnterFiber() { enter(starting); }

struct Place {
  void *stack = nullptr;

  void prepare(char *base) {
    auto *top = reinterpret_cast<void **>(base + kStackBytes);
    *--top = nullptr; // where a caller would return to
    *--top = reinterpret_cast<void *>(&tandemEnterFiber);
    for (int i = 0; i < 6; ++i)
      *--top = nullptr;
    stack = top;
  }
};
void switchTo(Place &from, Place &to, Fiber *fiber) {
  starting = fiber;
  tandemSwitchStack(&from.stack, to.stack);
}
} // namespace
#else
namespace {
thread_local Fiber *starting = nullptr;
void enterContext() { enter(starting); }

struct Place {
  ucontext_t context;

  void prepare(char *base) {
    getcontext(&context);
    context.uc_stack.ss_sp = base;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, enterContext, 0);
  }
};
void switchTo(Place &from, Place &to, Fiber *fiber) {
  starting = fiber;
  swapcontext(&from.context, &to.context);
}
} // namespace
#endif

namespace {
struct Fiber {
  Place place;
  unsigned index = 0;
  bool isDone = false;
};

/// The block that this thread runs.
struct Round {
  const std::function<void(unsigned)> *body = nullptr;
  Place caller;
  Fiber *present = nullptr;
  bool left = false;
};
thread_local Round *current = nullptr;

void enter(Fiber *fiber) {
  (*current->body)(fiber->index);
  fiber->isDone = true;
  switchTo(fiber->place, current->caller, nullptr);
}
} // namespace

bool runFibers(unsigned count, const std::function<void(unsigned)> &body,
               const std::function<bool()> &nextRound) {
  static thread_local Stacks stacks;
  Round round;
  round.body = &body;
  current = &round;
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (unsigned i = 0; i < count; ++i) {
    fibers.push_back(std::make_unique<Fiber>());
    fibers.back()->index = i;
    fibers.back()->place.prepare(stacks.get(i));
  }
  std::vector<Fiber *> order;
  for (auto &fiber : fibers)
    order.push_back(fiber.get());
  bool goesOn = true;
  while (goesOn && !round.left) {
    // Two threads of a round run in either order.
    if (random()() % 2)
      std::reverse(order.begin(), order.end());
    size_t numDone = 0;
    for (Fiber *fiber : order) {
      round.present = fiber;
      if (!round.left)
        switchTo(round.caller, fiber->place, fiber);
      numDone += fiber->isDone;
    }
    goesOn = numDone == 0;
    if (!round.left && numDone != 0 && numDone != count)
      round.left = true; // some wait for what others do not come to
    if (goesOn && !round.left)
      goesOn = nextRound();
  }
  current = nullptr;
  return !round.left;
}

void yield() {
  Fiber *self = current->present;
  switchTo(self->place, current->caller, nullptr);
}

void leave() {
  current->left = true;
  yield();
  __builtin_unreachable();
}

} // namespace tandem::rt::cuda::emulated
