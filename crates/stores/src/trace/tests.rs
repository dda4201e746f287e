//! What a log is known to have comes back: lines of each format, popularity, misses, rates; and what is wrong with a log is counted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Cursor, Read, Write};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use xxhash_rust::xxh3::xxh3_64;

use super::objects::Objects;
use super::replay::Bounds;
use super::zipf::fit;
use super::*;

fn reader(log: impl Into<Vec<u8>>) -> LogReader {
    LogReader::new(Box::new(Cursor::new(log.into())), None, None).unwrap()
}

fn described(log: impl Into<Vec<u8>>) -> Description {
    describe(&mut reader(log), |_| {})
}

fn requests(reader: &mut LogReader) -> Vec<Request> {
    std::iter::from_fn(|| reader.next_request()).collect()
}

/// A line of a web server, with its status and bytes in `rest`.
fn web(request: &str, rest: &str) -> String {
    format!("192.0.2.1 - - [30/Nov/2026:09:00:02 +0100] \"{request} HTTP/1.1\" {rest}\n")
}

/// Whole reads of this many objects.
fn lines(count: u32) -> String {
    (0..count).map(|n| web(&format!("GET /{n}"), &format!("200 {n}"))).collect()
}

/// A read of 77 bytes at second 1, as libCacheSim has it.
fn record() -> Vec<u8> {
    let mut record = [1_u32.to_le_bytes(), 9_u32.to_le_bytes(), [0; 4], 77_u32.to_le_bytes()].concat();
    record.extend([0xff; 8]);
    record
}

