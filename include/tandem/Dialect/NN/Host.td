//===- Host.td - values that wait in the host's memory -----*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_HOST_TD
#define TANDEM_DIALECT_NN_HOST_TD

include "tandem/Dialect/NN/NN.td"

class NN_HostCopyOp<string mnemonic>
    : NN_BuilderRuleOp<mnemonic, "Elementwise", "0"> {
  let flops = 0;
  let arguments = (ins NN_Tensor:$input);
}

def NN_ToHostOp : NN_HostCopyOp<"to_host"> {
  let summary = "the same tensor, in the host's memory";
  let description = [{
    ```mlir
    %away = nn.to_host %saved {nn.again, nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
    %back = nn.from_host %away {nn.again, nn.pass = #nn.pass<backward>} : (tensor<4xf32>) -> tensor<4xf32>
    %read = nn.either %saved, %back {nn.source = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    Stands behind the last reader of the tensor in the forward pass. Only
    `nn.from_host` reads the result. It lives from the import stage to the
    schedule, which makes it a copy on a queue of its own (`sched.to_host`).
  }];
}

def NN_FromHostOp : NN_HostCopyOp<"from_host"> {
  let summary = "the same tensor, back in the device's memory";
  let description = [{
    ```mlir
    %w = nn.from_host %parameter {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
    ```
    Its operand is the result of an `nn.to_host`, or a parameter that lies on the
    host between steps. It stands in front of its first reader of its pass. Each
    pass has at most one for a parameter; updates read the parameter itself. In a
    pipeline it is in the section of the parameter. The schedule makes it a copy
    that begins early (`sched.from_host`).
  }];
}

#endif // TANDEM_DIALECT_NN_HOST_TD
