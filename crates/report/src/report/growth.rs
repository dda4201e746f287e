//! A growth or ageing in every kind of report: each figure over the number of blobs or the age, and of a growth its exponent and the
//! extrapolation with its test.

use std::collections::BTreeSet;

use super::block::{Block, ReportFormat, in_terminal};
use super::forecast::{predicted, sentence, value, with_ends};
use super::section::{Section, new};
use super::table::{Table, TableCell, named, shown};
use super::view::words::step_shown;
use crate::judge::interval;
use crate::result::{CurveFigure, RunResult, StepCurve, StoreRound};
use crate::units;

pub(super) const SECTION: Section = new("growth", "Growth and age").blocks(blocks).brief(brief);

/// Text above the tables of a growth.
const ABOUT: &str = "One store of each candidate, filled step by step and measured at each step; columns are numbers of blobs. `times` is the value at the last step that a store reached over that at the first. `exponent` is 0 where the number of blobs changes nothing, and 1 where the value is proportional to it.";
/// Text above the tables of ageing.
const ABOUT_AGES: &str = "One store of each candidate, whose blobs are replaced by others of new sizes and read at each age; columns are ages, the bytes overwritten since the fill for each live byte. `times` is the value at the last age over that at the first.";

/// Texts of one screen of a terminal.
const BRIEFLY: &str = "Each figure at the last step that a store reached, over that at the first step:";
const EXPECTED: &str = "All tables have what to expect with more blobs, with how well the last step is predicted by those before it.";

fn title(phase: &str, figure: CurveFigure) -> String {
    match figure {
        CurveFigure::Time => format!("`{phase}`, time per op"),
        CurveFigure::Disk => "Disk space per blob".to_owned(),
        CurveFigure::Memory => format!("Memory in `{phase}`"),
        CurveFigure::DiskPerByte => "Disk space per live byte".to_owned(),
        CurveFigure::WriteAmplification => {
            "Bytes written by the device per byte overwritten since the age before".to_owned()
        }
        CurveFigure::Fragments => "Fragments per blob".to_owned(),
    }
}

/// Table of the curves of one figure; terminals and pages have no room for the intervals of each step.
fn table(result: &RunResult, curves: &[&StepCurve], title: &str, format: ReportFormat) -> Table {
    let mut places: Vec<u64> = curves.iter().flat_map(|of| of.steps.iter().map(|step| step.at)).collect();
    places.sort_unstable();
    places.dedup();
    let steps = places.iter().map(|at| format!("#{}", step_shown(result, *at)));
    let has_exponents = curves.iter().any(|of| of.exponent.is_some());
    let ends = ["#times", "#exponent"].map(str::to_owned).into_iter().take(1 + usize::from(has_exponents));
    let head: Vec<String> = std::iter::once("store".to_owned()).chain(steps).chain(ends).collect();
    let mut table = Table::new(title.replace('`', ""), &head);
    for of in curves {
        let at = |place: &u64| -> TableCell {
            let step = of.steps.iter().find(|step| step.at == *place);
            shown(step, |step| match format {
                ReportFormat::Terminal | ReportFormat::Page => value(of.figure, step.value.median),
                ReportFormat::Markdown => with_ends(of.figure, &step.value),
            })
        };
        let mut row = vec![named(&of.store)];
        row.extend(places.iter().map(at));
        row.push(interval::text(&of.times).into());
        row.extend(has_exponents.then(|| shown(of.exponent, |exponent| interval::text(&exponent))));
        table.push(row);
    }
    table
}

/// Curves of each figure of each phase.
fn grouped(result: &RunResult) -> Vec<((&str, CurveFigure), Vec<&StepCurve>)> {
    units::grouped(result.curves.iter().map(|of| ((of.phase.as_str(), of.figure), of)))
}

/// Writes how much each figure changes, for one screen of a terminal.
fn brief(text: &mut String, result: &RunResult, title: &str) {
    let groups = grouped(result);
    let stores = units::grouped(result.curves.iter().map(|of| (of.store.as_str(), ())));
    if groups.is_empty() {
        return;
    }
    let heading = |(phase, figure): (&str, CurveFigure)| match figure {
        CurveFigure::Time => format!("#{phase}"),
        CurveFigure::Disk => "#disk/blob".to_owned(),
        CurveFigure::Memory => "#memory".to_owned(),
        CurveFigure::DiskPerByte => "#disk/byte".to_owned(),
        CurveFigure::WriteAmplification => "#written".to_owned(),
        CurveFigure::Fragments => "#fragments".to_owned(),
    };
    let head = std::iter::once("store".to_owned()).chain(groups.iter().map(|(key, _)| heading(*key)));
    let mut table = Table::new(title, head.collect::<Vec<String>>());
    for (store, _) in stores {
        let of_store = |curves: &Vec<&StepCurve>| {
            let curve = curves.iter().find(|of| of.store == store);
            shown(curve, |of| format!("{:.2}", of.times.median))
        };
        let mut row = vec![named(store)];
        row.extend(groups.iter().map(|(_, curves)| of_store(curves)));
        table.push(row);
    }
    let mut all = vec![Block::Text(BRIEFLY.to_owned()), Block::Table(table)];
    if result.curves.iter().any(|of| of.forecast.is_some()) {
        all.push(Block::Text(EXPECTED.to_owned()));
    }
    in_terminal(text, title, &all);
}

