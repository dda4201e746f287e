//! Local ports of clients: those that a candidate has used up come back before the next one begins, and who uses up all of them is
//! told so. In a network of its own that has few.

use blobwise::result::{RunResult, Status};

use super::program::{BLOBWISE, Outcome, Said, Work};
use super::{Command, ended, missing, refused, start};

/// A network of its own, in which so many local ports are given to connections, and none again while the one before is remembered.
fn network(ports: u32, then: &str) -> [String; 7] {
    let script = format!(
        "ip link set lo up && echo '32768 {}' >/proc/sys/net/ipv4/ip_local_port_range && \
         echo 0 >/proc/sys/net/ipv4/tcp_tw_reuse && {then} \"$0\" \"$@\"",
        32767 + ports
    );
    ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", &script].map(str::to_owned)
}

/// Why that cannot be had here.
pub fn no_network() -> Option<String> {
    let network = network(300, "exec");
    refused(&network.each_ref().map(String::as_str)).or_else(|| missing("nginx")).or_else(|| missing("s3"))
}

fn run(work: &Work, network: [String; 7], line: &str) -> Said {
    std::fs::create_dir(work.path("place")).unwrap();
    let [first, rest @ ..] = &network;
    let mut command: Command = work.command(first);
    command.args(rest).arg(BLOBWISE).args(line.split_whitespace());
    ended(start(command.args(["--quiet", "--dir", "place", "--out", "out"])))
}

/// Each op of the first candidate connects, and closes before the server does.
const LINE: &str = "run --stores s3,nginx,files/hashed --set s3.connection=per-op --corpus fixed:1kB --phases fill,delete-half";

fn outcomes(work: &Work) -> Vec<(String, Status, String)> {
    let candidates = RunResult::load(&work.path("out")).unwrap().candidates.into_iter();
    candidates.map(|known| (known.store, known.status, known.reason.unwrap_or_default())).collect()
}

/// 150 of 300 in a visit, and several visits within the minute for which the kernel remembers a connection.
pub fn come_back() -> Outcome {
    let work = Work::new();
    let said = run(&work, network(300, "exec"), &format!("{LINE} --blobs 100 --rounds 3"));
    let outcomes = outcomes(&work);
    assert!(
        outcomes.iter().all(|(_, status, _)| *status == Status::Measured),
        "{outcomes:?}\n{}",
        said.stderr
    );
    assert_eq!((said.code, outcomes.len()), (Some(0), 3));
    Ok(())
}

pub fn run_out() -> Outcome {
    let work = Work::new();
    run(&work, network(60, "exec"), &format!("{LINE} --blobs 100 --rounds 2")).ended(1);
    for (store, status, reason) in outcomes(&work) {
        if store.starts_with("s3") {
            assert_eq!(status, Status::Failed);
            let words = ["the client's ports ran out", "of 60 (32768 to 32827)", "connection=kept"];
            assert!(words.iter().all(|words| reason.contains(words)), "{reason}");
        } else {
            assert_eq!((status, reason.as_str()), (Status::Measured, ""), "{store}");
        }
    }
    Ok(())
}

/// To a server of the user's all rounds have the same way: they wait for ports, and the run says for how long.
pub fn are_waited_for() -> Outcome {
    let work = Work::new();
    let server = "(redis-server --port 6379 --bind 127.0.0.1 --save '' >/dev/null & echo $! >pid; until redis-cli ping >/dev/null 2>&1; do \
                  sleep 0.05; done);";
    let then = format!("{server} trap 'kill $(cat pid)' EXIT;");
    let line = "run --stores redis --set redis.url=redis://127.0.0.1:6379/0 --set redis.connection=per-op --corpus fixed:1kB \
                --blobs 120 --rounds 2 --durability none --phases fill,delete-half";
    let said = run(&work, network(300, &then), line).ended(0);
    let result = RunResult::load(&work.path("out"))?;
    let waited = result.candidates[0].facts.get("waited");
    assert!(waited.is_some_and(|waited| waited.contains("local ports")), "{waited:?}\n{}", said.stderr);
    Ok(())
}
