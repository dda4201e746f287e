//! Reads of `s3` by its own HTTP client against ureq, with the same signatures, on the same private server.
//!
//! `cargo bench --bench s3`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

#[expect(dead_code, reason = "where the store lies is not asked")]
mod common;
#[path = "common/inside.rs"]
mod inside;
#[path = "common/outside.rs"]
#[expect(dead_code, reason = "their side is no other program")]
mod outside;
#[path = "common/way.rs"]
mod way;

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use blobwise::corpus::Sizes;
use blobwise::plan::Order;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

use common::{Bed, PER_CPU_SECOND, compare};

const BLOBS: u64 = 1000;

fn main() -> Result<ExitCode> {
    if let Some(supervisor) = blobwise::host::server::supervise_if_asked() {
        return Ok(supervisor);
    }
    if blobwise::stores::adapters().any(|store| store.name == "s3" && store.programs[0].find().is_err()) {
        outside::are_there(&["weed"], "./test.sh")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut met = true;
    for bytes in [1024, 102_400] {
        met &= reads(bytes)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reads(bytes: u64) -> Result<bool> {
    let bed = Bed::make("s3", Sizes::Fixed(bytes), BLOBS, Order::Uniform, BLOBS)?;
    let way = way::client_access(&bed)?;
    let said = |name: &str| way::text(&way, &format!("/0/{name}"));
    let credentials = Credentials::new(said("key")?, said("secret")?);
    let mut endpoint: url::Url = said("url")?.parse()?;
    endpoint.set_path("");
    let bucket = Bucket::new(endpoint, UrlStyle::Path, "store", "us-east-1")?;
    let agent = ureq::Agent::new_with_defaults();
    let theirs = || {
        inside::on_a_thread(|| {
            let mut room = vec![0; 256 << 10];
            inside::theirs(&bed, |op| {
                let name = format!("b/{}", bed.corpus.keys.at(op.blob as usize).as_str());
                let url = bucket.get_object(Some(&credentials), &name).sign(Duration::from_secs(600));
                let mut answer = agent.get(url.as_str()).call()?;
                let (mut body, mut used) = (answer.body_mut().as_reader(), 0_u64);
                loop {
                    let read = body.read(&mut room)?;
                    if read == 0 {
                        break;
                    }
                    // One byte of each cache line, as ours.
                    used += room[..read].iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
                }
                std::hint::black_box(used);
                Ok(())
            })
        })
    };
    let title = format!("s3 against ureq, one connection: {BLOBS} blobs of {bytes} B");
    compare(&title, Some(PER_CPU_SECOND), || bed.ours(), theirs)
}
