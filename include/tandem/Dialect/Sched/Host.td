//===- Host.td - copies from and to the host ---------------*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_HOST_TD
#define TANDEM_DIALECT_SCHED_HOST_TD

include "tandem/Dialect/Sched/Sched.td"

class Sched_HostCopyOp<string mnemonic> : Tandem_Op<Sched_Dialect, mnemonic, [
    Pure, AllTypesMatch<["value", "copy"]>]> {
  let arguments = (ins AnyStaticShapeTensor:$value);
  let results = (outs AnyStaticShapeTensor:$copy);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Sched_FromHostOp : Sched_HostCopyOp<"from_host"> {
  let summary = "a copy, on the device, of a value in the host's memory";
  let description = [{
    Lives from `schedule` on, in a step of the first queue that copies. The value is an
    argument with `spmd.host`, or the result of a `sched.to_host`. An update may write
    its result into the buffer of the copy.

    In the function of a point of a pipeline, from `outline` on, it stands between
    runs, in front of the first one that reads a value that waits there.

    ```mlir
    %m, %e = sched.step on copy stage 3 strand 0 {
      %r = sched.from_host %moment : tensor<64xf32>
      sched.yield %r : tensor<64xf32>
    } : tensor<64xf32>
    ```
  }];
}

def Sched_ToHostOp : Sched_HostCopyOp<"to_host"> {
  let summary = "a copy, in the host's memory, of a value on the device";
  let description = [{
    Lives from `schedule` on, in a step of the second queue that copies. The step returns
    the copy. It is the new value of an argument with `spmd.host` and lies there, or it
    waits there for a `sched.from_host`. In the function of a point of a pipeline it
    stands behind the run that makes the value, from `outline` on.
  }];
}

#endif // TANDEM_DIALECT_SCHED_HOST_TD
