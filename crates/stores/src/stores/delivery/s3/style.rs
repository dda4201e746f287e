//! Where a request names the bucket: in its path, or in the name of its host.

use url::Url;

use crate::store::*;

pub(super) const STYLE: OptionSpec = OptionSpec::choice("style", &["path", "virtual-host"])
    .about("path: a request's path begins with the bucket; virtual-host: the name of its host does");

/// Domain of a private server, to which the bucket's host belongs.
pub(super) const PRIVATE_DOMAIN: &str = "localhost";

pub(super) fn is_virtual_host(options: &Options) -> bool {
    options.text(STYLE.name) == "virtual-host"
}

/// The server and the bucket that a URL names: `https://HOST/BUCKET` or, in the style virtual-host, `https://BUCKET.HOST` too.
pub(super) fn named(url: &Url, is_virtual: bool) -> Option<(Url, String)> {
    let mut server = url.clone();
    server.set_path("/");
    server.set_query(None);
    server.set_fragment(None);
    let bucket = url.path().trim_matches('/');
    if !bucket.is_empty() {
        return (!bucket.contains('/')).then(|| (server, bucket.to_owned()));
    }
    let (bucket, host) = url.domain().filter(|_| is_virtual)?.split_once('.')?;
    server.set_host(Some(host)).ok()?;
    Some((server, bucket.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_bucket_in_its_path_or_before_its_host() {
        let told = |url: &str, is_virtual| {
            named(&Url::parse(url).unwrap(), is_virtual)
                .map(|(server, bucket)| format!("{bucket} at {server}"))
        };
        let shop = Some("shop at https://s3.example:9000/".to_owned());
        assert_eq!(told("https://s3.example:9000/shop", false), shop);
        assert_eq!(told("https://s3.example:9000/shop/", true), shop);
        assert_eq!(told("https://shop.s3.example:9000", true), shop);
        assert_eq!(told("https://s3.example:9000/shop?a=b#c", false), shop);
        for (url, is_virtual) in [
            ("https://shop.s3.example", false),
            ("https://s3.example/a/b", true),
            ("http://127.0.0.1:9000/", true),
            ("https://localhost", true),
        ] {
            assert_eq!(told(url, is_virtual), None, "{url}");
        }
    }
}
