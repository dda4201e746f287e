//! Plans as the engine resolves them: valid ones of every kind, those that are rejected, and those that ship with the program.

mod ageing;
mod corpora;
mod growth;
mod records;
mod shipped;
mod stores;
mod subjects;
mod whole;
