//! Tests of the shipped plans: the names they use exist, every published claim is present, and their arithmetic is right.

use std::collections::BTreeSet;

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::*;

/// Number of claims per document, except those about what to check before buying a database.
const CLAIMS: &[(&str, u32)] = &[
    ("FF", 8),
    ("HK", 11),
    ("PV", 9),
    ("AF-EBS", 8),
    ("MQ", 5),
    ("MC", 4),
    ("SP", 5),
    ("CSS", 3),
    ("DP", 1),
    ("GF", 9),
    ("SVG", 8),
];

fn published() -> Vec<(&'static str, Plan)> {
    let texts = SHIPPED.iter().map(|(name, text)| {
        (*name, PlanText::parse(text).unwrap_or_else(|error| panic!("{name}: {error:#}")))
    });
    let single = texts.filter(|(_, text)| text.plans.is_empty());
    let plans = single.map(|(name, mut text)| {
        // Adds `null`, so that the plan resolves on machines where none of its servers is installed.
        text.stores.get_or_insert_default().push("null".to_owned());
        (name, text.resolve(false).unwrap_or_else(|error| panic!("{name}: {error:#}")))
    });
    plans.filter(|(_, plan)| plan.text.document.is_some()).collect()
}

#[test]
fn every_published_claim_is_in_a_plan() {
    let plans = published();
    let found: Vec<String> =
        plans.iter().flat_map(|(_, plan)| &plan.text.claim).map(|claim| claim.id.clone()).collect();
    let all =
        CLAIMS.iter().flat_map(|(document, count)| (1..=*count).map(move |n| format!("{document}-{n}")));
    let (unique, wanted): (BTreeSet<String>, BTreeSet<String>) =
        (found.iter().cloned().collect(), all.collect());
    assert_eq!(unique.len(), found.len(), "a claim is there twice: {found:?}");
    assert_eq!(unique, wanted);
}

#[test]
fn figures_that_documents_work_out_follow_from_their_tables_or_are_named() {
    for (name, plan) in published() {
        let figures = plan.text.published.iter().flat_map(|table| &table.series);
        let has_figures = figures.into_iter().any(|series| !series.values.is_empty());
        assert_eq!(plan.text.derived.is_empty(), !has_figures, "{name} works out nothing");
        for derived in &plan.text.derived {
            let follows = derived.follows(&plan.text.published).unwrap();
            assert_eq!(
                follows.is_err(),
                derived.disagreement.is_some(),
                "{name}: {}: {follows:?}",
                derived.what
            );
        }
    }
}

/// Checks that every candidate, phase and corpus named by a claim or a published table exists in the plan.
#[test]
fn claims_and_tables_name_what_the_plan_has() {
    for (name, plan) in published() {
        let candidates: BTreeSet<&str> = plan
            .candidates
            .iter()
            .map(|candidate| candidate.label.as_str())
            .chain(plan.missing.iter().map(|candidate| candidate.label.as_str()))
            .collect();
        let phase = |wanted: &str| {
            let part = format!("{wanted}.");
            plan.phases.iter().any(|phase| phase.id == wanted || phase.id.starts_with(&part))
        };
        let corpus = |wanted: &str| plan.corpora.iter().any(|corpus| corpus.name.as_deref() == Some(wanted));
        let check = |of: &str, target: &DetailedOperand| {
            let others = [&target.after, &target.before].into_iter().flatten();
            for candidate in others.chain([&target.candidate]) {
                assert!(
                    candidates.contains(candidate.as_str()),
                    "{name}, {of}: no candidate `{candidate}` among {candidates:?}"
                );
            }
            assert!(target.phase.as_deref().is_none_or(phase), "{name}, {of}: no phase {:?}", target.phase);
            let candidate = plan.candidates.iter().find(|candidate| candidate.label == target.candidate);
            let missing = plan.missing.iter().find(|candidate| candidate.label == target.candidate);
            let is_meant = |known: &&Phase| {
                [known.id.as_str(), whole_of(&known.id)].map(Some).contains(&target.phase.as_deref())
            };
            for phase in plan.phases.iter().filter(is_meant) {
                let does = candidate.is_none_or(|candidate| plan.is_done_by(&phase.id, candidate));
                let would = missing.is_none_or(|candidate| {
                    plan.would_be_done_by(&phase.id, &candidate.label, &candidate.adapter)
                });
                assert!(does && would, "{name}, {of}: `{}` does not do `{}`", target.candidate, phase.id);
            }
            assert!(
                target.corpus.as_deref().is_none_or(corpus),
                "{name}, {of}: no corpus {:?}",
                target.corpus
            );
            assert!(target.corpus.is_some() || plan.corpora.len() == 1, "{name}, {of}: which corpus?");
        };
        for claim in &plan.text.claim {
            claim.check(true).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            leaves(claim).iter().for_each(|leaf| {
                leaf.candidates.iter().for_each(|operand| check(&leaf.id, &leaf.target(operand)));
            });
        }
        for table in &plan.text.published {
            assert!(table.series.iter().any(|series| series.name == table.reference), "{name}: {}", table.id);
            for series in &table.series {
                assert!(
                    series.counts.is_empty() || series.counts.len() == series.values.len(),
                    "{name}: {}",
                    series.name
                );
                let Some(operand) = &series.today else { continue };
                check(&table.id, &table.target(operand));
            }
        }
    }
}

fn leaves(claim: &ClaimText) -> Vec<ClaimText> {
    let parts = claim.parts();
    if parts.is_empty() { vec![claim.clone()] } else { parts.iter().flat_map(leaves).collect() }
}

#[test]
fn plans_have_rounds_enough_and_say_what_they_fixed() {
    for (name, plan) in published() {
        assert!(
            plan.text.rounds.is_some_and(|rounds| rounds >= 10),
            "{name} has too few rounds for verdicts"
        );
        assert!(!plan.text.unspecified.is_empty() && !plan.text.published.is_empty(), "{name}");
        let about = plan.text.about.as_deref().unwrap_or_default();
        assert!(!about.is_empty() && plan.name == name, "{name}");
        let again = PlanText::parse(&plan.text.to_toml().unwrap()).unwrap();
        assert_eq!(again, plan.text, "{name}");
    }
}

#[test]
fn the_collection_has_every_plan_that_repeats_a_document() {
    let collection = PlanText::load("all").unwrap();
    let named: BTreeSet<String> = collection.plans.iter().cloned().collect();
    let published = published();
    let wanted: BTreeSet<String> = published.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(named, wanted);
    assert_eq!(named.len(), collection.plans.len(), "one is there twice");
}
