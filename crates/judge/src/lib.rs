//! Statistics, rankings, claims, warnings and the recommendation. Pure: records in, a result out.

pub mod judge;

#[cfg(test)]
use blobwise_plan::subjects;
use blobwise_plan::{plan, records, result, rules};
use blobwise_stores::{corpus, units};
#[cfg(test)]
use blobwise_stores::{store, stores};
