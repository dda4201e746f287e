//! Plans as the engine resolves them: valid ones of every kind, those that are rejected, and those that ship with the program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod ageing;
mod corpora;
mod growth;
mod records;
mod shipped;
mod stores;
mod subjects;
mod whole;
