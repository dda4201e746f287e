//! Guards and questions: what a comparison of two runs could have seen, claims that fail a run, one figure in words, citations,
//! and names that stand for several stores.

use blobwise::engine::work::ResolvePlan;
use std::os::unix::fs::PermissionsExt;

use blobwise::judge::summary::summarize;
use blobwise::records::Records;
use blobwise::result::{ClaimVerdict, Round, RunResult};

use crate::program::{BLOBWISE, Outcome, Work};
use crate::results::{collapse_whitespace, doctored, run};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test(
            "what a comparison could have seen is said, and fails it where that is asked for",
            could_have_seen,
        ),
        Trial::test("two programs measure a plan in turn", in_turn),
        Trial::test("unrelated runs are refused in one line", unrelated),
        Trial::test(
            "claims guard a run, and those of a plan of one's own are not published",
            guarded_by_claims,
        ),
        Trial::test("claims hold figures of a machine against constants", constants),
        Trial::test("a plan too small for its claims is refused before anything is done", too_small),
        Trial::test("a figure is explained, and cited", explained),
        Trial::test("families stand for their members, and names are listed", families),
    ]
}

/// Rounds that are alike see a small fall, and rounds that scatter are blind to it; only `--strict` fails for that.
fn could_have_seen() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    let scattered = |scatter: f64| {
        move |result: &mut RunResult| {
            for cell in &mut result.results {
                let Some(first) = cell.rounds.first().cloned() else { continue };
                let round = |number: u32| {
                    let off = 1.0 + scatter * f64::from(number % 3);
                    let mut round = Round { round: number, seconds: first.seconds * off, ..first.clone() };
                    round.settled_seconds = round.settled_seconds.map(|_| round.seconds);
                    round
                };
                cell.rounds = (1..=5).map(round).collect();
            }
        }
    };
    doctored(&work, "quiet", scattered(0.001))?;
    doctored(&work, "noisy", scattered(0.1))?;
    let said = collapse_whitespace(&work.say("compare quiet quiet --fall 10% --strict").ended(0).stdout);
    assert!(said.contains("It would have found a fall of 6 % in any row (80 of 100 runs)"), "{said}");
    assert!(said.ends_with("Passed."), "{said}");
    let said = collapse_whitespace(&work.say("compare noisy noisy --fall 10%").ended(0).stdout);
    assert!(
        said.contains("A fall of 10 % would not have been found in: ")
            && said.contains("`blobwise run --rounds"),
        "{said}"
    );
    let said = collapse_whitespace(&work.say("compare noisy noisy --fall 10% --strict").ended(4).stdout);
    assert!(said.contains("could not have seen a fall of 10 % (exit code 4)"), "{said}");
    for (line, why) in [
        ("--fall 5% --threshold 5%", "--fall: `5%` is not above --threshold `5%`"),
        ("--min-power 20%", "--min-power: `20%` is not between 50% and 90%"),
        ("--fall 0%", "a share of a rate is above 0"),
    ] {
        work.say(&format!("compare quiet quiet {line}")).refused(&[why]);
    }
    Ok(())
}

/// The programs are this one, each behind a script that writes down when it is to measure.
fn in_turn() -> Outcome {
    let work = Work::new();
    // Of a write the harness is some hundredth. Of a read it may be so much on a busy machine that nothing is compared.
    let plan = "stores = ['files/hashed', 'sqlite']\nphases = ['fill', 'overwrite']\n[corpus]\nsource = 'fixed:1kB'\nblobs = 250\n";
    std::fs::write(work.path("plan.toml"), plan)?;
    for name in ["a", "b"] {
        let calls = work.path("calls").display().to_string();
        let text =
            format!("#!/bin/sh\n[ \"$1\" != run ] || echo {name} >> '{calls}'\nexec '{BLOBWISE}' \"$@\"\n");
        std::fs::write(work.path(name), text)?;
        std::fs::set_permissions(work.path(name), std::fs::Permissions::from_mode(0o755))?;
    }
    let line =
        "compare --plan plan.toml --old ./a --new ./b --rounds 4 --threshold 90% --fall 95% --out both";
    let said = collapse_whitespace(&work.say(line).ended(0).stdout);
    assert!(said.contains("paired by round, as the two measured in turn"), "{said}");
    assert_eq!(std::fs::read_to_string(work.path("calls"))?, "a\nb\nb\na\na\nb\nb\na\n");
    for run in ["both/old", "both/new"] {
        let result = RunResult::load(&work.path(run))?;
        assert!(result.complete && result.results.iter().all(|cell| cell.rounds.len() == 4), "{run}");
    }
    for (line, why) in [
        ("--old ./a --new ./c", "cannot start `./c`"),
        ("--old ./a --new /bin/true", "`/bin/true` is no blobwise"),
        ("--old ./a", "--new"),
    ] {
        work.say(&format!("compare --plan plan.toml {line} --rounds 2 --out again")).refused(&[why]);
        std::fs::remove_dir_all(work.path("again")).ok();
    }
    Ok(())
}

