//===- SchedInterfaces.td - interfaces of commands ---------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_INTERFACES_TD
#define TANDEM_DIALECT_SCHED_INTERFACES_TD

include "mlir/IR/OpBase.td"

def CommandOpInterface : OpInterface<"CommandOpInterface"> {
  let cppNamespace = "::tandem::sched";
  let description = [{
    Work of one queue, on buffers. Commands of one queue run in the order of the
    text; queues wait for each other through `sched.record` and `sched.wait`.
  }];
  let methods = [
    InterfaceMethod<"The buffers that the command reads.",
                    "::llvm::SmallVector<::mlir::Value>", "getReads">,
    InterfaceMethod<[{
      The buffers that the command writes, whole, and that are its own while it
      runs.
      }], "::llvm::SmallVector<::mlir::Value>", "getWrites">,
    InterfaceMethod<"The queue that runs it.", "::tandem::sched::QueueAttr",
                    "getQueue">,
  ];
}

def LibraryCallOpInterface : OpInterface<"LibraryCallOpInterface"> {
  let cppNamespace = "::tandem::sched";
  let description = [{
    A call of a library on tensors, between the choice of the call and buffers:
    what is left of an `nn` operator with `LibraryOpInterface` once the views
    that the library follows are part of it. It stays out of kernels, and becomes
    one command.
  }];
  let methods = [
    InterfaceMethod<"The sizes of its loops, those that are summed included.",
                    "::llvm::SmallVector<int64_t>", "getLoopSizes">,
    InterfaceMethod<"Floating-point operations: two per iteration.", "int64_t",
                    "getFlops", (ins), [{}], [{
      int64_t flops = 2;
      for (int64_t size : $_op.getLoopSizes())
        flops *= size;
      return flops;
    }]>,
    InterfaceMethod<"Bytes of memory that the library needs meanwhile.",
                    "int64_t", "getWorkspaceBytes", (ins), [{}],
                    [{ return 0; }]>,
    InterfaceMethod<[{
      The operand whose buffer the first result takes, and whose value is gone
      then; null if it has a buffer of its own, as all others have.
      }], "::mlir::OpOperand *", "getOverwritten", (ins), [{}],
      [{ return nullptr; }]>,
    InterfaceMethod<[{
      Builds the command, given the buffers of the operands and of the results,
      and, if it has bytes, of the workspace.
      }], "void", "buildCommand",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::ValueRange":$results, "::mlir::Value":$workspace,
           "const ::tandem::sched::Place &":$place)>,
  ];
}

#endif // TANDEM_DIALECT_SCHED_INTERFACES_TD
