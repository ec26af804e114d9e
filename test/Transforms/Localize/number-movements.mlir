// RUN: tandem-opt %s --split-input-file --tandem-number-movements | FileCheck %s
// RUN: tandem-opt %s --split-input-file --tandem-number-movements --tandem-number-movements | FileCheck %s

module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  // CHECK-LABEL: func.func @step
  // CHECK-NEXT: spmd.all_gather {{.*}}nn.id = 5 : i64
  // CHECK-NEXT: nn.exp {{.*}}nn.id = 4 : i64
  // CHECK-NEXT: spmd.all_reduce {{.*}}nn.id = 6 : i64
  // CHECK-NEXT: spmd.local_slice %{{.*}} over ["data"] dim 0 : tensor
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = spmd.all_gather %x over ["data"] dim 0 : tensor<4xf32> -> tensor<8xf32>
    %1 = nn.exp %0 {nn.id = 4 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = spmd.all_reduce %1 over ["data"] : tensor<8xf32> -> tensor<8xf32>
    %3 = spmd.local_slice %2 over ["data"] dim 0 : tensor<8xf32> -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}

// -----

// Of a pipeline, in the actions and in what points run.
module attributes {spmd.mesh = #spmd.mesh<pipe = 2, data = 2>} {
  // CHECK: spmd.all_reduce {{.*}}nn.id = 1 : i64
  module @s0.F attributes {spmd.mesh = #spmd.mesh<pipe = 2, data = 2>} {
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.exp %x {nn.id = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = spmd.all_reduce %0 over ["data"] : tensor<4xf32> -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
  }
  // CHECK: sched.receive from 0 tag 3 microbatch 1 {nn.id = 2 : i64}
  func.func @p1() {
    %0 = sched.receive from 0 tag 3 microbatch 1 : tensor<4xf32>
    return
  }
}

// -----

// Where operators have no numbers, nothing has.
// CHECK-LABEL: func.func @bare
// CHECK-NEXT: spmd.all_reduce %arg0 over ["data"] : tensor
module attributes {spmd.mesh = #spmd.mesh<data = 2>} {
  func.func @bare(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = spmd.all_reduce %x over ["data"] : tensor<4xf32> -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
