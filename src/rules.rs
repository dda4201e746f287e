//! Thresholds that verdicts go by, each said once, below whoever plans, measures or judges by them.

/// With as many ops in a round, a cell has enough of them to average over, however short it is.
pub const SHORT_OPS: u64 = 200;
