// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{a plan has the stage -1, expected at least 0}}
module attributes {spmd.plan = #spmd.plan<stage = -1>} {
}

// -----

// expected-error @+1 {{found 'stages', expected as_wanted, joins or one of signatures, form, copies, waits, stage, slots, in_turn, seconds, latency, prices with a value}}
module attributes {spmd.plan = #spmd.plan<stages = 3>} {
}

// -----

// expected-error @+1 {{and as_wanted, expected one of the two}}
module attributes {spmd.plan = #spmd.plan<as_wanted, signatures = <"full -> full">>} {
}

// -----

// expected-error @+1 {{a plan counts 1 s with 2 s of latency, expected numbers from 0 on, and no more latency than seconds}}
module attributes {spmd.plan = #spmd.plan<seconds = 1.0, latency = 2.0>} {
}

// -----

// expected-error @+1 {{a plan counts -1 s with 0 s of latency}}
module attributes {spmd.plan = #spmd.plan<seconds = -1.0>} {
}

// -----

// expected-error @+1 {{found 'full, full -> full', expected 1 operands and 1 results}}
module attributes {spmd.plan = #spmd.plan<signatures = <"full -> full", "full, full -> full">>} {
}

// -----

// expected-error @+1 {{found 'full gather(0)', expected 'FORMS -> FORMS'}}
module attributes {spmd.plan = #spmd.plan<signatures = <"full gather(0)">>} {
}

// -----

// expected-error @+1 {{found '0 sideways full -> gather(0)', expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'}}
module attributes {spmd.plan = #spmd.plan<copies = [<"0 sideways full -> gather(0)">]>} {
}

// -----

// expected-error @+1 {{found 'forward full -> gather(0)', expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'}}
module attributes {spmd.plan = #spmd.plan<copies = [<"forward full -> gather(0)">]>} {
}

// -----

// expected-error @+1 {{found '0 forward full -> gather(0), full', expected 'RESULT PASS [kept] FORMS -> ... -> FORMS'}}
module attributes {spmd.plan = #spmd.plan<copies = [<"0 forward full -> gather(0), full">]>} {
}

// -----

// expected-error @+1 {{found '3/0 0.5', expected 'STAGE/STRAND SHARE, ... with shares that rise to 1'}}
module attributes {spmd.plan = #spmd.plan<slots = <"3/0 0.5">>} {
}

// -----

// expected-error @+1 {{prices have the slow-down 5.000000e-01 : f64, expected at least 1}}
module attributes {spmd.plan = #spmd.plan<prices = <cost = 1.0 : f64, compute_slowdown = 0.5 : f64, collective_slowdown = 1.0 : f64, rates = {}>>} {
}

// -----

// expected-error @+1 {{prices of axis 'data' are array<f64: 1.000000e+00>, expected 8 numbers: latency and s/B of each kind of change}}
module attributes {spmd.plan = #spmd.plan<prices = <cost = 1.0 : f64, compute_slowdown = 1.0 : f64, collective_slowdown = 1.0 : f64, rates = {data = array<f64: 1.0>}>>} {
}
