//! Results of power cuts on a candidate over all rounds of a run; rounds use different seeds, so their cuts are added
//! up.

use crate::result::RunResult;
use crate::result::crash::{
    Control, CrashResult, Damage, DamageCount, LossVerdict, OpenTimes, PowerCutResults, SurvivingData,
};

/// Returns the controls of the run, and a line per candidate, class and file system.
pub fn lines(result: &RunResult) -> (Vec<Control>, Vec<CrashResult>) {
    let (mut controls, mut lines): (Vec<Control>, Vec<CrashResult>) = (Vec::new(), Vec::new());
    for cuts in result.findings.iter().filter_map(|finding| finding.found.power_cuts.as_deref()) {
        for control in &cuts.controls {
            if !controls.contains(control) {
                controls.push(control.clone());
            }
        }
        let of = &cuts.line;
        let is_same = |line: &&mut CrashResult| {
            (&line.store, &line.file_system, line.durability) == (&of.store, &of.file_system, of.durability)
        };
        match lines.iter_mut().find(is_same) {
            Some(line) => add(line, of),
            None => lines.push(of.clone()),
        }
    }
    let holds = controls.iter().all(Control::holds);
    for line in &mut lines {
        line.verdict =
            line.finding.as_ref().filter(|_| holds).map(|found| LossVerdict::judge(line.declared, found));
    }
    (controls, lines)
}

/// True if a promised write was lost.
fn is_broken(finding: &PowerCutResults) -> bool {
    finding.course.cuts.iter().any(|(_, left)| *left == SurvivingData::Less)
}

fn add(line: &mut CrashResult, other: &CrashResult) {
    match (&mut line.finding, &other.finding) {
        (Some(finding), Some(more)) => add_finding(finding, more),
        (none @ None, Some(more)) => *none = Some(more.clone()),
        (_, None) => {}
    }
    if line.failed.is_none() {
        line.failed.clone_from(&other.failed);
    }
}

/// Adds the counts of `more`. Details of a single cut or load are taken from the first round that broke a promise,
/// otherwise from the first round.
fn add_finding(finding: &mut PowerCutResults, more: &PowerCutResults) {
    if !is_broken(finding) && is_broken(more) {
        finding.course.clone_from(&more.course);
        finding.sent = more.sent;
        finding.first.clone_from(&more.first);
        finding.causes.clone_from(&more.causes);
    }
    finding.open_seconds = match (finding.open_seconds, more.open_seconds) {
        (Some(one), Some(other)) => {
            // Weighted by the number of cuts that each median is based on.
            let (mine, theirs) = (finding.cuts.max(1) as f64, more.cuts.max(1) as f64);
            let middle = (one.middle * mine + other.middle * theirs) / (mine + theirs);
            Some(OpenTimes { middle, longest: one.longest.max(other.longest) })
        }
        (one, other) => one.or(other),
    };
    if finding.stuck.is_none() {
        finding.stuck.clone_from(&more.stuck);
    }
    finding.cuts += more.cuts;
    finding.checked.cuts += more.checked.cuts;
    finding.checked.wrong += more.checked.wrong;
    if finding.checked.first.is_none() {
        finding.checked.first.clone_from(&more.checked.first);
    }
    finding.opened_again += more.opened_again;
    finding.lost_recent += more.lost_recent;
    finding.unmountable += more.unmountable;
    for sort in &more.damaged {
        add_sort(&mut finding.damaged, *sort);
    }
}

fn add_sort(sorts: &mut Vec<DamageCount>, sort: DamageCount) {
    let of = |damage: Damage| move |known: &&mut DamageCount| known.damage == damage;
    match sorts.iter_mut().find(of(sort.damage)) {
        Some(known) => known.cuts += sort.cuts,
        None => sorts.push(sort),
    }
    sorts.sort();
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::judge::fixture;

    fn finding(round: u32, cuts: usize, lost: usize) -> Value {
        let damaged = if lost == 0 { json!([]) } else { json!([{"damage": "lost", "cuts": lost}]) };
        let left = if lost == 0 { "everything" } else { "less" };
        json!({
            "store": "a", "phase": "cut", "round": round, "title": "t", "columns": [], "lines": [], "bearing": "holds", "verdict": "v",
            "power_cuts": {
                "controls": [{"what": "w", "file_system": "ext4", "must_lose": true, "lost": 24, "cuts": 24}],
                "line": {
                    "store": "a", "file_system": "ext4", "durability": "each-write", "declared": "nothing",
                    "finding": {
                        "cuts": cuts, "damaged": damaged, "lost_recent": 1, "unmountable": 0, "sent": {"writes": 1, "flushes": 1},
                        "open_seconds": {"middle": f64::from(round), "longest": f64::from(round) * 2.0},
                        "course": {"entries": 5, "flushes": [], "cuts": [[round, left]]}
                    }
                }
            }
        })
    }

    fn lines_of(findings: Vec<Value>) -> (Vec<Control>, Vec<CrashResult>) {
        let mut result = fixture::result("", Vec::new(), Vec::new());
        result.findings = serde_json::from_value(Value::Array(findings)).unwrap();
        lines(&result)
    }

    #[test]
    fn cuts_of_rounds_add_up_and_are_judged_together() {
        let (controls, lines) = lines_of(vec![finding(1, 6, 0), finding(2, 6, 0)]);
        assert_eq!((controls.len(), lines.len()), (1, 1));
        let found = lines[0].finding.as_ref().unwrap();
        assert_eq!((found.cuts, found.lost_recent), (12, 2));
        assert_eq!(found.open_seconds, Some(OpenTimes { middle: 1.5, longest: 4.0 }));
        // Six cuts would be too few.
        assert_eq!(lines[0].verdict, Some(LossVerdict::Confirmed));
        let (_, lines) = lines_of(vec![finding(1, 6, 0), finding(2, 6, 2), finding(3, 6, 1)]);
        let found = lines[0].finding.as_ref().unwrap();
        assert_eq!((lines[0].verdict, found.damages()), (Some(LossVerdict::Refuted), 3));
        assert_eq!(
            found.course.cuts,
            [(2, SurvivingData::Less)],
            "the picture is of the round that broke it"
        );
    }

    #[test]
    fn a_control_that_came_out_wrong_in_any_round_takes_every_verdict() {
        let mut wrong = finding(2, 6, 0);
        wrong["power_cuts"]["controls"][0]["lost"] = json!(0);
        let (controls, lines) = lines_of(vec![finding(1, 6, 0), wrong]);
        assert_eq!((controls.len(), lines[0].verdict), (2, None));
    }
}
