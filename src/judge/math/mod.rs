//! Statistics of rates and times, which know nothing of stores: intervals, histograms, rankings, crossovers.

pub mod compare;
pub mod crossover;
pub mod histogram;
pub mod interval;
