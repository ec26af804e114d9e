// RUN: tandem-opt %s --tandem-split-strands --tandem-verify-duplexed | FileCheck %s
// RUN: tandem-opt %s --tandem-split-strands -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry strands --compare %s
// RUN: tandem-interpret %t.mlir --entry changes --compare %s
// RUN: tandem-interpret %t.mlir --entry axes --compare %s

#mesh = #spmd.mesh<time micro = 2, time outer = 2>
module attributes {spmd.mesh = #mesh} {
  // What is full over time is there once; an input is cut; a result that is
  // split over time is put together.
  // CHECK-LABEL: func.func @strands(
  // CHECK-SAME: %[[X:.*]]: tensor<4x2xf64> {{.*}}, %[[W:.*]]: tensor<2xf64>
  // CHECK-SAME: -> (tensor<4x2xf64>, tensor<2xf64>)
  func.func @strands(%x: tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<2xf64> {nn.role = #nn.role<parameter>, nn.name = "w"})
      -> (tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>, tensor<2xf64>) {
    // CHECK-NEXT: %[[E:.*]] = nn.exp %[[W]] : (tensor<2xf64>)
    %e = nn.exp %w : (tensor<2xf64>) -> tensor<2xf64>
    // CHECK-NEXT: %[[X0:.*]] = nn.slice %[[X]] {dim = 0 : i64, nn.strand = 0 : i64, start = 0 : i64, stop = 2 : i64}
    // CHECK-NEXT: %[[Y0:.*]] = nn.mul %[[X0]], %[[E]] {nn.strand = 0 : i64}
    // CHECK-NEXT: %[[X1:.*]] = nn.slice %[[X]] {dim = 0 : i64, nn.strand = 2 : i64, start = 2 : i64, stop = 4 : i64}
    // CHECK-NEXT: %[[Y1:.*]] = nn.mul %[[X1]], %[[E]] {nn.strand = 2 : i64}
    %y = nn.mul %x, %e : (tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>, tensor<2xf64>) -> tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>
    // CHECK-NEXT: nn.sum %[[Y0]]
    // CHECK-NEXT: nn.sum %[[Y1]]
    // CHECK-NEXT: %[[S:.*]] = nn.add
    %s = nn.sum %y {dims = array<i64: 0>} : (tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>) -> tensor<2xf64, #spmd.form<#mesh, micro: reduce>>
    %t = spmd.reform %s : tensor<2xf64, #spmd.form<#mesh, micro: reduce>> -> tensor<2xf64>
    // CHECK-NEXT: %[[Y:.*]] = nn.cat %[[Y0]], %[[Y1]] {dim = 0 : i64, spmd.change}
    // CHECK-NEXT: return %[[Y]], %[[S]]
    return %y, %t : tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>, tensor<2xf64>
  }

  // Every change of form over time.
  // CHECK-LABEL: func.func @changes
  func.func @changes(%x: tensor<4x2xf64> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4x2xf64>, tensor<4x2xf64>) {
    // full -> gather: slices
    // CHECK-NEXT: %[[A0:.*]] = nn.slice %arg0 {dim = 0 : i64, nn.strand = 0 : i64, spmd.change, start = 0 : i64, stop = 2 : i64}
    // CHECK-NEXT: %[[A1:.*]] = nn.slice %arg0 {dim = 0 : i64, nn.strand = 2 : i64, spmd.change, start = 2 : i64, stop = 4 : i64}
    %a = spmd.reform %x : tensor<4x2xf64> -> tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>
    // gather -> gather: joined, then cut
    // CHECK-NEXT: %[[B:.*]] = nn.cat %[[A0]], %[[A1]] {dim = 0 : i64, nn.join = "gather(0) -> gather(1)", spmd.change}
    // CHECK-NEXT: %[[B0:.*]] = nn.slice %[[B]] {dim = 1 : i64, nn.strand = 0
    // CHECK-NEXT: %[[B1:.*]] = nn.slice %[[B]] {dim = 1 : i64, nn.strand = 2
    %b = spmd.reform %a : tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>> -> tensor<4x2xf64, #spmd.form<#mesh, micro: gather(1)>>
    // gather -> full
    // CHECK-NEXT: %[[C:.*]] = nn.cat %[[B0]], %[[B1]] {dim = 1 : i64, nn.join = "gather(1) -> full", spmd.change}
    %c = spmd.reform %b : tensor<4x2xf64, #spmd.form<#mesh, micro: gather(1)>> -> tensor<4x2xf64>
    // full -> reduce: the first point keeps it
    // CHECK-NEXT: %[[Z:.*]] = nn.constant dense<0.000000e+00>
    %d = spmd.reform %c : tensor<4x2xf64> -> tensor<4x2xf64, #spmd.form<#mesh, micro: reduce>>
    // CHECK-NEXT: %[[F0:.*]] = nn.neg %[[C]] {nn.strand = 0
    // CHECK-NEXT: %[[F1:.*]] = nn.neg %[[Z]] {nn.strand = 2
    %f = nn.neg %d : (tensor<4x2xf64, #spmd.form<#mesh, micro: reduce>>) -> tensor<4x2xf64, #spmd.form<#mesh, micro: reduce>>
    // reduce -> gather: added up, then cut
    // CHECK-NEXT: %[[G:.*]] = nn.add %[[F0]], %[[F1]] {nn.join = "reduce -> gather(0)", spmd.change}
    // CHECK-NEXT: nn.slice %[[G]] {dim = 0 : i64, nn.strand = 0
    %g = spmd.reform %f : tensor<4x2xf64, #spmd.form<#mesh, micro: reduce>> -> tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>>
    %h = spmd.reform %g : tensor<4x2xf64, #spmd.form<#mesh, micro: gather(0)>> -> tensor<4x2xf64>
    return %c, %h : tensor<4x2xf64>, tensor<4x2xf64>
  }

  // Two time axes on one dimension: four strands, the first axis the major one.
  // CHECK-LABEL: func.func @axes
  func.func @axes(%x: tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>>) {
    // CHECK: nn.iota {nn.strand = 0 : i64}
    // CHECK: nn.constant dense<2>
    // CHECK: nn.constant dense<4>
    // CHECK: nn.constant dense<6>
    %i = nn.iota : tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>>
    // CHECK-COUNT-4: nn.add {{.*}}nn.strand
    %0 = nn.add %x, %i : (tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>>, tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>>) -> tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>>
    return %0 : tensor<8xi64, #spmd.form<#mesh, micro: gather(0), outer: gather(0)>>
  }
}
