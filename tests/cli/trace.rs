//! `blobwise trace` on a log of each text format: what it says of it, and that no name in it gets out.

use std::fmt::Write;
use std::process::Command;

use serde_json::Value;

use crate::program::{BLOBWISE, Outcome, Work, finish};
use crate::trials::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a log of each format is described, and no name in it gets out", described),
        Trial::test("a log with lines that cannot be read says which", bad_lines),
    ]
}

/// What must not get out: a part of every name, address, user and query of the logs.
const PLANTED: [&str; 2] = ["planted", "203.0.113."];

/// 600 requests of a few objects in each text format; every tenth fails where the format has that.
fn logs() -> Vec<(&'static str, String)> {
    let names = ["combined", "json", "s3-log", "cloudfront", "ibm-cos", "twitter", "csv"];
    let mut logs = names.map(|name| (name, String::new()));
    logs[3].1 += "#Fields: date time c-ip cs-method cs(Host) cs-uri-stem sc-status sc-bytes cs-uri-query\n";
    logs[6].1 += "time,client,op,key,bytes\n";
    for n in 0..600 {
        let (clock, key) = (format!("10:{:02}:{:02}", n / 60, n % 60), format!("planted-{}.jpg", n * n % 20));
        let (status, bytes) = if n % 10 == 0 { (404, 9) } else { (200, 1000 + n * n % 20) };
        let lines = [
            format!(
                "203.0.113.9 - planted [30/Nov/2026:{clock} +0000] \"GET /{key}?planted=1 HTTP/1.1\" {status} {bytes} \"-\" \"-\""
            ),
            format!(
                r#"{{"ts":{},"request":{{"remote_ip":"203.0.113.9","method":"GET","host":"planted","uri":"/{key}"}},"status":{status},"size":{bytes}}}"#,
                1_796_032_800 + n
            ),
            format!(
                "planted planted [30/Nov/2026:{clock} +0000] 203.0.113.9 planted ID REST.GET.OBJECT {key} \"GET /{key} HTTP/1.1\" \
                 {status} - {bytes} {bytes} 5 4 \"-\""
            ),
            format!("2026-11-30\t{clock}\t203.0.113.9\tGET\tplanted\t/{key}\t{status}\t{bytes}\tplanted=1"),
            format!("{} REST.GET.OBJECT {key} {bytes}", n * 1000),
            format!("{n},{key},14,{bytes},203.0.113.9,get,0"),
            format!("{},203.0.113.9,get,{key},{bytes}", 1_796_032_800 + n),
        ];
        for (log, line) in logs.iter_mut().zip(lines) {
            log.1 += &(line + "\n");
        }
    }
    logs.into()
}

/// Checks that nothing planted is in what was printed or written.
#[track_caller]
fn nothing_planted(text: &str) {
    assert!(PLANTED.iter().all(|planted| !text.contains(planted)), "{text}");
}

fn described() -> Outcome {
    let work = Work::new();
    for (format, log) in logs() {
        std::fs::write(work.path("log"), log)?;
        let said = work.say("trace log --json").ended(0);
        nothing_planted(&(said.stdout.clone() + &said.stderr));
        let found: Value = serde_json::from_str(&said.stdout)?;
        assert_eq!(found["format"], format, "{}", said.stdout);
        assert_eq!((&found["requests"], &found["bad"]), (&600.into(), &0.into()), "{format}");
        assert_eq!(
            found["rate"]["last_second"]
                .as_i64()
                .zip(found["rate"]["first_second"].as_i64())
                .map(|(last, first)| last - first),
            Some(599),
            "{format}"
        );
        let has_failures = !["ibm-cos", "twitter", "csv"].contains(&format);
        assert_eq!(found["ops"]["failed"].as_u64(), has_failures.then_some(60), "{format}");
        let said = work.say("trace log").ended(0);
        nothing_planted(&(said.stdout.clone() + &said.stderr));
        let plan = said.stdout.lines().find_map(|line| line.trim().strip_prefix("blobwise run --corpus "));
        let sizes = plan.and_then(|rest| rest.split(' ').next()).ok_or("no plan")?;
        work.say(&format!("corpus --blobs 20 --corpus {sizes}")).ended(0);
        if format == "combined" {
            let piped = format!("gzip -c log | {BLOBWISE} trace - --json");
            let piped = finish(work.command("sh").args(["-c", &piped])).ended(0);
            assert_eq!(serde_json::from_str::<Value>(&piped.stdout)?["objects"], found["objects"]);
        }
    }
    assert_eq!(work.names("."), ["log"], "nothing is written");
    Ok(())
}

fn bad_lines() -> Outcome {
    let work = Work::new();
    let mut logs = logs();
    let mut log = std::mem::take(&mut logs[0].1);
    for n in 0..12 {
        writeln!(log, "planted-{n} 203.0.113.9 something else")?;
    }
    std::fs::write(work.path("log"), &log)?;
    let wrong =
        "12 of 612 lines (2.0 %), more than --allow-bad 1%, cannot be read as combined: line 601 has no time";
    work.say("trace log").refused(&[wrong, "add --allow-bad 2%"]);
    let said = work.say("trace log --allow-bad 2%").ended(0);
    assert!(
        said.stdout.contains("12 of 612 lines (2.0 %) cannot be read: line 601 has no time"),
        "{}",
        said.stdout
    );
    nothing_planted(&(said.stdout + &said.stderr));
    nothing_planted(&work.say("trace log").stderr);
    // A log of another kind, and one that was cut off while it was compressed.
    work.say("trace log --format json").refused(&["cannot be read as json: line 1 is not JSON"]);
    work.say("trace log --format jsn")
        .refused(&["--format: no format of logs is called `jsn`; did you mean `json`?"]);
    work.say("trace log --columns time,keys").refused(&["no column is called `keys`; did you mean `key`?"]);
    let packed = finish(Command::new("gzip").arg("-k").arg(work.path("log")));
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let whole = std::fs::read(work.path("log.gz"))?;
    std::fs::write(work.path("log.gz"), &whole[..whole.len() - 20])?;
    let said = work.say("trace log.gz --allow-bad 5%").ended(1);
    assert!(said.stderr.contains("error: the log ends early, after line "), "{}", said.stderr);
    assert!(said.stdout.starts_with("combined: "), "{}", said.stdout);
    Ok(())
}
