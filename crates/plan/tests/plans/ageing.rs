//! Plans that age.

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::*;

#[test]
fn ageing_overwrites_up_to_each_step_and_reads_there() {
    let design = |toml: &str| PlanText::parse(toml).unwrap().resolve(false).map(|plan| plan.design);
    let aged = design("age = '0,0.5,2'\nphases = ['fill', 'read-cold', 'read-again']").unwrap();
    let ids: Vec<&str> = aged.phases.iter().map(|phase| phase.id.as_str()).collect();
    let at_50 = ["age.50", "read-cold.50", "read-again.50"];
    assert_eq!(
        (&ids[..3], &ids[3..6], ids.len()),
        (&["fill", "read-cold.00", "read-again.00"][..], &at_50[..], 9)
    );
    let amounts = aged.phases.iter().filter_map(|phase| Some(phase.custom_action()?.amount));
    assert_eq!(amounts.collect::<Vec<f64>>(), [0.5, 2.0]);
    // As stored with a run, with the defaults written out.
    assert_eq!(aged.text.resolve(false).unwrap().design.phases, aged.phases);
    let own = "[[phase]]\nid = 'own'\nops = {get = 1.0}\nshare = 1.0\nstores = ['sqlite']";
    let some = design(&format!("stores = ['files/flat', 'sqlite']\nage = '0,0.5'\n{own}")).unwrap();
    let does = |store: &str| some.is_for("own.50", store, &std::collections::BTreeMap::new());
    assert!(does("sqlite") && !does("files/flat"));
    for (wrong, words) in [
        ("age = '0..8'\ngrow = '1k..10k'", "cannot be used with --grow"),
        ("age = '0..8'\nsweep = '1kB..1MB'", "cannot be used with --sweep"),
        ("age = '0..8'\nlimit = 'p99=5ms'", "cannot be used with --limit"),
        ("age = '0..8'\nrate = 500.0", "cannot be used with --rate"),
        ("age = '0..8'\nphases = ['fill', 'overwrite']", "cannot repeat the phase `overwrite`"),
        ("age = '0..8'\nphases = ['fill', 'age']", "cannot repeat the phase `age-1`"),
    ] {
        let error = format!("{:#}", design(wrong).unwrap_err());
        assert!(error.contains(words), "{wrong}: {error}");
    }
}
