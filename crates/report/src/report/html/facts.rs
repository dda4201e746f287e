//! Plan, blobs, candidates, machine and harness of a run, so that a reader can question it.

use maud::{Markup, html};

use super::table::{ABSENT, Table, TableCell, shown};
use super::{PageData, size};
use crate::judge::probes;
use crate::result::{CandidateResult, Kind, Medium, Promise, RunResult, StorageLayers};
use crate::units;

pub fn section(view: &PageData<'_>) -> Markup {
    let result = view.result;
    html! {
        (corpora(result))
        div.columns {
            (program(result))
            h3 { "Candidates" }
            @for candidate in &result.candidates { (candidate_facts(candidate)) }
            h3 { "Machine" }
            (machine(result))
            h3 { "What the harness costs" }
            (harness(result))
            h3 { "Fixed by the pilot before round 1" }
            (fixed(result))
            h3 { "The plan" }
            p { "Complete, defaults included: saved as a file, " code { "blobwise run FILE" } " repeats the run." }
            p.printed { "It is in the file that was printed, and beside it as " code { "plan.toml" } "." }
        }
        pre.unprinted tabindex="0" { code { (view.plan) } }
    }
}

fn program(result: &RunResult) -> Markup {
    let program = &result.program;
    let mut table = Table::new("The run", ["fact", "value"]);
    for (name, value) in [
        ("command", program.command.clone()),
        ("blobwise", format!("{} ({} build)", program.version, program.build)),
        ("began", program.started.clone()),
        ("took", units::seconds(program.seconds)),
        ("seed", result.plan.seed.map_or(ABSENT.to_owned(), |seed| seed.to_string())),
        ("complete", if result.complete { "yes".to_owned() } else { "no".to_owned() }),
    ] {
        table.push(vec![name.into(), value.into()]);
    }
    html! { (table) }
}

fn corpora(result: &RunResult) -> Markup {
    let all = result.all_corpora();
    let mut quantiles: Vec<&String> = all.iter().flat_map(|corpus| corpus.quantiles.keys()).collect();
    quantiles.sort();
    quantiles.dedup();
    let titles: Vec<String> = quantiles.iter().map(|name| format!("#{name}")).collect();
    let mut head = vec!["made from", "#blobs", "#together"];
    head.extend(titles.iter().map(String::as_str));
    head.extend(["#largest", "#deflate ratio", "sampled from", "not taken", "tail"]);
    let mut table = Table::new("Blobs", &head);
    for corpus in all {
        let mut line =
            vec![TableCell::from(&corpus.name), corpus.blobs.to_string().into(), size(corpus.bytes).into()];
        line.extend(quantiles.iter().map(|name| shown(corpus.quantiles.get(*name), |bytes| size(*bytes))));
        line.push(size(corpus.largest_bytes).into());
        line.push(shown(corpus.deflate_ratio, |ratio| format!("{ratio:.2}")));
        line.push(shown(corpus.sampled_from, |(files, bytes)| format!("{files} files, {}", size(bytes))));
        line.push(shown(corpus.skipped.as_ref(), Clone::clone));
        line.push(shown(corpus.cut.as_ref(), Clone::clone));
        table.push(line);
    }
    html! { (table) }
}

fn candidate_facts(candidate: &CandidateResult) -> Markup {
    let mut table = Table::new(format!("{}: settings and facts", candidate.store), ["what", "value", "from"]);
    let mut push = |what: &str, value: &str, from: &str| {
        table.push(vec![what.into(), TableCell::from(value), from.into()]);
    };
    if let Some(Promise { loss, .. }) = &candidate.promise {
        push("when killed", loss.after_kill.name(), "the class in which it ran");
        push("after a power cut", loss.after_power_cut.name(), "the class in which it ran");
    }
    if let Some(noticed_by) = candidate.noticed_by {
        push(
            "a byte that changes on the device is noticed by",
            noticed_by.name(),
            "the store's checksums, which are tried",
        );
    }
    if let Some(from) = candidate.verified_from {
        push("every blob was compared at the end with", from.name(), "the best of all rounds");
    }
    for (name, value) in &candidate.options {
        push(name, value, "setting");
    }
    for (name, value) in &candidate.facts {
        push(name, value, "read back from the store");
    }
    html! {
        details.candidate {
            summary {
                code { (candidate.store) } " " span.conditions { (candidate.kind.map_or("", Kind::name)) }
                @if let Some(reason) = &candidate.reason { " " span.failed { (candidate.status.name()) ": " (reason) } }
            }
            @if table.is_empty() { p { "It never ran." } } @else { (table) }
        }
    }
}

