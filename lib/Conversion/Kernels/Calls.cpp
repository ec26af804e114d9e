//===- Calls.cpp - kernels that call kernels ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Calls.h"

using namespace mlir;
using namespace tandem;

/// `left` are the results that no call before `op` has made.
static LogicalResult
verifyCall(Operation &op, ValueRange left,
           const llvm::StringMap<CompiledKernel> &kernels) {
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return op.emitError("operator '")
           << op.getName() << "' in a kernel of calls, expected calls alone";
  auto kernel = kernels.find(call.getCallee());
  if (kernel == kernels.end() || !kernel->second.axes.empty() ||
      !kernel->second.ordinals.empty())
    return op.emitError("calls @")
           << call.getCallee() << ", expected a kernel above that takes no "
           << "coordinate and draws nothing";
  unsigned count = call.getNumResults();
  if (llvm::all_of(call.getOperands(), llvm::IsaPred<BlockArgument>) &&
      left.size() >= count && left.take_front(count) == call.getResults())
    return success();
  return op.emitError("in a kernel of calls, expected arguments of the kernel "
                      "as operands, and results to be returned in order");
}

FailureOr<std::vector<KernelCall>>
tandem::getKernelCalls(func::FuncOp kernel,
                       const llvm::StringMap<CompiledKernel> &kernels) {
  std::vector<KernelCall> calls;
  Block &body = kernel.front();
  if (body.getOps<func::CallOp>().empty())
    return calls;
  unsigned output = kernel.getNumArguments();
  ValueRange left = body.getTerminator()->getOperands();
  for (Operation &op : body.without_terminator()) {
    if (failed(verifyCall(op, left, kernels)))
      return failure();
    auto callee = cast<func::CallOp>(op).getCallee();
    KernelCall &call = calls.emplace_back();
    call.symbol = kernels.at(callee).symbol;
    for (Value operand : op.getOperands())
      call.buffers.push_back(cast<BlockArgument>(operand).getArgNumber());
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      call.buffers.push_back(output++);
    left = left.drop_front(op.getNumResults());
  }
  if (!left.empty())
    return kernel.emitError("returns more than its calls make");
  return calls;
}

std::string tandem::printCalls(ArrayRef<KernelCall> calls) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (const KernelCall &call : calls) {
    stream << call.symbol;
    for (unsigned buffer : call.buffers)
      stream << ' ' << buffer;
    stream << '\n';
  }
  return text;
}
