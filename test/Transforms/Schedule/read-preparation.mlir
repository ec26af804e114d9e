// RUN: tandem-opt %s --tandem-schedule | FileCheck %s

// A slice of the batch is gathered, and also read where it is: it is computed in
// its turn, a stage before the collective, for each strand.

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64, spmd.layout = tensor<8xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>})
      -> (tensor<f32> {nn.role = #nn.role<loss>, nn.name = "loss", spmd.layout = tensor<f32>}) {
    // CHECK: sched.step on compute stage [[S0:[0-9]+]] strand 0
    // CHECK: nn.slice
    // CHECK: sched.step on compute stage [[S0]] strand 1
    // CHECK: nn.slice
    // CHECK: spmd.all_gather
    // CHECK: spmd.all_gather
    %s0 = nn.slice %x {dim = 0 : i64, start = 0 : i64, stop = 2 : i64, nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.change} : (tensor<4xf32>) -> tensor<2xf32>
    %s1 = nn.slice %x {dim = 0 : i64, start = 2 : i64, stop = 4 : i64, nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.change} : (tensor<4xf32>) -> tensor<2xf32>
    %c0 = nn.reshape %s0 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.change} : (tensor<2xf32>) -> tensor<2x1xf32>
    %c1 = nn.reshape %s1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.change} : (tensor<2xf32>) -> tensor<2x1xf32>
    %r0 = nn.reshape %s0 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.change} : (tensor<2xf32>) -> tensor<1x2xf32>
    %r1 = nn.reshape %s1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.change} : (tensor<2xf32>) -> tensor<1x2xf32>
    %g0 = spmd.all_gather %r0 over ["data"] dim 1 {nn.pass = #nn.pass<forward>, nn.strand = 0 : i64, spmd.change} : tensor<1x2xf32> -> tensor<1x4xf32>
    %g1 = spmd.all_gather %r1 over ["data"] dim 1 {nn.pass = #nn.pass<forward>, nn.strand = 1 : i64, spmd.change} : tensor<1x2xf32> -> tensor<1x4xf32>
    %all = nn.cat %g0, %g1 {dim = 1 : i64, nn.pass = #nn.pass<forward>, spmd.change} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
    %p0 = nn.mul %c0, %all {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<2x1xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    %p1 = nn.mul %c1, %all {nn.id = 0 : i64, nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<2x1xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    %t0 = nn.sum %p0 {dims = array<i64: 0, 1>, nn.id = 1 : i64, nn.pass = #nn.pass<forward>, nn.strand = 0 : i64} : (tensor<2x8xf32>) -> tensor<f32>
    %t1 = nn.sum %p1 {dims = array<i64: 0, 1>, nn.id = 1 : i64, nn.pass = #nn.pass<forward>, nn.strand = 1 : i64} : (tensor<2x8xf32>) -> tensor<f32>
    %t = nn.add %t0, %t1 {nn.pass = #nn.pass<forward>, spmd.change} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %loss = spmd.all_reduce %t over ["data"] {nn.pass = #nn.pass<forward>, spmd.change} : tensor<f32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
