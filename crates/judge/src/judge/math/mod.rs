//! Statistics of rates and times, independent of stores: intervals, histograms, rankings, crossovers, and the power of
//! comparisons.

pub mod compare;
pub mod crossover;
pub mod growth;
pub mod histogram;
pub mod interval;
pub mod power;
