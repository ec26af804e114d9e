// RUN: tandem-opt %s --tandem-verify-duplexed --split-input-file --verify-diagnostics

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  // expected-error @+1 {{argument 0 has the form #spmd.form<#spmd.mesh<time micro = 2>, micro: gather(0)>, expected none}}
  func.func @argument(%x: tensor<8xf32, #spmd.form<#mesh, micro: gather(0)>>) {
    return
  }
}

// -----

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @value() {
    // expected-error @+1 {{result 0 has the form #spmd.form<#spmd.mesh<time micro = 2>, micro: gather(0)>, expected none}}
    %0 = nn.iota : tensor<8xi64, #spmd.form<#mesh, micro: gather(0)>>
    return
  }
}

// -----

#mesh = #spmd.mesh<time micro = 2>
module attributes {spmd.mesh = #mesh} {
  func.func @strand(%x: tensor<8xf32>) {
    // expected-error @+1 {{has the strand 2, expected one of 2 from 0 on}}
    %0 = nn.neg %x {nn.strand = 2 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}
