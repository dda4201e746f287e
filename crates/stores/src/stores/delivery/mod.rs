//! Delivery: files behind a server.

use super::Entry;

#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "seaweedfs")]
mod seaweedfs;
#[cfg(feature = "web")]
pub(super) mod web;

pub(super) const TABLE: &[Entry] = &[
    line!("s3", s3::ADAPTER as "s3"),
    line!("seaweedfs", seaweedfs::ADAPTER as "seaweedfs"),
    line!("web", web::STATIC_NGINX as "nginx"),
    line!("web", web::STATIC_APACHE as "apache"),
    line!("web", web::STATIC_LIGHTTPD as "lighttpd"),
    line!("web", web::STATIC_CADDY as "caddy"),
    line!("web", web::PLAIN as "http"),
    line!("web", web::FTP as "ftp"),
    line!("web", web::APACHE_READFILE as "apache-php/readfile"),
    line!("web", web::APACHE_APCU as "apache-php/apcu"),
    composed!("web", "memcached", web::APACHE_MEMCACHED as "apache-php/memcached"),
    composed!("web", "mysql", web::APACHE_MYSQL as "apache-php/mysql"),
    composed!("web", "postgres", web::APACHE_POSTGRES as "apache-php/postgres"),
    line!("web", web::NGINX_READFILE as "nginx-php/readfile"),
    line!("web", web::NGINX_APCU as "nginx-php/apcu"),
    composed!("web", "memcached", web::NGINX_MEMCACHED as "nginx-php/memcached"),
    composed!("web", "mysql", web::NGINX_MYSQL as "nginx-php/mysql"),
    composed!("web", "postgres", web::NGINX_POSTGRES as "nginx-php/postgres"),
];
