// RUN: tandem-opt %s --tandem-widen-sums | FileCheck %s
// RUN: tandem-opt %s --tandem-widen-sums -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry gradient --compare %s --tolerance 0.01

#mesh = #spmd.mesh<data = 2, time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @gradient
  // CHECK: %[[WIDE:.*]] = nn.convert %{{.*}} -> tensor<8xf32, #reduce_data_reduce_micro>
  // CHECK-NEXT: %[[SUM:.*]] = spmd.reform %[[WIDE]] {{.*}} -> tensor<8xf32>
  // CHECK-NEXT: return %[[SUM]]
  func.func @gradient(%x: tensor<16x8xbf16, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<8xf32> {
    %g = nn.sum %x {dims = array<i64: 0>, nn.pass = #nn.pass<backward>} : (tensor<16x8xbf16, #spmd.form<#mesh, data: gather(0), micro: gather(0)>>) -> tensor<8xbf16, #spmd.form<#mesh, data: reduce, micro: reduce>>
    %0 = spmd.reform %g {nn.pass = #nn.pass<backward>} : tensor<8xbf16, #spmd.form<#mesh, data: reduce, micro: reduce>> -> tensor<8xbf16>
    %1 = nn.convert %0 {nn.pass = #nn.pass<backward>} : (tensor<8xbf16>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }

  // Several changes of form stay behind it, as the last that adds terms does.
  // CHECK-LABEL: func.func @sequence
  // CHECK: nn.convert %{{.*}} -> tensor<8xf32, #reduce_data_reduce_micro>
  // CHECK-NEXT: spmd.reform {{.*}} -> tensor<8xf32, #gather0_data_reduce_micro>
  // CHECK-NEXT: spmd.reform {{.*}} -> tensor<8xf32, #reduce_micro>
  // CHECK-NOT: nn.convert
  func.func @sequence(%g: tensor<8xbf16, #spmd.form<#mesh, data: reduce, micro: reduce>>) -> tensor<8xf32, #spmd.form<#mesh, micro: reduce>> {
    %0 = spmd.reform %g {nn.pass = #nn.pass<backward>} : tensor<8xbf16, #spmd.form<#mesh, data: reduce, micro: reduce>> -> tensor<8xbf16, #spmd.form<#mesh, data: gather(0), micro: reduce>>
    %1 = spmd.reform %0 {nn.pass = #nn.pass<backward>} : tensor<8xbf16, #spmd.form<#mesh, data: gather(0), micro: reduce>> -> tensor<8xbf16, #spmd.form<#mesh, micro: reduce>>
    %2 = nn.convert %1 {nn.pass = #nn.pass<backward>} : (tensor<8xbf16, #spmd.form<#mesh, micro: reduce>>) -> tensor<8xf32, #spmd.form<#mesh, micro: reduce>>
    return %2 : tensor<8xf32, #spmd.form<#mesh, micro: reduce>>
  }

  // What is to be summed first is, and what is gathered is gathered in bf16.
  // CHECK-LABEL: func.func @first
  // CHECK: spmd.reform {{.*}}bf16
  // CHECK: nn.convert
  // CHECK: spmd.reform {{.*}}bf16
  // CHECK: nn.convert
  func.func @first(%g: tensor<8xbf16, #spmd.form<#mesh, data: reduce>>, %h: tensor<8xbf16, #spmd.form<#mesh, data: gather(0)>>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = spmd.reform %g {nn.pass = #nn.pass<backward>} : tensor<8xbf16, #spmd.form<#mesh, data: reduce>> -> tensor<8xbf16>
    %1 = nn.convert %0 {sums_first, nn.pass = #nn.pass<backward>} : (tensor<8xbf16>) -> tensor<8xf32>
    %2 = spmd.reform %h {nn.pass = #nn.pass<backward>} : tensor<8xbf16, #spmd.form<#mesh, data: gather(0)>> -> tensor<8xbf16>
    %3 = nn.convert %2 {nn.pass = #nn.pass<backward>} : (tensor<8xbf16>) -> tensor<8xf32>
    return %1, %3 : tensor<8xf32>, tensor<8xf32>
  }
}
