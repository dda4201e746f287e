//! Delivery over HTTP as a user runs it: the highest rate within a limit, and what a candidate says of its servers.

use blobwise::result::{RunResult, Status};

use crate::places::{mounted_over, no_mounts};
use crate::program::{Outcome, Work, missing, needing};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        needing("a ladder of rates ends below its first failure", missing("nginx"), ladder),
        needing("a limit that nothing keeps to is no rate", missing("nginx"), no_rate),
        needing("a thousand blobs come in one request", missing("nginx-php/readfile"), a_thousand),
        needing(
            "a missing module is an error before the run",
            missing("apache-php/memcached").or_else(no_mounts),
            missing_module,
        ),
        needing("misses of a cache are counted", missing("apache-php/memcached"), misses),
        needing("a script's candidate tells its settings", missing("nginx-php/memcached"), facts),
        needing(
            "a script that is timed tells how long it connects and fetches",
            missing("apache-php/mysql")
                .or_else(|| missing("nginx-php/apcu"))
                .or_else(|| missing("apache-php/postgres")),
            timed,
        ),
    ]
}

fn ladder() -> Outcome {
    let work = Work::new();
    // Two rungs are enough: whoever opens 10,000 connections a second is not this client.
    let line = "run --stores nginx --set nginx.keepalive=false --corpus tiny --blobs 20 --rounds 1 --quiet --out out";
    let said = work.say(&format!("{line} --phases fill,ramp --limit p50=20ms --workers 2")).ended(0);
    assert!(
        said.stdout.contains("the highest rate at which response times keep to p50=20ms"),
        "{}",
        said.stdout
    );
    let result = RunResult::load(&work.path("out"))?;
    let cell = result.results.iter().find(|cell| cell.phase == "ramp").ok_or("no cell")?;
    let [round] = cell.rounds.as_slice() else { return Err("not one round".into()) };
    // A rung that something else on this machine has spoilt is a failure, too: the ladder then goes down, to the first that passes.
    let mut rungs: Vec<_> = round.rungs.iter().collect();
    rungs.sort_by(|a, b| a.offered_ops_per_s.total_cmp(&b.offered_ops_per_s));
    let (passed, failed) = rungs.split_at(rungs.partition_point(|rung| rung.failure.is_none()));
    assert!(!failed.is_empty() && failed.iter().all(|rung| rung.failure.is_some()), "{:?}", round.rungs);
    let best = passed.last().ok_or("no rung passed")?;
    let rate = round.ops as f64 / round.seconds;
    assert!((rate / best.offered_ops_per_s - 1.0).abs() < 1e-6, "{rate} is not {}", best.offered_ops_per_s);
    assert!(passed.iter().all(|rung| rung.response_ns <= 20_000_000), "{:?}", round.rungs);
    Ok(())
}

fn no_rate() -> Outcome {
    let work = Work::new();
    let line =
        "run --stores nginx --blobs 20 --rounds 1 --quiet --out out --phases fill,ramp --limit p50=1us";
    let result = work.result(line);
    let cell = result.results.iter().find(|cell| cell.phase == "ramp").ok_or("no cell")?;
    assert_eq!(cell.status, Status::NotPossible);
    let reason = cell.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("response p50 above the limit"), "{reason}");
    Ok(())
}

/// The fill cannot be done in batches, and what is asked of it is not done otherwise: it is done for what comes after it.
fn a_thousand() -> Outcome {
    let work = Work::new();
    let line = "run --stores nginx-php/readfile,apache-php/readfile --set nginx-php/readfile.http=1.1,2 --batch 1000";
    // A thousand blobs at this scale, and eight requests where a phase has two hundred.
    let more =
        "--corpus fixed:200 --blobs 100000 --scale 0.01 --phases fill,read-warm --rounds 1 --quiet --out out";
    let result = work.result(&format!("{line} {more}"));
    assert_eq!(result.results.len(), 6);
    for cell in &result.results {
        if cell.phase == "fill" {
            assert_eq!(cell.status, Status::NotPossible, "{}", cell.store);
            assert!(cell.reason.as_deref().is_some_and(|reason| reason.starts_with("no batches")));
        } else {
            assert_eq!(cell.status, Status::Measured, "{}: {:?}", cell.store, cell.reason);
            assert_eq!((cell.counters.errors, cell.blobs_per_op), (0, Some(1000.0)), "{}", cell.store);
        }
    }
    Ok(())
}

