// RUN: tandem-opt %s --tandem-apply-signatures --split-input-file --verify-diagnostics | FileCheck %s

// A copy that the plan keeps is made once for both passes; one that it makes of
// another copy begins there.

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @kept(
  // CHECK-SAME: %[[X:.*]]: tensor<4x4xf32>, %[[W:.*]]: tensor<4x4xf32, #spmd.form<#mesh, data: gather(0)>>)
  func.func @kept(%x: tensor<4x4xf32>,
                  %w: tensor<4x4xf32> {spmd.form = #spmd.form<#mesh, data: gather(0)>, spmd.copies = ["0 forward kept gather(0), full -> full, full"]})
      -> tensor<4x4xf32> {
    // CHECK-NEXT: %[[F:.*]] = spmd.reform %[[W]] {nn.pass = "forward"}
    // CHECK-NEXT: nn.mul %[[X]], %[[F]]
    // CHECK-NEXT: nn.sub %{{.*}}, %[[F]]
    // CHECK-NEXT: return
    %0 = nn.mul %x, %w {nn.pass = "forward", spmd.signature = ["full, full -> full", "full, full -> full"]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.sub %0, %w {nn.pass = "backward", spmd.signature = ["full, full -> full", "full, full -> full"]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }

  // CHECK-LABEL: func.func @derived(
  // CHECK-SAME: %[[X:.*]]: tensor<4x4xf32>)
  func.func @derived(%x: tensor<4x4xf32>) -> (tensor<4x4xf32> {spmd.form = #spmd.form<#mesh, data: gather(1)>}) {
    // CHECK: %[[Y:.*]] = nn.neg
    // CHECK: %[[F:.*]] = spmd.reform %[[Y]] {nn.pass = "forward"} : tensor<4x4xf32, #spmd.form<#mesh, data: gather(0)>> -> tensor<4x4xf32>
    // CHECK: nn.abs %[[F]]
    // CHECK-NEXT: %[[G:.*]] = spmd.reform %[[F]] {nn.pass = "forward"} : tensor<4x4xf32> -> tensor<4x4xf32, #spmd.form<#mesh, data: gather(1)>>
    // CHECK-NEXT: nn.exp %[[G]]
    %y = nn.neg %x {nn.pass = "forward", spmd.copies = ["0 forward full, full -> gather(1), full"], spmd.signature = ["gather(0) -> gather(0)", "full -> full"]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %0 = nn.abs %y {nn.pass = "forward", spmd.signature = ["full -> full", "full -> full"]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.exp %y {nn.pass = "forward", spmd.signature = ["gather(1) -> gather(1)", "full -> full"]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

#mesh = #spmd.mesh<data = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{has the copy "0 forward full", expected 'RESULT PASS [kept] FORMS -> FORMS' with a form per axis of #spmd.mesh<data = 2>}}
  func.func @step(%x: tensor<4xf32> {spmd.copies = ["0 forward full"]}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