fn machine(result: &RunResult) -> Table {
    let machine = &result.machine;
    let yes = |value: bool| if value { "yes".to_owned() } else { "no".to_owned() };
    let absent = || ABSENT.to_owned();
    // Results of earlier versions recorded what a virtual disk reported.
    let rotates = machine.rotational.filter(|_| !machine.virtual_machine);
    let mut table = Table::new("Machine", ["fact", "value"]);
    for (name, value) in [
        ("processor", machine.processor.clone()),
        ("processors", machine.processors.to_string()),
        ("governor", machine.governor.clone().unwrap_or_else(absent)),
        ("virtual machine", yes(machine.virtual_machine)),
        ("memory", size(machine.memory_bytes)),
        ("largest cache", machine.processor_cache_bytes.map_or_else(absent, size)),
        ("system", machine.system.clone()),
        ("kernel", machine.kernel.clone()),
        ("C library", machine.libc.clone().unwrap_or_else(absent)),
        ("what changes its libraries", machine.library_settings()),
        ("file system", machine.filesystem.clone()),
        ("mounted at", machine.mount_point.clone().unwrap_or_else(absent)),
        ("mounted with", machine.mount.clone()),
        ("device", machine.device.clone().unwrap_or_else(absent)),
        ("what lies below", machine.below.as_ref().map_or_else(absent, below)),
        ("rotates", rotates.map_or_else(|| "not known".to_owned(), yes)),
        ("read ahead", machine.read_ahead_bytes.map_or_else(absent, |bytes| units::bytes(bytes as f64))),
        ("free space", size(machine.free_bytes)),
        ("as root", yes(machine.root)),
        ("processors asked not to sleep", yes(result.plan.awake == Some(true))),
        ("workers and servers run on", machine.sides()),
    ] {
        table.push(vec![name.into(), value.into()]);
    }
    table
}

/// The storage layers below the measured directory, and the medium that keeps its bytes.
fn below(below: &StorageLayers) -> String {
    let medium = match below.medium {
        Medium::Disk => "a disk",
        Medium::Memory => "memory",
        Medium::NotKnown => "not known",
    };
    format!("{}: {medium}", below.description())
}

fn harness(result: &RunResult) -> Markup {
    let harness = &result.harness;
    let mut table = Table::new("An op of a store that does nothing", ["phase", "#time"]);
    for (phase, ns) in &harness.null_ns {
        table.push(vec![TableCell::from(phase), units::nanoseconds(*ns).into()]);
    }
    html! {
        @if harness.clock.is_empty() {
            p { "Not measured, because the run ended before." }
        } @else {
            p { "Time is read by the " (harness.clock) "; one reading takes " (units::nanoseconds(harness.clock_read_ns)) "." }
        }
        @if let Some(trips) = probes::trips(result) {
            p { "A byte to a thread on another processor and back over a pair of sockets takes " (units::nanoseconds(trips.ns)) ", and " (units::nanoseconds(trips.near_ns)) " to one on the same: the difference is what waking a processor takes, and part of the answer of a server that waits on another one." }
        }
        (table.printed(0))
    }
}

fn fixed(result: &RunResult) -> Markup {
    let fixed = &result.fixed;
    let mut table =
        Table::new("Lengths of phases", ["phase", "#ops a pass", "#passes for at least", "#cold passes"]);
    for (phase, length) in &fixed.lengths {
        table.push(vec![
            TableCell::from(phase),
            length.ops.to_string().into(),
            units::nanoseconds(length.seconds * 1e9).into(),
            length.cold_passes.to_string().into(),
        ]);
    }
    html! {
        @if fixed.rounds == 0 {
            p { "Nothing, because the run ended before." }
        } @else {
            p { (units::counted(fixed.rounds, "round")) @if !fixed.rounds_final { " (not yet final)" } ", " (units::exact_percent(fixed.corpus_share)) " of the planned blobs." }
        }
        (table.printed(0))
    }
}
