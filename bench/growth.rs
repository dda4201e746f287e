//! Growth of stores whose law is known: is it found, does it predict, and is a bend left alone?
//!
//! `cargo bench --bench growth`

#![expect(clippy::print_stdout, reason = "a side-by-side run prints its figures")]

use std::collections::HashMap;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use blobwise::host::machine;
use blobwise::host::place::Place;
use blobwise::result::{CurveFigure, GrowthOutcome, RunResult};
use blobwise::store::{
    Adapter, Backup, CacheRecommendation, Capabilities, Durability, Facts, Integrity, Key, Kind, Loss,
    Losses, Needs, Result as StoreResult, Session, Setup, Sink, Span, Store, Traits,
};

/// Numbers of blobs that the stores grow through, and the one that is asked about.
const GROW: &str = "1k..64k";
const EXPECT: (&str, f64) = ("640k", 640e3);
/// What the map and the loop take beside the law, as a share of its time.
const BESIDE: f64 = 0.02;

/// Nanoseconds of a get among so many blobs.
type Law = fn(f64) -> f64;

const LAWS: [(&Adapter, Law); 3] = [(&LOGARITHM, logarithm), (&ROOT, root), (&BEND, bend)];

fn logarithm(blobs: f64) -> f64 {
    5e3 + 2e3 * blobs.log2()
}

fn root(blobs: f64) -> f64 {
    300.0 * blobs.sqrt()
}

/// Of a cache that is full at 20,000 blobs, so that nothing may be said of more.
fn bend(blobs: f64) -> f64 {
    if blobs < 20e3 { 20e3 } else { 40e3 }
}

static LOGARITHM: Adapter =
    Adapter { name: "logarithm", open: |setup| Ok(Lawful::open(setup, logarithm)), ..LAWFUL };
static ROOT: Adapter = Adapter { name: "root", open: |setup| Ok(Lawful::open(setup, root)), ..LAWFUL };
static BEND: Adapter = Adapter { name: "bend", open: |setup| Ok(Lawful::open(setup, bend)), ..LAWFUL };

const LAWFUL: Adapter = Adapter {
    name: "lawful",
    about: "a map whose gets take what a law says",
    kind: Kind::Embedded,
    programs: &[],
    options: &[],
    caps: |_| Capabilities {
        durability: &[Durability::None],
        persistent: false,
        streams: false,
        backup: Backup::None("only gone through by a bench"),
        ..Capabilities::ONE_BY_ONE
    },
    loss: |_, _| Losses::alike(Loss::All),
    integrity: |_, _| Integrity::NothingKept,
    traits: |_| Traits::default(),
    memory: |_| CacheRecommendation::NO_CACHE,
    needs: Needs::NOTHING,
    open: |setup| Ok(Lawful::open(setup, |_| 0.0)),
};

struct Lawful {
    blobs: RwLock<HashMap<[u8; 32], Vec<u8>>>,
    law: Law,
}

impl Lawful {
    fn open(_: &Setup, law: Law) -> Box<dyn Store> {
        Box::new(Lawful { blobs: RwLock::default(), law })
    }
}

impl Store for Lawful {
    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        Ok(Box::new(self))
    }

    fn facts(&self) -> StoreResult<Facts> {
        Ok(Facts::new())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

impl Session for &Lawful {
    fn put(&mut self, key: &Key, blob: &[u8]) -> StoreResult<()> {
        self.blobs.write().unwrap_or_else(PoisonError::into_inner).insert(key.hex, blob.to_vec());
        Ok(())
    }

    fn get(&mut self, key: &Key, span: Span, sink: Sink) -> StoreResult<bool> {
        let begun = machine::uptime();
        let blobs = self.blobs.read().unwrap_or_else(PoisonError::into_inner);
        let Some(blob) = blobs.get(&key.hex) else { return Ok(false) };
        let time = Duration::from_nanos((self.law)(blobs.len() as f64) as u64);
        while machine::uptime() - begun < time {
            std::hint::spin_loop();
        }
        sink(span.slice_of(blob));
        Ok(true)
    }

    fn delete(&mut self, key: &Key) -> StoreResult<()> {
        self.blobs.write().unwrap_or_else(PoisonError::into_inner).remove(&key.hex);
        Ok(())
    }

    fn sync(&mut self) -> StoreResult<()> {
        Ok(())
    }

    fn list(&mut self, each: &mut dyn FnMut(&str)) -> StoreResult<()> {
        for hex in self.blobs.read().unwrap_or_else(PoisonError::into_inner).keys() {
            each(std::str::from_utf8(hex).unwrap_or_default());
        }
        Ok(())
    }
}

fn main() -> Result<ExitCode> {
    // This program is also the one that has the stores.
    if std::env::args().nth(1).is_some_and(|word| word != "--bench") {
        for (adapter, _) in LAWS {
            blobwise::register(adapter)?;
        }
        return Ok(blobwise::main());
    }
    let result = grown()?;
    let mut met = true;
    for (adapter, law) in LAWS {
        met &= judge(&result, adapter.name, law)?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn grown() -> Result<RunResult> {
    let place = Place::make(std::path::Path::new("."))?;
    let out = place.path().join("out");
    let stores = LAWS.map(|(adapter, _)| adapter.name).join(",");
    let options = format!("--grow {GROW} --expect {} --corpus fixed:1kB --rounds 7", EXPECT.0);
    let done = Command::new(std::env::current_exe()?)
        .args(["run", "--quiet", "--phases", "fill,read-warm", "--stores", &stores])
        .args(options.split(' '))
        .arg("--dir")
        .arg(place.path())
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .status()?;
    ensure!(done.success(), "the growth ended with {done}");
    RunResult::load(&out)
}

/// Prints what was found of a store's law, and whether it is the law.
fn judge(result: &RunResult, store: &str, law: Law) -> Result<bool> {
    let is_asked =
        |curve: &&blobwise::result::StepCurve| curve.store == store && curve.figure == CurveFigure::Time;
    let curve = result.curves.iter().filter(is_asked).find(|curve| curve.phase == "read-warm");
    let forecast = curve.and_then(|curve| curve.forecast).context("a curve without a forecast")?;
    let truth = law(EXPECT.1);
    let met = match forecast.outcome {
        GrowthOutcome::Expected { law, value } => {
            let [low, high] = [value.low, value.high].map(|bound| bound.unwrap_or(value.median) / truth);
            println!("{store}: {law:?}, with {} blobs [{low:.2}, {high:.2}] of the truth", EXPECT.0);
            store != BEND.name && low <= 1.0 + BESIDE && high >= 1.0 - BESIDE
        }
        outcome => {
            println!("{store}: {outcome:?}");
            store == BEND.name
        }
    };
    println!("  {}", if met { "met" } else { "missed" });
    Ok(met)
}
