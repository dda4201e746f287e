//! Corpora of plans: their sizes, samples and sweeps.

use blobwise_engine::engine::work::ResolvePlan;
use blobwise_plan::plan::text::corpora::{
    DEFAULT_BLOBS, DEFAULT_BYTES, DEFAULT_BYTES_LEAST, SWEEP_BLOBS_MIN,
};
use blobwise_plan::plan::*;
use blobwise_plan::rules::MEMORY_MIN;
use blobwise_stores::corpus::{BlobSource, Sizes};

fn planned(toml: &str) -> Vec<CorpusPlan> {
    planned_of(&PlanText::parse(toml).unwrap())
}

fn planned_of(text: &PlanText) -> Vec<CorpusPlan> {
    text.resolve(false).unwrap().design.corpora
}

#[test]
fn a_scaled_corpus_keeps_eight_blobs_and_fewer_of_large_ones() {
    let blobs = |corpus: &str, scale: f64| {
        planned(&format!("scale = {scale}\n[corpus]\n{corpus}"))[0].request.blobs_max
    };
    assert_eq!(blobs("source = 'fixed:1kB'\nblobs = 1000", 0.1), Some(100));
    assert_eq!(blobs("source = 'fixed:1kB'\nblobs = 1000", 0.001), Some(8));
    assert_eq!(blobs("source = 'fixed:1kB'\nblobs = 5", 0.001), Some(5));
    assert_eq!(blobs("source = 'fixed:4MB'\nblobs = 1000", 0.001), Some(4));
    assert_eq!(blobs("source = 'fixed:100MB'\nblobs = 1000", 0.001), Some(2));
    assert_eq!(blobs("source = 'fixed:100MB'\nblobs = 1", 0.001), Some(1));
}

#[test]
fn what_was_asked_for_is_told_from_defaults() {
    let stands = |toml: &str| planned(toml)[0].kept_share == 1.0;
    assert!(!stands("") && !stands("[corpus]\nsource = 'tiny'") && !stands("sweep = '1kB..10kB'"));
    assert!(stands("[corpus]\nblobs = 400") && stands("[corpus]\nbytes = '1MB'"));
    assert!(stands("sweep = '1kB..10kB'\n[corpus]\nblobs = 400"));
    // Beyond a processor's cache of 32 MiB it has at least twice that, and may still be cut; so it may where it is large enough.
    let beyond = |toml: &str, cache_bytes: u64| {
        let mut text = PlanText::parse(toml).unwrap();
        text.exceed_processor_cache(cache_bytes);
        let corpus = planned_of(&text).remove(0);
        (corpus.request.blobs_max, corpus.request.bytes_max, corpus.kept_share == 1.0)
    };
    assert_eq!(beyond("", 32 << 20), (Some(1000), Some(80_000_000), false));
    assert_eq!(beyond("", 4 << 20), (Some(400), Some(32_000_000), false));
    assert_eq!(beyond("", 1 << 30), (Some(6400), Some(512_000_000), false));
    assert_eq!(beyond("[corpus]\nfiles = '/'", 32 << 20), (None, Some(80_000_000), false));
    for sized in ["[corpus]\nblobs = 12", "[corpus]\nbytes = '1MB'", "sweep = '1kB..1MB'", "grow = '1k..1M'"]
    {
        let mut text = PlanText::parse(sized).unwrap();
        text.exceed_processor_cache(32 << 20);
        assert_eq!(text, PlanText::parse(sized).unwrap(), "{sized}");
    }
    // As stored with a run, with the defaults written out.
    for plan in ["", "memory_sweep = '400%..1%'"] {
        let kept = PlanText::parse(plan).unwrap().resolve(false).unwrap().design.text;
        assert!(kept.corpus.as_ref().unwrap().blobs.is_some());
        assert!(kept.resolve(false).unwrap().design.corpora[0].kept_share < 1.0, "{plan}");
    }
}

#[test]
fn a_sample_is_given_more_only_if_its_size_is_open() {
    let open = |toml: &str| PlanText::parse(toml).unwrap().leaves_sample_open();
    assert!(open("[corpus]\nfiles = '/'"));
    for given in ["blobs = 12", "bytes = '32MB'", "bytes = '80000000'"] {
        assert!(!open(&format!("[corpus]\nfiles = '/'\n{given}")), "{given}");
    }
    assert!(!open("") && !open("scale = 0.5\n[corpus]\nfiles = '/'"));
    // The blobs are the objects of the log.
    assert!(!open("[corpus]\nfiles = '/'\ntrace = 'a.log'"));
    let mut design = PlanText::parse("[corpus]\nfiles = '/'").unwrap().resolve(false).unwrap().design;
    for (room, most) in [(u64::MAX, 512_000_000), (207_000_000, 200_000_000), (0, 0)] {
        design.open_sample(room);
        assert_eq!(design.corpora[0].request.grows_to, Some(most));
    }
}

