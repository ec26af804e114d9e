// RUN: tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2" | FileCheck %s
// RUN: tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2" --tandem-localize --tandem-verify-localized
// RUN: not tandem-opt %s --tandem-place-sections="mesh=data=2" 2>&1 | FileCheck %s --check-prefix=LACKS
// RUN: not tandem-opt %s --tandem-place-sections="mesh=pipe=1,data=2" 2>&1 | FileCheck %s --check-prefix=POINT

// LACKS: error: mesh data=2, expected that of the plan, data=2, with the axis that 'spmd.pipe' names
// POINT: error: a section lies on point 1, but axis 'pipe' has 1 points, from 0 on

#mesh = #spmd.mesh<data = 2>
#rows = #spmd.form<#mesh, data: gather(0)>
// CHECK-DAG: #[[MESH:.*]] = #spmd.mesh<pipe = 2, data = 2>
// CHECK-DAG: #[[AT0:[a-z0-9_]*]] = #spmd.form<#[[MESH]], pipe: at(0), data: gather(0)>
// CHECK-DAG: #[[AT1:[a-z0-9_]*]] = #spmd.form<#[[MESH]], pipe: at(1), data: gather(0)>
module attributes {spmd.mesh = #mesh, spmd.pipe = "pipe", spmd.sections = array<i64: 0, 1>} {
  func.func @step(%x: tensor<4x4xf64, #rows> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
      -> (tensor<4x4xf64, #rows> {nn.role = #nn.role<output>, nn.name = "y"}, tensor<f64> {nn.role = #nn.role<output>, nn.name = "n"}) {
    // What all points have is read where it is.
    // CHECK: %[[A:.*]] = nn.exp %arg0 {{.*}}tensor<4x4xf64, #[[AT0]]>
    %a = nn.exp %x {nn.pass = #nn.pass<forward>, spmd.section = 0 : i64} : (tensor<4x4xf64, #rows>) -> tensor<4x4xf64, #rows>
    // One transfer serves both readers.
    // CHECK: %[[SENT:.*]] = spmd.reform %[[A]] {{.*}}spmd.section = 1{{.*}} -> tensor<4x4xf64, #[[AT1]]>
    // CHECK: %[[B:.*]] = nn.exp %[[SENT]]
    %b = nn.exp %a {nn.pass = #nn.pass<forward>, spmd.section = 1 : i64} : (tensor<4x4xf64, #rows>) -> tensor<4x4xf64, #rows>
    // CHECK-NEXT: %[[C:.*]] = nn.add %[[B]], %[[SENT]]
    %c = nn.add %b, %a {nn.pass = #nn.pass<forward>, spmd.section = 1 : i64} : (tensor<4x4xf64, #rows>, tensor<4x4xf64, #rows>) -> tensor<4x4xf64, #rows>
    // A sum over points is a term on each of them; then one sum for all.
    %p = nn.sum %a {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, spmd.section = 0 : i64} : (tensor<4x4xf64, #rows>) -> tensor<f64, #spmd.form<#mesh, data: reduce>>
    %q = nn.sum %c {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>, spmd.section = 1 : i64} : (tensor<4x4xf64, #rows>) -> tensor<f64, #spmd.form<#mesh, data: reduce>>
    // CHECK: %[[S:.*]] = nn.add {{.*}} -> tensor<f64, #[[BOTH:[a-z0-9_]*]]>
    %s = nn.add %p, %q {nn.pass = #nn.pass<forward>} : (tensor<f64, #spmd.form<#mesh, data: reduce>>, tensor<f64, #spmd.form<#mesh, data: reduce>>) -> tensor<f64, #spmd.form<#mesh, data: reduce>>
    // CHECK: spmd.reform %[[S]] {{.*}}tensor<f64, #[[BOTH]]>
    %t = spmd.reform %s {nn.pass = #nn.pass<forward>} : tensor<f64, #spmd.form<#mesh, data: reduce>> -> tensor<f64>
    return %c, %t : tensor<4x4xf64, #rows>, tensor<f64>
  }
}
