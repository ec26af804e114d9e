// RUN: tandem-opt %s "--pass-pipeline=builtin.module(func.func(tandem-mark-joins{report=true}))" --verify-diagnostics | FileCheck %s

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // A strand needs the sum: they join. Nothing but the result needs the other.
  // CHECK-LABEL: func.func @joins
  func.func @joins(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    // expected-remark @+2 {{strands join here: reduce -> full}}
    // CHECK: nn.add %arg0, %arg1 {nn.join = "reduce -> full"}
    %0 = nn.add %x, %y {nn.join = "reduce -> full"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
    %2 = nn.mul %1, %x {nn.strand = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.add %{{.*}}, %arg1 : (
    %3 = nn.add %2, %y {nn.join = "reduce -> full"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %2, %3 : tensor<4xf32>, tensor<4xf32>
  }
}
