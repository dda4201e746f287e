//! A small form of the plan of pages, for tests that need few page loads.

/// Returns the plan with `count` loads in each of two rounds, by HTTP/2 at one round trip time in milliseconds.
pub fn small_plan(count: u32, round_trip: u32) -> String {
    let smaller = [
        ("count = 20", format!("count = {count}")),
        ("rounds = 5", "rounds = 2".to_owned()),
        ("[\"1.1\", \"2\"]", "[\"2\"]".to_owned()),
        ("[\"0\", \"10\", \"50\", \"100\"]", format!("[\"{round_trip}\"]")),
    ];
    smaller.into_iter().fold(include_str!("../../plans/page.toml").to_owned(), |plan, (whole, small)| {
        assert!(plan.contains(whole), "the plan of pages has no `{whole}` any more");
        plan.replace(whole, &small)
    })
}