#[test]
fn a_sweep_of_memory_has_a_corpus_of_whose_smallest_share_a_candidate_can_run() {
    let swept = |toml: &str| planned(&format!("memory_sweep = {toml}")).remove(0);
    for share in [100.0, 50.0, 25.0, 10.0, 3.0, 1.0] {
        let corpus = swept(&format!("'400%,{share}%'"));
        let times = corpus.request.bytes_max.unwrap() as f64 / DEFAULT_BYTES as f64;
        let kept = times * DEFAULT_BYTES_LEAST * corpus.kept_share * share / 100.0;
        assert!(
            (kept / MEMORY_MIN as f64 - 1.0).abs() < 1e-9 && corpus.kept_share <= 1.0,
            "{share} %: {corpus:?}"
        );
        assert_eq!(corpus.request.blobs_max.unwrap() as f64, times * DEFAULT_BLOBS as f64, "{share} %");
    }
    let size = |corpus: CorpusPlan| (corpus.request.blobs_max, corpus.request.bytes_max);
    assert_eq!(size(swept("'400%..25%'")), size(planned("").remove(0)));
    assert_eq!(size(swept("'400%..10%'\n[corpus]\nblobs = 100")), (Some(100), None));
    assert_eq!(size(swept("'400%..10%'\n[corpus]\nfiles = '/'")), (None, Some(2 * DEFAULT_BYTES)));
}

#[test]
fn several_corpora_come_from_small_to_large() {
    let corpus = |name: &str| format!("[[corpora]]\nname = '{name}'\nsource = 'fixed:{name}'\nblobs = 10\n");
    let corpora = planned(&["2MB", "1kB", "40kB"].map(corpus).concat());
    let names: Vec<&str> = corpora.iter().filter_map(|corpus| corpus.name.as_deref()).collect();
    assert_eq!(names, ["1kB", "40kB", "2MB"]);
}

#[test]
fn a_sweep_is_a_ladder_of_sizes() {
    let corpora = planned("sweep = '1kB..10MB'");
    let centres: Vec<u64> = corpora.iter().filter_map(|corpus| corpus.corpus_id.bytes()).collect();
    assert_eq!(centres.len(), 9);
    assert!(centres.windows(2).all(|pair| pair[0] < pair[1]));
    for corpus in &corpora {
        assert!(corpus.request.blobs_max.unwrap() >= SWEEP_BLOBS_MIN);
    }
}

#[test]
fn a_sweep_of_named_sizes_has_just_these() {
    let corpora = planned("sweep = '1MB, 10kB,64KiB'");
    let sizes: Vec<u64> = corpora.iter().filter_map(|corpus| corpus.corpus_id.bytes()).collect();
    assert_eq!(sizes, [10_000, 65_536, 1_000_000]);
    for (corpus, size) in corpora.iter().zip(sizes) {
        let BlobSource::Synthetic { sizes, .. } = &corpus.request.source else { panic!("synthetic blobs") };
        assert_eq!(*sizes, Sizes::Fixed(size));
    }
    assert_ne!(corpora[0].request.seed, corpora[1].request.seed);
    let error = |sweep: &str| {
        let text = PlanText { sweep: Some(sweep.to_owned()), ..PlanText::default() };
        format!("{:#}", text.resolve(false).unwrap_err())
    };
    assert!(error("10kB").contains("10kB,100kB,1MB"), "{}", error("10kB"));
    assert!(error("10kB,10000").contains("names 10000 B twice"), "{}", error("10kB,10000"));
    assert!(error("0,1kB").contains("0 B is not between 1 and"), "{}", error("0,1kB"));
    assert!(error("1kB,5GB").contains("4294967295"), "{}", error("1kB,5GB"));
    assert!(error("1kB,").contains("--sweep"), "{}", error("1kB,"));
}

#[test]
fn what_a_plan_says_of_its_log_is_not_said_of_another_source() {
    let corpus = |toml: &str| PlanText::parse(&format!("[corpus]\n{toml}")).unwrap().corpus.unwrap();
    let plan = corpus("trace = 'a.log'\ncolumns = 'time,key'\nallow_bad = '5%'\nsample = '2%'");
    let changed = |flags: &str| plan.clone().changed_by(&corpus(flags)).unwrap();
    assert_eq!(changed("source = 'tiny'"), corpus("source = 'tiny'"));
    assert_eq!(changed("trace = 'b.log'"), corpus("trace = 'b.log'\nsample = '2%'"));
    assert_eq!(changed("allow_bad = '9%'").allow_bad.as_deref(), Some("9%"));
    assert_eq!(changed("allow_bad = '9%'").columns, plan.columns);
    let log = |toml: &str| match &planned(&format!("stores = ['files/flat']\n[corpus]\n{toml}"))[0]
        .request
        .source
    {
        BlobSource::Trace { log, .. } => log.clone(),
        other => panic!("{other:?}"),
    };
    let read = log("trace = 'a.log'\ncolumns = 'time,key'\nallow_bad = '5%'");
    assert_eq!((read.columns.as_deref(), read.bad_share_max), (Some("time,key"), 0.05));
    assert_eq!(log("trace = 'a.log'").bad_share_max, 0.01);
}
