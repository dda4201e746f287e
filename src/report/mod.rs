//! Turns results into what people and programs read. Nothing is measured here, and functions return their output.

mod advice;
pub mod besides;
mod by_size;
pub mod causes;
mod cite;
mod clients;
pub mod compared;
mod costs;
mod course;
pub mod crash;
pub mod crash_page;
pub mod csv;
pub mod disk;
pub mod explain;
mod findings;
pub mod html;
pub mod live;
pub mod markdown;
mod operating;
mod power_cuts;
mod section;
pub mod sections;
mod tabled;
pub mod terminal;
pub mod tried;
mod view;

#[cfg(test)]
mod tests;