fn gzipped(log: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(log.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn each_format_is_recognised_and_says_what_was_done() {
    let s3 = |op: &str, rest: &str| {
        format!(
            "owner bucket [30/Nov/2026:08:00:02 +0000] 192.0.2.1 - ID {op} a%2Fb \"GET /x HTTP/1.1\" {rest} - -\n"
        )
    };
    let at = 1_796_025_602_000_000; // 2026-11-30T08:00:02Z
    let combined = web("GET /a?q=1", "200 500 \"-\" \"x\"")
        + &web("GET /a", "206 100")
        + &web("GET /a", "304 0")
        + &web("PUT /a", "201 -")
        + &web("GET /missing", "404 9");
    let json = r#"{"ts":1796025603.5,"duration":1.5,"request":{"method":"GET","host":"h","uri":"/a"},"status":200,"size":7}
{"time_iso8601":"2026-11-30T09:00:02+01:00","request":"HEAD /a HTTP/2.0","status":"200","body_bytes_sent":"0"}
"#;
    let cloudfront = "#Version: 1.0\n#Fields: date time cs-method cs(Host) cs-uri-stem sc-status sc-bytes time-taken\n\
                      2026-11-30\t08:00:03\tGET\th\t/a\t200\t800\t1.000\n";
    let columns = "version,time,op,size,lbn\n1,1796025602,28,512,9\n1,1796025602,2a,512,9\n";
    type Expected = (Op, i64, u64, Option<u64>);
    let cases: Vec<(LogFormat, Vec<u8>, Vec<Expected>)> = vec![
        (
            LogFormat::Combined,
            combined.into(),
            vec![
                (Op::Get, at, 500, Some(500)),
                (Op::Range, at, 100, None),
                (Op::NotModified, at, 0, None),
                (Op::Put, at, 0, None),
                (Op::Failed, at, 9, None),
            ],
        ),
        (LogFormat::Json, json.into(), vec![(Op::Get, at, 7, Some(7)), (Op::Head, at, 0, None)]),
        (
            LogFormat::S3Log,
            (s3("REST.GET.OBJECT", "206 - 10 900 5") + &s3("REST.PUT.OBJECT", "200 - - 900 5")).into(),
            vec![(Op::Range, at, 10, Some(900)), (Op::Put, at, 900, Some(900))],
        ),
        (LogFormat::CloudFront, cloudfront.into(), vec![(Op::Get, at, 800, Some(800))]),
        (
            LogFormat::IbmCos,
            "5 REST.GET.OBJECT a 900 0 99\n6 REST.DELETE.OBJECT a\n".into(),
            vec![(Op::Range, 5000, 100, Some(900)), (Op::Delete, 6000, 0, None)],
        ),
        (
            LogFormat::Twitter,
            "3,\"a,b\",3,40,1,get,0\n3,c,3,0,1,get,0\n".into(),
            vec![(Op::Get, 3_000_000, 40, Some(40)), (Op::Get, 3_000_000, 0, None)],
        ),
        (LogFormat::Csv, columns.into(), vec![(Op::Get, at, 512, Some(512)), (Op::Put, at, 512, Some(512))]),
        (LogFormat::Csv, "0,9,512\n".into(), vec![(Op::Get, 0, 512, Some(512))]),
        (LogFormat::OracleGeneral, record(), vec![(Op::Get, 1_000_000, 77, Some(77))]),
    ];
    for (format, log, expected) in cases {
        let mut reader = reader(log);
        assert_eq!(reader.format(), format);
        let requests = requests(&mut reader);
        let found = requests.iter().map(|is| (is.op, is.start_us, is.sent, is.size));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{format:?}");
        assert_eq!((reader.counts.bad, &reader.counts.ended_early), (0, &None), "{format:?}");
        // All are of one object but for the missing one and what Twitter's cache had not.
        if matches!(format, LogFormat::S3Log | LogFormat::Csv | LogFormat::IbmCos) {
            assert!(requests.iter().all(|request| request.key == requests[0].key), "{format:?}");
        }
    }
}

/// Lines of real servers that answered a whole read, a part, `HEAD`, a copy that was current, and a name that they have not.
#[test]
fn lines_of_nginx_apache_and_caddy_are_read_back() {
    let answers = |bytes: [&str; 5]| -> String {
        let asked = ["GET /a?q=1", "GET /a", "HEAD /a", "GET /a", "GET /b"];
        let lines = asked.iter().zip([200, 206, 200, 304, 404]).zip(bytes);
        lines.map(|((request, status), rest)| web(request, &format!("{status} {rest}"))).collect()
    };
    let agent = |bytes: &str| format!("{bytes} \"-\" \"curl/7.88.1\"");
    let nginx = ["1100", "100", "0", "0", "153"].map(agent);
    // Apache counts the head of a response in its `combined`, and not in its `common`.
    let apache = ["1305", "349", "205", "193", "397"].map(agent);
    let caddy = |method: &str, uri: &str, size: u32, status: u32| {
        format!(
            r#"{{"level":"info","ts":1796044509.0221848,"logger":"http.log.access.log0","msg":"handled request","request":{{"remote_ip":"127.0.0.1","remote_port":"35422","client_ip":"127.0.0.1","proto":"HTTP/1.1","method":"{method}","host":"127.0.0.1:38412","uri":"{uri}","headers":{{"User-Agent":["curl/7.88.1"],"Accept":["*/*"]}}}},"bytes_read":0,"user_id":"","duration":0.003980023,"size":{size},"status":{status},"resp_headers":{{"Content-Length":["1100"],"Server":["Caddy"],"Content-Type":[],"Accept-Ranges":["bytes"]}}}}
"#
        )
    };
    let lines = caddy("GET", "/a?q=1", 1100, 200)
        + &caddy("GET", "/a", 100, 206)
        + &caddy("HEAD", "/a", 0, 200)
        + &caddy("GET", "/a", 0, 304)
        + &caddy("GET", "/b", 0, 404);
    let whole = 1_796_025_602_000_000; // 2026-11-30T08:00:02Z
    for (server, log, start, sent) in [
        ("nginx 1.22", answers(nginx.each_ref().map(String::as_str)), whole, [1100, 100]),
        ("Apache 2.4, combined", answers(apache.each_ref().map(String::as_str)), whole, [1305, 349]),
        ("Apache 2.4, common", answers(["1100", "100", "-", "-", "236"]), whole, [1100, 100]),
        ("Caddy 2.11", lines, 1_796_044_509_018_204, [1100, 100]),
    ] {
        let found = requests(&mut reader(log));
        let ops: Vec<Op> = found.iter().map(|request| request.op).collect();
        assert_eq!(ops, [Op::Get, Op::Range, Op::Head, Op::NotModified, Op::Failed], "{server}");
        assert_eq!([found[0].sent, found[1].sent], sent, "{server}");
        assert_eq!((found[0].size, found[1].size), (Some(sent[0]), None), "{server}");
        assert!(found[0].start_us.abs_diff(start) <= 1, "{server}: {}", found[0].start_us);
        assert!(found[..4].iter().all(|request| request.key == found[0].key), "{server}");
        assert_ne!(found[4].key, found[0].key, "{server}");
    }
}

/// Lines of versitygw 1.8: no quotes, keys with their spaces, 200 for a part, bytes of puts only.
#[test]
fn lines_of_versitygw_are_read_back() {
    let line = |operation: &str, key: &str, path: &str, rest: &str| {
        format!(
            "k bucket [30/November/2026:14:32:57 +0000] 127.0.0.1 k F7PG3JDHLUYO7IKN {operation} {key} {path} {rest} 1 1 - curl/7.88.1 \
             - p17iajng+pO= SigV4 - AuthHeader s3.us-east-1.amazonaws.com - arn:aws:s3:::{path} Yes\n"
        )
    };
    let log = "log starts 2026-11-30 14:32:56.06255569 +0000 UTC m=+0.079383726\n".to_owned()
        + &line("s3_PutObject", "a b", "/bucket/a%20b", "200 - 0 3000")
        + &line("s3_GetObject", "a b", "/bucket/a%20b?x-id=GetObject", "200 - 0 0")
        + &line("s3_HeadObject", "a b", "/bucket/a%20b", "200 - 0 0")
        + &line("s3_DeleteObject", "a b", "/bucket/a%20b", "200 - 0 0")
        + &line("s3_GetObject", "none", "/bucket/none", "404 NoSuchKey 0 0")
        + &line("s3_PutObject", "a b", "/bucket/a%20b", "500 it was full 0 3000")
        + &line("s3_ListObjectsV2", "-", "/bucket/?list-type=2", "200 - 497 0");
    let mut reader = reader(log);
    assert_eq!(reader.format(), LogFormat::S3Log);
    let found = requests(&mut reader);
    let ops = [Op::Put, Op::Get, Op::Head, Op::Delete, Op::Failed, Op::Failed, Op::Other];
    assert_eq!(found.iter().map(|request| request.op).collect::<Vec<_>>(), ops);
    assert!(found[..4].iter().all(|request| request.key == found[0].key) && found[4].key != found[0].key);
    let sizes: Vec<Option<u64>> = found.iter().map(|request| request.size).collect();
    assert_eq!((sizes[0], &sizes[1..]), (Some(3000), &[None; 6][..]));
    assert!(found.iter().all(|request| request.start_us == 1_796_049_177_000_000), "{found:?}");
    assert_eq!((reader.counts.lines, reader.counts.bad), (8, 0));
}

#[test]
fn what_cannot_be_read_is_counted_and_the_rest_is_read() {
    let mut log = lines(10).into_bytes();
    log.extend(vec![b'x'; 1_000_000]);
    log.extend(b"\n\xff\xfe\n{\"status\": 200}\n\n");
    log.extend(lines(5).into_bytes());
    let found = described(log);
    assert_eq!((found.requests, found.counts.lines, found.counts.bad), (15, 19, 3));
    let bad: Vec<(u64, &str)> = found.counts.first_bad.iter().map(|bad| (bad.line, bad.why)).collect();
    assert_eq!(
        bad,
        [(11, "is longer than 64 KiB"), (12, "is not UTF-8"), (13, "has no time that can be read")]
    );
    // A gzip file that was cut off gives what is left of it.
    let whole = gzipped(&lines(50_000));
    assert_eq!(described(whole.clone()).requests, 50_000);
    let cut = described(&whole[..whole.len() / 2]);
    assert!((1_000..49_000).contains(&cut.requests) && cut.counts.ended_early.is_some(), "{cut:?}");
    assert_eq!(cut.counts.bad + cut.requests, cut.counts.lines);
    for (log, why) in [
        (&b""[..], "it is empty"),
        (b"a line of something\n", "its first lines are in no format that blobwise knows"),
        (b"\0\x01\x02", "its first lines are in no format that blobwise knows"),
        (b"\xfd7zXZ\0", "compressed in a way that is not read: `xz -dc FILE | blobwise trace -`"),
        (b"BZh91AY", "`bzip2 -dc FILE | blobwise trace -`"),
        (b"\x28\xb5\x2f\xfd\0", "it cannot be read: unexpected end of file"),
        (b"\x28\xb5\x2f\xfd\0\xa8", "its zstd window of 2.15 GB is larger than 128 MiB"),
    ] {
        let error = LogReader::new(Box::new(Cursor::new(log)), None, None).err().unwrap();
        assert!(format!("{error:#}").contains(why), "{error:#}");
    }
}

/// 40 reads of three objects, as `zstd -19 --check` compresses them.
const ZSTD: &[u8] =
    b"\x28\xb5\x2f\xfd\x64\x95\x00\x0d\x03\x00\xd2\xc6\x11\x10\xc0\xeb\x36\xe8\x5e\x1f\x10\x2c\xb7\x64\xa7\xc4\x59\x4d\
      \x4e\x0f\xe5\xe4\xe3\xe2\xe1\xe0\xbf\xdf\xe7\x8b\x89\x87\x85\x83\x81\x6f\xbb\x4e\x97\x92\x8e\x8a\x86\x82\xbe\x6e\
      \x9b\x2d\x64\x88\x00\x7e\xce\xa2\x13\xfa\x9a\xc5\x26\xec\x65\x16\x33\x61\xde\x3a\xac\x19\x6c\x27\xe1\x51\x88\x05\
      \x25\xa4\x11\xb0\xf4\xfd\x7f\x03\xd0\x73\x03\x05\x00\xa0\x84\x04\xf9\x18\x45\x88\xe7\xa4\x0a\x5e\xd4\xb1\x40";

#[test]
fn zstd_is_read_in_frames_up_to_a_cut_or_damage() {
    let compressed = |log: &[u8]| compress_to_vec(log, CompressionLevel::Fastest);
    let once = described(ZSTD);
    assert_eq!((once.requests, once.objects, once.counts.ended_early), (40, 3.0, None));
    // As `pzstd` has them: frames that follow one to be skipped. The second has a header of columns again.
    let twice = described([&b"\x50\x2a\x4d\x18\x04\0\0\0skip"[..], ZSTD, ZSTD].concat());
    assert_eq!((twice.requests, twice.counts.bad, twice.counts.ended_early), (80, 1, None));
    let records = described(compressed(&record().repeat(100)));
    assert_eq!((records.format, records.requests), (LogFormat::OracleGeneral.name(), 100));
    // Many windows, of which each is in memory only once.
    let log: String = (0..50_000_u64).map(|n| format!("{n},planted-{},9\n", n * n % 997)).collect();
    let whole = compressed(format!("time,key,bytes\n{log}").as_bytes());
    assert_eq!(described(whole.clone()).requests, 50_000);
    let cut = described(&whole[..whole.len() / 2]);
    assert!((1_000..49_000).contains(&cut.requests), "{cut:?}");
    assert_eq!(cut.counts.ended_early.as_deref(), Some("unexpected end of file"));
    let error = replay(&whole[..whole.len() / 2], &ALL).unwrap_err();
    assert!(error.contains("it ends early, after line "), "{error}");
    // Wherever a small file is cut, what is left is all or nothing, and said to be cut.
    for bytes in 4..ZSTD.len() {
        match LogReader::new(Box::new(Cursor::new(ZSTD[..bytes].to_vec())), None, None) {
            Err(error) => {
                assert_eq!(format!("{error:#}"), "it cannot be read: unexpected end of file", "{bytes}");
            }
            Ok(mut reader) => {
                let found = describe(&mut reader, |_| {});
                assert_eq!((found.requests, found.counts.ended_early.is_some()), (40, true), "{bytes}");
            }
        }
    }
    let mut damaged = ZSTD.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let found = described(damaged);
    assert_eq!(found.requests, 40);
    assert!(found.counts.ended_early.is_some_and(|why| why.contains("checksum")));
}

#[test]
fn a_damaged_bit_of_zstd_is_an_error_or_changes_nothing() {
    let decoded = |bytes: &[u8]| {
        let mut log = Vec::new();
        zstd::Decoder::new(bytes).read_to_end(&mut log).map(|_bytes| log)
    };
    let whole = decoded(ZSTD).unwrap();
    assert!(whole.starts_with(b"time,key,"), "{}", String::from_utf8_lossy(&whole));
    let mut errors = 0;
    for bit in 0..8 * ZSTD.len() {
        let mut damaged = ZSTD.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match decoded(&damaged) {
            Ok(log) => assert_eq!(log, whole, "bit {bit}: the checksum was of something else"),
            Err(_) => errors += 1,
        }
    }
    // Few bits, such as those of the length that a decoder need not know, mean nothing.
    assert!(errors > 7 * ZSTD.len(), "{errors} of {}", 8 * ZSTD.len());
    // Noise behind the header of a compressed block of 254 bytes, in a frame without a checksum, says hardly ever anything.
    let noise = |n: u64| {
        let mut noise = b"\x28\xb5\x2f\xfd\x00\x58\xf5\x07\x00".to_vec();
        noise.extend((0..254_u64).map(|place| xxh3_64(&(n * 254 + place).to_le_bytes()) as u8));
        noise
    };
    let errors = (0..500).map(noise).filter(|noise| decoded(noise).is_err()).count();
    assert!(errors > 450, "{errors}");
}

/// Reads by Zipf's law: the object and the size of each.
fn zipfian(exponent: f64, objects: u32, reads: usize) -> Vec<(u64, u64)> {
    let mut random = SmallRng::seed_from_u64(7);
    let ranks = Zipf::new(f64::from(objects), exponent).unwrap();
    let ranks = (0..reads).map(|_| ranks.sample(&mut random) as u64);
    ranks.map(|rank| (xxh3_64(&rank.to_le_bytes()), 1000 + rank * 7919 % 64 * 1000)).collect()
}

fn noted(reads: &[(u64, u64)], objects_max: usize) -> Objects {
    let mut objects = Objects::new(objects_max);
    reads.iter().for_each(|(key, size)| objects.note(Op::Get, *key, Some(*size)));
    objects
}

#[test]
fn a_known_zipf_exponent_comes_back() {
    for (exponent, objects) in [(0.99, 10_000), (0.7, 2_000), (1.2, 10_000)] {
        let all = noted(&zipfian(exponent, objects, 100_000), 1 << 20);
        let found = fit(&all.reads(), all.share()).unwrap();
        assert!((found.exponent / exponent - 1.0).abs() < 0.02, "{exponent}: {found:?}");
        assert!((found.exponent - exponent).abs() < 1.5 * found.error, "{exponent}: {found:?}");
        assert!(found.misfit < 0.02, "{found:?}");
    }
    // In a sample it is less certain, and said to be.
    for (exponent, objects) in [(0.99, 20_000), (0.6, 20_000), (1.2, 20_000)] {
        let sample = noted(&zipfian(exponent, objects, 200_000), 6_000);
        assert!(sample.share() < 1.0);
        let found = fit(&sample.reads(), sample.share()).unwrap();
        assert!((found.exponent - exponent).abs() < 1.5 * found.error, "{exponent}: {found:?}");
        assert!(found.error < 0.2 * exponent, "{exponent}: {found:?}");
    }
    for (objects_max, least) in [(1 << 20, 0.02), (600, 0.05)] {
        let uniform = noted(&zipfian(0.0, 1000, 20_000), objects_max);
        let found = fit(&uniform.reads(), uniform.share()).unwrap();
        assert!(found.exponent - found.error < least, "{found:?}");
    }
}

/// The share of reads that an LRU cache of these bytes misses, by having one. Every request has its op, its object and the size of it.
fn exact_misses(requests: impl Iterator<Item = (Op, u64, u64)>, cache_bytes: u64) -> f64 {
    let (mut by_use, mut last_use) = (VecDeque::new(), HashMap::new());
    let (mut held, mut misses, mut reads) = (0, 0_u32, 0_u32);
    for (now, (op, key, size)) in requests.enumerate() {
        let is_new = last_use.insert(key, now).is_none();
        if is_new {
            held += size;
        }
        reads += u32::from(op.reads());
        misses += u32::from(op.reads() && is_new);
        by_use.push_back((now, key, size));
        while held > cache_bytes {
            let (used, oldest, bytes) = by_use.pop_front().unwrap();
            // Others were used again since.
            if last_use.get(&oldest) == Some(&used) {
                last_use.remove(&oldest);
                held -= bytes;
            }
        }
    }
    f64::from(misses) / f64::from(reads)
}

fn gets(reads: &[(u64, u64)]) -> impl Iterator<Item = (Op, u64, u64)> {
    reads.iter().map(|(key, size)| (Op::Get, *key, *size))
}

#[test]
fn misses_are_those_of_an_lru_cache_also_from_a_sample() {
    let reads = zipfian(0.99, 20_000, 50_000);
    let (all, sample) = (noted(&reads, 1 << 20), noted(&reads, 6_000));
    assert_eq!((all.share(), sample.share()), (1.0, 0.5));
    assert!((sample.objects() / all.objects() - 1.0).abs() < 0.05, "{}", sample.objects());
    assert!((sample.bytes().unwrap() / all.bytes().unwrap() - 1.0).abs() < 0.05);
    for share in [0.02, 0.05, 0.1, 0.25, 0.5, 1.0] {
        let exact = exact_misses(gets(&reads), (share * all.bytes().unwrap()) as u64);
        let (is, error) = all.misses(share * all.bytes().unwrap(), 50_000);
        assert!((is - exact).abs() < 0.005 && error == 0.0, "{share}: {is}, and exactly {exact}");
        let (is, error) = sample.misses(share * sample.bytes().unwrap(), 50_000);
        assert!((is - exact).abs() < 0.02 && error > 0.0, "{share}: {is} ± {error}, and exactly {exact}");
    }
}

/// A log of our own, of a million lines where they do not take long, gives back what it was made of.
#[test]
fn a_generated_log_gives_back_its_popularity_mix_times_and_misses() {
    const REQUESTS: usize = if cfg!(debug_assertions) { 250_000 } else { 1_000_000 };
    // One in ten writes its object; 1,000 each second.
    let of = |(n, (key, size)): (usize, &(u64, u64))| {
        (if n.is_multiple_of(10) { Op::Put } else { Op::Get }, *key, *size)
    };
    let objects = zipfian(0.9, 50_000, REQUESTS);
    let requests = || objects.iter().enumerate().map(of);
    let mut log = b"time,op,key,bytes\n".to_vec();
    for (n, (op, key, size)) in requests().enumerate() {
        writeln!(log, "{}.{:03},{},{key},{size}", n / 1000, n % 1000, op.name()).unwrap();
    }
    let found = described(log);
    let (all, puts) = (REQUESTS as u64, REQUESTS as u64 / 10);
    assert_eq!((found.requests, found.counts.bad), (all, 0));
    assert_eq!((found.ops["get"], found.ops["put"], found.ops.len()), (all - puts, puts, 2));
    let rate = found.rate.unwrap();
    assert_eq!((rate.first_second, rate.last_second), (0, REQUESTS as i64 / 1000 - 1));
    assert_eq!((rate.peak_second, rate.peak_minute, rate.out_of_order), (1000, 60_000, 0));
    assert!((rate.mean - 1000.0).abs() < 1e-9 && rate.quiet_share == 0.0, "{rate:?}");
    let popularity = found.popularity.unwrap();
    assert!((popularity.exponent / 0.9 - 1.0).abs() < 0.02, "{popularity:?}");
    let mut sample = Objects::new(20_000);
    requests().for_each(|(op, key, size)| sample.note(op, key, Some(size)));
    assert!(sample.share() < 1.0);
    let of_sample = fit(&sample.reads(), sample.share()).unwrap();
    assert!((of_sample.exponent - 0.9).abs() < 1.5 * of_sample.error, "{of_sample:?}");
    assert!(of_sample.error < 0.1, "{of_sample:?}");
    for miss in [found.misses[2], found.misses[4]] {
        let share = miss.memory_share;
        let exact = exact_misses(requests(), (share * found.object_bytes.unwrap()) as u64);
        assert!((miss.miss_share - exact).abs() < 0.005, "{miss:?}, and exactly {exact}");
        let (is, error) = sample.misses(share * sample.bytes().unwrap(), all - puts);
        assert!((is - exact).abs() < 0.02, "{share}: {is} ± {error}, and exactly {exact}");
    }
}

#[test]
fn ops_sizes_and_rates_are_those_of_the_log() {
    let mut log = String::from("time,op,key,bytes\n");
    for n in 0..10_000 {
        // 10 a second, an hour of silence in the middle; each of 100 objects again and again, one in ten overwritten.
        let second = n / 10 + if n < 5000 { 0 } else { 3600 };
        let (op, key) = (if n % 10 == 0 { "put" } else { "get" }, n % 100);
        log += &format!("{second},{op},{key},{}\n", 1000 * (key + 1));
    }
    log += "10,get,7,8000\n";
    let found = described(log);
    assert_eq!((found.requests, found.ops["put"], found.ops["get"]), (10_001, 1000, 9001));
    assert_eq!((found.objects, found.object_bytes), (100.0, Some(5_050_000.0)));
    assert_eq!((found.sizes[&50], found.sizes[&100], found.one_hit_share), (51_000, 100_000, Some(0.0)));
    let rate = found.rate.unwrap();
    assert_eq!((rate.peak_second, rate.peak_minute, rate.out_of_order), (11, 601, 1));
    assert!((rate.mean - 10_001.0 / 4600.0).abs() < 1e-9, "{rate:?}");
    assert!((rate.quiet_share - 3600.0 / 4600.0).abs() < 1e-9, "{rate:?}");
    // Uniform: half of the memory answers nothing of reads in a circle, and all of it all but the first.
    assert!(found.misses[5].miss_share > 0.99, "{:?}", found.misses);
    assert!(found.misses[7].miss_share < 0.02, "{:?}", found.misses);
    assert_eq!(
        found.plan,
        "blobwise run --corpus quantiles:0.1=11000,0.25=26000,0.5=51000,0.75=76000,0.9=91000,0.99=100000 \
         --phases fill,read-warm,read-tight,overwrite --mix read=0.900,overwrite=0.100 --memory 25%"
    );
}

/// Taken for nanoseconds, their rates would be a hundred times too high.
#[test]
fn ticks_of_windows_are_no_time() {
    let mut parser = Parser::with_columns("time,key", 0).unwrap();
    let start = parser.read("1796025602000000000,a").unwrap().map(|request| request.start_us);
    assert_eq!(start, Some(1_796_025_602_000_000));
    assert_eq!(parser.read("128166372003061629,a"), Err("has no time that can be read"));
}

#[test]
fn the_time_that_is_left_is_told_by_the_bytes_of_a_file() {
    use super::reader::seconds_left;
    assert_eq!(seconds_left(5.0, 25, 100), Some(15.0));
    // A file that grew meanwhile, and one of which nothing is read.
    assert_eq!((seconds_left(5.0, 130, 100), seconds_left(5.0, 0, 100)), (Some(0.0), None));
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("log");
    let lines: String = (0..100_000).map(|n| format!("{n},7,10\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let mut told = Vec::new();
    let bounds = Bounds { told_every: 40_000, ..Bounds::default() };
    let log = LogReader::open(&path, None, None).unwrap();
    Replay::bounded(log, &ALL, bounds, &mut |reading| told.push(reading)).unwrap();
    assert_eq!(told.iter().map(|reading| reading.requests).collect::<Vec<_>>(), [40_000, 80_000]);
    assert!(told.iter().all(|reading| reading.seconds_left.is_some_and(|left| left > 0.0)), "{told:?}");
    let words =
        [None, Some(95.0)].map(|seconds_left| Reading { requests: 20_000_000, seconds_left }.description());
    assert_eq!(words, ["20M requests so far", "20M requests so far, about 1 min 35 s left"]);
}

/// Every object that fits.
const ALL: Selection =
    Selection { share: Some(1.0), objects_max: None, bytes_max: None, object_bytes_max: 1 << 32, salt: 5 };

fn replay(log: impl Into<Vec<u8>>, selection: &Selection) -> Result<Replay, String> {
    bounded(log, selection, Bounds::default())
}

fn bounded(log: impl Into<Vec<u8>>, selection: &Selection, bounds: Bounds) -> Result<Replay, String> {
    Replay::bounded(reader(log), selection, bounds, &mut |_| {}).map_err(|error| format!("{error:#}"))
}

/// Steps as microseconds, op, and size of the object, by which tests know it.
fn steps(replay: &Replay) -> Vec<(u64, Op, u64)> {
    let of = |step: &ReplayStep| (step.at_us(), step.op(), replay.sizes()[step.object() as usize]);
    replay.steps().iter().map(of).collect()
}

#[test]
fn a_replay_has_the_requests_of_the_log_in_the_order_of_their_times() {
    assert_eq!(size_of::<ReplayStep>(), 16);
    let log = "time,op,key,bytes\n10,get,a,100\n10,get,b,200\n11,put,c,300\n11,get,c,300\n12,delete,a,0\n\
               12,get,a,100\n13,head,b,0\n13,list,x,0\n9,get,b,50\n";
    let found = replay(log, &ALL).unwrap();
    // Spread over their seconds; what was aborted is read whole, and what was deleted is not there.
    let expected = [
        (0, Op::Get, 200),
        (750_000, Op::Get, 100),
        (1_250_000, Op::Get, 200),
        (1_750_000, Op::Put, 300),
        (2_250_000, Op::Get, 300),
        (2_750_000, Op::Delete, 100),
    ];
    assert_eq!(steps(&found), expected);
    assert!(found.steps().iter().all(|step| step.bytes() == found.sizes()[step.object() as usize] as u32));
    let made: Vec<u64> = (0..3).filter(|id| found.makes(*id)).map(|id| found.sizes()[id]).collect();
    assert_eq!(made, [300]);
    assert!((found.seconds() - 2.75).abs() < 1e-9);
    // A put and a delete of three objects, and half of all bytes.
    assert!((found.writes_per_object() - 2.0 / 3.0).abs() < 1e-9);
    let often = replay("time,op,key,bytes\n1,get,a,9\n1,put,b,90\n2,put,b,90\n3,put,b,90\n", &ALL).unwrap();
    assert!((often.writes_per_object() - 270.0 / 99.0).abs() < 1e-9);
    assert_eq!(
        found.summary(),
        "6 of 9 requests are replayed, those of 3 of 3 objects; left out: 1 head, 1 other, 1 of objects that were not there; put in \
         order, because they stand behind later ones: 1"
    );
    // Times below a second stay as they are.
    let exact = replay("time,key,bytes\n1.25,a,1\n1.5,a,1\n3,a,1\n", &ALL).unwrap();
    assert_eq!(steps(&exact).iter().map(|step| step.0).collect::<Vec<_>>(), [0, 250_000, 1_750_000]);
}

#[test]
fn sizes_are_the_largest_that_was_sent_whole_or_those_of_others() {
    let log = web("GET /a", "200 500")
        + &web("GET /a", "200 900")
        + &web("GET /a", "206 100")
        + &web("GET /b", "206 2000")
        + &web("PUT /c", "201 -");
    let found = replay(log, &ALL).unwrap();
    let mut sizes = found.sizes().to_vec();
    sizes.sort_unstable();
    assert_eq!(sizes, [900, 900, 2000]);
    let parts: Vec<u32> =
        found.steps().iter().filter(|step| step.op() == Op::Range).map(ReplayStep::bytes).collect();
    assert_eq!(parts, [100, 2000]);
    assert!(found.summary().ends_with("; objects of unknown size, which is taken from the others: 2"));
}

/// Requests by Zipf's law as a csv, one each millisecond; an object has its own size.
fn zipfian_log(requests: usize) -> String {
    let reads = zipfian(0.99, 20_000, requests);
    let sizes: HashMap<u64, usize> =
        reads.iter().enumerate().map(|(place, (key, _))| (*key, place)).collect();
    let line = |(n, (key, _)): (usize, &(u64, u64))| {
        format!("{}.{:03},{key},{}\n", n / 1000, n % 1000, sizes[key] + 1)
    };
    "time,key,bytes\n".to_owned() + &reads.iter().enumerate().map(line).collect::<String>()
}

/// Requests of each object, by its size.
fn uses(replay: &Replay) -> BTreeMap<u64, u32> {
    let mut uses = BTreeMap::new();
    steps(replay).iter().for_each(|(_, _, size)| *uses.entry(*size).or_default() += 1);
    uses
}

#[test]
fn a_sample_has_whole_objects_and_keeps_popularity() {
    let log = zipfian_log(200_000);
    let whole = replay(log.clone(), &ALL).unwrap();
    assert_eq!(whole.share(), 1.0);
    let all = uses(&whole);
    let quarter = Selection { share: Some(0.25), ..ALL };
    let auto = Selection { share: None, ..ALL };
    let few = Bounds { requests_max: 80_000, ..Bounds::default() };
    let by_objects = Selection { share: None, objects_max: Some(3_000), ..ALL };
    let by_bytes = Selection { share: None, bytes_max: Some(whole.sizes().iter().sum::<u64>() / 4), ..ALL };
    let mut samples = vec![replay(log.clone(), &quarter).unwrap(), whole.part(whole.sizes().len() / 4)];
    // `./test.sh --quick` has no time for the limits of a sample.
    if !std::env::var("BLOBWISE_TRIALS").is_ok_and(|choice| choice == "quick") {
        samples.push(bounded(log.clone(), &auto, few).unwrap());
        samples.extend([&by_objects, &by_bytes].map(|limits| replay(log.clone(), limits).unwrap()));
    }
    for sample in &samples {
        let found = uses(sample);
        assert!(found.iter().all(|(size, uses)| all[size] == *uses), "each has all of its requests");
        let share = found.len() as f64 / all.len() as f64;
        assert!((0.1..0.3).contains(&share), "{share}");
        let of_requests = sample.steps().len() as f64 / whole.steps().len() as f64;
        assert!((sample.share() - of_requests).abs() < 1e-9, "{} is not {of_requests}", sample.share());
        let mut objects = Objects::new(1 << 20);
        for (_, _, size) in steps(sample) {
            objects.note(Op::Get, xxh3_64(&size.to_le_bytes()), Some(size));
        }
        let fitted = fit(&objects.reads(), share).unwrap();
        assert!((fitted.exponent - 0.99).abs() < 1.5 * fitted.error, "{fitted:?}");
        assert!(fitted.error < 0.15, "{fitted:?}");
        assert!(sample.steps().is_sorted_by_key(ReplayStep::at_us) && sample.steps()[0].at_us() == 0);
    }
    // The same each time, and another with another salt.
    let again = replay(log.clone(), &quarter).unwrap();
    assert_eq!((&again, again.digest()), (&samples[0], samples[0].digest()));
    assert_ne!(replay(log.clone(), &Selection { salt: 6, ..quarter }).unwrap().digest(), samples[0].digest());
    let error = bounded(log, &ALL, few).unwrap_err();
    assert!(error.contains("more than 80000 requests") && error.contains("--sample"), "{error}");
}

#[test]
fn a_log_that_cannot_be_replayed_says_why() {
    let mixed = lines(50) + "{\"status\": 200}\n";
    let far = lines(50) + "h - - [30/Nov/2024:09:00:02 +0000] \"GET /x HTTP/1.1\" 200 5\n";
    let (parts, failed) = (web("GET /x", "206 5"), web("GET /x", "404 5"));
    for (log, why) in [
        (
            mixed.as_str(),
            "1 of 51 lines, more than --allow-bad 1%, cannot be read as combined: line 51 has no time",
        ),
        (far.as_str(), "more than 400 days apart"),
        (parts.as_str(), "it shows the size of no object"),
        (failed.as_str(), "it has no request that can be replayed; left out: 1 failed"),
    ] {
        let error = replay(log, &ALL).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let packed = gzipped(&lines(50_000));
    assert_eq!(replay(packed.clone(), &ALL).unwrap().steps().len(), 50_000);
    let error = replay(&packed[..packed.len() / 2], &ALL).unwrap_err();
    assert!(error.contains("it ends early, after line "), "{error}");
    // One line in two hundred, of a megabyte.
    let long = lines(100) + &"x".repeat(1_000_000) + "\n" + &lines(100);
    let found = replay(long, &ALL).unwrap();
    assert_eq!(found.steps().len(), 200);
    assert!(found.summary().contains("; left out: 1 in lines that cannot be read"), "{}", found.summary());
    // One in ten is larger than the sample may be, whatever its hash.
    let videos: String =
        (0..100).map(|n| format!("1,{n},{}\n", if n % 10 == 0 { 5000 } else { 10 })).collect();
    let without = Selection { share: None, bytes_max: Some(900), ..ALL };
    let found = replay(format!("time,key,bytes\n{videos}"), &without).unwrap();
    assert_eq!((found.sizes().len(), found.steps().len()), (90, 90));
    assert!(
        found.summary().ends_with("; left out: 10 objects too large for the corpus"),
        "{}",
        found.summary()
    );
    let small = Selection { share: None, bytes_max: Some(1), ..ALL };
    let error = replay("time,key,bytes\n1,a,100\n", &small).unwrap_err();
    assert!(error.contains("--corpus-bytes"), "{error}");
}

#[test]
fn a_log_may_have_the_bad_lines_that_are_allowed_and_tells_how_far_it_was_read() {
    let log = "time,key,bytes\n".to_owned() + &"1,a,10\n".repeat(90) + &"planted\n".repeat(9);
    let error = replay(log.clone(), &ALL).unwrap_err();
    assert!(error.contains("add --allow-bad 9%;") && !error.contains("planted"), "{error}");
    let allowing = |bad_share_max| Bounds { bad_share_max, told_every: 40, ..Bounds::default() };
    assert!(bounded(log.clone(), &ALL, allowing(0.05)).unwrap_err().contains("more than --allow-bad 5%"));
    let mut told = Vec::new();
    let found = Replay::bounded(reader(log), &ALL, allowing(0.1), &mut |reading| told.push(reading)).unwrap();
    // What is read from memory has no end that is known.
    let nobody_knows = [40, 80].map(|requests| Reading { requests, seconds_left: None });
    assert_eq!((found.steps().len(), told), (90, nobody_knows.to_vec()));
    // Columns that the file itself does not name.
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, "a,x,10,1\nb,x,20,2\n").unwrap();
    let file = LogFile { columns: Some("key,-,bytes,time".to_owned()), ..LogFile::at(path) };
    let found = Replay::read(&file, &ALL, None, &mut |_| {}).unwrap();
    assert_eq!(steps(&found).iter().map(|step| step.2).collect::<Vec<_>>(), [10, 20]);
    let error = Replay::read(&LogFile::at(file.path.clone()), &ALL, None, &mut |_| {}).unwrap_err();
    assert!(format!("{error:#}").contains("--columns time,op,key,bytes"), "{error:#}");
}

#[test]
fn objects_count_as_the_memory_that_they_take() {
    let log: String = (0..20_000).map(|n| format!("{n},{},10\n", n % 10_000)).collect();
    let auto = Selection { share: None, ..ALL };
    let few = Bounds { requests_max: 20_000, ..Bounds::default() };
    // Twice 10,000 requests and 10,000 objects take the memory of 60,000 requests: a quarter of the objects is left.
    let found = bounded(format!("time,key,bytes\n{log}"), &auto, few).unwrap();
    let objects = found.sizes().len();
    assert!((2_200..2_800).contains(&objects), "{objects}");
    assert_eq!(found.steps().len(), 2 * objects);
    let mut uses = vec![0; objects];
    found.steps().iter().for_each(|step| uses[step.object() as usize] += 1);
    assert!(uses.iter().all(|uses| *uses == 2));
    assert!((found.share() - objects as f64 / 10_000.0).abs() < 1e-9, "{}", found.share());
}
