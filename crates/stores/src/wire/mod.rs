//! Protocols implemented or wrapped here; none of them is a store.

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
pub mod mssql;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
pub mod stream;
#[cfg(feature = "tls")]
pub mod tls;
