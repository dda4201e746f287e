//! One run: rounds of store visits, phases within them, ops within those.

pub mod environment;
pub mod ops;
pub mod order;
pub mod parts;
pub mod pilot;
pub mod preflight;
pub mod rails;
pub mod resources;
pub mod run;
pub mod subjects;
pub mod uploads;
pub mod verify;
pub mod visit;
pub mod work;
pub mod workers;
pub mod yardstick;
