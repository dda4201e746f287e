//! Protocols implemented or wrapped here; none of them is a store.
#![cfg_attr(
    not(feature = "default"),
    allow(dead_code, reason = "which parts are needed depends on the stores that are compiled in")
)]

#[cfg(feature = "wire")]
pub mod buffer;
#[cfg(feature = "http")]
mod hpack;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub mod http1;
#[cfg(feature = "http")]
pub mod http2;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "mssql")]
pub(crate) mod mssql;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
pub mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
