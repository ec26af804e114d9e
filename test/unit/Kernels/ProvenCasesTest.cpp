//===- ProvenCasesTest.cpp - a kernel for every proven operator -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every operator has a case in the proof of rules (`../Reference/Cases.h`). The
// kernels of all cases give what the interpreter gives: a new operator needs no
// test of its kernel beside its proof. A library computes some, and `nn.either`
// is gone before kernels are made.
//
//===----------------------------------------------------------------------===//

#include "../Reference/Cases.h"
#include "KernelRunner.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/Host.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference::test;

/// A function `name` that is `op` on its arguments.
static void addFunction(OpBuilder &builder, Operation *op, StringRef name) {
  auto type =
      builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
  auto function = func::FuncOp::create(builder, op->getLoc(), name, type);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(function.addEntryBlock());
  Operation *copy = builder.clone(*op);
  copy->setOperands(function.getArguments());
  func::ReturnOp::create(builder, op->getLoc(), copy->getResults());
}

TEST(ProvenCases, HaveKernels) {
  std::unique_ptr<MLIRContext> context = tandem::test::makeContext();
  OpBuilder builder(context.get());
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(module->getBody());
  Generator generator(7);
  llvm::StringMap<std::unique_ptr<Instance>> instances;
  for (const Case &each : getCases()) {
    auto instance = std::make_unique<Instance>(*context, each, generator);
    if (isa<nn::LibraryOpInterface, nn::EitherOp>(instance->getOp()) ||
        nn::isHostCopy(instance->getOp()))
      continue;
    std::string name = "k" + std::to_string(instances.size());
    addFunction(builder, instance->getOp(), name);
    instances[name] = std::move(instance);
  }
  tandem::test::checkKernels(*module, [&](func::FuncOp function) {
    return instances[function.getName()]->makeOperands(generator);
  });
}