fn unrelated() -> Outcome {
    let work = Work::new();
    run(&work, "--phases fill,read-warm", "out")?;
    work.say("run --stores redb --blobs 40 --rounds 1 --phases fill --quiet --out other").ended(0);
    let said = work.say("compare out other").refused(&[
        "`out` and `other` cannot be compared: no store is in both: the old run has `files/hashed`, `null` and `sqlite`, the new run has `redb`",
    ]);
    assert_eq!(said.stderr.trim().lines().count(), 1, "{}", said.stderr);
    Ok(())
}

/// Which claims a part of a plan can test is said before anything is started, with the size from which on it could.
fn too_small() -> Outcome {
    const PLAN: &str = "
stores = ['files/flat', 'files/hashed']
phases = ['fill', 'overwrite']
rounds = 5
round_seconds = 30.0
[corpus]
source = 'fixed:1kB'
blobs = 3000
[[claim]]
id = 'own-1'
statement = 's'
phase = 'overwrite'
candidates = ['files/flat', 'files/hashed']
expect = {low = 0.001}
[[claim]]
id = 'own-2'
statement = 's'
phase = 'overwrite'
candidates = ['files/flat', 'sqlite']
expect = {low = 1.0}
";
    let work = Work::new();
    std::fs::write(work.path("plan.toml"), PLAN)?;
    let said = work.say("run plan.toml --scale 0.01 --out out").refused(&[
        "at `--scale 0.01` 0 of 2 claims can be tested: 30 ops of `overwrite` in 2 rounds are too few (own-1).",
        "More can at `--scale 0.1`: 1 (5 rounds, at least 15 s on two processors).",
        "add --preview",
    ]);
    assert!(!said.stderr.contains("Stores lie in"), "{}", said.stderr);
    assert_eq!(work.names("."), ["plan.toml"]);
    let said = work.say("run plan.toml --scale 0.01 --preview --out out").ended(0);
    assert!(said.stderr.contains("at `--scale 0.01` 0 of 2 claims can be tested: 30 ops"), "{}", said.stderr);
    let said = work.say("run plan.toml --scale 0.01 --rounds 2 --budget 1m --out short").ended(0);
    assert!(said.stderr.contains("0 of 2 claims can be tested: "), "{}", said.stderr);
    let said = work.say("run plan.toml --scale 0.1 --out more").ended(0);
    assert!(said.stderr.contains("at `--scale 0.1` 1 of 2 claims can be tested\n"), "{}", said.stderr);
    let told = RunResult::load(&work.path("more"))?;
    let verdicts: Vec<ClaimVerdict> = told.claims.iter().map(|claim| claim.verdict).collect();
    assert_eq!(verdicts, [ClaimVerdict::Confirmed, ClaimVerdict::NotTestable]);
    work.say("run plan.toml --rounds 1 --out none").refused(&[
        "with these flags 0 of 2 claims can be tested: one round says nothing of repetition (own-1).",
        "add --preview",
    ]);
    Ok(())
}

