//===- QueuesTest.cpp - schedules on three queues -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The number of queues is the module's: what a CPU has of them is nowhere in
// the passes. A schedule by hand is verified, interpreted, lowered, emitted and
// run; without one of its events each of these says so.
//
//===----------------------------------------------------------------------===//

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Conversion/Emit/Emit.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Pipelines/Pipelines.h"
#include "tandem/Reference/Interpreter.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem_rt/session.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;

namespace {

/// Two queues compute beside each other and beside a collective.
constexpr const char *kSchedule = R"(
#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh, sched.queues = [#sched.queue<compute>,
    #sched.queue<comm>, #sched.queue<compute[1]>]} {
  func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x", spmd.layout = tensor<4x4xf32>})
      -> (tensor<4x4xf32> {nn.role = #nn.role<output>, nn.name = "y", spmd.layout = tensor<4x4xf32>}) {
    %a, %ea = sched.step on compute stage 0 strand 0 {
      %0 = nn.exp %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %0 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    %b, %eb = sched.step on compute[1] stage 0 strand 0 {
      %0 = nn.matmul %x, %x {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %0 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    %c, %ec = sched.step on comm stage 1 strand 0 after(%ea) {
      %0 = spmd.all_reduce %a over ["data"] {nn.pass = #nn.pass<forward>} : tensor<4x4xf32> -> tensor<4x4xf32>
      sched.yield %0 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    %d, %ed = sched.step on compute[1] stage 1 strand 0 AFTER {
      %0 = nn.neg %c {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %0 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    %f, %ef = sched.step on compute stage 1 strand 0 LAST {
      %0 = nn.mul %b, %d {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = nn.add %0, %c {nn.pass = #nn.pass<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      sched.yield %1 : tensor<4x4xf32>
    } : tensor<4x4xf32>
    return %f : tensor<4x4xf32>
  }
})";

/// `schedule` with the events that its last two steps wait for.
std::string fill(StringRef after, StringRef last) {
  std::string text = kSchedule;
  for (auto [name, events] : {std::pair("AFTER", after), {"LAST", last}})
    text.replace(text.find(name), StringRef(name).size(), events.str());
  return text;
}

class Queues : public testing::Test {
protected:
  Queues() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      if (error.empty() &&
          diagnostic.getSeverity() == DiagnosticSeverity::Error)
        error = diagnostic.str();
    });
  }

  func::FuncOp read(const std::string &text) {
    error.clear();
    module = parseSourceString<ModuleOp>(text, &context);
    return module ? module->lookupSymbol<func::FuncOp>("step") : func::FuncOp();
  }

  LogicalResult verifySchedule() {
    PassManager manager(&context);
    manager.addNestedPass<func::FuncOp>(createVerifyScheduledPass());
    return manager.run(*module);
  }

  LogicalResult lower() {
    PassManager manager(&context);
    addStage(manager, *findStage("lower"));
    return manager.run(*module);
  }

  FailureOr<std::vector<reference::Tensor>> interpret(func::FuncOp step) {
    reference::Tensor x({4, 4}, Float32Type::get(&context));
    for (size_t i = 0; i < std::size(values); ++i)
      x.setDouble(i, values[i]);
    auto mesh = (*module)->getAttrOfType<spmd::MeshAttr>(spmd::kMeshAttrName);
    return reference::interpret(step, mesh, {x});
  }

  void expectError(const std::string &expected) {
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string error;
  float values[16] = {0.5f, -1, 0.25f, 2,    -0.75f, 1,  0.125f, 0,
                      1.5f, -2, 0.5f,  0.1f, 0.2f,   -1, -0.3f,  0.7f};
};

TEST_F(Queues, AreAsManyAsTheModuleSays) {
  func::FuncOp step = read(fill("after(%ec)", "after(%ed)"));
  ASSERT_TRUE(step) << error;
  ASSERT_TRUE(succeeded(verifySchedule())) << error;
  auto expected = interpret(step);
  ASSERT_TRUE(succeeded(expected)) << error;
  ASSERT_TRUE(succeeded(lower())) << error;
  auto program = emitProgram(*module, {});
  ASSERT_TRUE(succeeded(program)) << error;
  std::span<const uint8_t> file(
      reinterpret_cast<const uint8_t *>(program->bytes.data()),
      program->bytes.size());
  auto session = rt::Session::create(file);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto &queues = (*session)->program().queues;
  ASSERT_EQ(queues.size(), 3u);
  EXPECT_EQ(queues[1].name, "comm");
  EXPECT_EQ(queues[2].name, "compute[1]");
  EXPECT_EQ(queues[2].role, rt::QueueRole::Compute);
  rt::TensorView input{rt::ElementType::F32, {4, 4}, values};
  rt::Status status = (*session)->step(std::array{input});
  ASSERT_TRUE(status.ok()) << status.message();
  auto result = (*session)->getResult(0);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const auto *found = reinterpret_cast<const float *>(result->data.data());
  for (size_t i = 0; i < std::size(values); ++i)
    EXPECT_NEAR(found[i], (*expected)[0].getDouble(i), 1e-5) << i;
}

/// The last step reads what the second queue computes: no event says that it
/// is done.
TEST_F(Queues, AreOrderedByEventsOnly) {
  std::string racy = fill("after(%ec)", "after(%ec)");
  func::FuncOp step = read(racy);
  ASSERT_TRUE(step) << error;
  EXPECT_TRUE(failed(verifySchedule()));
  expectError("on 'compute' reads a value of stage 0, strand 0 on "
              "'compute[1]', but no awaited event says that it is done");
  step = read(racy);
  EXPECT_TRUE(failed(interpret(step)));
  expectError(
      "reads a value of a step of stage 0 on compute[1], but no awaited "
      "event says that it is done");
  step = read(racy);
  EXPECT_TRUE(failed(lower()));
  expectError("uses bytes of a buffer that another command uses at the same "
              "time: no event orders them");
}

/// The middle step reads a collective's result without its event.
TEST_F(Queues, OfEveryRoleAreAwaited) {
  func::FuncOp step = read(fill("", "after(%ec, %ed)"));
  ASSERT_TRUE(step) << error;
  EXPECT_TRUE(failed(verifySchedule()));
  expectError("on 'compute[1]' reads a value of stage 1, strand 0 on 'comm'");
  EXPECT_TRUE(failed(interpret(step)));
  EXPECT_TRUE(failed(lower()));
}

TEST_F(Queues, AreVerifiedByTheRuntimeAsWell) {
  func::FuncOp step = read(fill("after(%ec)", "after(%ed)"));
  ASSERT_TRUE(step && succeeded(lower())) << error;
  auto waits =
      module->lookupSymbol<func::FuncOp>("step").getOps<sched::WaitOp>();
  // Of the first queue, for the last step of the other one that computes.
  auto wait = llvm::find_if(
      waits, [](auto op) { return sched::str(op.getQueue()) == "compute"; });
  (*wait).erase();
  EXPECT_TRUE(failed(emitProgram(*module, {})));
  expectError("program is not valid");
}

} // namespace
