//! Statistics of rates and times, which know nothing of stores: intervals, histograms, rankings, crossovers, and what a comparison could have seen.

pub mod compare;
pub mod crossover;
pub mod histogram;
pub mod interval;
pub mod power;