/// Times, rates and bytes against constants with their units, one of each that holds and one that cannot.
fn constants() -> Outcome {
    let work = Work::new();
    let head = OWN_CLAIMS.split("[[claim]]").next().unwrap().replace("blobs = 40", "blobs = 250");
    let claim = |id: &str, metric: &str, expect: &str| {
        // Of a write the harness is some hundredth. Of a read it may be too much for a claim on a busy machine.
        let phase = if ["time", "rate"].contains(&metric) { "fill" } else { "read-warm" };
        format!(
            "[[claim]]\nid = '{id}'\nstatement = '{id}'\nphase = '{phase}'\nquantity = 'value'\nmetric = '{metric}'\n\
             candidates = ['files/hashed']\nexpect = {{{expect}}}\n"
        )
    };
    let all = [
        claim("holds-1", "time", "high = '10s'"),
        claim("holds-2", "rate", "low = '0.1/s'"),
        claim("holds-3", "memory", "low = '1kB', high = '1TB'"),
        claim("holds-4", "failed-attempts", "high = 0.9"),
        claim("fails-1", "time", "high = '1ns'"),
        claim("fails-2", "rate", "low = '1000000000/s'"),
        claim("fails-3", "memory", "high = '1B'"),
    ];
    std::fs::write(work.path("own.toml"), format!("{head}{}", all.concat()))?;
    let said = work.say("run own.toml --quiet --fail-on-refuted --out out").ended(1);
    assert!(said.stderr.contains("3 claims refuted: fails-1, fails-2, fails-3"), "{}", said.stderr);
    let result = RunResult::load(&work.path("out"))?;
    for claim in &result.claims {
        let holds = claim.id.starts_with("holds");
        let wanted = if holds { ClaimVerdict::Confirmed } else { ClaimVerdict::Refuted };
        assert_eq!(claim.verdict, wanted, "{claim:?}");
    }
    // What a figure is counted in is said with it.
    let markdown = work.say("report out --markdown").ended(0).stdout;
    let line = |id: &str| markdown.lines().find(|line| line.starts_with(&format!("| {id} "))).unwrap();
    let is_a_time = |line: &str| [" µs [", " us [", " ms ["].iter().any(|unit| line.contains(unit));
    assert!(is_a_time(line("fails-1")), "{}", line("fails-1"));
    assert!(line("fails-2").contains("/s ["), "{}", line("fails-2"));
    assert!(line("fails-3").contains("B ["), "{}", line("fails-3"));
    // The plan of the run says the same again, and a bound without its unit is refused before anything is done.
    work.say("run out/plan.toml --quiet --fail-on-refuted --out again").ended(1);
    std::fs::write(work.path("wrong.toml"), format!("{head}{}", claim("wrong", "time", "high = 20")))?;
    work.say("run wrong.toml").refused(&["the bound `20` of `expect` must be a time such as \"20us\""]);
    Ok(())
}

/// Two claims of which one cannot hold, and one whose candidate cannot lose.
const OWN_CLAIMS: &str = "
stores = ['files/hashed', 'null']
phases = ['fill', 'read-warm']
rounds = 3
[corpus]
source = 'fixed:10kB'
blobs = 40
[[claim]]
id = 'own-1'
statement = 'Each blob takes less than half of itself on disk'
quantity = 'value'
metric = 'disk'
candidates = ['files/hashed']
expect = {high = 0.5}
published = 0.4
";

fn guarded_by_claims() -> Outcome {
    let work = Work::new();
    std::fs::write(work.path("own.toml"), OWN_CLAIMS)?;
    work.say("run own.toml --quiet --out told").ended(0);
    let said = work.say("run own.toml --quiet --fail-on-refuted --out out").ended(1);
    assert!(said.stderr.contains("1 claim refuted: own-1"), "{}", said.stderr);
    let printed = collapse_whitespace(&said.stdout);
    assert!(printed.contains("own-1 refuted") && printed.contains("Stated 0.40"), "{printed}");
    let page = std::fs::read_to_string(work.path("out/report.html"))?;
    let markdown = work.say("report out --markdown").ended(0).stdout;
    for text in [&printed, &markdown] {
        assert!(!text.to_lowercase().contains("published"), "{text}");
    }
    assert!(page.contains("stated</th>") && page.contains("0.40"), "the page has the figure");
    assert!(!page.contains("Then and now"), "nobody said anything then");
    // Nothing is guarded where nothing is claimed.
    work.say("run --stores null --fail-on-refuted --out none")
        .refused(&["--fail-on-refuted: this plan has no claims"]);
    // A run that was ended after its first round has not got there yet.
    let mut early = RunResult::load(&work.path("out"))?;
    let mut records = Records { complete: false, ..Records::resume(early.clone()) };
    records.cells.values_mut().for_each(|cell| cell.rounds.truncate(1));
    records.store_rounds.retain(|visit| visit.round == 1);
    early = summarize(&early.plan.design(&records.candidates)?, &records)?;
    assert_eq!(early.claims[0].verdict, ClaimVerdict::NotReached, "{:#?}", early.claims);
    assert!(early.answer.iter().any(|line| line.contains("1 not reached yet")), "{:#?}", early.answer);
    Ok(())
}

