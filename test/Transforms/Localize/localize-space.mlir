// RUN: tandem-opt %s --tandem-localize-space --tandem-verify-localized | FileCheck %s
// RUN: tandem-opt %s --tandem-localize-space -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry collectives --compare %s
// RUN: tandem-interpret %t.mlir --entry positions --compare %s
// RUN: tandem-interpret %t.mlir --entry rows --compare %s
// RUN: tandem-interpret %t.mlir --entry rows_backward --compare %s
// RUN: tandem-opt %t.mlir --tandem-duplex -o %t.duplex.mlir
// RUN: tandem-interpret %t.duplex.mlir --entry collectives --compare %s
// RUN: tandem-interpret %t.duplex.mlir --entry positions --compare %s
// RUN: tandem-interpret %t.duplex.mlir --entry rows --compare %s
// RUN: tandem-interpret %t.duplex.mlir --entry rows_backward --compare %s

#mesh = #spmd.mesh<data = 2, model = 2, one = 1, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // Every change of form over space; each with its time form, in which it
  // happens per microbatch. Nothing happens on an axis of one point.
  // CHECK-LABEL: func.func @collectives(
  // CHECK-SAME: %arg0: tensor<8x8xf64, #gather0_micro> {{{.*}}spmd.layout = tensor<16x8xf64, #gather0_data_gather0_micro>}
  // CHECK-SAME: -> (tensor<8x4xf64, #gather0_micro> {spmd.layout = tensor<16x8xf64, #gather0_data_gather1_model_gather0_micro>}
  func.func @collectives(%x: tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x"})
      -> (tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), model: gather(1), micro: gather(0)>>, tensor<8xf64>, tensor<8xf64, #spmd.form<#mesh, data: gather(0)>>, tensor<16x8xf64, #spmd.form<#mesh, micro: gather(0)>>) {
    // CHECK: spmd.local_slice %arg0 over ["model"] dim 1 {spmd.change} : tensor<8x8xf64, #gather0_micro> -> tensor<8x4xf64
    %0 = spmd.reform %x : tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>> -> tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), model: gather(1), micro: gather(0)>>
    // CHECK: spmd.all_gather %arg0 over ["data"] dim 0 {spmd.change} : tensor<8x8xf64, {{.*}} -> tensor<16x8xf64
    %1 = spmd.reform %x : tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>> -> tensor<16x8xf64, #spmd.form<#mesh, micro: gather(0)>>
    // CHECK: %[[T:.*]] = spmd.all_to_all %arg0 over ["data"] split 1 concat 0 {spmd.change} : tensor<8x8xf64, {{.*}} -> tensor<16x4xf64
    // CHECK-NOT: spmd.reform %[[T]]
    %2 = spmd.reform %x : tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>> -> tensor<16x8xf64, #spmd.form<#mesh, data: gather(1), micro: gather(0)>>
    %3 = spmd.reform %2 : tensor<16x8xf64, #spmd.form<#mesh, data: gather(1), micro: gather(0)>> -> tensor<16x8xf64, #spmd.form<#mesh, data: gather(1), one: gather(1), micro: gather(0)>>
    // CHECK: spmd.all_to_all %[[T]] over ["data"] split 0 concat 1
    %4 = spmd.reform %2 : tensor<16x8xf64, #spmd.form<#mesh, data: gather(1), micro: gather(0)>> -> tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>
    %5 = nn.sum %4 {dims = array<i64: 0>} : (tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<8xf64, #spmd.form<#mesh, data: reduce, micro: reduce>>
    // CHECK: spmd.reform %{{.*}} : tensor<8xf64, #reduce_micro> -> tensor<8xf64>
    %6 = spmd.reform %5 : tensor<8xf64, #spmd.form<#mesh, data: reduce, micro: reduce>> -> tensor<8xf64, #spmd.form<#mesh, data: reduce>>
    // CHECK: spmd.reduce_scatter %{{.*}} over ["data"] dim 0 {spmd.change} : tensor<8xf64> -> tensor<4xf64>
    %7 = spmd.reform %6 : tensor<8xf64, #spmd.form<#mesh, data: reduce>> -> tensor<8xf64, #spmd.form<#mesh, data: gather(0)>>
    // CHECK: %[[R:.*]] = spmd.all_reduce %{{.*}} over ["data"] {spmd.change} : tensor<8xf64> -> tensor<8xf64>
    %8 = spmd.reform %6 : tensor<8xf64, #spmd.form<#mesh, data: reduce>> -> tensor<8xf64>
    // CHECK: spmd.keep_first %[[R]] over ["model"]
    %9 = spmd.reform %8 : tensor<8xf64> -> tensor<8xf64, #spmd.form<#mesh, model: reduce>>
    %10 = spmd.reform %9 : tensor<8xf64, #spmd.form<#mesh, model: reduce>> -> tensor<8xf64>
    return %0, %10, %7, %1 : tensor<16x8xf64, #spmd.form<#mesh, data: gather(0), model: gather(1), micro: gather(0)>>, tensor<8xf64>, tensor<8xf64, #spmd.form<#mesh, data: gather(0)>>, tensor<16x8xf64, #spmd.form<#mesh, micro: gather(0)>>
  }

  // Positions: a device has a block of every microbatch.
  // CHECK-LABEL: func.func @positions
  func.func @positions() -> (tensor<16xi64, #spmd.form<#mesh, data: gather(0), model: gather(0), micro: gather(0)>>, tensor<8xi64, #spmd.form<#mesh, model: gather(0)>>, tensor<4xi64, #spmd.form<#mesh, micro: gather(0)>>, tensor<4x2xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) {
    // CHECK: %[[P:.*]] = nn.iota : tensor<2xi64, #gather0_micro>
    // CHECK: %[[B:.*]] = nn.iota : tensor<2xi64>
    // CHECK: spmd.coordinate "data"
    // CHECK: spmd.coordinate "model"
    // CHECK: nn.reshape %{{.*}} -> tensor<4xi64, #gather0_micro>
    %0 = nn.iota : tensor<16xi64, #spmd.form<#mesh, data: gather(0), model: gather(0), micro: gather(0)>>
    // CHECK: nn.iota : tensor<4xi64>
    // CHECK-NEXT: spmd.coordinate "model"
    %1 = nn.iota : tensor<8xi64, #spmd.form<#mesh, model: gather(0)>>
    // CHECK: nn.iota : tensor<4xi64, #gather0_micro>
    %2 = nn.iota : tensor<4xi64, #spmd.form<#mesh, micro: gather(0)>>
    // CHECK: nn.constant dense<2.500000e+00> : tensor<2x2xf32> -> tensor<2x2xf32, #gather0_micro>
    %3 = nn.constant dense<2.5> : tensor<4x2xf32> -> tensor<4x2xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>
    return %0, %1, %2, %3 : tensor<16xi64, #spmd.form<#mesh, data: gather(0), model: gather(0), micro: gather(0)>>, tensor<8xi64, #spmd.form<#mesh, model: gather(0)>>, tensor<4xi64, #spmd.form<#mesh, micro: gather(0)>>, tensor<4x2xf32, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>
  }

  // Split rows: a shard gives zeros for what it does not hold, and asks for the
  // index itself, an error at run time, where no shard holds it.
  // CHECK-LABEL: func.func @rows
  func.func @rows(%w: tensor<16x4xf64, #spmd.form<#mesh, data: gather(0), model: gather(0)>>, %v: tensor<16x4xf64, #spmd.form<#mesh, model: gather(0), micro: gather(0)>>)
      -> (tensor<8x4xf64>, tensor<8x4xf64>) {
    %p = nn.iota : tensor<8xi64>
    %c = nn.constant dense<5> : tensor<i64> -> tensor<i64>
    %n = nn.constant dense<16> : tensor<i64> -> tensor<i64>
    %m = nn.mul %p, %c : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
    %i = nn.remainder %m, %n : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
    // CHECK: %[[SAFE:.*]] = nn.select
    // CHECK-NEXT: %[[I:.*]] = nn.select %{{.*}}, %[[SAFE]]
    // CHECK-NEXT: nn.embedding %arg0, %[[I]] : (tensor<4x4xf64>, tensor<8xi64>) -> tensor<8x4xf64>
    %0 = nn.embedding %w, %i : (tensor<16x4xf64, #spmd.form<#mesh, data: gather(0), model: gather(0)>>, tensor<8xi64>) -> tensor<8x4xf64, #spmd.form<#mesh, data: reduce, model: reduce>>
    %1 = spmd.reform %0 : tensor<8x4xf64, #spmd.form<#mesh, data: reduce, model: reduce>> -> tensor<8x4xf64, #spmd.form<#mesh, model: reduce>>
    %2 = spmd.reform %1 : tensor<8x4xf64, #spmd.form<#mesh, model: reduce>> -> tensor<8x4xf64>
    // With time: each microbatch has its own rows on this device.
    // CHECK: nn.floor_divide
    // CHECK: nn.embedding %arg1, %{{.*}} -> tensor<8x4xf64, #reduce_micro>
    %3 = nn.embedding %v, %i : (tensor<16x4xf64, #spmd.form<#mesh, model: gather(0), micro: gather(0)>>, tensor<8xi64>) -> tensor<8x4xf64, #spmd.form<#mesh, model: reduce, micro: reduce>>
    %4 = spmd.reform %3 : tensor<8x4xf64, #spmd.form<#mesh, model: reduce, micro: reduce>> -> tensor<8x4xf64, #spmd.form<#mesh, model: reduce>>
    %5 = spmd.reform %4 : tensor<8x4xf64, #spmd.form<#mesh, model: reduce>> -> tensor<8x4xf64>
    return %2, %5 : tensor<8x4xf64>, tensor<8x4xf64>
  }

  // CHECK-LABEL: func.func @rows_backward
  func.func @rows_backward(%g: tensor<8x4xf64, #spmd.form<#mesh, micro: gather(0)>> {nn.role = #nn.role<input>, nn.name = "g"}, %h: tensor<8x4xf64>)
      -> (tensor<16x4xf64, #spmd.form<#mesh, data: gather(0)>>, tensor<16x4xf64, #spmd.form<#mesh, model: gather(0), micro: gather(0)>>) {
    %p = nn.iota : tensor<8xi64>
    %c = nn.constant dense<5> : tensor<i64> -> tensor<i64>
    %n = nn.constant dense<16> : tensor<i64> -> tensor<i64>
    %m = nn.mul %p, %c : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
    %i = nn.remainder %m, %n : (tensor<8xi64>, tensor<i64>) -> tensor<8xi64>
    %j = spmd.reform %i : tensor<8xi64> -> tensor<8xi64, #spmd.form<#mesh, micro: gather(0)>>
    // CHECK: nn.embedding_backward %{{.*}} -> tensor<8x4xf64, #reduce_micro>
    %0 = nn.embedding_backward %g, %j : (tensor<8x4xf64, #spmd.form<#mesh, micro: gather(0)>>, tensor<8xi64, #spmd.form<#mesh, micro: gather(0)>>) -> tensor<16x4xf64, #spmd.form<#mesh, micro: reduce>>
    %1 = nn.embedding_backward %g, %j : (tensor<8x4xf64, #spmd.form<#mesh, micro: gather(0)>>, tensor<8xi64, #spmd.form<#mesh, micro: gather(0)>>) -> tensor<16x4xf64, #spmd.form<#mesh, data: gather(0), micro: reduce>>
    %2 = spmd.reform %1 : tensor<16x4xf64, #spmd.form<#mesh, data: gather(0), micro: reduce>> -> tensor<16x4xf64, #spmd.form<#mesh, data: gather(0)>>
    %3 = nn.embedding_backward %h, %i : (tensor<8x4xf64>, tensor<8xi64>) -> tensor<16x4xf64, #spmd.form<#mesh, model: gather(0), micro: gather(0)>>
    return %2, %3 : tensor<16x4xf64, #spmd.form<#mesh, data: gather(0)>>, tensor<16x4xf64, #spmd.form<#mesh, model: gather(0), micro: gather(0)>>
  }
}
