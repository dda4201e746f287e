//! What reports show, independent of the format.

pub(super) mod choice;
pub(super) mod describe;
pub(super) mod matrix;
pub(super) mod memory;
pub(super) mod money;
pub(super) mod months;
pub(super) mod standing;
pub(super) mod then;
pub(super) mod warned;
pub(super) mod words;
pub(super) mod work;