fn explained() -> Outcome {
    let work = Work::new();
    let result = run(&work, "--phases fill,read-warm", "out")?;
    let said = work.say("explain out sqlite read-warm").ended(0).stdout;
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let cell = result.cell("sqlite", "read-warm").ok_or("no cell")?;
    for round in &cell.rounds {
        let line = format!(" {} {} {} ", round.round, round.position, round.ops);
        assert!(collapse_whitespace(&said).contains(&line), "`{line}` is not in: {said}");
    }
    let told = collapse_whitespace(&said);
    let heads =
        ["The figure", "Its rank", "Processor and memory", "Checks", "What speaks against it", "2 rounds"];
    for head in heads {
        assert!(told.contains(head), "`{head}` is not in: {said}");
    }
    for (line, why) in [
        (
            "explain out sqlit fill",
            "no candidate of this run is called `sqlit`; did you mean `sqlite`? It has `files/hashed`, ",
        ),
        (
            "explain out sqlite fil",
            "no phase of this run is called `fil`; did you mean `fill`? It has `fill` and `read-warm`",
        ),
        ("explain out sqlite fill --size 10kB", "`fill` was done at one size: leave out --size"),
    ] {
        work.say(line).refused(&[why]);
    }
    // What the citation says of the plan is what anybody can check.
    let cited = work.say("report out --markdown").ended(0).stdout;
    let sum = String::from_utf8(work.command("sha256sum").arg(work.path("out/plan.toml")).output()?.stdout)?;
    let sum = sum.split_whitespace().next().ok_or("no sum")?;
    assert!(cited.contains("## Cite this run") && cited.contains(sum), "{cited}");
    Ok(())
}

fn families() -> Outcome {
    let work = Work::new();
    let line = "run --stores null,files --corpus 10kB --blobs 20 --rounds 1 --phases fill,range --threads 1 --out out";
    let said = work.say(line).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let stores: Vec<&str> = result.candidates.iter().map(|candidate| candidate.store.as_str()).collect();
    for store in ["null", "files/flat", "files/hashed"] {
        assert!(stores.contains(&store), "{store} is not in {stores:?}");
    }
    // What cannot be had is named.
    assert!(
        stores.contains(&"files/ramdisk") || said.stderr.contains("`files/ramdisk` is left out: "),
        "{}",
        said.stderr
    );
    let phases: Vec<&str> = result.phases.iter().map(|phase| phase.id.as_str()).collect();
    assert_eq!(phases, ["fill", "range-head", "range-random"]);
    assert_eq!((result.corpus.blobs, result.corpus.largest_bytes), (20, 10_000));
    // One of them is known by itself, and what is listed of it fits into a terminal.
    let listed = work.say("list files/hashed").ended(0).stdout;
    assert!(listed.contains("files/hashed") && !listed.contains("files/flat"), "{listed}");
    let plan = work.say("list plans horak-2010").ended(0).stdout;
    assert!(
        plan.contains("HK-1")
            && collapse_whitespace(&plan).contains("Run it: blobwise run horak-2010 A part"),
        "{plan}"
    );
    let text = work.say("list plans horak-2010 --toml").ended(0).stdout;
    std::fs::write(work.path("mine.toml"), text)?;
    work.say("list horak-2010 --toml --json").refused(&["cannot be used with"]);
    Ok(())
}