/// Says which candidates were aged in one round, whose disk the other rounds read copies of, and which in each round. A run that was
/// resumed had lost its copies, and aged its stores once more.
fn how_aged(result: &RunResult) -> Vec<String> {
    let visits = |store: &str| -> Vec<&StoreRound> {
        result.store_rounds.iter().filter(|visit| visit.store == store).collect()
    };
    let has_copy = |visit: &&StoreRound| visit.images.iter().any(|image| image.is_copy);
    let copied: BTreeSet<&str> =
        result.store_rounds.iter().filter(has_copy).map(|visit| visit.store.as_str()).collect();
    let aged = result.curves.iter().map(|of| of.store.as_str()).filter(|store| visits(store).len() > 1);
    let each: BTreeSet<&str> = aged.filter(|store| !copied.contains(store)).collect();
    let is_once = |store: &&str| visits(store).iter().filter(|visit| visit.ages_for_others()).count() <= 1;
    let (once, again): (BTreeSet<&str>, BTreeSet<&str>) = copied.into_iter().partition(is_once);
    let listed = |stores: &BTreeSet<&str>| {
        let names: Vec<String> = stores.iter().map(|store| format!("`{store}`")).collect();
        units::listed(&names, "and")
    };
    let told_once = format!(
        "Aged once: {}. The other rounds read copies of the disk at each age, equal by SHA-256, so the fill and ageing have one \
         value each, without interval or rank.",
        listed(&once)
    );
    let told_again = format!(
        "Aged once, and once more where the run was resumed: {}. The other rounds read copies of the disk at each age, equal by \
         SHA-256.",
        listed(&again)
    );
    let told_each =
        format!("Aged in each round: {}, so rounds differ by how a store aged as well.", listed(&each));
    let all = [(once, told_once), (again, told_again), (each, told_each)];
    all.into_iter().filter(|(stores, _)| !stores.is_empty()).map(|(_, told)| told).collect()
}

fn blocks(result: &RunResult, format: ReportFormat) -> Vec<Block> {
    let groups = grouped(result);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut all = vec![Block::Text(if result.plan.age.is_some() { ABOUT_AGES } else { ABOUT }.to_owned())];
    if result.plan.age.is_some() {
        all.extend(how_aged(result).into_iter().map(Block::Text));
    }
    all.extend(result.plan.age_by.as_ref().map(|by| Block::Text(format!("Blobs were replaced by `{by}`."))));
    all.extend(predicted(result).map(Block::Text));
    for ((phase, figure), curves) in groups {
        let title = title(phase, figure);
        let table = table(result, &curves, &title, format);
        // On a page, a table has its caption.
        if format != ReportFormat::Page {
            all.push(Block::Heading(title));
        }
        all.push(Block::Table(table));
        let forecasts = curves.iter().filter_map(|of| Some(sentence(of, of.forecast.as_ref()?)));
        all.push(Block::List(forecasts.collect()));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::how_aged;
    use crate::report::html::tests::result;
    use crate::result::StoreRound;

    #[test]
    fn what_was_aged_again_after_a_resumption_does_not_count_as_aged_once() {
        let mut result = result(&["a", "b"], Vec::new(), Vec::new());
        let visit = |store: &str, round: u32, is_copy: bool| -> StoreRound {
            let images = json!([{"phase": "fill", "sha256": "00", "is_copy": is_copy}]);
            let value = json!({"round": round, "store": store, "position": 1, "seconds": 1.0, "verified": 1, "images": images,
                               "footprint": {"store": store, "logical_bytes": 1}});
            serde_json::from_value(value).unwrap()
        };
        let of = |store: &str, aged: &[u32]| {
            (1..=4).map(|round| visit(store, round, !aged.contains(&round))).collect::<Vec<StoreRound>>()
        };
        result.store_rounds = [of("a", &[1]), of("b", &[1, 3])].concat();
        let [once, again]: [String; 2] = how_aged(&result).try_into().unwrap();
        assert!(once.starts_with("Aged once: `a`. "), "{once}");
        assert!(again.starts_with("Aged once, and once more where the run was resumed: `b`. "), "{again}");
    }
}
