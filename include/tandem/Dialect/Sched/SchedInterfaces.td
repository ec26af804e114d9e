//===- SchedInterfaces.td - what all commands have in common ---*- tablegen -*-===//
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
    InterfaceMethod<"The buffers that the command writes, whole.",
                    "::llvm::SmallVector<::mlir::Value>", "getWrites">,
    InterfaceMethod<"The queue that runs it.", "::tandem::sched::Queue",
                    "getQueue">,
  ];
}

#endif // TANDEM_DIALECT_SCHED_INTERFACES_TD
