//! Turns results into what people and programs read. Nothing is measured here, and functions return their output.

mod advice;
mod block;
mod by_size;
pub mod causes;
mod cite;
mod clients;
pub mod compared;
mod costs;
mod course;
pub mod crash;
pub mod crash_page;
pub mod crash_subject;
pub mod csv;
pub mod disk;
pub mod explain;
pub mod fault_injection;
mod findings;
mod forecast;
mod growth;
pub mod html;
pub mod live;
pub mod markdown;
mod measured;
mod operating;
mod page;
mod power_cuts;
mod pressure;
mod prose;
mod published;
mod section;
pub mod sections;
mod table;
pub mod terminal;
mod view;

#[cfg(test)]
mod tests;
