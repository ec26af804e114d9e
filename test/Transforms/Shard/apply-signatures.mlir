// RUN: tandem-opt %s --tandem-apply-signatures | FileCheck %s

// A reform is made once per value, target and pass: the parameter is gathered
// for the forward pass (one reform, two readers), and again for the backward
// pass.

#mesh = #spmd.mesh<data = 2, model = 2>
module attributes {spmd.mesh = #mesh} {
  // CHECK-LABEL: func.func @passes(
  // CHECK-SAME: %[[X:.*]]: tensor<4x4xf32, {{.*}}, %[[W:.*]]: tensor<4x4xf32, #gather1_model>
  func.func @passes(%x: tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>},
                    %w: tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, model: gather(1)>>})
      -> (tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}) {
    // CHECK: %[[WF:.*]] = spmd.reform %[[W]] {nn.pass = #forward}
    // CHECK-NEXT: nn.mul %[[X]], %[[WF]]
    // CHECK-SAME: -> tensor<4x4xf32, #gather0_data>
    // CHECK-NOT: spmd.reform
    // CHECK: nn.add %{{.*}}, %[[WF]]
    // CHECK: %[[WB:.*]] = spmd.reform %[[W]] {nn.pass = #backward}
    // CHECK-NEXT: nn.sub %{{.*}}, %[[WB]]
    // CHECK-NEXT: return
    %0 = nn.mul %x, %w {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)", "full, full -> full">>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.add %0, %w {nn.pass = #nn.pass<forward>, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)", "full, full -> full">>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = nn.sub %1, %w {nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<signatures = <"gather(0), gather(0) -> gather(0)", "full, full -> full">>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }

  // What only the update needs is reformed right behind its producer.
  // CHECK-LABEL: func.func @gradient
  func.func @gradient(%x: tensor<4x4xf32> {spmd.plan = #spmd.plan<form = <#mesh, data: gather(0)>>}, %w: tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: %[[G:.*]] = nn.sum
    // CHECK-NEXT: %[[F:.*]] = spmd.reform %[[G]] {nn.pass = #backward}
    // CHECK-NEXT: nn.neg
    // CHECK-NEXT: nn.sub %{{.*}}, %[[F]]
    %g = nn.sum %x {dims = array<i64: 0>, nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<signatures = <"gather(0) -> reduce", "full -> full">>} : (tensor<4x4xf32>) -> tensor<4xf32>
    %y = nn.neg %x {nn.pass = #nn.pass<backward>, spmd.plan = #spmd.plan<signatures = <"gather(0) -> gather(0)", "full -> full">>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %0 = nn.sub %w, %g {nn.pass = #nn.pass<update>, spmd.plan = #spmd.plan<signatures = <"full, full -> full", "full, full -> full">>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
