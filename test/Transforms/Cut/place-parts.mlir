// RUN: tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2,model=2 parts=model" | FileCheck %s
// RUN: tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2,model=2 parts=model,data" | FileCheck %s
// RUN: tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2,model=2 parts=model" --tandem-localize --tandem-verify-localized
// RUN: not tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2,model=2 parts=pipe" 2>&1 | FileCheck %s --check-prefix=PIPE
// RUN: not tandem-opt %s --tandem-place-sections="mesh=pipe=2,data=2,model=2 parts=expert" 2>&1 | FileCheck %s --check-prefix=NONE

// PIPE: error: parts names 'pipe', expected axes of pipe=2,data=2,model=2 with devices, but for that of the points
// NONE: error: parts names 'expert', expected axes of pipe=2,data=2,model=2 with devices, but for that of the points

#mesh = #spmd.mesh<data = 2, model = 2>
#rows = #spmd.form<#mesh, data: gather(0)>
// CHECK-DAG: #[[MESH:.*]] = #spmd.mesh<pipe = 2, data = 2, model = 2>
// CHECK-DAG: #[[AT0:[a-z0-9_]*]] = #spmd.form<#[[MESH]], pipe: at(0), data: gather(0)>
// CHECK-DAG: #[[AT1:[a-z0-9_]*]] = #spmd.form<#[[MESH]], pipe: at(1), data: gather(0)>
// CHECK-DAG: #[[PART0:[a-z0-9_]*]] = #spmd.form<#[[MESH]], pipe: at(0), data: gather(0), model: gather(1)>
// CHECK-DAG: #[[PART1:[a-z0-9_]*]] = #spmd.form<#[[MESH]], pipe: at(1), data: gather(0), model: gather(1)>
module attributes {spmd.mesh = #mesh, spmd.pipe = "pipe", spmd.sections = array<i64: 0, 1>} {
  func.func @step(%x: tensor<4x6xf64, #rows> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
      -> (tensor<4x6xf64, #rows> {nn.role = #nn.role<output>, nn.name = "y"}) {
    // A part is cut where it is made, and gathered where it is read, once for both readers.
    // CHECK: %[[A:.*]] = nn.exp %arg0 {{.*}}tensor<4x6xf64, #[[AT0]]>
    // CHECK-NEXT: %[[PART:.*]] = spmd.reform %[[A]] {{.*}}spmd.section = 0{{.*}} -> tensor<4x6xf64, #[[PART0]]>
    // CHECK: %[[SENT:.*]] = spmd.reform %[[PART]] {{.*}}spmd.section = 1{{.*}} -> tensor<4x6xf64, #[[PART1]]>
    // CHECK-NEXT: %[[WHOLE:.*]] = spmd.reform %[[SENT]] {{.*}}spmd.section = 1{{.*}} -> tensor<4x6xf64, #[[AT1]]>
    %a = nn.exp %x {nn.pass = #nn.pass<forward>, spmd.section = 0 : i64} : (tensor<4x6xf64, #rows>) -> tensor<4x6xf64, #rows>
    // CHECK-NEXT: %[[B:.*]] = nn.exp %[[WHOLE]]
    %b = nn.exp %a {nn.pass = #nn.pass<forward>, spmd.section = 1 : i64} : (tensor<4x6xf64, #rows>) -> tensor<4x6xf64, #rows>
    // CHECK-NEXT: nn.add %[[B]], %[[WHOLE]]
    %c = nn.add %b, %a {nn.pass = #nn.pass<forward>, spmd.section = 1 : i64} : (tensor<4x6xf64, #rows>, tensor<4x6xf64, #rows>) -> tensor<4x6xf64, #rows>
    return %c : tensor<4x6xf64, #rows>
  }
}