fn missing_module() -> Outcome {
    for (directory, store, words) in [
        (
            "/usr/lib/php",
            "apache-php/memcached",
            ["no `memcached.so` was found", "apt-get install php-memcached"],
        ),
        (
            "/usr/lib/apache2/modules",
            "apache-php/readfile",
            ["no `libphp*.so` was found", "libapache2-mod-php"],
        ),
    ] {
        let work = Work::new();
        let line = format!("run --stores {store} --blobs 5 --rounds 1 --phases fill --quiet --out out");
        mounted_over(directory, &work, "ro", &line).refused(&words);
        assert!(work.names(".").is_empty());
    }
    Ok(())
}

/// Caches are empty when they are cold and have everything when they are warm, and the answers say so.
fn misses() -> Outcome {
    let work = Work::new();
    let line = "run --stores apache-php/memcached,apache-php/apcu --blobs 20 --rounds 1 --quiet --out out";
    let result = work.result(&format!("{line} --phases fill,read-cold,read-warm"));
    let reads: Vec<_> = result.results.iter().filter(|cell| cell.phase != "fill").collect();
    assert_eq!(reads.len(), 4);
    for cell in reads {
        assert_eq!(cell.status, Status::Measured, "{}: {:?}", cell.store, cell.reason);
        let misses = if cell.phase == "read-cold" { cell.ops } else { 0 };
        assert_eq!(cell.counters.cache_misses, misses, "{} {}", cell.store, cell.phase);
    }
    Ok(())
}

fn facts() -> Outcome {
    let work = Work::new();
    let line =
        "run --stores nginx-php/memcached --blobs 20 --rounds 1 --quiet --out out --phases fill,read-warm";
    let result = work.result(line);
    let facts = serde_json::to_string(&result.candidates)?;
    for name in ["php opcache.enable", "compiled once", "php memcached", "cache: item_size_max", "behind: "] {
        assert!(facts.contains(name), "no `{name}` in {facts}");
    }
    Ok(())
}

/// What scripts take is told as steps, which are parts of the op; a phase that is for timed candidates only is done by no other.
fn timed() -> Outcome {
    let work = Work::new();
    let plan = r#"
        stores = ["apache-php/mysql[driver=pdo,protocol=text,timed=true]", "apache-php/mysql", "apache-php/postgres[timed=true]",
                  "nginx-php/apcu[http=2,timed=true]"]
        phases = ["fill", "one", "several"]
        rounds = 1
        [corpus]
        source = "fixed:2000"
        blobs = 20
        [[phase]]
        id = "one"
        ops = { get = 1.0 }
        count = 300
        order = "uniform"
        [[phase]]
        id = "several"
        ops = { get = 1.0 }
        count = 300
        order = "uniform"
        batch = 10
        stores = ["apache-php/mysql[driver=pdo,protocol=text,timed=true]", "nginx-php/apcu"]
    "#;
    std::fs::write(work.path("timed.toml"), plan)?;
    let result = work.result("run timed.toml --quiet --out out");
    let steps_of = |store: &str, phase: &str| -> Option<Vec<(String, f64)>> {
        let of = |cell: &&blobwise::result::Cell| cell.store.starts_with(store) && cell.phase == phase;
        let cell = result.results.iter().find(of)?;
        assert_eq!((cell.status, cell.counters.errors), (Status::Measured, 0), "{store}: {:?}", cell.reason);
        Some(cell.steps.iter().map(|step| (step.name.clone(), step.share)).collect())
    };
    let (connects, fetches) = ("script connects", "script fetches");
    for (store, phase, names) in [
        ("apache-php/mysql[driver=pdo", "one", &[connects, fetches][..]),
        ("apache-php/mysql[driver=pdo", "several", &[connects, fetches]),
        ("apache-php/postgres[", "one", &[connects, fetches]),
        ("nginx-php/apcu[", "one", &[fetches]),
        ("nginx-php/apcu[", "several", &[fetches]),
    ] {
        let steps = steps_of(store, phase).ok_or("no cell")?;
        let told: Vec<&str> = steps.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(told, names, "{store} {phase}");
        let share: f64 = steps.iter().map(|(_, share)| share).sum();
        assert!(share > 0.0 && share < 1.0, "{store} {phase}: {steps:?}");
    }
    let untimed = result.cell("apache-php/mysql", "one");
    assert_eq!(untimed.ok_or("no cell")?.steps.len(), 0);
    let several = result.results.iter().filter(|cell| cell.phase == "several");
    assert_eq!(several.count(), 2);
    Ok(())
}
