//! Plans that grow.

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::*;

#[test]
fn a_growth_repeats_its_phases_and_excludes_what_would_change_its_steps() {
    let design = |toml: &str| PlanText::parse(toml).unwrap().resolve(false).map(|plan| plan.design);
    let grown =
        design("grow = '100,200,300,500,1k'\nphases = ['fill', 'read-warm']\nexpect = '10k'").unwrap();
    let ids: Vec<&str> = grown.phases.iter().map(|phase| phase.id.as_str()).collect();
    let wanted = ["fill.100", "read-warm.100", "fill.200", "read-warm.200", "fill.300", "read-warm.300"];
    assert_eq!((&ids[..6], ids.len(), grown.expect), (&wanted[..], 10, Some(10_000)));
    let added = grown.phases.iter().filter(|phase| phase.fills_a_step()).map(|phase| &phase.action);
    let added: Vec<Length> = added
        .filter_map(|action| match action {
            Action::Ops(load) => Some(load.length),
            _ => None,
        })
        .collect();
    assert_eq!(added, [100, 100, 100, 200, 500].map(Length::Ops));
    // Reads stay in the class of the fill: nothing is opened again for them.
    assert!(grown.phases.iter().all(|phase| phase.class == Class::Load) && grown.fill_class() == Class::Load);
    assert_eq!(grown.corpora[0].request.blobs_max, Some(1_000));
    // As stored with a run, with the defaults written out.
    let again = grown.text.resolve(false).unwrap().design;
    assert_eq!(again.phases, grown.phases);
    for (wrong, words) in [
        ("expect = '10M'", "needs --grow"),
        ("grow = '100..10k'\nexpect = '10k'", "is not above the last step"),
        ("grow = '1k..10k'\nexpect = '20k'", "needs 5 steps of --grow, and `1k..10k` has 3"),
        ("grow = '1k..10k'\nsweep = '1kB..1MB'", "cannot be used with --sweep"),
        ("grow = '1k..10k'\nscale = 0.5", "cannot be used with --scale"),
        ("grow = '1k..10k'\n[corpus]\nblobs = 12", "cannot be used with --blobs"),
        ("grow = '1k..10k'\nphases = ['fill', 'read-tight']", "`read-tight`, because it limits memory"),
        ("grow = '1k..10k'\nphases = ['fill', 'delete-half']", "its number of ops grows"),
    ] {
        let error = format!("{:#}", design(wrong).unwrap_err());
        assert!(error.contains(words), "{wrong}: {error}");
    }
}
