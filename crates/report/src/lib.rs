//! A result as terminal text, Markdown, CSV and HTML. Pure.

pub mod report;

use blobwise_doctor::doctor;
use blobwise_judge::judge;
#[cfg(test)]
use blobwise_plan::records;
use blobwise_plan::{plan, result};
use blobwise_stores::{corpus, redact, units};
